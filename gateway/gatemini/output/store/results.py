"""What a session's answers left out: results by handle, in memory, then on disk, for an hour of idling.

One store per session. A result is kept as the bytes of its text, exactly; rows are read out of it on
demand. Reads and writes are synchronous and safe from several threads, since calls of `results.*` run on worker
threads.
"""

from __future__ import annotations

import base64 as b64
import binascii
import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gatemini.errors import InvalidRequest, ResultGone, ResultNotKept
from gatemini.output.json import typed_arrays as arrays
from gatemini.output.json.json_text import dump, parse
from gatemini.output.store.entry import BLOB_NOTE, READ_ON, Elsewhere, Entry, KeptResult, Kind
from gatemini.output.store.pages import (
    PAGE,
    Offset,
    Page,
    PageRoom,
    facts,
    page_of_blob,
    page_of_rows,
)
from gatemini.output.store.request_checks import natural
from gatemini.output.store.row_index import RowIndex, index_rows
from gatemini.output.store.shelf import Shelf
from gatemini.text.shorten import shorten
from gatemini.text.size_limit import SizeLimit, weight
from gatemini.text.utf8 import decode, encode

MEMORY_BYTES = 256 << 20
DISK_BYTES = 2 << 30
IDLE_SECONDS = 3600.0
MAX_ROWS = 40
"""Rows per `rows` call and per page of `read`: what a model reads, not what code works on."""
PAGE_LINES = 2000
"""Lines of text per page of `read`: its characters are what a page is full of, forty lines were hundreds of pages."""
CHUNK_ROWS = 1000
REPLY_BYTES = 32 << 20
"""What code takes at a time, where the caller does not say."""
LOOKED_AT = 64
"""Bytes in which a document begins."""
LABEL_CHARS = 120

_Rows = list[Any]
_Handles = list[str]
_Listing = list[dict[str, Any]]


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
        self._shelf = Shelf(memory_bytes, disk_bytes, idle_seconds, clock, directory)
        self._lock = threading.RLock()
        self._closed = False
        self.replicas: Elsewhere | None = None
        """What other replicas have of the same session."""

    def __contains__(self, handle: str) -> bool:
        return handle in self._shelf

    # ------------------------------------------------------------------------------------------ writing

    def save(self, value: Any = None, *, text: str | None = None, label: str | None = None) -> str:
        """Keeps a value (as JSON; a string as text) or a text, byte for byte. Returns the handle."""
        if text is None:
            text = value if isinstance(value, str) else dump(value)
        return self.save_bytes(encode(text), "text" if isinstance(value, str) else None, label=label)

    def save_bytes(
        self,
        data: bytes,
        kind: Kind | None,
        *,
        label: str | None = None,
        index: RowIndex | None = None,
        handle: str | None = None,
    ) -> str:
        """Keeps UTF-8 text; `kind` None: JSON if it reads as JSON, found out on first use.

        `index`: where its rows are, if the caller knows already. `handle`: one that is not in use, else a random one.
        """
        mime = "text/plain" if kind == "text" else "application/json"
        return self._keep(data, kind or "json", mime, label, index, handle)

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

    def _items(self, entry: Entry) -> _Rows:
        """What is in a typed array; raises InvalidRequest for other binary data."""
        found = arrays.items(entry.mime, entry.size)
        if not found.code:
            raise InvalidRequest(f"{entry.handle} is {entry.mime} data: use results.base64(handle)")
        data = self._shelf.read(entry)
        return found.read(lambda begin, end: data[begin:end], 0, found.count)

    def _keep(
        self,
        data: bytes,
        kind: Kind,
        mime: str,
        label: str | None,
        index: RowIndex | None,
        handle: str | None = None,
    ) -> str:
        with self._lock:
            if self._closed:
                raise ResultNotKept("the session has ended")
            self._shelf.sweep()
            handle = handle or self._fresh_handle()
            now = self._shelf.clock()
            short = shorten(label, LABEL_CHARS) if label else None
            entry = Entry(handle, kind, mime, short, now, now, len(data), data, None, index)
            self._shelf.add(entry)
            if self.replicas is not None:
                self.replicas.saved(entry, data)
            return handle

    def take_out(self, most_bytes: int) -> Iterator[KeptResult]:
        """The results for a later process, the last used first, as far as they have at most so many bytes together."""
        with self._lock:
            self._shelf.sweep()
            now, left = self._shelf.clock(), most_bytes
            for entry in reversed(self._shelf.entries):
                left -= entry.size
                if left < 0:
                    return
                with contextlib.suppress(ResultGone):
                    data = self._shelf.read(entry)
                    idle = now - entry.used
                    yield KeptResult(entry.handle, entry.kind, entry.mime, entry.label, idle, data)

    def put_back(self, result: KeptResult, passed_seconds: float, age_seconds: float = 0.0) -> None:
        """Keep a result of another process under its handle; `passed_seconds` since it was taken out count as idle."""
        with self._lock, contextlib.suppress(ResultNotKept):
            used = self._shelf.clock() - result.idle_seconds - passed_seconds
            created, size = used - age_seconds, len(result.data)
            self._shelf.add(
                Entry(result.handle, result.kind, result.mime, result.label, created, used, size, result.data)
            )
            self._shelf.sweep()

    def touch(self, handle: str) -> bool:
        """Whether a result is still kept; if so, its time of idling begins anew."""
        with self._lock, contextlib.suppress(ResultGone):
            return bool(self._shelf.get(handle))
        return False

    def _fresh_handle(self) -> str:
        while True:
            handle = f"res_{secrets.token_hex(4)}"
            if handle not in self._shelf:
                return handle

    # ------------------------------------------------------------------------------------------ reading

    def info(self, handle: str) -> dict[str, Any]:
        """What a model sees of a result: handle, size, total_rows, schema, digest, how to read on."""
        with self._lock:
            entry = self._shelf.get(handle)
            made: dict[str, Any] = {"handle": handle, "kind": entry.kind, "bytes": entry.size}
            if entry.label:
                made["label"] = entry.label
            if entry.kind == "blob":
                return {**made, "mime_type": entry.mime, "note": BLOB_NOTE}
            index = self._index(entry)
            made["kind"] = entry.kind
            made["total_rows"] = index.total
            if index.keys:
                made["rows_at"] = index.path
            if index.schema is not None:
                made["schema"], made["digest"] = index.schema, index.digest
            return {**made, "note": READ_ON.format(handle=handle)}

    def rows(
        self, handle: str, offset: Offset = 0, limit: int = MAX_ROWS, *, most: int = REPLY_BYTES
    ) -> dict[str, Any]:
        """Up to 40 rows (of text: lines) from `offset`, with `total_rows` and `next_offset` (None at the end).

        Together they have at most `most` bytes as JSON. A row that alone has more comes in pieces, each a page of its
        own; `next_offset` is then text such as "7:1".
        """
        count = min(natural(limit, "limit", 1), MAX_ROWS)
        return {"handle": handle, **self._page(handle, offset, count, PageRoom.of_reply(most)).fields()}

    def not_rows(self, handle: str) -> str:
        """What a result is that has no rows of its own, in words; "" for an array, a text or a blob."""
        with self._lock:
            entry = self._shelf.get(handle)
            if entry.kind != "json" or self._index(entry).keys:
                return ""
            first = self._shelf.read(entry, 0, LOOKED_AT).lstrip()[:1]
        if first == b"[":
            return ""
        return "this is an object, not an array" if first == b"{" else "this is a single value, not an array"

    def chunk(
        self, handle: str, offset: Offset = 0, rows: int = CHUNK_ROWS, *, most: int = REPLY_BYTES
    ) -> dict[str, Any]:
        """One step of `results.chunks`: like `rows`, as many as asked for where they fit."""
        count = natural(rows, "rows", 1)
        return {"handle": handle, **self._page(handle, offset, count, PageRoom.of_reply(most)).fields()}

    def _page(
        self,
        handle: str,
        offset: Offset,
        limit: int,
        room: PageRoom,
        shown: Callable[[str], str] | None = None,
    ) -> Page:
        with self._lock:
            entry = self._shelf.get(handle)

            def read(begin: int, end: int | None) -> bytes:
                return self._shelf.read(entry, begin, end)

            if entry.kind != "blob":
                return page_of_rows(self._index(entry), read, offset, limit, room, shown)
            return page_of_blob(arrays.items(entry.mime, entry.size), read, offset, limit, room)

    def text(self, handle: str) -> str:
        """All of it, exactly as it was kept (a blob: its base64)."""
        with self._lock:
            entry = self._shelf.get(handle)
            data = self._shelf.read(entry)
        return b64.b64encode(data).decode() if entry.kind == "blob" else decode(data)

    def json_text(self, handle: str) -> bytes:
        """What `load` gives, as JSON: of a large result much cheaper than parsing and writing it again."""
        with self._lock:
            entry = self._shelf.get(handle)
            if entry.kind == "blob":
                return encode(dump(self._items(entry)))
            if entry.kind == "json":
                self._index(entry)  # finds out whether it really is JSON
            data = self._shelf.read(entry)
            return data if entry.kind == "json" else encode(dump(decode(data)))

    def load(self, handle: str) -> Any:
        """The value, parsed; a text as a string."""
        with self._lock:
            entry = self._shelf.get(handle)
            if entry.kind == "blob":
                return self._items(entry)
            data = self._shelf.read(entry)
            if entry.kind == "json":
                self._index(entry)
            if entry.kind == "text":
                return decode(data)
        parsed = parse(data)
        return decode(data) if parsed is None else parsed.value

    def blob(self, ref: str) -> tuple[str, str]:
        """(base64, MIME type) of what `save_blob` kept."""
        with self._lock:
            entry = self._shelf.get(ref)
            if entry.kind != "blob":
                raise InvalidRequest(f"{ref} holds {entry.kind}, no binary data: use results.load(handle)")
            return b64.b64encode(self._shelf.read(entry)).decode(), entry.mime

    def blob_facts(self, ref: str) -> tuple[int, str] | None:
        """(bytes, MIME type) of what `save_blob` kept under this handle; None where it is none of it, or gone."""
        with self._lock:
            self._shelf.sweep()
            entry = self._shelf.peek(ref)
            return (entry.size, entry.mime) if entry is not None and entry.kind == "blob" else None

    def is_array(self, ref: str) -> bool:
        """Whether this is a typed array, which `save_array` kept."""
        facts = self.blob_facts(ref)
        return facts is not None and facts[1].startswith(arrays.MIME)

    def list(self) -> _Listing:
        """Newest use last: handle, kind, bytes, label, seconds since it was kept."""
        with self._lock:
            self._shelf.sweep()
            now = self._shelf.clock()
            others = [] if self.replicas is None else self.replicas.elsewhere()
            return others + [
                {
                    "handle": entry.handle,
                    "kind": entry.kind,
                    "bytes": entry.size,
                    **({"label": entry.label} if entry.label else {}),
                    "age_seconds": round(now - entry.created),
                }
                for entry in self._shelf.entries
            ]

    def handles(self) -> _Handles:
        """For completion; newest first."""
        with self._lock:
            self._shelf.sweep()
            return [entry.handle for entry in reversed(self._shelf.entries)]

    def read(
        self,
        handle: str,
        offset: Offset | None = None,
        shown: Callable[[str], str] | None = None,
        room: SizeLimit = PAGE,
    ) -> tuple[str, str]:
        """(MIME type, text) for `gatemini://result/{handle}[/{offset}]`: a page of rows.

        Without an offset the facts of `info` come first. A page is at most 40 rows, or as many lines of text as go into it,
        and all of it fits `PAGE` and `room`; a longer row comes in pieces, cut after `shown` has taken secrets out. Binary data has pages only where an offset is
        given.
        """
        room = room.within(PAGE)
        with self._lock:
            info = facts(self.info(handle), room.part(1, 2)) if offset is None else {}
            if info.get("kind") == "blob":
                return "application/json", dump(info)
            # Without facts nothing is written there: two bytes for them would leave out a row that just fits, on each page.
            beside = weight(dump(info)) if info else 0
            entry = self._shelf.get(handle)
            if entry.kind == "json":
                self._index(entry)  # finds out whether it really is JSON
            limit = PAGE_LINES if entry.kind == "text" else MAX_ROWS
            page = self._page(handle, offset or 0, limit, PageRoom.of_page(room.plain, beside), shown)
        text = dump({"handle": handle, **info, **page.fields()})
        if info and not room.holds(text):  # the piece of a row comes on a page without the facts
            text = dump({"handle": handle, **info, **Page([], 0, page.total, 0).fields()})
        return "application/json", text

    def drop(self, handle: str) -> bool:
        """True; a handle that is gone raises as everywhere."""
        with self._lock:
            self._shelf.remove(self._shelf.get(handle))
            if self.replicas is not None:
                self.replicas.dropped(handle)
            return True

    def forget(self, handle: str) -> None:
        """Drop a result that was dropped elsewhere."""
        with self._lock:
            if (entry := self._shelf.peek(handle)) is not None:
                self._shelf.remove(entry)

    def close(self) -> None:
        """Forgets everything and removes what was spilled."""
        with self._lock:
            self._closed = True
            self._shelf.close()

    @property
    def has_blobs(self) -> bool:
        """Whether images, sounds or other binary data are kept."""
        return any(entry.kind == "blob" for entry in self._shelf.entries)

    @property
    def memory_used(self) -> int:
        return self._shelf.memory_used

    @property
    def disk_used(self) -> int:
        return self._shelf.disk_used

    def _index(self, entry: Entry) -> RowIndex:
        if entry.index is None:
            entry.index = index_rows(self._shelf.read(entry), as_text=entry.kind == "text")
            if entry.index.is_text:
                entry.kind, entry.mime = "text", "text/plain"
        return entry.index
