"""Shorten text: the first sentence, the first characters, the first names of a list; never cut inside a character."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable

from gatemini.text.escape import one_line, visible

BRIEF_CHARS = 200
"""Longest first sentence in `search_tools` and `tool_info`."""
LINE_CHARS = 120
"""Longest first sentence in resources."""

LISTED = 12
"""Names listed where all would be too many."""
CLOSEST = 3
"""Names suggested in place of an unknown one."""
_CUT = " … [cut] … "

_ELLIPSIS = "..."
_INITIALS = re.compile(r"(?:^|[\s(\[\"'/])(?:[^\W\d_]\.)+$")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'/])(?:approx|ca|cf|dept|dr|ex|excl|fig|incl|max|min|mr|mrs|ms|no|nr|resp|st|viz|vs)\.$",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"(?:^|\n)\s*\d{1,2}\.$")
_PERIOD = re.compile(r"\.(?=\s)")
_LONGEST_ABBREVIATION = 24


def counted(count: int, noun: str) -> str:
    """Return `1 tool`, `2 tools`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def elapsed(seconds: float) -> str:
    """Return a time in its two largest units: `5 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    left, parts = max(0, round(seconds)), list[str]()
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"


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


def _inside_character(text: str, index: int) -> bool:
    """Return whether a cut before `index` would separate a base from its marks, or an emoji from its parts."""
    char, before = text[index], text[index - 1]
    if unicodedata.category(char) in ("Mn", "Me", "Mc", "Sk") or char == "\u200d" or before == "\u200d":
        return True
    return 0x1F1E6 <= ord(char) <= 0x1F1FF and 0x1F1E6 <= ord(before) <= 0x1F1FF


def listed(names: Iterable[str], most: int = LISTED) -> str:
    """Return the names, escaped, with commas; of many the first, and how many there are."""
    every = list(dict.fromkeys(map(visible, names)))
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
