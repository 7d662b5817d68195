"""Refuse regular expressions that the engine reads otherwise than ECMAScript, before anything runs.

Found by comparing 72 patterns with V8 under all flags: QuickJS takes the flag v for no flag at all, and under i with u
it folds the case of some classes too late. Expressions under v that mean the same without it are let pass.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from gatemini_sandbox.typescript.nodes import arguments_of, text
from gatemini_sandbox.typescript.parse import Parsed
from gatemini_sandbox.typescript.positions import SourceText
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

_FLAGS = re.compile(rb"/[dgimsy]*+[uv][dgimsuvy]*+(?![\w$])|\bRegExp(?=\s*+\()")
_TOKEN = re.compile(
    r"\\[pP]\{[^{}]*\}|\\u\{|\\q\{|\\.|\[\^|[\[\].]|&&|--|[^\x00-\uffff]|\(\?<?[=!:]|.", re.DOTALL
)
_BY_CASE = re.compile(
    r"\\[pP]\{(?:(?:gc|General_Category)=)?(?:Lu|Ll|Lt|Uppercase\w*|Lowercase\w*|Titlecase_Letter|Upper|Lower|ASCII|"
    r"Changes_When_\w+|CW\w+)\}"
)
_CLASSES_OF_UNICODE = ("\\D", "\\S", "\\W")


def check_regexes(parsed: Parsed, submitted: SourceText) -> None:
    """Raise SandboxSyntaxError for the first such literal, or `RegExp(…)` of literals."""
    for match in _FLAGS.finditer(parsed.data):
        node = parsed.root.descendant_for_byte_range(match.start() + 1, match.end())
        found = None if node is None else _literal(node)
        if found is None:
            continue
        place, pattern, flags = found
        refused = _refused(pattern, flags)
        if refused is None:
            continue
        line, column = submitted.position(place.start_byte)
        raise SandboxSyntaxError(
            f"this sandbox's engine does not match {refused[0]} as ECMAScript says",
            line=line,
            column=column,
            source_line=submitted.line(line),
            hint=refused[1],
        )


def _literal(node: Node) -> tuple[Node, str, str] | None:
    """The expression, its pattern and its flags, where all of them are written in the code."""
    if node.type == "regex_flags" and node.parent is not None:
        pattern = node.parent.child_by_field_name("pattern")
        return None if pattern is None else (node.parent, text(pattern), text(node))
    call = node.parent
    given = arguments_of(call) if call is not None and node.type == "identifier" else []
    if call is None or len(given) != 2:
        return None
    pattern_text, flags = _string(given[0]), _string(given[1])
    return None if pattern_text is None or flags is None else (call, pattern_text, flags)


def _string(node: Node) -> str | None:
    """The text of a string literal or `String.raw`; of escapes only those that patterns need are read."""
    raw = node.type == "call_expression" and text(node).startswith("String.raw`")
    if raw:
        node = node.named_children[-1]
    if node.type not in ("string", "template_string"):
        return None
    if any(child.type == "template_substitution" for child in node.named_children):
        return None
    inner = text(node)[1:-1]
    return inner if raw else re.sub(r"\\(.)", r"\1", inner)


def _refused(pattern: str, flags: str) -> tuple[str, str] | None:
    """What is not matched as it should be, and what to write instead."""
    if "v" in flags:
        what = _of_sets(pattern, ignores_case="i" in flags)
        use = "write the flag u in place of v, without classes in classes, && and --"
        return None if what is None else (f"{what} under the flag v", use)
    if "u" not in flags or "i" not in flags:
        return None
    in_class = False
    for found in _TOKEN.finditer(pattern):
        part = found[0]
        if part in ("[", "[^", "]"):
            in_class = part != "]"
        elif not in_class and _BY_CASE.fullmatch(part):
            return f"{part} under the flags i and u", f"put it into a class: [{part}]"
        elif in_class and part == "\\W":
            return "\\W in a class under the flags i and u", "leave out the flag i or u, or write [^\\w…]"
    return None


def _of_sets(pattern: str, *, ignores_case: bool) -> str | None:
    """What means another thing under v than without: sets, properties, and whatever may be an astral character."""
    in_class = False
    for found in _TOKEN.finditer(pattern):
        part = found[0]
        if part in ("[", "[^") and in_class:
            return "a class in a class"
        if part in ("&&", "--") and in_class:
            return part
        if part in ("[", "[^", "]"):
            in_class = part != "]"
        if (
            part[:2] in ("\\p", "\\P", "\\q")
            or part in ("\\u{", "[^", *_CLASSES_OF_UNICODE)
            or part > "\uffff"
        ):
            return part if part != "\\u{" else "\\u{…}"
        if part == "." and not in_class:
            return "."
        if ignores_case and (not part.isascii() or part in ("\\w", "\\b", "\\u") or in_class):
            return f"{part if part != '[' else 'a class'} with the flag i"
    return None
