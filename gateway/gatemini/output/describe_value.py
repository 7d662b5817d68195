"""What a value is, in few characters: its identity, its keys, its beginning."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gatemini.output.json.json_text import dump, looks_like_json, parse
from gatemini.text.utf8 import encode

IDENTITY_KEYS = ("id", "name", "title", "slug", "key", "label")
"""The first of these that a row has names it."""
IDENTITY_CHARS = 80
LEAST_JSON, MOST_JSON = 256, 1 << 20
"""Characters of a text that is described as the JSON it holds."""
LEAST_BASE64 = 1000
_BASE64 = re.compile(
    r"(?:data:[\w/+.;=-]{1,80},)?(?=[^a-z]{0,500}[a-z])(?=[^A-Z]{0,500}[A-Z])(?=[^0-9]{0,500}[0-9])[A-Za-z0-9+/_-]+={0,2}"
)
KEYS = 12
"""Keys of an object that are named."""
ITEMS = "items"
_KINDS = {0x7B: "objects", 0x5B: "arrays", 0x22: "strings", 0x74: "booleans", 0x66: "booleans", 0x6E: "nulls"}
"""By the first byte of a value; any other begins a number."""


def short(value: Any, most: int = IDENTITY_CHARS) -> Any:
    """An identity as shown: strings of more than `most` characters and containers are clipped, visibly."""
    if isinstance(value, dict | list):
        value, most = dump(value), IDENTITY_CHARS
    return value[:most] + "…" if isinstance(value, str) and len(value) > most else value


def identity(value: Any) -> str | None:
    """`id 7`, `name main`: the first identity key of an object that holds a scalar."""
    if not isinstance(value, dict):
        return None
    for key in IDENTITY_KEYS:
        if key in value and not isinstance(value[key], dict | list) and value[key] is not None:
            return f"{key} {short(value[key])}"
    return None


def described(value: Any) -> str:
    """One value: the keys of an object, the length of an array, the start of a string."""
    if isinstance(value, str):
        if is_base64(value):
            return f"base64 of {len(value) * 3 // 4:,} bytes"
        inner = json_inside(value)
        return f"string: {short(value)}" if inner is None else f"JSON as text: {described(inner)}"
    if isinstance(value, dict):
        named = identity(value)
        keys = keys_told(list(value))
        return f"{named}; {keys}" if named else keys
    if isinstance(value, list):
        rows = f", each with {keys_told(list(value[0]))}" if value and isinstance(value[0], dict) else ""
        return f"array of {len(value)}{rows}"
    return dump(value)


def is_base64(text: str) -> bool:
    """Whether a long text is base64 throughout; a word of that length there is not."""
    return len(text) >= LEAST_BASE64 and _BASE64.fullmatch(text) is not None


def json_inside(text: str) -> Any:
    """The object or array that a long text is the JSON of; None for any other text."""
    if not LEAST_JSON <= len(text) <= MOST_JSON or not looks_like_json(text):
        return None
    parsed = parse(encode(text))
    return parsed.value if parsed is not None and isinstance(parsed.value, dict | list) else None


def kind(openings: Iterable[int]) -> str:
    """What values with these first bytes are: `objects`, `numbers`; `items` where they differ."""
    kinds = {_KINDS.get(first, "numbers") for first in openings}
    return kinds.pop() if len(kinds) == 1 else ITEMS


def keys_told(keys: list[str]) -> str:
    return f"keys {', '.join(keys[:KEYS])}{', …' if len(keys) > KEYS else ''}"
