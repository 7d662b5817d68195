"""What is wrong with code no parser takes, in words and with the place: found before anything runs.

Above: wrap.py. Below: parse.py's tree and the trace of the same parser. OXC gives the reason but no place; the trace
gives the place: the first token that no reading of the text can go on with.
"""

from __future__ import annotations

import re
from itertools import islice

from tree_sitter import LogType, Node, Parser

from gatemini_sandbox.patience import check, over, parse_until
from gatemini_sandbox.typescript.parse import LANGUAGE, TEXTUAL, Parsed, descendants, text, with_functions
from gatemini_sandbox.typescript.positions import SourceText
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

# Above this many bytes the trace would take seconds; the tree's own idea of the place has to do.
TRACE_LIMIT = 64 * 1024

# Characters that editors and chat programs put in place of the ones code needs.
_LOOKALIKES = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u00ab": '"',
    "\u00bb": '"',
    "\u2013": "-",
    "\u2014": "--",
    "\u2026": "...",
    "\uff08": "(",
    "\uff09": ")",
    "\uff1b": ";",
    "\uff0c": ",",
}
_TAG = re.compile(r"<([A-Za-z][\w.]{0,40}|)(?:\s[^<>]{0,200})?/?>")
TAGS_LOOKED_AT = 20
_FLAGS = "dgimsuvy"
_CLOSING = {"{": "}", "(": ")", "[": "]", "${": "}"}


_RESERVED = re.compile(r"Identifier expected\. '(\w+)' is a reserved word")


def syntax_error(reason: str, submitted: SourceText, parsed: Parsed) -> SandboxSyntaxError:
    """`reason` is OXC's."""
    offset = offending_offset(parsed.data, parsed.root)
    hint = None
    if "string" in reason.lower() and "nterminated" in reason:
        offset = _open_quote(parsed, offset)
        if parsed.data[offset : offset + 1] not in (b"'", b'"'):
            reason = "Unterminated template literal"
            hint = "close it with a backtick; each `${…}` in it holds one whole expression"
        else:
            hint = "close the quote on its own line; text over several lines stands between backticks"
    elif reserved := _RESERVED.match(reason):
        named = re.search(
            rb"\b(?:const|let|var|function|class)\s+(" + reserved[1].encode() + rb")\b", parsed.data
        )
        offset, hint = (named.start(1) if named else offset), "choose another name"
    elif "nterminated" in reason and "comment" in reason:
        offset = max(parsed.data.rfind(b"/*", 0, offset), 0)
    word = _word(parsed, offset)
    if not parsed.data[offset:].strip():
        reason = "Unexpected end of the code"
        hint = _unclosed(parsed, submitted)
    elif reason.startswith(("Unexpected token", "Expected")) or not reason:
        stray = word in _CLOSING.values() and not _open_brackets(parsed, offset)
        hint = "no bracket is open here" if stray else None
        if stray or not reason.startswith("Expected `"):
            reason = f"Unexpected token `{word}`"
        reason = re.sub(
            r"found `(?:Identifier|string|number|decimal|float|hex|octal|binary|bigint)`",
            lambda _: f"found `{word}`",
            reason,
        )
    markup = _markup(submitted.text, len(parsed.data[:offset].decode("utf-8", "replace")))
    if markup is not None:
        if "nterminated" in reason:  # the slash of its end was taken for a pattern
            reason, offset = "Unexpected token `<`", len(submitted.text[:markup].encode())
        hint = "JSX is not supported: return data or a string instead of elements"
    reason = " ".join(reason.split("; ")[0].replace("`\n`", "at the end of the line").split())
    return _error(reason, submitted, offset, hint)


def _markup(code: str, end: int) -> int | None:
    """Where an element of JSX begins, before the place the parser stopped at or right there."""
    for match in islice(_TAG.finditer(code), TAGS_LOOKED_AT):
        if match.start() < end and (match[0].endswith("/>") or f"</{match[1]}>" in code):
            return match.start()
    return None


def check_characters(parsed: Parsed, submitted: SourceText) -> None:
    """The grammar takes nearly any character for a letter; the guest does not, and does not name it."""
    offset = _foreign_character(parsed)
    if offset is None:
        return
    line, column = submitted.position(offset)
    found = submitted.line(line)[column - 1 : column]
    meant = _LOOKALIKES.get(found)
    hint = f"use {meant} instead" if meant else "put it inside a string"
    raise _error(f"Unexpected character {found} (U+{ord(found):04X})", submitted, offset, hint)


def check_awaits(parsed: Parsed, submitted: SourceText) -> None:
    """The commonest slip of all: `rows.map((r) => await …)`. The guest would only say that a `;` is missing."""
    for kind, node, function in with_functions(parsed.nodes):
        if kind != "await_expression" or function is None:
            continue
        if any(child.type == "async" for child in function.children):
            continue
        hint = (
            "write `async` in front of the function around it; with `.map` also wait for all: "
            "`await Promise.all(xs.map(async (x) => …))`"
        )
        raise _error("`await` is only valid in an async function", submitted, node.start_byte, hint)


def check_flags(parsed: Parsed, submitted: SourceText) -> None:
    """`/a/gg`: the guest would say so without a place."""
    for kind, node in parsed.nodes:
        flags = text(node) if kind == "regex_flags" else ""
        wrong = set(flags) - set(_FLAGS) or len(set(flags)) < len(flags) or {"u", "v"} <= set(flags)
        if flags and wrong:
            hint = f"flags are {', '.join(_FLAGS)}, each at most once, and not u with v"
            message = f"Invalid regular expression flags `{flags}`"
            raise _error(message, submitted, node.start_byte, hint)


def _error(message: str, submitted: SourceText, offset: int, hint: str | None) -> SandboxSyntaxError:
    line, column = submitted.position(offset)
    return SandboxSyntaxError(message, line=line, column=column, source_line=submitted.line(line), hint=hint)


def _word(parsed: Parsed, offset: int) -> str:
    """The token at the offset; of a long one its beginning."""
    match = re.compile(rb"[\w$]+|\"[^\"\n]{0,40}\"|'[^'\n]{0,40}'|[^\s\w]").match(parsed.data, offset)
    return match[0].decode("utf-8", "replace") if match is not None else ""


def _open_quote(parsed: Parsed, offset: int) -> int:
    """Where the string begins that is still open at the offset."""
    quotes = [
        node.start_byte
        for node in descendants(parsed.root)
        if node.type in ("'", '"') and node.start_byte < offset and _is_opening(node)
    ]
    return max(quotes, default=offset)


def _is_opening(quote: Node) -> bool:
    string = quote.parent
    if string is None or string.type != "string":
        return True
    return string.children[0] == quote and (b"\n" in (string.text or b"") or string.has_error)


def _unclosed(parsed: Parsed, submitted: SourceText) -> str | None:
    """Names the innermost bracket nothing closes."""
    stack = _open_brackets(parsed, len(parsed.data))
    if not stack:
        return None
    line, column = submitted.position(stack[-1].start_byte)
    return f"the `{stack[-1].type}` of line {line}, column {column} is never closed"


def _open_brackets(parsed: Parsed, end: int) -> list[Node]:
    stack: list[Node] = []
    for node in descendants(parsed.root):
        if node.child_count or node.is_missing or node.start_byte >= end:
            continue
        if node.type in _CLOSING:
            stack.append(node)
        elif stack and node.type == _CLOSING[stack[-1].type]:
            stack.pop()
    return stack


def _foreign_character(parsed: Parsed) -> int | None:
    """Byte offset of the first character outside strings and comments that no JavaScript token holds."""
    offset = at = 0
    code = parsed.data.decode("utf-8", "replace")
    for match in re.finditer(r"[^\x00-\x7f]", code):
        character = match[0]
        offset += len(code[at : match.start()].encode())
        at = match.start()
        if f"a{character}".isidentifier() or character.isspace() or character in "\ufeff\u200c\u200d":
            continue
        node = parsed.root.descendant_for_byte_range(offset, offset + 1)
        if node is not None and node.type not in TEXTUAL and node.type not in ("comment", "hash_bang_line"):
            return offset
    return None


def offending_offset(data: bytes, root: Node) -> int:
    """Byte offset of the first token no reading of the text can go on with, by the parser's own trace."""
    if len(data) <= TRACE_LIMIT:
        found = _traced_offset(data)
        if found is not None:
            return found
    node: Node | None = root
    while node is not None:
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None or node.is_error:
            return node.start_byte
        node = inner
    return 0


def _traced_offset(data: bytes) -> int | None:
    """The parser keeps several readings alive; the text is wrong where the last of them stops."""
    best: list[tuple[int, int]] = []
    place = (0, 0)
    done = False

    def note(kind: LogType, message: str) -> None:
        nonlocal place, done
        if done or kind is not LogType.PARSE:
            return
        if message.startswith(("lex_", "process ")):
            numbers = re.search(r"row:(\d+), col(?:umn)?:(\d+)", message)
            if numbers is not None:
                place = int(numbers[1]), int(numbers[2])
        elif message.startswith("detect_error"):
            best.append(place)
        elif message.startswith("resume"):
            done = True

    parser = Parser(LANGUAGE)
    parser.logger = note
    # What raises in the logger would break the parser: it is asked to stop instead, also once all is known.
    tree = parse_until(parser, data, lambda: done or over())
    check()
    if not best or (tree is not None and not done):
        return None
    row, column = max(best)
    starts = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    offset = starts[row] + column
    blank = re.compile(rb"\s*").match(data, offset)
    return blank.end() if blank is not None and blank.end() < len(data) else offset
