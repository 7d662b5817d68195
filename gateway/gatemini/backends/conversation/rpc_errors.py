"""Read JSON-RPC errors of any form: without message or code, as plain text, with the reason only in `data`."""

from __future__ import annotations

import re

from gatemini.backends.wire import encode
from gatemini.model import Json
from gatemini.text.shorten import shorten

SHOWN_CHARS = 1000
"""Characters of an error's `data` in its text; code gets all of it."""

_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_NOTHING: tuple[object, ...] = (None, "", {}, [])


def error_code(code: object) -> int | str | None:
    """The code as a number, or a word that stands in its place unchanged."""
    if isinstance(code, str):
        return int(code) if _NUMBER.fullmatch(code) else code or None
    if isinstance(code, float) and code.is_integer():
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def error_text(error: Json) -> str:
    """The error's message, with its data if that adds something."""
    message, data = error.get("message"), error.get("data")
    if not isinstance(message, str) or not message.strip():
        rest = [value for key, value in error.items() if key != "code" and value not in _NOTHING]
        return _shown(rest[0] if len(rest) == 1 else error) if rest else "an error without a message"
    # The URLs of URLElicitationRequired get a text of their own.
    if data in _NOTHING or (isinstance(data, dict) and "elicitations" in data):
        return message
    more = _shown(data)
    return message if more in message else f"{message}: {more}"


def _shown(value: object) -> str:
    text = value.strip() if isinstance(value, str) else encode(value).decode()
    return shorten(text, SHOWN_CHARS)
