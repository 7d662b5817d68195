"""Take the code out of what was sent: byte order mark, markdown fence with prose around it, pragmas.

What is taken away leaves its lines behind as empty ones, so that every later error has its place in the text as
submitted. Total: any text gives a `Cleaned` or a `CodeError`.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gatemini.errors import CodeError
from gatemini.explain.source_lines import blank, place
from gatemini.text.utf8 import SURROGATE, paired

PRAGMAS: Final = {"resume": "// @resume <chain id>", "dry-run": "// @dry-run"}
"""The pragmas there are, as they are written."""

_TYPESCRIPT_PRAGMAS: Final = ("ts-nocheck", "ts-check", "ts-ignore", "ts-expect-error", "jsx")
"""Comments of the same look that belong to TypeScript and steer nothing here."""

_LINES = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_FENCE = re.compile(r"[^\S\r\n]*(?P<mark>`{3,}|~{3,})[^\S\r\n]*(?P<info>[^\r\n]*?)[^\S\r\n]*")
_ONE_LINE = re.compile(
    r"\s*(?P<open>(?P<mark>`{3,})(?:(?:tsx?|typescript|jsx?|javascript|json)(?=\s))?)(?P<code>[^`\r\n][^\r\n]*?)(?P=mark)\s*"
)
_INFO = re.compile(r"(?:\{?\.?[A-Za-z][\w+#./-]*\}?)?(?:[ \t]+[^`]*)?|\{[^`]*\}")
_PRAGMA = re.compile(r"[ \t]*//[ \t]*@(?P<name>[A-Za-z][\w-]*)[ \t]*(?P<rest>[^\r\n\u2028\u2029]*)")
_UNHEARD = re.compile(r"(?:\A/[/*]+|[\r\n\u2028\u2029])[\s*!-]*@(?P<name>resume|dry-run)(?![\w-])")
"""In a comment: a pragma that is no `//` line of its own at the top, so that it was not taken."""
_COMMENT_OR_BLANK = re.compile(r"[ \t]*(?://[^\r\n]*)?")
_PROTECTED = re.compile(
    r"//[^\r\n\u2028\u2029]*"
    r"|(?<![\w.*-])/\*(?:[^*]|\*(?!/)|(?!))*+(?:\*/|\Z)"
    r'|"(?:[^"\\\r\n]|\\(?:\r\n|[\s\S])|(?!))*+"'
    r"|'(?:[^'\\\r\n]|\\(?:\r\n|[\s\S])|(?!))*+'"
    r"|`(?:[^`\\]|\\[\s\S])*+`"
)
_CODE_OUTSIDE = re.compile(
    r"\s*(?:(?:export\s+)?(?:const|let|var)\s+[\w$\[{][^=]*=|(?:return\s+)?await\s+[\w$.\[\]\"']+\(|.*\)\s*;\s*$|\}\s*;?\s*$)"
)
_CHAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The code to run, on the lines it was submitted on. `pragmas` maps names to their argument or ""."""

    code: str
    pragmas: dict[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """What must be equal for two submissions to be the same code."""
        return self.code.strip()


def clean(code: str) -> Cleaned:
    """Take the code out of what was sent. Raises CodeError for what cannot be code, or is two blocks."""
    text = _joined_surrogates(code).removeprefix("\ufeff")
    if not text.strip():
        raise CodeError(
            "there is no code to run (the text is empty)",
            hint='send TypeScript such as `return await backend.tool({…});`, or {"tool": "backend.tool", "arguments": {…}}',
        )
    _refuse_binary(text)
    unfenced, prose = unfence(text)
    pragmas, kept = _take_pragmas(unfenced, prose)
    if not kept.strip():
        raise CodeError(
            "there is no code to run" + (" besides the pragma" if pragmas else " in the fenced block"),
            hint="send the whole code together with the pragma" if pragmas else None,
        )
    return Cleaned(kept, pragmas)


def _joined_surrogates(text: str) -> str:
    """Surrogate pairs become characters; a lone one is an error that names its place."""
    if text.isascii():
        return text
    joined = paired(text)
    if found := SURROGATE.search(joined):
        raise CodeError(
            f"a lone surrogate U+{ord(found[0]):04X} {_at(joined, found.start())} is no character"
        )
    return joined


def _refuse_binary(text: str) -> None:
    found = re.search(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]", text)
    if found is None:
        return
    name = unicodedata.name(found[0], "control character")
    raise CodeError(
        f"this is not text: {name} U+{ord(found[0]):04X} {_at(text, found.start())}",
        hint="send source code as text (UTF-8); write control characters in strings as escapes such as \\x07",
    )


def _at(text: str, offset: int) -> str:
    line, column = place(text, offset)
    return f"(line {line}, column {column})"


def _lines(text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
    """Yield a match for each line; group 1 is the line without its end."""
    return (found for found in _LINES.finditer(text, start, len(text) if end is None else end) if found[0])


def unfence(text: str) -> tuple[str, str]:
    """The code inside one surrounding markdown fence, on its own lines, and the prose in front of it.

    Text without a fence is returned as it is. Raises CodeError for a second block, and where code is
    outside the block (it would be lost).
    """
    if "```" not in text and "~~~" not in text:
        return text, ""
    if (one := _ONE_LINE.fullmatch(text)) and "`" not in one["code"]:
        return blank(text[: one.start("code")]) + " " * len(one["open"]) + one["code"], ""
    opening = _opening(text)
    mark = _FENCE.match(opening[1]) if opening else None
    if opening is None or mark is None:
        return text, ""
    start, body = opening.span()
    before = text[:start]
    if not text[body:].strip() and before.strip():  # there is only a closing fence
        return before, ""
    closing = _closing(text, body, mark["mark"])
    end, after = closing.span() if closing else (len(text), len(text))
    if _opening(text, after) is not None:
        raise CodeError(
            "more than one fenced block found; a chain is one block of code",
            hint="send one block with all the code in it",
        )
    for line in (*_lines(text, 0, start), *_lines(text, after)):
        _refuse_code_outside(text, line)
    return blank(text[:body]) + text[body:end], before


def _opening(text: str, start: int = 0) -> re.Match[str] | None:
    """The first line from `start` that opens a fence, unless it is inside a comment, string or template."""
    if "```" not in text[start:] and "~~~" not in text[start:]:
        return None
    protected = _protected(text, start)
    for line in _lines(text, start):
        fence = _FENCE.fullmatch(line[1])
        if fence is None or _INFO.fullmatch(fence["info"]) is None:
            continue
        if not _inside(protected, line.start() + fence.start("mark")):
            return line
    return None


def _closing(text: str, body: int, mark: str) -> re.Match[str] | None:
    """The line that closes the fence opened before `body`."""
    protected = _protected(text, body)
    last = None
    for line in _lines(text, body):
        if _closes(line[1], mark):
            last = line
            if not _inside(protected, line.start() + 1):
                return last
    return last


def _closes(line: str, mark: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(mark) and bare == mark[0] * len(bare)


def _protected(text: str, start: int = 0) -> list[tuple[int, int]]:
    """Spans from `start` on of comments, strings and templates that run over more than one line.

    A template cannot hold three backticks unescaped, so a line of them ends it: only what is closed by the
    language's own rules protects a fence. (`src/*` in prose opens no comment.)
    """
    found = (m for m in _PROTECTED.finditer(text, start) if "\n" in m[0] or "\r" in m[0])
    return [m.span() for m in found if m[0][0] != "/" or m[0].endswith("*/")]


def _inside(spans: list[tuple[int, int]], offset: int) -> bool:
    """Whether one of the spans (in order, disjoint) holds the offset, its ends not counted."""
    index = bisect.bisect_left(spans, (offset, 0)) - 1
    return index >= 0 and spans[index][0] < offset < spans[index][1] - 1


def _refuse_code_outside(text: str, line: re.Match[str]) -> None:
    if _CODE_OUTSIDE.match(line[1]):
        number, _ = place(text, line.start())
        raise CodeError(
            f"line {number} looks like code but is outside the fenced block",
            hint="send all the code in one block; inside a template literal write \\`\\`\\` for a fence",
        )


def _take_pragmas(code: str, prose: str) -> tuple[dict[str, str], str]:
    """The pragmas among the comment lines at the top (and in the prose), and the code without them."""
    pragmas: dict[str, str] = {}
    if "@" not in code and "@" not in prose:
        return pragmas, code
    for line in _lines(prose):
        if found := _PRAGMA.fullmatch(line[1]):
            _add_pragma(pragmas, found)
    kept: list[str] = []
    rest = 0
    for line in _lines(code):
        if not _COMMENT_OR_BLANK.fullmatch(line[1]):
            break
        found = _PRAGMA.fullmatch(line[1])
        taken = found is not None and _add_pragma(pragmas, found)
        kept.append(line[2] if taken else line[0])
        rest = line.end()
    code = "".join([*kept, code[rest:]])
    _refuse_unheard(code)
    if len(pragmas) > 1:
        raise CodeError(
            "a dry run cannot resume a chain", hint=f"keep one of {' and '.join(PRAGMAS.values())}"
        )
    return pragmas, code


def _refuse_unheard(code: str) -> None:
    """Refuse a pragma that is not a line of its own at the top: a dry run must not make its calls."""
    if not any(f"@{name}" in code for name in PRAGMAS):
        return
    for comment in _PROTECTED.finditer(code):
        if comment[0].startswith(("//", "/*")) and (found := _UNHEARD.search(comment[0])):
            name = found["name"]
            where = _at(code, comment.start() + found.start("name") - 1)
            raise CodeError(
                f"the pragma @{name} {where} steers nothing as it is written",
                hint=f"write `{PRAGMAS[name]}` on a line of its own at the top of the code",
            )


def _add_pragma(pragmas: dict[str, str], found: re.Match[str]) -> bool:
    """Note one pragma; False for TypeScript's own. Raises CodeError for unknown or misused ones."""
    name, rest = found["name"], found["rest"].strip()
    if name in _TYPESCRIPT_PRAGMAS:
        return False
    if name not in PRAGMAS:
        raise CodeError(
            f"unknown pragma @{name}",
            hint=f"there are {' and '.join(PRAGMAS.values())}; write other comments without @",
        )
    if name == "resume" and _CHAIN_ID.fullmatch(rest) is None:
        raise CodeError(
            f"@resume needs the id of one chain, not {rest[:80]!r}"
            if rest
            else "@resume needs the id of a chain",
            hint=f"write `{PRAGMAS['resume']}` with the id from the interrupted chain's answer",
        )
    if name == "dry-run" and rest:
        raise CodeError(f"@dry-run takes nothing after it, found {rest[:80]!r}")
    if pragmas.get(name, rest) != rest:
        raise CodeError(f"two different @{name} pragmas", hint="keep one")
    pragmas[name] = rest
    return True
