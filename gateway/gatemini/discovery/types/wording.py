r"""Text of backends for a model: escaped, shortened, never cut inside a character.

Tool names and descriptions are hostile input: control and invisible characters are a known way to hide instructions, so
they are shown as `\u200b` wherever text reaches a model.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

BRIEF_CHARS = 200
"""Longest first sentence in `search_tools` and `tool_info`."""
LINE_CHARS = 120
"""Longest first sentence in resources."""

_ELLIPSIS = "..."
# Printable by Unicode's categories, yet drawn as nothing: fillers, the combining joiner, variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_INITIALS = re.compile(r"(?:^|[\s(\[\"'/])(?:[^\W\d_]\.)+$")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'/])(?:approx|ca|cf|dept|dr|ex|excl|fig|incl|max|min|mr|mrs|ms|no|nr|resp|st|viz|vs)\.$",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"(?:^|\n)\s*\d{1,2}\.$")
_SPACES = re.compile(r"\s+")
_PERIOD = re.compile(r"\.(?=\s)")
_LONGEST_ABBREVIATION = 24


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


def counted(count: int, noun: str) -> str:
    """Return `1 tool`, `2 tools`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shorten(text: str, limit: int) -> str:
    """Return `text`, or its beginning and `...`, never longer than `limit` and never cut inside a character."""
    if len(text) <= limit:
        return text
    if limit <= len(_ELLIPSIS):
        return _ELLIPSIS[:limit]
    end = limit - len(_ELLIPSIS)
    while end > 0 and _inside_character(text, end):
        end -= 1
    return text[:end].rstrip() + _ELLIPSIS


def first_sentence(text: str, limit: int = BRIEF_CHARS) -> str:
    """Return the text up to the first period before white space, else all of it, at most `limit` characters.

    Periods of `e.g.`, initials, list numbers and other abbreviations do not end a sentence; those in URLs, versions and
    file names are followed by no space.
    """
    # Only the beginning can be shown, and a description may be 64 KB.
    head = text.strip()[: limit * 4]
    for match in _PERIOD.finditer(head):
        if _ends_sentence(head, match.end()):
            head = head[: match.end()]
            break
    return shorten(one_line(head), limit)


def _ends_sentence(text: str, end: int) -> bool:
    before = text[max(0, end - _LONGEST_ABBREVIATION) : end]
    if _INITIALS.search(before) or _ABBREVIATION.search(before) or _LIST_NUMBER.search(text[:end]):
        return False
    if before.endswith((" etc.", ",etc.", "..")):
        following = text[end:].lstrip()[:1]
        return following.isupper() or not following
    return True


@lru_cache(maxsize=4096)
def _is_hidden(char: str) -> bool:
    if char == " " or _BLANK.match(char):
        return char != " "
    # Zs (other spaces) is visible as space; everything else that is not printable is hidden.
    return not char.isprintable() and unicodedata.category(char) != "Zs"


def _joins_emoji(text: str, index: int) -> bool:
    char, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if char in "\ufe0e\ufe0f":
        return bool(before) and (
            unicodedata.category(before) in ("So", "Sm", "Po") or before in "0123456789#*"
        )
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


def _inside_character(text: str, index: int) -> bool:
    """Return whether a cut before `index` would separate a base from its marks, or an emoji from its parts."""
    char, before = text[index], text[index - 1]
    if unicodedata.category(char) in ("Mn", "Me", "Mc", "Sk") or char == "\u200d" or before == "\u200d":
        return True
    return 0x1F1E6 <= ord(char) <= 0x1F1FF and 0x1F1E6 <= ord(before) <= 0x1F1FF


LISTED = 12
"""Names listed where all would be too many."""
CLOSEST = 3
"""Names suggested in place of an unknown one."""
_CUT = " … [cut] … "


def listed(names: Iterable[str], most: int = LISTED) -> str:
    """Return the names with commas; of many the first, and how many there are."""
    every = list(dict.fromkeys(names))
    shown = ", ".join(every[:most])
    return f"{shown}, … ({len(every)} in all)" if len(every) > most else shown


def closest(name: str, known: Iterable[str], ratio: float = 0.6, most: int = CLOSEST) -> list[str]:
    """Return the known names most like this one (by difflib's ratio), best first."""
    return difflib.get_close_matches(name, list(dict.fromkeys(known)), most, ratio)


def cut_middle(text: str, limit: int) -> str:
    """Return at most `limit` characters: three quarters from the beginning, the rest from the end."""
    if len(text) <= limit:
        return text
    if limit <= len(_CUT):
        return text[:limit]
    keep = limit - len(_CUT)
    tail = keep // 4
    return text[: keep - tail] + _CUT + (text[-tail:] if tail else "")
