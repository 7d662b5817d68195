"""JSON with comments and trailing commas, as clients write it; every value remembers its line.

Our own, because no well-kept parser of JSON with comments gives the lines of keys. Strings are read by the standard
library's scanner.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder
from typing import Any

_SKIP = re.compile(r"(?:[ \t\r\n\ufeff\u00a0]+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_WORDS = {"true": True, "false": False, "null": None}
MAX_DEPTH = 100
_MAX_DIGITS = 40
_STRINGS = JSONDecoder(strict=False)

KeyPath = tuple[str | int, ...]


class JsonSyntaxError(Exception):
    """Where the text stops being JSON (1-based), why, and what to do."""

    def __init__(self, line: int, column: int, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.line, self.column, self.reason, self.remedy = line, column, reason, remedy


@dataclass(slots=True)
class Parsed:
    """The value; 1-based lines and non-string scalars as written by key path; duplicate keys."""

    value: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    texts: dict[KeyPath, str] = field(default_factory=dict)
    duplicates: list[tuple[KeyPath, int, int]] = field(default_factory=list)


def parse_jsonc(text: str, *, max_depth: int) -> Parsed:
    """Parse JSON with comments and trailing commas; raises `JsonSyntaxError`."""
    return _Parser(text, max_depth).document()


class _Parser:
    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.max_depth = max_depth
        self.at = 0
        self.parsed = Parsed()
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def document(self) -> Parsed:
        self.skip()
        self.parsed.value = self.value(())
        self.skip()
        if self.at < len(self.text):
            raise self.error(f"{self.seen()} after the end", "One file holds one value: remove the rest.")
        return self.parsed

    def line(self, at: int) -> int:
        return bisect_right(self.starts, at)

    def error(self, reason: str, remedy: str, at: int | None = None) -> JsonSyntaxError:
        place = min(self.at if at is None else at, len(self.text))
        line = self.line(place)
        return JsonSyntaxError(line, place - self.starts[line - 1] + 1, reason, remedy)

    def seen(self) -> str:
        return f"found {self.text[self.at]!r}" if self.at < len(self.text) else "the file ends"

    def skip(self) -> None:
        match = _SKIP.match(self.text, self.at)
        if match:
            self.at = match.end()
        if self.text.startswith("/*", self.at):
            raise self.error("a comment that is never closed", "Close it with */.")

    def value(self, path: KeyPath) -> Any:
        start = self.text[self.at : self.at + 1]
        self.parsed.lines.setdefault(path, self.line(self.at))
        if start == "{":
            return self.mapping(path)
        if start == "[":
            return self.sequence(path)
        if start == '"':
            return self.string()
        return self.scalar(path)

    def string(self) -> str:
        begin = self.at
        try:
            text, self.at = _STRINGS.raw_decode(self.text, begin)
        except JSONDecodeError as error:
            escape = error.pos < len(self.text) and self.text[error.pos] == "\\"
            remedy = r"Write \\ for a backslash." if escape else 'Close the string with " on its line.'
            raise self.error(f"in a string: {error.msg}", remedy, error.pos if escape else begin) from None
        if "\n" in text and "\n" in self.text[begin : self.at]:
            raise self.error("a string that runs over its line", 'Close it with ", or write \\n.', begin)
        return str(text)

    def scalar(self, path: KeyPath) -> Any:
        number = _NUMBER.match(self.text, self.at)
        if number:
            written = number[0]
            self.at = number.end()
            self.parsed.texts[path] = written
            whole = number[1] is None and number[2] is None
            return int(written) if whole and len(written) < _MAX_DIGITS else float(written)
        word = _WORD.match(self.text, self.at)
        if word and word[0] in _WORDS:
            self.at = word.end()
            self.parsed.texts[path] = word[0]
            return _WORDS[word[0]]
        if self.at >= len(self.text):
            raise self.error("the file ends where a value is missing", "The file is incomplete.")
        remedy = (
            'Put text in double quotes: "…".' if word or self.text[self.at] == "'" else "Put a value here."
        )
        raise self.error(f"{self.seen()} instead of a value", remedy)

    def mapping(self, path: KeyPath) -> dict[str, Any]:
        opened = self.enter(path)
        result: dict[str, Any] = {}
        while not self.closes("}", opened):
            if self.text[self.at] != '"':
                raise self.error(
                    f"{self.seen()} instead of a key", 'Put keys in double quotes: "key": value.'
                )
            at = self.at
            key = self.string()
            inner = (*path, key)
            self.skip()
            if not self.text.startswith(":", self.at):
                raise self.error(f"{self.seen()} after the key {key!r}", "A colon is missing here.")
            self.at += 1
            self.skip()
            if key in result:
                self.parsed.duplicates.append((inner, self.parsed.lines[inner], self.line(at)))
                self.value((*inner, "\0duplicate"))
            else:
                self.parsed.lines[inner] = self.line(at)
                result[key] = self.value(inner)
            self.separator("}", opened)
        return result

    def sequence(self, path: KeyPath) -> list[Any]:
        opened = self.enter(path)
        result: list[Any] = []
        while not self.closes("]", opened):
            result.append(self.value((*path, len(result))))
            self.separator("]", opened)
        return result

    def enter(self, path: KeyPath) -> int:
        if len(path) >= self.max_depth:
            raise self.error("nested too deeply", f"Keep within {self.max_depth} levels.")
        opened = self.at
        self.at += 1
        return opened

    def closes(self, bracket: str, opened: int) -> bool:
        self.skip()
        if self.at >= len(self.text):
            raise self.unclosed(opened)
        if self.text[self.at] == bracket:
            self.at += 1
            return True
        return False

    def separator(self, bracket: str, opened: int) -> None:
        self.skip()
        if self.at >= len(self.text):
            raise self.unclosed(opened)
        if self.text[self.at] == ",":
            self.at += 1
        elif self.text[self.at] != bracket:
            raise self.error(f"{self.seen()} instead of , or {bracket}", "A comma is missing before this.")

    def unclosed(self, opened: int) -> JsonSyntaxError:
        return self.error(
            f"the file ends inside the {self.text[opened]} opened on line {self.line(opened)}",
            "The file is incomplete.",
        )
