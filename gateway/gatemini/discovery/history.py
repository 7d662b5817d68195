"""Searches and the calls that follow them, for `gatemini eval`: query texts and tool names, nothing else.

One private file beside the cache, of bounded size; every gateway with this cache appends to it. Secrets are redacted
before a query comes here.
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
"""Of a query; search itself looks at little more."""
NAME_CHARS = 300
"""Of a tool's name; a longer one is not kept, since only a whole name can be looked for."""
WAITING = 1_000
"""Events not written yet; the oldest go where the disk is slower than the user."""
SESSIONS = 1_000
"""Sessions whose last search is remembered."""
NEVER_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe in the place of the file is an error then, instead of a wait for its reader."""
MAX_BYTES = 1 << 20
"""Of the file; beyond it the older half goes."""


class SearchHistory:
    """Notes searches, and the calls that follow them in the same session. `path` is None where it is off."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._waiting: deque[Event] = deque(maxlen=WAITING)
        self._called: LRUCache[str, set[str]] = LRUCache(maxsize=SESSIONS)

    @property
    def due(self) -> bool:
        """Whether there is something to write."""
        return bool(self._waiting)

    def searched(self, session: str, query: str) -> None:
        if self._path is None or not query.strip():
            return
        self._called[session] = set()
        self._waiting.append(Event(session, "search", query.strip()[:QUERY_CHARS]))

    def called(self, session: str, tool: str) -> None:
        """A successful call to a backend; only the first few after a search say what that was for."""
        after = self._called.get(session)
        if after is None or tool in after or len(after) >= CALLS_AFTER or len(tool) > NAME_CHARS:
            return
        after.add(tool)
        self._waiting.append(Event(session, "call", tool))

    def write(self) -> None:
        """Append what was noted; a disk that refuses costs the history, not the gateway."""
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
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NEVER_WAIT
            handle = os.open(self._path, flags, 0o600)
            try:
                os.write(handle, b"".join(lines))
                size = os.fstat(handle).st_size
            finally:
                os.close(handle)
            if size > MAX_BYTES:
                self._halve(self._path)
        except OSError as error:
            logger.warning("the search history %s could not be written: %s", self._path, error)

    def _halve(self, path: Path) -> None:
        kept = path.read_bytes()[-MAX_BYTES // 2 :]
        kept = kept[kept.find(b"\n") + 1 :]
        replace_own(path, kept)


def history_path(cache_path: Path) -> Path:
    """Where gateways with this cache keep their history."""
    return cache_path.parent / "searches.jsonl"


def read_history(path: Path) -> list[Event]:
    """The events of a file, oldest first; lines that are none are left out, a missing file has none."""
    if not path.is_file():  # opening a pipe would wait for a writer
        return []
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
