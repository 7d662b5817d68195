"""Answer calls of `fetch_rows`, by which a model reads on in a result that was folded."""

from __future__ import annotations

import re
from typing import Any, Protocol

from gatemini.errors import GateminiError, ResultGone
from gatemini.output.json.json_text import dump
from gatemini.output.store.results import MAX_ROWS

HANDLE = re.compile(r"res_[0-9a-f]{8}")
PAGE_BYTES = 64 << 10
"""Rows of one `fetch_rows`, as JSON."""
SHOWN_CHARS = 60
"""Of a handle, in an error."""


class Rows(Protocol):
    """Results whose rows are read by handle."""

    def rows(self, handle: str, offset: Any = 0, limit: Any = MAX_ROWS) -> dict[str, Any]:
        """Return rows (of text: lines) with `total_rows` and `next_offset`. Raises ResultGone, InvalidRequest."""


def fetch_rows(store: Rows, arguments: Any) -> str:
    """Answer a call of `fetch_rows`: rows as JSON, or `{"error": …}` for the model; never raises for arguments."""
    given = arguments if isinstance(arguments, dict) else {}
    handle = given.get("handle")
    if not isinstance(handle, str):
        return _error("fetch_rows needs a handle: res_ and 8 hex digits")
    offset, limit = given.get("offset", 0), given.get("limit", MAX_ROWS)
    try:
        answer = store.rows(handle, 0 if offset is None else offset, MAX_ROWS if limit is None else limit)
    except ResultGone:
        return _error(f"handle {handle[:SHOWN_CHARS]} does not exist in this run")
    except GateminiError as error:
        return _error(error.message)
    return dump(answer)


def _error(text: str) -> str:
    return dump({"error": text})
