"""What a session's answers left out: results by handle, in memory, then on disk, for an hour of idling.

One store per session. A result is kept as the bytes of its text, exactly; rows are read out of it on
demand. Reads and writes are synchronous and safe from several threads, since large outputs are reduced in
one. Above: `pipeline.py`, the chain's `results.*`, `gatemini://result/…`. Below: `jsontext.py`,
`digest.py`, `rows.py`, `arrays.py`, `spill.py`, `truncate.py`.
"""

from __future__ import annotations

import base64 as b64
import binascii
import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gatemini.errors import InvalidRequest, ResultGone, ResultNotKept
from gatemini.output import arrays
from gatemini.output.jsontext import decode, dump, encode, parse
from gatemini.output.rows import RowIndex, index_rows
from gatemini.output.spill import SpillFolder
from gatemini.output.truncate import beginning
from gatemini.types.wording import shorten

MEMORY_BYTES = 256 << 20
DISK_BYTES = 2 << 30
IDLE_SECONDS = 3600.0
MAX_ROWS = 40
"""Rows per `rows` call and per page of `read`: what a model reads, not what code works on."""
CHUNK_ROWS = 1000
PAGE_CHARS = 20_000
"""A page of `read` stops before the row that would go beyond; a single longer row is clipped."""
LABEL_CHARS = 120
HANDLE_CHARS = 60
"""Of what was given for a handle, what an error repeats."""
READ_ON = (
    "read on with gatemini://result/{handle}/{{offset}}, or in a chain: results.rows(handle, {{offset, limit}}) "
    "for up to 40 rows, results.load(handle) to filter, join or aggregate all of it"
)

_NO_ROOM = "{bytes} bytes fit neither memory nor disk of this session's results"

Kind = Literal["json", "text", "blob"]
_Rows = list[Any]
_Handles = list[str]
_Listing = list[dict[str, Any]]

logger = logging.getLogger(__name__)


class _Unparsed:
    """The type of `UNPARSED`."""


UNPARSED: Any = _Unparsed()
"""No value given (None is a value)."""


@dataclass(slots=True)
class _Entry:
    handle: str
    kind: Kind
    mime: str
    label: str | None
    created: float
    used: float
    size: int
    data: bytes | None
    """None when spilled."""
    path: Path | None = None
    index: RowIndex | None = None


class ResultStore:
    """Handles are `res_` and 8 hex digits; a handle that is gone raises `ResultGone`."""

    def __init__(
        self,
        *,
        memory_bytes: int = MEMORY_BYTES,
        disk_bytes: int = DISK_BYTES,
        idle_seconds: float = IDLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        directory: Path | None = None,
    ) -> None:
        self._memory_cap = memory_bytes
        self._disk_cap = disk_bytes
        self._idle = idle_seconds
        self._clock = clock
        self._folder = SpillFolder(directory)
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # least recently used first
        self._lock = threading.RLock()
        self._closed = False

    # ------------------------------------------------------------------------------------------ writing

    def save(self, value: Any = UNPARSED, *, text: str | None = None, label: str | None = None) -> str:
        """Keeps a value (as JSON; a string as text) or a text, byte for byte. Returns the handle."""
        if text is None:
            if value is UNPARSED:
                raise InvalidRequest("results.save needs a value")
            text = value if isinstance(value, str) else dump(value)
        return self.save_bytes(encode(text), "text" if isinstance(value, str) else None, label=label)

    def save_bytes(
        self, data: bytes, kind: Kind | None, *, label: str | None = None, index: RowIndex | None = None
    ) -> str:
        """Keeps UTF-8 text; `kind` None: JSON if it reads as JSON, found out on first use.

        `index`: where its rows are, if the caller knows already.
        """
        mime = "text/plain" if kind == "text" else "application/json"
        return self._keep(data, kind or "json", mime, label, index)

    def save_blob(self, data_b64: str, mime: str, *, label: str | None = None) -> str:
        """Keeps an image's or sound's data. Raises InvalidRequest when it is no base64."""
        try:
            data = b64.b64decode(data_b64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest(f"not base64: {error}") from error
        return self._keep(data, "blob", mime, label, None)

    def save_array(self, name: str, data_b64: str) -> str:
        """Keeps the bytes of a JavaScript typed array; `load` gives its items. Raises InvalidRequest for other names."""
        if not arrays.is_array(name):
            raise InvalidRequest(f"{name[:40]!r} is no typed array")
        return self.save_blob(data_b64, f"{arrays.MIME}{name}", label=name)

    def _items(self, entry: _Entry) -> _Rows:
        """What is in a typed array; raises InvalidRequest for other binary data."""
        found = arrays.items(entry.mime, self._bytes(entry))
        if found is None:
            raise InvalidRequest(f"{entry.handle} is {entry.mime} data: use results.base64(handle)")
        return found

    def _keep(self, data: bytes, kind: Kind, mime: str, label: str | None, index: RowIndex | None) -> str:
        with self._lock:
            if self._closed:
                raise ResultNotKept("the session has ended")
            self._sweep()
            handle = self._fresh_handle()
            now = self._clock()
            short = shorten(label, LABEL_CHARS) if label else None
            entry = _Entry(handle, kind, mime, short, now, now, len(data), data, None, index)
            if len(data) > self._memory_cap and not self._spill(entry, data):
                raise ResultNotKept(_NO_ROOM.format(bytes=len(data)))
            self._entries[handle] = entry
            self._settle()
            if handle not in self._entries:
                raise ResultNotKept(_NO_ROOM.format(bytes=len(data)))
            return handle

    def _fresh_handle(self) -> str:
        while True:
            handle = f"res_{secrets.token_hex(4)}"
            if handle not in self._entries:
                return handle

    # ------------------------------------------------------------------------------------------ reading

    def info(self, handle: str) -> dict[str, Any]:
        """What a model sees of a result: handle, size, total_rows, schema, digest, how to read on."""
        with self._lock:
            entry = self._get(handle)
            made: dict[str, Any] = {"handle": handle, "kind": entry.kind, "bytes": entry.size}
            if entry.label:
                made["label"] = entry.label
            if entry.kind == "blob":
                return {**made, "mime_type": entry.mime, "note": "results.base64(handle) gives the data"}
            index = self._index(entry)
            made["kind"] = entry.kind
            made["total_rows"] = index.total
            if index.path:
                made["rows_at"] = index.path
            if index.summary is not None:
                made["schema"] = index.summary.schema()
                made["digest"] = index.summary.digest()
            return {**made, "note": READ_ON.format(handle=handle)}

    def rows(self, handle: str, offset: int = 0, limit: int = MAX_ROWS) -> dict[str, Any]:
        """Up to 40 rows (of text: lines) from `offset`, with `total_rows` and `next_offset` (None at the end)."""
        return self._rows(handle, offset, min(max(1, _natural(limit, "limit")), MAX_ROWS))

    def chunk(self, handle: str, offset: int = 0, rows: int = CHUNK_ROWS) -> dict[str, Any]:
        """One step of `results.chunks`: like `rows`, as many as asked for."""
        return self._rows(handle, offset, max(1, _natural(rows, "rows")))

    def _rows(self, handle: str, offset: int, limit: int) -> dict[str, Any]:
        start = _natural(offset, "offset")
        with self._lock:
            entry = self._get(handle)
            if entry.kind == "blob":
                items = self._items(entry)
                rows, total = items[start : start + limit], len(items)
            else:
                index = self._index(entry)
                rows = index.read(lambda begin, end: self._bytes(entry, begin, end), start, limit)
                total = index.total
        after = start + len(rows)
        return {
            "handle": handle,
            "offset": start,
            "total_rows": total,
            "next_offset": after if after < total else None,
            "rows": rows,
        }

    def text(self, handle: str) -> str:
        """All of it, exactly as it was kept (a blob: its base64)."""
        with self._lock:
            entry = self._get(handle)
            data = self._bytes(entry)
        return b64.b64encode(data).decode() if entry.kind == "blob" else decode(data)

    def json_text(self, handle: str) -> bytes:
        """What `load` gives, as JSON: of a large result much cheaper than parsing and writing it again."""
        with self._lock:
            entry = self._get(handle)
            if entry.kind == "blob":
                return encode(dump(self._items(entry)))
            if entry.kind == "json":
                self._index(entry)  # finds out whether it really is JSON
            data = self._bytes(entry)
            return data if entry.kind == "json" else encode(dump(decode(data)))

    def load(self, handle: str) -> Any:
        """The value, parsed; a text as a string."""
        with self._lock:
            entry = self._get(handle)
            if entry.kind == "blob":
                return self._items(entry)
            data = self._bytes(entry)
        parsed = parse(data) if entry.kind == "json" else None
        return decode(data) if parsed is None else parsed.value

    def blob(self, ref: str) -> tuple[str, str]:
        """(base64, MIME type) of what `save_blob` kept."""
        with self._lock:
            entry = self._get(ref)
            if entry.kind != "blob":
                raise InvalidRequest(f"{ref} holds {entry.kind}, no binary data: use results.load(handle)")
            return b64.b64encode(self._bytes(entry)).decode(), entry.mime

    def blob_facts(self, ref: str) -> tuple[int, str] | None:
        """(bytes, MIME type) of what `save_blob` kept under this handle; None where it is none of it, or gone."""
        with self._lock:
            self._sweep()
            entry = self._entries.get(ref)
            return (entry.size, entry.mime) if entry is not None and entry.kind == "blob" else None

    def base64(self, ref: str) -> str:
        return self.blob(ref)[0]

    def list(self) -> _Listing:
        """Newest use last: handle, kind, bytes, label, seconds since it was kept."""
        with self._lock:
            self._sweep()
            now = self._clock()
            return [
                {
                    "handle": entry.handle,
                    "kind": entry.kind,
                    "bytes": entry.size,
                    **({"label": entry.label} if entry.label else {}),
                    "age_seconds": round(now - entry.created),
                }
                for entry in self._entries.values()
            ]

    def handles(self) -> _Handles:
        """For completion; newest first."""
        with self._lock:
            self._sweep()
            return list(reversed(self._entries))

    def read(self, handle: str, offset: int | None = None) -> tuple[str, str]:
        """(MIME type, text) for `gatemini://result/{handle}[/{offset}]`: a page of rows.

        Without an offset the facts of `info` come first. A page is at most 40 rows and `PAGE_CHARS` characters.
        """
        with self._lock:
            entry = self._get(handle)
            if entry.kind == "blob":
                return "application/json", dump(self.info(handle))
            page = self.rows(handle, offset or 0)
            info = self.info(handle) if offset is None else {}
        rows: _Rows = []
        room = PAGE_CHARS
        for row in page["rows"]:
            text = dump(row)
            if len(text) > room:
                if not rows:
                    whole = f"results.rows('{handle}', {{offset: {page['offset']}, limit: 1}}) in a chain"
                    rows.append({"$clipped": beginning(text, room), "chars": len(text), "whole": whole})
                break
            rows.append(row)
            room -= len(text) + 1
        after = page["offset"] + len(rows)
        page = {**page, "next_offset": after if after < page["total_rows"] else None, "rows": rows}
        return "application/json", dump({**info, **page})

    def drop(self, handle: str) -> bool:
        """True; a handle that is gone raises as everywhere."""
        with self._lock:
            self._remove(self._get(handle))
            return True

    def close(self) -> None:
        """Forgets everything and removes what was spilled."""
        with self._lock:
            self._closed = True
            self._entries.clear()
            self._folder.close()

    @property
    def memory_used(self) -> int:
        return sum(entry.size for entry in self._entries.values() if entry.data is not None)

    @property
    def disk_used(self) -> int:
        return sum(entry.size for entry in self._entries.values() if entry.data is None)

    # ------------------------------------------------------------------------------------------ keeping

    def _get(self, handle: str) -> _Entry:
        self._sweep()
        entry = self._entries.get(handle)
        if entry is None:
            raise ResultGone(
                f"{shorten(handle, HANDLE_CHARS)} does not exist in this session (expired, dropped, or from before a restart): "
                "run the call again"
            )
        entry.used = self._clock()
        self._entries.move_to_end(handle)
        return entry

    def _bytes(self, entry: _Entry, begin: int = 0, end: int | None = None) -> bytes:
        """The kept bytes from `begin` to `end`, from memory or disk."""
        if entry.data is not None:
            return entry.data if begin == 0 and end is None else entry.data[begin:end]
        try:
            with (entry.path or Path(os.devnull)).open("rb") as file:
                file.seek(begin)
                return file.read() if end is None else file.read(end - begin)
        except OSError as error:
            self._remove(entry)
            raise ResultGone(
                f"{entry.handle} does not exist in this session (its file on disk is gone: {error.strerror}): "
                "run the call again"
            ) from error

    def _index(self, entry: _Entry) -> RowIndex:
        if entry.index is None:
            entry.index = index_rows(self._bytes(entry), as_text=entry.kind == "text")
            if entry.index.is_text:
                entry.kind, entry.mime = "text", "text/plain"
        return entry.index

    def _sweep(self) -> None:
        """Drops what nobody used for the idle time; the order of use makes this stop early."""
        limit = self._clock() - self._idle
        while self._entries:
            oldest = next(iter(self._entries.values()))
            if oldest.used > limit:
                return
            self._remove(oldest)

    def _settle(self) -> None:
        """Back under both caps: least recently used to disk, then off the disk."""
        memory = self.memory_used
        for entry in list(self._entries.values()):
            if memory <= self._memory_cap:
                break
            if entry.data is None:
                continue
            memory -= entry.size
            if not self._spill(entry, entry.data):
                self._remove(entry)
        disk = self.disk_used
        for entry in list(self._entries.values()):
            if disk <= self._disk_cap:
                break
            if entry.data is None:
                disk -= entry.size
                self._remove(entry)

    def _spill(self, entry: _Entry, data: bytes) -> bool:
        """Moves an entry to disk; False where there is no room for it."""
        if entry.size > self._disk_cap:
            return False
        try:
            path = self._folder.write(entry.handle, data)
        except OSError as error:
            logger.warning("a result of %d bytes could not be spilled to disk: %s", entry.size, error)
            return False
        entry.path, entry.data = path, None
        return True

    def _remove(self, entry: _Entry) -> None:
        self._entries.pop(entry.handle, None)
        if entry.path is not None:
            entry.path.unlink(missing_ok=True)


def _natural(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
        raise InvalidRequest(f"{name} must be a whole number from 0, found {value!r}")
    return int(value)
