r"""Find what a text hides from a person who reads it: invisible and control characters, bidi controls, HTML comments.

Backends' texts reach a model; what a reviewer does not see in a rendered page, the model may obey.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gatemini.text.escape import visible

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ANSI = re.compile("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b.|\x9b")
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_COMMENT = "<!--"
_KINDS = ((_ANSI, "terminal control sequences"), (_BIDI, "bidi controls"), (_TAGS, "tag characters"))
_SAID = frozenset(("description", "title"))
_VALUES = frozenset(("const", "default", "enum", "examples", "pattern"))
MOST_DEPTH = 64
"""Levels of a schema that are read; deeper ones are not shown either."""


def hidden_in(text: str) -> list[str]:
    """Return what the text hides, one phrase a kind; empty where all of it can be seen."""
    plain = text.replace("\n", "").replace("\t", "")
    if plain.isascii() and plain.isprintable() and _COMMENT not in text:
        return []
    found: list[str] = []
    rest = text
    for pattern, what in _KINDS:
        rest, count = pattern.subn("", rest)
        if count:
            found.append(what)
    if visible(rest, lines=True) != rest.replace("\r\n", "\n"):
        found.append("invisible or control characters")
    if _COMMENT in text:
        found.append("HTML comments")
    return found


def note_of(what: str, *texts: str) -> str | None:
    """Return the note on a part that hides something in these texts; None where nothing is hidden."""
    kinds = list(dict.fromkeys(kind for text in texts for kind in hidden_in(text)))
    return f"{what} hides {', '.join(kinds)}: shown escaped" if kinds else None


def without_comments(text: str) -> str:
    r"""Return the text with each `<!--` written as `\u003c!--`, so that it is no comment where it is rendered."""
    return text.replace(_COMMENT, r"\u003c!--")


def texts_in(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield all texts of a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif depth < MOST_DEPTH and isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from texts_in(inner, depth + 1)
    elif depth < MOST_DEPTH and isinstance(value, list):
        for inner in value:
            yield from texts_in(inner, depth + 1)


def without_comments_in(schema: Any, depth: int = 0) -> Any:
    """Return a JSON Schema with `without_comments` done to its descriptions and titles: values stay as they are."""
    if depth < MOST_DEPTH and isinstance(schema, dict):
        return {
            key: without_comments(inner)
            if key in _SAID and isinstance(inner, str)
            else inner
            if key in _VALUES
            else without_comments_in(inner, depth + 1)
            for key, inner in schema.items()
        }
    if depth < MOST_DEPTH and isinstance(schema, list):
        return [without_comments_in(inner, depth + 1) for inner in schema]
    return schema
