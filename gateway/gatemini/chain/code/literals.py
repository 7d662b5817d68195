"""Read JavaScript tokens and literals exactly as JavaScript does (ECMA-262, strict mode), to decide tier 2.

What the reader does not certainly know raises `Uncertain`, and the code goes to the sandbox instead.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from gatemini.output.jsvalue import MAX_SAFE_INTEGER, ordered_keys, simple_number

MAX_NESTING: Final = 200
"""Literals nested deeper than this are left to the sandbox: the reader is recursive."""

_BLANKS = re.compile(r"[\t\v\f\r\n \u00a0\ufeff\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_COMMENT = re.compile(r"//[^\r\n\u2028\u2029]*|/\*(?:[^*]|\*(?!/))*+\*/")
_WORD = re.compile(r"[A-Za-z_$\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*")
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
    r"|0[oO][0-7]+(?:_[0-7]+)*"
    r"|0[bB][01]+(?:_[01]+)*"
    r"|(?:(?:0|[1-9](?:_?[0-9])*)(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)"
    r"(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
)
_AFTER_NUMBER = re.compile(r"[\w$\\.\u0080-\U0010ffff]")
_STRINGS = {
    '"': re.compile(r'"[^"\\\r\n]*+(?:\\(?:\r\n|[\s\S])[^"\\\r\n]*+)*+"'),
    "'": re.compile(r"'[^'\\\r\n]*+(?:\\(?:\r\n|[\s\S])[^'\\\r\n]*+)*+'"),
    "`": re.compile(r"`[^`\\$]*+(?:(?:\\(?:\r\n|[\s\S])|\$(?!\{))[^`\\$]*+)*+`"),
}
_ESCAPE = re.compile(
    r"\\(?:(?P<continued>\r\n|[\r\n\u2028\u2029])"
    r"|x(?P<hex>[0-9a-fA-F]{2})"
    r"|u(?P<unit>[0-9a-fA-F]{4})"
    r"|u\{0*(?P<point>[0-9a-fA-F]{1,6})\}"
    r"|(?P<null>0)(?![0-9])"
    r"|(?P<single>[^0-9xu])"
    r"|(?P<broken>))"
)
_SINGLE = {"n": "\n", "t": "\t", "b": "\b", "v": "\v", "f": "\f", "r": "\r"}
_CONSTANTS: Final[dict[str, Any]] = {"null": None, "true": True, "false": False}


class Uncertain(Exception):
    """This is not certainly the form asked for; the sandbox decides."""


class _Undefined:
    """JavaScript's `undefined` while a literal is being read."""

    __slots__ = ()


UNDEFINED: Final = _Undefined()


class Reader:
    """A position in code. Methods that take something move on; all raise `Uncertain` instead of guessing."""

    def __init__(self, text: str, pos: int = 0) -> None:
        self.text = text
        self.pos = pos

    def skip(self) -> bool:
        """Go past blanks and comments; True when a line ended in between (where a `;` may be left out)."""
        start = self.pos
        while True:
            found = _BLANKS.match(self.text, self.pos) or _COMMENT.match(self.text, self.pos)
            if found is None:
                break
            self.pos = found.end()
        passed = self.text[start : self.pos]
        if "\u2028" in passed or "\u2029" in passed:
            raise Uncertain
        return "\n" in passed or "\r" in passed

    @property
    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def sees(self, sign: str) -> bool:
        return self.text.startswith(sign, self.pos)

    def take(self, sign: str) -> bool:
        """Go past `sign` if it is the next one."""
        if not self.sees(sign):
            return False
        self.pos += len(sign)
        return True

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise Uncertain

    def peek_word(self) -> str | None:
        """The identifier or keyword here, without moving. Escapes in names are left to the sandbox."""
        found = _WORD.match(self.text, self.pos)
        if found is None:
            return None
        word = found[0]
        after = self.text[found.end() : found.end() + 1]
        if after == "\\" or not (word.isascii() or word.replace("$", "_").isidentifier()):
            raise Uncertain
        return word

    def take_word(self, *allowed: str) -> str | None:
        """Go past a word, any or one of `allowed`; None when the next one is another, or no word."""
        word = self.peek_word()
        if word is None or (allowed and word not in allowed):
            return None
        self.pos += len(word)
        return word

    def string(self) -> str:
        """A string or a template without `${}`, with its escapes resolved."""
        quote = self.text[self.pos : self.pos + 1]
        pattern = _STRINGS.get(quote)
        found = pattern.match(self.text, self.pos) if pattern else None
        if found is None:
            raise Uncertain
        self.pos = found.end()
        raw = found[0][1:-1]
        if quote == "`":
            raw = raw.replace("\r\n", "\n").replace("\r", "\n")
        return _unescaped(raw) if "\\" in raw else raw

    def number(self) -> float:
        """A numeric literal without a sign, as the double JavaScript makes of it."""
        found = _NUMBER.match(self.text, self.pos)
        if found is None or _AFTER_NUMBER.match(self.text, found.end()):
            raise Uncertain
        self.pos = found.end()
        digits = found[0].replace("_", "")
        try:
            base = {"x": 16, "o": 8, "b": 2}.get(digits[1:2].lower())
            value = float(int(digits[2:], base)) if base else float(digits)
            if value > MAX_SAFE_INTEGER and (base or digits.isdigit()) and value != int(digits, 0):
                raise Uncertain  # rounded, which the sandbox's answer tells
        except OverflowError:
            raise Uncertain from None
        if not math.isfinite(value):
            raise Uncertain
        return value

    def literal(self, depth: int = 0) -> Any:
        """A value written as a literal; `UNDEFINED` for `undefined`."""
        if depth > MAX_NESTING:
            raise Uncertain
        sign = self.text[self.pos : self.pos + 1]
        if sign == "{":
            return self.object(depth)
        if sign == "[":
            return self._array(depth)
        if sign and sign in "\"'`":
            return self.string()
        if sign and sign in "+-":
            self.pos += 1
            self.skip()
            value = self.number()
            return simple_number(-value if sign == "-" else value)
        word = self.take_word()
        if word is None:
            return simple_number(self.number())
        if word == "undefined":
            return UNDEFINED
        if word not in _CONSTANTS:
            raise Uncertain
        return _CONSTANTS[word]

    def object(self, depth: int = 0) -> dict[str, Any]:
        """An object literal of plain `key: value` members, as JSON would hold it.

        Members whose last value is undefined are dropped; integer-like keys come first, ascending.
        """
        self.expect("{")
        members: dict[str, Any] = {}
        self.skip()
        while not self.take("}"):
            key = self._key()
            if key == "__proto__":  # in a literal this sets the prototype
                raise Uncertain
            self.skip()
            self.expect(":")
            self.skip()
            members[key] = self.literal(depth + 1)
            self.skip()
            if not self.sees("}"):
                self.expect(",")
                self.skip()
        if UNDEFINED in members.values():
            members = {key: value for key, value in members.items() if value is not UNDEFINED}
        return ordered_keys(members)

    def _key(self) -> str:
        sign = self.text[self.pos : self.pos + 1]
        if sign and sign in "\"'":
            return self.string()
        word = self.take_word()
        if word is not None:
            return word
        number = self.number()
        if (
            not number.is_integer() or number > MAX_SAFE_INTEGER
        ):  # engines differ in the last digits they write
            raise Uncertain
        return str(int(number))

    def _array(self, depth: int) -> list[Any]:
        self.expect("[")
        items: list[Any] = []
        self.skip()
        while not self.take("]"):
            value = self.literal(depth + 1)
            items.append(None if value is UNDEFINED else value)
            self.skip()
            if not self.sees("]"):
                self.expect(",")
                self.skip()
        return items


def _unescaped(raw: str) -> str:
    """The text of a string's inside. Raises Uncertain for octal and broken escapes."""
    text = _ESCAPE.sub(_one_escape, raw)
    if any("\ud800" <= c <= "\udfff" for c in text):
        try:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:  # a lone surrogate: only JavaScript can hold it
            raise Uncertain from None
    return text


def _one_escape(escape: re.Match[str]) -> str:
    if escape["broken"] is not None:
        raise Uncertain
    if escape["continued"] is not None:
        return ""
    if escape["null"] is not None:
        return "\0"
    if escape["single"] is not None:
        return _SINGLE.get(escape["single"], escape["single"])
    point = int(escape["hex"] or escape["unit"] or escape["point"], 16)
    if point > 0x10FFFF:
        raise Uncertain
    return chr(point)
