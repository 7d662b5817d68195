"""The arguments of a call as JSON: whole, to compare them, and shortened, for messages."""

from __future__ import annotations

from typing import Any

import orjson

from gatemini.output.json.javascript_json import dumps
from gatemini.text.shorten import shorten

SHOWN_ARGUMENTS = 200
"""Characters of a call's arguments kept for messages."""


def arguments_text(arguments: Any) -> bytes:
    """The JSON of a call's arguments, for `RecordedCalls.issue`."""
    try:
        return orjson.dumps(arguments)
    except (orjson.JSONEncodeError, RecursionError):
        return dumps(arguments).encode("utf-8", "replace")


def shown(text: bytes) -> str:
    return shorten(text[: 4 * SHOWN_ARGUMENTS].decode("utf-8", "replace"), SHOWN_ARGUMENTS)
