"""Say what is wrong with code that no parser takes, and where, before anything runs.

OXC gives a reason without a place. The place comes from the log of the first parser: the token where the last of its
readings of the text stops. What is never closed comes from a scan of quotes, templates, comments and brackets. All of
it takes time in proportion to the text.
"""

from __future__ import annotations

import re
from itertools import accumulate

from tree_sitter import LogType, Node, Parser

from gatemini_sandbox.typescript.nodes import TEXTUAL, is_async, with_functions
from gatemini_sandbox.typescript.parse import LANGUAGE, Parsed
from gatemini_sandbox.typescript.parse_deadline import check, over, parse_until
from gatemini_sandbox.typescript.positions import SourceText
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

# Above this many bytes a log of the parser would take seconds: the tree's own idea of the place has to do.
MOST_LOGGED = 64 * 1024
# Lines that the parser may log: code needs up to 10 a byte, unended comments in one another half a line for each byte
# between two of them.
FREE_LINES = 5_000
LINES_PER_BYTE = 15

# Comments that may be looked at by the parser alone.
MANY_COMMENTS = 200

# Characters that word processors and chat programs put in place of the ones code needs.
LOOKALIKES = {
    "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"', "\uff02": '"',
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u00b4": "'", "\uff07": "'",
    "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2010": "-", "\u2011": "-",
    "\uff08": "(", "\uff09": ")", "\uff5b": "{", "\uff5d": "}", "\uff1b": ";", "\uff1a": ":", "\uff0c": ",",
    "\u3002": ".", "\uff1d": "=", "\u2026": "...", "\u00d7": "*", "\u2264": "<=", "\u2265": ">=",
    "\u2260": "!==", "\u2192": "=>", "\u21d2": "=>",
}  # fmt: skip

_CLOSING = {b"{": b"}", b"(": b")", b"[": b"]", b"${": b"}"}
_TEMPLATE = b"`"
_COMMENT = b"/*"
_TOKEN = re.compile(
    rb"//[^\n]*+|/\*(?:[^*]|\*(?!/)|(?!))*+(?:\*/)?"
    rb"|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?"
    rb"|(?<=[=(,:;!&|?{}\[\n>])[ \t]*+/(?![/*])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\]|(?!))++/"
    rb"|[`(){}\[\]]",
    re.DOTALL,
)
_TEMPLATE_PART = re.compile(rb"(?:[^`\\$]|\\.|\$(?!\{)|(?!))*+(`|\$\{)?", re.DOTALL)
_WORD = re.compile(rb"[\w$]+|\"[^\"\n]{0,40}\"|'[^'\n]{0,40}'|[^\s\w]")
_RESERVED = re.compile(r"Identifier expected\. '(\w+)' is a reserved word")
_FOUND = re.compile(r"found `(?:Identifier|string|number|decimal|float|hex|octal|binary|bigint)`")


def syntax_error(reason: str, submitted: SourceText, parsed: Parsed | None) -> SandboxSyntaxError:
    """The error of code that neither parser takes. `reason` is OXC's; `parsed` is None where the first gave up."""
    data = submitted.data if parsed is None else parsed.data
    left_open = open_at(data, len(data))
    if "nterminated" in reason:
        found = _never_ended(reason, left_open)
        if found is not None:
            return _error(found[0], submitted, found[1], found[2])
        reason = ""
    offset = offending_offset(data, None if parsed is None else parsed.root)
    word = _word(data, offset)
    hint = None
    if reserved := _RESERVED.match(reason):
        declared = rb"\b(?:const|let|var|function|class)\s+(" + reserved[1].encode() + rb")\b"
        named = re.search(declared, data)
        offset, hint = (named.start(1) if named else offset), "choose another name"
    elif not data[offset:].strip():
        reason, hint = "Unexpected end of the code", _never_closed(left_open, submitted)
    elif not reason or reason.startswith(("Unexpected token", "Expected")):
        stray = word.encode() in _CLOSING.values() and not open_at(data, offset)
        hint = "no bracket is open here" if stray else None
        reason = _FOUND.sub(lambda _: f"found `{word}`", reason)
        if stray or not reason.startswith("Expected `"):
            reason = f"Unexpected token `{word}`"
    reason = " ".join(reason.split("; ")[0].replace("`\n`", "at the end of the line").split())
    return _error(reason, submitted, offset, hint)


def check_comment(submitted: SourceText) -> None:
    """Refuse many `/*` of which one has no end: the parser reads to the end of the text from each of them."""
    data = submitted.data
    if (
        data.count(_COMMENT) > MANY_COMMENTS
        and (left := open_at(data, len(data)))
        and left[-1][0] == _COMMENT
    ):
        raise _error("Unterminated multiline comment", submitted, left[-1][1], None)


def _never_ended(reason: str, left_open: list[tuple[bytes, int]]) -> tuple[str, int, str | None] | None:
    """Message, place and hint for a comment, template or string without an end; None where all of them have one."""
    start = dict(reversed(left_open))  # of equal signs the outermost
    if "comment" in reason and _COMMENT in start:
        return reason, start[_COMMENT], None
    if _TEMPLATE in start:
        hint = "close it with a backtick; each `${…}` in it holds one whole expression"
        return "Unterminated template literal", start[_TEMPLATE], hint
    for quote in (b"'", b'"'):
        if quote in start:
            return (
                reason,
                start[quote],
                "close it on its own line; text over several lines goes between backticks",
            )
    return None


def _never_closed(left_open: list[tuple[bytes, int]], submitted: SourceText) -> str | None:
    """Names the outermost template, else the innermost bracket, that has no end."""
    if not left_open:
        return None
    sign, offset = next((entry for entry in left_open if entry[0] == _TEMPLATE), left_open[-1])
    line, column = submitted.position(offset)
    named = "template" if sign == _TEMPLATE else f"`{sign.decode()}`"
    return f"the {named} of line {line}, column {column} is never closed"


def open_at(data: bytes, end: int) -> list[tuple[bytes, int]]:
    """What is open there, outermost first, with its place: brackets, `${`, templates, or an unended quote or comment."""
    stack: list[tuple[bytes, int]] = []
    at = 0
    while at < end:
        check()
        if stack and stack[-1][0] == _TEMPLATE:
            part = _TEMPLATE_PART.match(data, at, end)
            at = end if part is None else part.end()
            if part is None or part[1] is None:
                break
            if part[1] == _TEMPLATE:
                stack.pop()
            else:
                stack.append((b"${", at - 2))
            continue
        token = _TOKEN.search(data, at, end)
        if token is None:
            break
        sign, at = token[0], token.end()
        if sign in _CLOSING or sign == _TEMPLATE:
            stack.append((sign, token.start()))
        elif sign in (b")", b"]", b"}"):
            if stack and _CLOSING[stack[-1][0]] == sign:
                stack.pop()
        elif (start := _unended(sign)) is not None:
            return [*stack, (start, token.start())]
    return stack


def _unended(sign: bytes) -> bytes | None:
    """What begins a comment or string that the scan found no end of."""
    if sign.startswith(_COMMENT):
        return None if len(sign) > 3 and sign.endswith(b"*/") else _COMMENT
    quote = sign[:1]
    return quote if quote in (b"'", b'"') and (len(sign) < 2 or not sign.endswith(quote)) else None


def check_characters(parsed: Parsed, submitted: SourceText) -> None:
    """Refuse characters that no JavaScript token holds: the grammar takes them for letters, and the guest names none."""
    offset = _foreign_character(parsed)
    if offset is None:
        return
    line, column = submitted.position(offset)
    found = submitted.line(line)[column - 1 : column]
    meant = LOOKALIKES.get(found)
    hint = f"write {meant} instead" if meant else "put it inside a string"
    raise _error(f"Unexpected character {found} (U+{ord(found):04X})", submitted, offset, hint)


def _foreign_character(parsed: Parsed) -> int | None:
    """Byte offset of the first such character outside strings and comments."""
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


def check_awaits(parsed: Parsed, submitted: SourceText) -> None:
    """Refuse `rows.map((r) => await …)`: the guest would only say that a `;` is missing."""
    for kind, node, function in with_functions(parsed.nodes):
        if kind != "await_expression" or function is None:
            continue
        if is_async(function):
            continue
        hint = (
            "write `async` in front of the function around it; with `.map` also wait for all: "
            "`await Promise.all(xs.map(async (x) => …))`"
        )
        raise _error("`await` is only valid in an async function", submitted, node.start_byte, hint)


def _error(message: str, submitted: SourceText, offset: int, hint: str | None) -> SandboxSyntaxError:
    line, column = submitted.position(offset)
    return SandboxSyntaxError(message, line=line, column=column, source_line=submitted.line(line), hint=hint)


def _word(data: bytes, offset: int) -> str:
    """The token at the offset; of a long one its beginning."""
    match = _WORD.match(data, offset)
    return match[0].decode("utf-8", "replace") if match is not None else ""


def offending_offset(data: bytes, root: Node | None) -> int:
    """Byte offset of the first token no reading of the text can go on with."""
    if len(data) <= MOST_LOGGED:
        found = _logged_offset(data)
        if found is not None:
            return found
    node = root
    while node is not None:
        inner = next((child for child in node.children if child.has_error or child.is_missing), None)
        if inner is None or node.is_error:
            return node.start_byte
        node = inner
    return 0


def _logged_offset(data: bytes) -> int | None:
    """The parser keeps several readings alive; the text is wrong where the last of them stops."""
    stopped_at: list[tuple[int, int]] = []
    place = (0, 0)
    done = False
    left = FREE_LINES + LINES_PER_BYTE * len(data)

    def note(kind: LogType, message: str) -> None:
        nonlocal place, done, left
        left -= 1
        if done or kind is not LogType.PARSE:
            return
        if message.startswith(("lex_", "process ")):
            numbers = re.search(r"row:(\d+), col(?:umn)?:(\d+)", message)
            if numbers is not None:
                place = int(numbers[1]), int(numbers[2])
        elif message.startswith("detect_error"):
            stopped_at.append(place)
        elif message.startswith("resume"):
            done = True

    parser = Parser(LANGUAGE)
    parser.logger = note
    # What raises in the logger would break the parser: it is stopped instead, also once all is known.
    tree = parse_until(parser, data, lambda: done or left < 0 or over())
    check()
    if not stopped_at or (tree is not None and not done):
        return None
    row, column = max(stopped_at)
    starts = list(accumulate(map(len, data.splitlines(keepends=True)), initial=0))
    offset = starts[row] + column
    blank = re.compile(rb"\s*").match(data, offset)
    return blank.end() if blank is not None and blank.end() < len(data) else offset
