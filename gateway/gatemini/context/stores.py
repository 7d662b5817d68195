"""Where the texts go that fold and trim take out of a request: a session's memory, or the state directory.

The same text of the same call always gets the same handle, so that the provider's prompt cache holds from turn to turn.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from gatemini.errors import InvalidRequest, ResultGone
from gatemini.folders import state_folder
from gatemini.output.store.fetched_rows import HANDLE, PAGE_BYTES, SHOWN_CHARS, Rows
from gatemini.output.store.results import IDLE_SECONDS, MAX_ROWS, ResultStore
from gatemini.processes.own_files import NotOurs, read_own, replace_own

FOLDER = "context"
FILE_BYTES = 256 << 20
"""A larger file of the state directory is not ours."""
_SECRET = "secret"  # noqa: S105 - the name of a file


class Store(Rows, Protocol):
    """Keeps bodies under handles."""

    def keep(self, call_id: str, body: bytes, *, is_text: bool = False) -> str:
        """Keep a body, and return the handle of this call's body: `res_` and 8 hex digits."""

    def has(self, handle: str) -> bool:
        """Whether `keep` gave this handle and the body is still there."""

    def info(self, handle: str) -> dict[str, Any]:
        """Return `total_rows`, and of rows `schema` and `digest`. Raises ResultGone."""


def _handle(key: bytes, call_id: str, body: bytes, attempt: int) -> str:
    digest = hashlib.blake2b(key=key, digest_size=4, salt=attempt.to_bytes(2, "big"))
    digest.update(call_id.encode("utf-8", "surrogatepass") + b"\0")
    digest.update(body)
    return f"res_{digest.hexdigest()}"


def _handles(key: bytes, call_id: str, body: bytes) -> Iterator[str]:
    """The handles that a body may have: the second where another body has the first, and so on."""
    for attempt in range(1 << 16):
        yield _handle(key, call_id, body, attempt)


class SessionStore:
    """The bodies of one session, in a result store that may hold other results too.

    The same `key` gives the same body the same handle in another process.
    """

    def __init__(self, results: ResultStore | None = None, *, key: bytes | None = None) -> None:
        self._results = results or ResultStore()
        self._key = key or secrets.token_bytes(16)
        self._kept: dict[str, bytes] = {}
        """Handle → what tells its body from others."""

    def keep(self, call_id: str, body: bytes, *, is_text: bool = False) -> str:
        identity = hashlib.blake2b(
            call_id.encode("utf-8", "surrogatepass") + b"\0" + body, digest_size=16
        ).digest()
        for handle in _handles(self._key, call_id, body):
            known = self._kept.get(handle)
            if known is None and self._results.touch(handle):
                continue  # a handle that the gateway itself gave
            if known in (None, identity):
                self._kept[handle] = identity
                if not self._results.touch(handle):
                    self._results.save_bytes(body, "text" if is_text else None, handle=handle)
                return handle
        raise InvalidRequest("this session has no free handle")

    def has(self, handle: str) -> bool:
        return handle in self._kept and self._results.touch(handle)

    def rows(self, handle: str, offset: Any = 0, limit: Any = MAX_ROWS) -> dict[str, Any]:
        return self._results.rows(handle, offset, limit, most=PAGE_BYTES)

    def info(self, handle: str) -> dict[str, Any]:
        return self._results.info(handle)


class StateStore:
    """One private file a body, for an hour after it was last kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or state_folder() / FOLDER
        self._key: bytes | None = None

    def keep(self, call_id: str, body: bytes, *, is_text: bool = False) -> str:
        if self._key is None:
            self._key = own_secret(self._folder)
            self.sweep()
        content = b"%b%b" % (b"T" if is_text else b"J", body)
        for handle in _handles(self._key, call_id, body):
            path = self._folder / handle
            try:
                if read_own(path, FILE_BYTES) == content:
                    os.utime(path)
                    return handle
            except (FileNotFoundError, NotOurs):
                replace_own(path, content)
                return handle
        raise InvalidRequest(f"{self._folder} has no free handle")

    def has(self, handle: str) -> bool:
        try:
            return self._path(handle).stat().st_mtime >= time.time() - IDLE_SECONDS
        except (OSError, ResultGone):
            return False

    def rows(self, handle: str, offset: Any = 0, limit: Any = MAX_ROWS) -> dict[str, Any]:
        return self._opened(handle).rows(handle, offset, limit, most=PAGE_BYTES)

    def info(self, handle: str) -> dict[str, Any]:
        return self._opened(handle).info(handle)

    def sweep(self, now: float | None = None) -> None:
        """Remove bodies that were not kept again for an hour."""
        bound = (time.time() if now is None else now) - IDLE_SECONDS
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if HANDLE.fullmatch(entry.name) and entry.stat().st_mtime < bound:
                    os.unlink(entry.path)

    def _path(self, handle: str) -> Path:
        if not HANDLE.fullmatch(handle):
            raise ResultGone(f"{handle[:SHOWN_CHARS]} is no handle")
        return self._folder / handle

    def _opened(self, handle: str) -> ResultStore:
        path = self._path(handle)
        try:
            if path.stat().st_mtime < time.time() - IDLE_SECONDS:
                raise ResultGone(f"{handle} was not kept again for an hour")
            content = read_own(path, FILE_BYTES)
        except OSError as error:
            raise ResultGone(f"{handle} is not in {self._folder}: {error}") from error
        results = ResultStore()
        results.save_bytes(content[1:], "text" if content[:1] == b"T" else None, handle=handle)
        return results


def own_secret(folder: Path | None = None) -> bytes:
    """What makes handles unguessable, made once for this user. Raises OSError."""
    path = (folder or state_folder() / FOLDER) / _SECRET
    try:
        found = read_own(path, 1024)
        if len(found) >= 16:
            return found[:64]
    except OSError:
        pass
    made = secrets.token_bytes(32)
    replace_own(path, made)
    return made
