"""Text → words: the plain tokens of the classic ranking and the split, folded, stemmed words of `best`.

Pure functions. Above: every ranker, the output's intent filter (`plain_tokens`). Below: nothing.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_TEXT = 8_000
"""Characters of a description that are indexed: a 64 KB text must not own the index."""
MAX_QUERY = 2_000
"""Characters of a query that are read; a longer one costs memory and says nothing more."""

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


def plain_tokens(text: str) -> list[str]:
    """Lower-cased runs of letters and digits (Unicode), as the classic ranking defines them (spec 3.2)."""
    return _PLAIN.findall(text.lower())


def fold(text: str) -> str:
    """Lower case without accents; compatibility forms (full width, ligatures) as their plain ones."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", bare).lower()


def parts(text: str) -> list[str]:
    """Words split at case, digit and punctuation borders, folded; runs of unspaced scripts stay whole."""
    return [part for token in _PLAIN.findall(text) for part in _token_parts(token)]


@lru_cache(maxsize=65_536)
def _token_parts(token: str) -> tuple[str, ...]:
    if token.isascii() and token.isalpha() and (token.islower() or token.istitle()):
        return (token.lower(),)
    return tuple(fold(part) for part in _BORDER.split(token))


def is_unspaced(part: str) -> bool:
    """Whether the part is (partly) of a script written without spaces."""
    return not part.isascii() and _UNSPACED.search(part) is not None


def raw_words(text: str) -> list[str]:
    """`parts` with unspaced runs as overlapping pairs: what is indexed, before stemming."""
    return [word for token in _PLAIN.findall(text) for word in _token_words(token)]


@lru_cache(maxsize=65_536)
def _token_words(token: str) -> tuple[str, ...]:
    return tuple(
        word for part in _token_parts(token) for word in (pairs(part) if is_unspaced(part) else (part,))
    )


def words(text: str) -> list[str]:
    """What `best` indexes and asks for: `raw_words`, stemmed."""
    return [word for token in _PLAIN.findall(text) for word in _token_stems(token)]


@lru_cache(maxsize=65_536)
def _token_stems(token: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in _token_words(token))


def proper_names(text: str) -> set[str]:
    """Folded words that are written like names (`Munich`) within other words: no slips of anything."""
    tokens = _PLAIN.findall(text)
    return (
        {fold(token) for token in tokens[1:] if token.istitle()} if any(map(str.islower, tokens)) else set()
    )


def squash(text: str) -> str:
    """Letters and digits only, folded: `get_user-Info` → `getuserinfo`."""
    return _NOT_ALNUM.sub("", fold(text))


def trigrams(squashed: str) -> list[str]:
    """Three-character windows of a squashed text, with its borders marked; repeats are kept."""
    if not squashed:
        return []
    padded = f"^{squashed}$"
    return [padded[i : i + 3] for i in range(len(padded) - 2)]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A light English stemmer: plurals, -ing, -ed, -er/-or and a few long endings; other scripts unchanged.

    It only has to be consistent: the same word in a query and in a description must meet.
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
    """Overlapping pairs of each unspaced run in a folded part; the rest whole."""
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
