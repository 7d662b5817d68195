"""Split text into words: plain tokens for the classic ranking; split, folded, stemmed words for `best`."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_TEXT = 8_000
"""Characters of a description that are indexed, so that a 64 KB text does not dominate the index."""
MAX_QUERY = 2_000
"""Characters of a query that are read; a longer one costs memory and adds nothing."""

_PLAIN = re.compile(r"[^\W_]+")
# A camelCase border, an acronym's end (HTTPServer → HTTP Server), a border between letters and digits.
_BORDER = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z]{2})(?=\d)|(?<=\d)(?=[A-Za-z]{3})"
)
# Scripts written without spaces: their runs are indexed as overlapping pairs.
UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_UNSPACED = re.compile(f"[{UNSPACED}]+")
_NOT_ALNUM = re.compile(r"[\W_]+")

STOP_WORDS = frozenset(
    """a about all also an and any are as at be been but by can could do does doing for from had has have how i
    if in into is it its just kind like may me my no not of on one or our out over please should so some such
    than that the their them then there these they thing this those to too up us use used using want was we
    were what when where which while who will with would you your""".split()  # noqa: SIM905
)
"""Words that say nothing about a tool, left out of queries."""

FUNCTION_WORDS = STOP_WORDS | frozenset(
    """above across after again against allow allowed allows already although always among another anything around
    based because become been before being below besides between beyond both cannot certain contain contained
    containing contains different does done during each either else enough etc even ever every everything except
    exist existing exists few first following further given gives goes going half hence here herself himself however
    including instead itself last later least less made make makes many might more most much must near need needed
    needs neither never next none nothing often once only onto optional optionally other others otherwise ought
    ourselves per perhaps possible provide provided provides quite rather really required requires same second see
    seem seemed several shall shown shows similar since someone something sometimes soon specific specified specify
    still such supported supports take taken takes though through throughout thus together toward towards typically
    under unless unlike until upon used uses usually various very via well were whatever when whenever whereas
    wherever whether whichever whole whom whose without within would yes yet yourself""".split()  # noqa: SIM905
)
"""Words of English grammar and of descriptions in general: no term to search with."""


def plain_tokens(text: str) -> list[str]:
    """Return the lower-cased runs of letters and digits (Unicode) that the classic ranking indexes."""
    return _PLAIN.findall(text.lower())


def fold(text: str) -> str:
    """Return lower case without accents, and compatibility forms (full width, ligatures) as plain ones."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare).lower()


def parts(text: str) -> list[str]:
    """Split at case, digit and punctuation borders and fold; runs of unspaced scripts stay whole."""
    return [part for token in _PLAIN.findall(text) for part in _token_parts(token)]


@lru_cache(maxsize=65_536)
def _token_parts(token: str) -> tuple[str, ...]:
    if token.isascii() and token.isalpha() and (token.islower() or token.istitle()):
        return (token.lower(),)
    return tuple(fold(part) for part in _BORDER.split(token))


def is_unspaced(part: str) -> bool:
    """Return whether the part is (partly) of a script written without spaces."""
    return not part.isascii() and _UNSPACED.search(part) is not None


def raw_words(text: str) -> list[str]:
    """Return `parts` with unspaced runs as overlapping pairs: what is indexed, before stemming."""
    return [word for token in _PLAIN.findall(text) for word in _token_words(token)]


@lru_cache(maxsize=65_536)
def _token_words(token: str) -> tuple[str, ...]:
    return tuple(
        word for part in _token_parts(token) for word in (pairs(part) if is_unspaced(part) else (part,))
    )


def words(text: str) -> list[str]:
    """Return `raw_words`, stemmed: what `best` indexes and searches for."""
    return [word for token in _PLAIN.findall(text) for word in _token_stems(token)]


@lru_cache(maxsize=65_536)
def _token_stems(token: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in _token_words(token))


def proper_names(text: str) -> set[str]:
    """Return folded words that are written like names (`Munich`) among other words: they are not misspellings."""
    tokens = _PLAIN.findall(text)
    return (
        {fold(token) for token in tokens[1:] if token.istitle()} if any(map(str.islower, tokens)) else set()
    )


def squash(text: str) -> str:
    """Return letters and digits only, folded: `get_user-Info` → `getuserinfo`."""
    return _NOT_ALNUM.sub("", fold(text))


def trigrams(squashed: str) -> list[str]:
    """Return the three-character windows of a squashed text, with its borders marked; repeats are kept."""
    if not squashed:
        return []
    padded = f"^{squashed}$"
    return [padded[i : i + 3] for i in range(len(padded) - 2)]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Reduce an English word to a stem: plurals, -ing, -ed, a final -e; other scripts are unchanged.

    It only has to be consistent: forms of one word in a query and in a description get the same stem.
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    word = _without_plural(word)
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= 3 and any(v in base for v in "aeiouy"):
            if base[-1] == base[-2] and base[-1] not in "lsz":
                base = base[:-1]
            word = base
            break
    if len(word) > 4 and word.endswith("e"):
        return word[:-1]
    return word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def pairs(text: str) -> list[str]:
    """Return the overlapping pairs of each unspaced run in a folded part, and the rest whole."""
    out: list[str] = []
    at = 0
    for match in _UNSPACED.finditer(text):
        if match.start() > at:
            out.append(text[at : match.start()])
        run = match[0]
        out.extend([run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)])
        at = match.end()
    if at < len(text):
        out.append(text[at:])
    return out
