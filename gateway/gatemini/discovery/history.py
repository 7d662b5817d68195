"""Keep searches and the calls that follow them, for `gatemini eval`: query texts and tool names, nothing else.

One private file beside the cache, of bounded size; every gateway with this cache appends to it. Secrets are redacted
before a query is recorded.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from gatemini.discovery.search.evaluate import CALLS_AFTER, Event
from gatemini.processes.own_files import replace_own

logger = logging.getLogger(__name__)

QUERY_CHARS = 500
"""Characters kept of a query; search itself reads little more."""
NAME_CHARS = 300
"""Longest tool name that is kept."""
WAITING = 1_000
"""Most events that wait to be written; the oldest are dropped."""
SESSIONS = 1_000
"""Sessions whose last search is remembered."""
MAX_BYTES = 1 << 20
"""Largest size of the file; beyond it the older half is removed."""


class SearchHistory:
    """Records searches and the calls that follow them in the same session; `path` is None where it is off."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._waiting: deque[Event] = deque(maxlen=WAITING)
        self._called: LRUCache[str, set[str]] = LRUCache(maxsize=SESSIONS)

    @property
    def due(self) -> bool:
        """Whether there are events to write."""
        return bool(self._waiting)

    def searched(self, session: str, query: str) -> None:
        if self._path is None or not query.strip():
            return
        self._called[session] = set()
        self._waiting.append(Event(session, "search", query.strip()[:QUERY_CHARS]))

    def called(self, session: str, tool: str) -> None:
        """Record a successful call to a backend, of the first few after a search."""
        after = self._called.get(session)
        if after is None or tool in after or len(after) >= CALLS_AFTER or len(tool) > NAME_CHARS:
            return
        after.add(tool)
        self._waiting.append(Event(session, "call", tool))

    def write(self) -> None:
        """Append the recorded events to the file; a failure to write is logged."""
        if self._path is None:
            return
        lines: list[bytes] = []
        while self._waiting:
            event = self._waiting.popleft()
            entry = {"session": event.session, event.kind: event.text}
            lines.append(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # One write at the end of the file: lines of several gateways do not mix.
            with open(self._path, "ab", buffering=0, opener=_private) as file:
                file.write(b"".join(lines))
                size = file.tell()
            if size > MAX_BYTES:
                kept = self._path.read_bytes()[-MAX_BYTES // 2 :]
                replace_own(self._path, kept[kept.find(b"\n") + 1 :])
        except OSError as error:
            logger.warning("the search history %s could not be written: %s", self._path, error)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def history_path(cache_path: Path) -> Path:
    """Return the history file that belongs to a cache file."""
    return cache_path.parent / "searches.jsonl"


def read_history(path: Path) -> list[Event]:
    """Return the events of a file, oldest first, without damaged lines; none where the file is missing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 2 * MAX_BYTES))
            lines = file.read(2 * MAX_BYTES).split(b"\n")
    except OSError:
        return []
    return [event for line in lines if (event := _event(line)) is not None]


def _event(line: bytes) -> Event | None:
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("session"), str):
        return None
    if isinstance(entry.get("search"), str):
        return Event(entry["session"], "search", entry["search"][:QUERY_CHARS])
    if isinstance(entry.get("call"), str):
        return Event(entry["session"], "call", entry["call"][:NAME_CHARS])
    return None
