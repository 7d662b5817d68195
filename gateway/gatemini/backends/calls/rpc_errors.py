"""What a JSON-RPC error says, in whatever form it comes: without message or code, as text, its reason only in `data`.

Pure functions. Above: `peer.py`. Below: the wire's JSON.
"""

from __future__ import annotations

import re

from gatemini.backends.wire import encode
from gatemini.model import Json
from gatemini.types.wording import shorten

SHOWN_CHARS = 1000
"""Characters of an error's `data` that its text shows; code gets all of it."""

_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_NOTHING: tuple[object, ...] = (None, "", {}, [])


def error_code(code: object) -> int | str | None:
    """The number of an error, however it is written; a word that stands for one as it is."""
    if isinstance(code, str):
        return int(code) if _NUMBER.fullmatch(code) else code or None
    if isinstance(code, float) and code.is_integer():
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def error_text(error: Json) -> str:
    """Its message, and the data beside it where that says more."""
    message, data = error.get("message"), error.get("data")
    if not isinstance(message, str) or not message.strip():
        told = [value for key, value in error.items() if key != "code" and value not in _NOTHING]
        return _shown(told[0] if len(told) == 1 else error) if told else "an error without a message"
    # What a person has to visit (URLElicitationRequired) is told in words of its own.
    if data in _NOTHING or (isinstance(data, dict) and "elicitations" in data):
        return message
    more = _shown(data)
    return message if more in message else f"{message}: {more}"


def _shown(value: object) -> str:
    text = value.strip() if isinstance(value, str) else encode(value).decode()
    return shorten(text, SHOWN_CHARS)
