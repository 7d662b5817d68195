"""Read text that is a Python list, tuple or dict: what servers send that answer with `str(rows)`.

The text is rewritten as JSON and parsed as that, because `ast.literal_eval` takes 25 ms for 100 KB.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from gatemini.output.json.javascript_json import NotJson, dumps, loads

MOST_CHARS: Final = 256 * 1024
"""Longer text stays text: rewriting takes 4 ms for 100 KB."""

BEGINS: Final = re.compile(r"[\[({]+\s*(?:'|\d+\s*[,:]|None\b|True\b|False\b)")
"""How text begins that is Python's and not JSON."""

_STRING = re.compile(r"""('[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")""", re.DOTALL)
_WORDS = {"None": "null", "True": "true", "False": "false"}
_NO_NUMBER = re.compile(r"-?\b(?:nan|inf)\b")
_WORD = re.compile(r"[A-Za-z_]{2,}")
_GROUPED = re.compile(r"\([^(),\[\]{}]*[^(),\[\]{}\s][^(),\[\]{}]*\)")
"""Parentheses around one value without a comma: they make no tuple."""
_KEY = re.compile(r"([{,]\s*)(-?\d+(?:\.\d+)?|null|true|false)(?=\s*:)")
_AS_TEXT = {"null": "None", "true": "True", "false": "False"}
_LAST_COMMA = re.compile(r"(?<![\s,(\[{])(\s*),(?=\s*[)\]}])")


def read(text: str) -> tuple[Any, int, int] | None:
    """The value, how many integers beyond 2^53 became strings and how many nan or inf null; None for what is no such
    literal or is too long.

    Tuples become lists; keys that are no strings become the text `str()` gives for them.
    """
    if len(text) > MOST_CHARS:
        return None
    parts = _STRING.split(text)
    structure, nulls = _NO_NUMBER.subn("null", "\0".join(parts[::2]))
    words = set(_WORD.findall(structure))
    if not words <= {*_WORDS, "null"} or ("null" in words and not nulls) or _GROUPED.search(structure):
        return None
    for word in words - {"null"}:
        structure = structure.replace(word, _WORDS[word])
    structure = _LAST_COMMA.sub(r"\1", structure).replace("(", "[").replace(")", "]")
    structure = _KEY.sub(lambda found: f'{found[1]}"{_AS_TEXT.get(found[2], found[2])}"', structure)
    try:
        parts[1::2] = map(_json_string, parts[1::2])
        parts[::2] = structure.split("\0")
        return (*loads("".join(parts)), nulls)
    except (NotJson, ValueError, SyntaxError):
        return None


def _json_string(literal: str) -> str:
    """The JSON of a Python string literal."""
    if "\\" not in literal and '"' not in literal[1:-1]:
        return f'"{literal[1:-1]}"'
    return dumps(ast.literal_eval(literal))
