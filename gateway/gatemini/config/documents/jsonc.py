"""JSON with comments and trailing commas, as clients write it; every value remembers its line.

The standard library parses the text once comments and trailing commas are blanked out. It gives no lines: a pass over
the tokens of the valid text finds those.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

KeyPath = tuple[str | int, ...]
MAX_DEPTH = 100
_MAX_DIGITS = 40
COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Comments, and texts, in which no comment begins."""
_LAST_COMMAS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|,(?=\s*[}\]])', re.DOTALL)
TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_REMEDIES = {
    "Expecting ','": "A comma is missing before this place, or the bracket that closes what is open.",
    "Expecting property name": 'Put keys in double quotes: "key": value.',
    "Expecting ':'": "Write a colon after the key.",
    "Expecting value": 'Write a value; text is in double quotes: "…".',
    "Invalid control": r'Close the string with " on its line; write \n for a new line and \t for a tab.',
    "Invalid \\": r"Write \\ for a backslash.",
    "Extra data": "One file holds one value: remove the rest.",
}
"""First words of an error of the standard library → what to do."""


class JsonSyntaxError(Exception):
    """Where the text stops being JSON (1-based), why, and what to do."""

    def __init__(self, line: int, column: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.line, self.column, self.reason, self.remedy = line, column, reason, remedy


@dataclass(slots=True)
class Parsed:
    """The value; 1-based lines and non-string scalars as written by key path; duplicate keys, the first of which counts."""

    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)
    duplicates: list[tuple[KeyPath, int, int]] = field(default_factory=list)


def parse_jsonc(text: str, *, max_depth: int) -> Parsed:
    """Parse JSON with comments and trailing commas; raises `JsonSyntaxError`."""
    parsed = Parsed()
    parsed.value, plain = load_jsonc(text, max_depth=max_depth)
    _find_places(plain, parsed, max_depth)
    return parsed


def load_jsonc(text: str, *, max_depth: int) -> tuple[Any, str]:
    """The value alone, and the text without comments and trailing commas; raises `JsonSyntaxError`."""
    plain = _LAST_COMMAS.sub(_blanked, without_comments(text))
    try:
        value = json.loads(plain, object_pairs_hook=_first_of_each, parse_int=_integer, parse_constant=str)
    except json.JSONDecodeError as error:
        raise _syntax_error(plain, error) from None
    except RecursionError:
        raise _too_deep(1, max_depth) from None
    return value, plain


def without_comments(text: str) -> str:
    """The text with blanks for its comments, so that every other character keeps its place."""
    return COMMENTS.sub(_blanked, text)


def _blanked(found: re.Match[str]) -> str:
    """A string as it is; a comment or comma as blanks, so that lines and columns stay."""
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        result.setdefault(key, value)
    return result


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _MAX_DIGITS else float(digits)


def _too_deep(line: int, max_depth: int) -> JsonSyntaxError:
    return JsonSyntaxError(line, 1, "nested too deeply", f"Keep within {max_depth} levels.")


def _syntax_error(text: str, error: json.JSONDecodeError) -> JsonSyntaxError:
    reason = error.msg.removesuffix(" at")
    remedy = next((do for start, do in _REMEDIES.items() if reason.startswith(start)), "Correct this place.")
    if text.startswith("/*", error.pos):
        reason, remedy = "a comment that is never closed", "Close it with */."
    elif error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        opened: list[int] = []
        for token in TOKENS.finditer(text, 0, error.pos):
            if token[0] in ("{", "["):
                opened.append(token.start())
            elif token[0] in ("}", "]"):
                opened.pop()
        at = opened[-1] if opened else 0
        reason = (
            f"the file ends inside the {text[at : at + 1]} opened on line {text.count(chr(10), 0, at) + 1}"
        )
        if not opened and not error.msg.startswith("Unterminated"):
            reason = "it holds no value, only comments"
        remedy = "The file is incomplete."
    elif not reason.startswith("Invalid"):
        reason += f", found {text[error.pos]!r}"
    return JsonSyntaxError(error.lineno, error.colno, reason, remedy)


def _find_places(text: str, parsed: Parsed, max_depth: int) -> None:
    """Note the line of every key and value of valid JSON, scalars as written, and keys that are written twice."""
    path: list[str | int | None] = []
    """A key or index for each open bracket; None where a key comes next."""
    line, counted = 1, 0
    for token in TOKENS.finditer(text):
        word, at = token[0], token.start()
        line += text.count("\n", counted, at)
        counted = at
        if word == ":":
            continue
        if word in ("}", "]"):
            path.pop()
        elif word == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        elif path and path[-1] is None:
            path[-1] = json.loads(word)
            place: KeyPath = tuple(path)  # type: ignore[arg-type] # the one None was just replaced
            if place in parsed.lines and not any(
                place[: len(twice)] == twice for twice, _, _ in parsed.duplicates
            ):
                parsed.duplicates.append(
                    (place, parsed.lines[place], line)
                )  # those inside of it are the same fault
            parsed.lines.setdefault(place, line)
        else:
            place = tuple(path)  # type: ignore[arg-type]
            parsed.lines.setdefault(place, line)
            if word in ("{", "["):
                path.append(None if word == "{" else 0)
            elif not word.startswith('"'):
                parsed.texts.setdefault(place, word)
        if len(path) > max_depth:
            raise _too_deep(line, max_depth)
