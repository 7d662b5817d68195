"""Read JavaScript literals exactly as JavaScript does (ECMA-262, strict mode), to decide tier 2.

What is not certainly understood raises `Uncertain`, and the code goes to the sandbox instead: rare escapes, numbers other
than decimal ones, names outside ASCII.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from gatemini.output.json.javascript_json import MAX_SAFE_INTEGER, ordered_keys, simple_number
from gatemini.text.utf8 import SURROGATE
from gatemini_sandbox.messages import Facts

ROUNDED_SHOWN = 3
"""Numbers named in the note on those that were rounded."""

MAX_NESTING: Final = 200
"""Literals nested deeper than this are left to the sandbox: the reader is recursive."""

_BLANK = r"\t\v\f \u00a0\ufeff\u1680\u2000-\u200a\u202f\u205f\u3000"
GAP: Final = rf"(?:[{_BLANK}\r\n]++|//[^\r\n\u2028\u2029]*+|/\*(?:[^*\u2028\u2029]|\*(?!/)|(?!))*+\*/|(?!))*+"
"""Blanks, line ends and comments. U+2028 is in none of them: code with it is for the sandbox.

`(?!)` in a possessive repeat: Python before 3.11.5 would else keep what a failing round has read (tests/text/test_patterns.py)."""
SAME_LINE: Final = rf"(?:[{_BLANK}]++|/\*(?:[^*\r\n\u2028\u2029]|\*(?!/)|(?!))*+\*/|(?!))*+"
WORD: Final = r"[A-Za-z_$][\w$]*+"
STRING: Final = (
    r"(?:\"[^\"\\\r\n]*+(?:\\[^\r\n][^\"\\\r\n]*+)*+\""
    r"|'[^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+'"
    r"|`[^`\\$]*+(?:(?:\\[^\r\n]|\$(?!\{))[^`\\$]*+|(?!))*+`)"
)
_GAP = re.compile(GAP)
_TOKEN = re.compile(
    rf"(?P<string>{STRING})|(?P<word>{WORD})"
    r"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)(?![\w$.])",
    re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([nrtbvf'\"`\\/$])|)")
_SINGLE: Final = {"n": "\n", "t": "\t", "b": "\b", "v": "\v", "f": "\f", "r": "\r"}
_UNDEFINED: Final = object()
"""JavaScript's `undefined` while a literal is being read."""
_CONSTANTS: Final = {"null": None, "true": True, "false": False, "undefined": _UNDEFINED}


class Uncertain(Exception):
    """The code is not certainly of the cheap form; the sandbox decides."""


class Reader:
    """A position in code. Methods that read something move on; all raise `Uncertain` instead of guessing."""

    def __init__(self, text: str, pos: int = 0) -> None:
        self.text = text
        self.pos = pos
        self.skip()

    def skip(self) -> None:
        if found := _GAP.match(self.text, self.pos):
            self.pos = found.end()

    def take(self, sign: str) -> bool:
        """Go past `sign` and what separates it from the next token, if it is the next one."""
        if not self.text.startswith(sign, self.pos):
            return False
        self.pos += len(sign)
        self.skip()
        return True

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise Uncertain

    def object(self, depth: int = 0) -> dict[str, Any]:
        """Read an object literal of plain `key: value` members, as JSON would hold it.

        Members whose last value is undefined are dropped; integer-like keys come first, ascending.
        """
        self.expect("{")
        members: dict[str, Any] = {}
        while not self.take("}"):
            kind, key = self._token()
            if kind == "string" and key[0] != "`":
                key = unquoted(key)
            elif kind != "word":
                raise Uncertain
            if key == "__proto__":  # in a literal this sets the prototype
                raise Uncertain
            self.expect(":")
            members[key] = self._value(depth + 1)
            if not self.text.startswith("}", self.pos):
                self.expect(",")
        return ordered_keys({key: value for key, value in members.items() if value is not _UNDEFINED})

    def _array(self, depth: int) -> list[Any]:
        self.expect("[")
        items: list[Any] = []
        while not self.take("]"):
            value = self._value(depth + 1)
            items.append(None if value is _UNDEFINED else value)
            if not self.text.startswith("]", self.pos):
                self.expect(",")
        return items

    def _value(self, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise Uncertain
        if self.text.startswith("{", self.pos):
            return self.object(depth)
        if self.text.startswith("[", self.pos):
            return self._array(depth)
        kind, token = self._token()
        if kind == "string":
            return unquoted(token)
        if kind == "number":
            return _number(token)
        if token not in _CONSTANTS:
            raise Uncertain
        return _CONSTANTS[token]

    def _token(self) -> tuple[str | None, str]:
        found = _TOKEN.match(self.text, self.pos)
        if found is None:
            raise Uncertain
        self.pos = found.end()
        self.skip()
        return found.lastgroup, found[0]


def _number(digits: str) -> int | float:
    value = float(digits)
    rounded = abs(value) > MAX_SAFE_INTEGER and digits.lstrip("-").isdigit()
    if not math.isfinite(value) or (rounded and value != int(digits)):
        raise Uncertain  # the sandbox's answer has a note on rounding
    return simple_number(value)


def unquoted(literal: str) -> str:
    """Return the text of a string literal or a template without `${}`."""
    text = literal[1:-1]
    if literal[0] == "`":
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(_unescaped, text)
    if SURROGATE.search(text):
        raise Uncertain
    return text


def _unescaped(escape: re.Match[str]) -> str:
    if single := escape[3]:
        return _SINGLE.get(single, single)
    digits = escape[1] or escape[2]
    if not digits:
        raise Uncertain
    return chr(int(digits, 16))


def rounded(facts: Facts) -> list[str]:
    """What became of whole numbers in the code that JavaScript cannot hold."""
    shown = [
        f"{digits} on line {line} became {int(float(int(digits, 0)))}" for line, _, digits in facts.rounded
    ][:ROUNDED_SHOWN]
    return (
        [f"numbers beyond 2^53 are rounded in code: {', '.join(shown)}; write ids as strings"]
        if shown
        else []
    )
