"""How a secret is spelled in text: as it is, and as JSON, HTML, URLs, shells, Python and base64 write it.

One pattern for each secret matches all of these, and nested ones (HTML in JSON in JSON). Only ASCII letters and digits
are always written as they are.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html.entities import html5

from gatemini.text.utf8 import encode

CUT_MARKS = ("…", "...")
"""The marks that every place leaves where it cuts a text."""
MIN_REDACTED = 6
"""Shorter values occur by chance in any text, and hiding them would garble answers."""
_NEAR = 16
"""Characters beside a piece in which such a mark is looked for: blanks may be between them."""
_MIN_LINE = 12
"""Lines of a multi-line secret (a key file) are hidden one by one from this length on."""
_ANCHOR = 16
"""Characters of base64 in which a line ends at most once."""

_BACKSLASHES = r"\\{1,8}"
_HEX = "(?i:{})"
_WRAPPED = rf"(?:\s|{_BACKSLASHES}[rn]){{0,4}}"
"""What base64 may have between two characters: it is often written in lines."""
_SHORT = {"\n": "n", "\r": "r", "\t": "t"}
_QUOTE = rf"""(?:''|'"'"'|{_BACKSLASHES}'|'{_BACKSLASHES}'')"""
"""An apostrophe in the quotes of SQL and YAML, of shells, and of Python."""
_RUN = re.compile(rf"[A-Za-z0-9]{{{MIN_REDACTED},}}")
_ENTITIES: dict[str, set[str]] = {}
for _name, _character in html5.items():
    _ENTITIES.setdefault(_character, set()).add(_name.removesuffix(";"))


@dataclass(frozen=True)
class Spelling:
    """Patterns of the characters of a secret, or of its base64. Literal ones are one character long."""

    name: str
    tokens: tuple[str, ...]
    between: str = ""

    @cached_property
    def pattern(self) -> str:
        return self.between.join(self.tokens)

    @cached_property
    def _anchors(self) -> tuple[str, ...]:
        """Texts of which one is in every text with this spelling; lines of base64 end in one of two at most."""
        longest = _literal(self.tokens)
        half = min(len(longest) // 2, _ANCHOR)
        return (longest[:half], longest[half : 2 * half]) if self.between else (longest,)

    @cached_property
    def _outermost(self) -> tuple[str, str]:
        """A text that is in every beginning of this spelling, and one that is in every end."""
        return _literal(self.tokens[:MIN_REDACTED]), _literal(self.tokens[-MIN_REDACTED:])

    def may_be_in(self, text: str, runs: str) -> bool:
        """Whether to look for it at all; `runs` is `runs_of(text)`."""
        return any(_holds(text, runs, anchor) for anchor in self._anchors)

    def without_pieces(self, text: str, runs: str, instead: str) -> str:
        """Replace what is left of a secret beside the mark of a cut; `runs` is `runs_of(text)`, or that of more text."""
        parts: list[str] = []
        done = 0
        for start, end in sorted(self._pieces(text, runs)):
            if start >= done:
                parts += text[done:start], instead
                done = end
        return "".join([*parts, text[done:]]) if parts else text

    def _pieces(self, text: str, runs: str) -> Iterator[tuple[int, int]]:
        """Where `text` has beginnings right before, and ends right after, the mark of a cut."""
        first, last = self.tokens[:MIN_REDACTED], self.tokens[-MIN_REDACTED:]
        if _holds(text, runs, self._outermost[0]):
            for match in re.finditer(self.between.join(first), text):
                end = self._end(text, match.start(), self.tokens)[0]
                if text[end : end + _NEAR].lstrip().startswith(CUT_MARKS):
                    yield match.start(), end
        if _holds(text, runs, self._outermost[1]):
            for match in re.finditer(self.between.join(last), text):
                mark = max(text.rfind(mark, 0, match.start()) + len(mark) for mark in CUT_MARKS)
                start = mark + len(text[mark : mark + _NEAR]) - len(text[mark : mark + _NEAR].lstrip())
                for at in range(len(self.tokens) - MIN_REDACTED + 1):
                    if self._end(text, start, self.tokens[at:]) == (match.end(), len(self.tokens) - at):
                        yield start, match.end()
                        break

    def _end(self, text: str, start: int, tokens: Sequence[str]) -> tuple[int, int]:
        """Where the longest beginning of `tokens` at `start` ends, and how many they are."""
        for count, token in enumerate(tokens):
            if text.startswith(token, start) and not self.between:  # most characters are literal
                start += 1
                continue
            match = re.compile(token if not count else self.between + token).match(text, start)
            if match is None:
                return start, count
            start = match.end()
        return start, len(tokens)


def runs_of(text: str) -> str:
    """Return the long runs of letters and digits of a text: a tenth of it, in which most looking is done."""
    return "\n".join(_RUN.findall(text))


def _holds(text: str, runs: str, literal: str) -> bool:
    """Whether the text has these letters and digits."""
    return literal in (runs if len(literal) >= MIN_REDACTED else text)


def spellings(name: str, value: str) -> Iterator[Spelling]:
    """All ways to write a secret, none for a short one."""
    if len(value) < MIN_REDACTED:
        return
    value = stripped if len(stripped := value.strip()) >= MIN_REDACTED else value
    yield Spelling(name, _tokens(value))
    for text in _in_base64(encode(value)):
        if len(text) >= MIN_REDACTED:
            tokens = (token if token.isalnum() else _either(token) for token in text)
            yield Spelling(name, tuple(tokens), _WRAPPED)
    lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
    for line in lines:
        if len(line) >= _MIN_LINE:
            yield Spelling(name, _tokens(line))


def _tokens(value: str) -> tuple[str, ...]:
    # A run of backslashes is one pattern, since each may be written as several.
    return tuple(map(_token, re.findall(r"\\+|[^\\]", value)))


def _token(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    if character.startswith("\\"):
        return rf"(?:\\{{1,{8 * len(character)}}}|{_BACKSLASHES}u005[cC]|%(?:25)*5[cC]|&(?:amp;)*(?:#0*92|#[xX]0*5[cC]|bsol);)+"
    point, data, units = ord(character), encode(character), character.encode("utf-16-be", "surrogatepass")
    ways = [
        re.escape(character),
        "".join(_HEX.format(rf"{_BACKSLASHES}u{units[at : at + 2].hex()}") for at in range(0, len(units), 2)),
        "".join(_HEX.format(f"%(?:25)*{byte:02x}") for byte in data),
        "".join(_HEX.format(rf"{_BACKSLASHES}x{byte:02x}") for byte in data),
        rf"(?:&|{_BACKSLASHES}u0026)(?:amp;)*(?:{'|'.join(_entities(character, point))});?",
    ]
    if character in _SHORT:
        ways.append(rf"{_BACKSLASHES}{_SHORT[character]}")
    elif character == "'":
        ways.insert(0, _QUOTE)
    elif character == " ":
        ways.append(r"\+")
    elif character.isascii():
        ways.append(_BACKSLASHES + re.escape(character))
    return f"(?:{'|'.join(ways)})"


def _entities(character: str, point: int) -> list[str]:
    named = sorted(_ENTITIES.get(character, ()), key=len, reverse=True)
    return [f"#0*{point}", f"#[xX]0*{_HEX.format(f'{point:x}')}", *named]


def _either(character: str) -> str:
    """A character of base64 that its form for URLs writes differently."""
    return "(?:" + "|".join(_token(one) for one in ("+-" if character in "+-" else "/_")) + ")"


def _in_base64(value: bytes) -> Iterator[str]:
    """What base64 of a text shows of a value inside it, such as `user:secret`, for each of the three offsets.

    The characters that also hold bits of what is before or after the value are left out.
    """
    for offset in range(3):
        first = (8 * offset + 5) // 6
        end = 8 * (offset + len(value)) // 6
        yield base64.b64encode(bytes(offset) + value).decode()[first:end]


def _literal(tokens: Sequence[str]) -> str:
    """The longest run of literal characters."""
    runs = "".join(token if len(token) == 1 else "\n" for token in tokens)
    return max(runs.split("\n"), key=len)
