r"""Escape text of backends for a model.

Tool names and descriptions are hostile input: control and invisible characters are a known way to hide instructions, so
they are shown as `\u200b` wherever text reaches a model.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Printable by Unicode's categories, yet drawn as nothing: fillers, the combining joiner, variation selectors, a null note.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_KEYCAPS = frozenset("0123456789#*")
"""Signs that are an emoji with a variation selector and U+20E3 after them."""
_ALSO_EMOJI = frozenset("‼⁉ℹ↔⤴⤵〰◽◾")
"""Emoji of which a variation selector chooses the style; all others are of the category So."""
_SPACES = re.compile(r"\s+")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return `text` with every control and invisible character written as `\uXXXX`.

    `lines` keeps line feeds and tabs (descriptions); names keep none. A variation selector or joiner inside an emoji is
    part of a visible sign and stays.
    """
    plain = text.replace("\n", "").replace("\t", "") if lines else text
    if plain.isprintable() and _BLANK.search(plain) is None:
        return text
    out: list[str] = []
    for index, char in enumerate(text):
        if (lines and char in "\n\t") or not _is_hidden(char) or _joins_emoji(text, index):
            out.append(char)
        elif lines and char == "\r" and text[index + 1 : index + 2] == "\n":
            continue
        else:
            out.append(_escape(char))
    return "".join(out)


def js_string(text: str) -> str:
    """Return a JavaScript string literal in double quotes that holds exactly `text`, with nothing hidden in it."""
    out: list[str] = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif char == "\t":
            out.append("\\t")
        elif _is_hidden(char):
            out.append(_escape(char))
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def one_line(text: str) -> str:
    """Return `text` escaped, with white space collapsed to single spaces."""
    return _SPACES.sub(" ", visible(text, lines=True)).strip()


@lru_cache(maxsize=4096)
def _is_hidden(char: str) -> bool:
    if char == " " or _BLANK.match(char):
        return char != " "
    # Zs (other spaces) is visible as space; everything else that is not printable is hidden.
    return not char.isprintable() and unicodedata.category(char) != "Zs"


def _joins_emoji(text: str, index: int) -> bool:
    char, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if char in "\ufe0e\ufe0f":
        if before in _KEYCAPS:
            return after == "\u20e3"
        return before in _ALSO_EMOJI or bool(before and unicodedata.category(before) == "So")
    if char == "\u200d":
        sign = ("So", "Sk")
        return (
            bool(before and after)
            and unicodedata.category(after) in sign
            and (unicodedata.category(before) in sign or before == "\ufe0f")
        )
    return False


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\u{{{code:x}}}"
