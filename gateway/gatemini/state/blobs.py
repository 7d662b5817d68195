"""Large values of a shared store, as sealed files in a folder that all replicas mount; the store has a marker instead.

A file is named after its key and its value, so that no two values share one, and is never renamed or touched, since mounts of
object storage can do neither. It is deleted with its key, or by a sweep after the key has expired.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar, TypeVarTuple
from urllib.parse import quote, unquote

import anyio.to_thread

from gatemini.errors import StateUnavailable
from gatemini.state.sealing import Sealer

INLINE_BYTES = 1 << 20
"""Values up to this size are in the store itself."""
SWEEP_SECONDS = 600.0
YOUNG_SECONDS = 120.0
"""A younger file is not swept: the store may not have its key yet."""
NAME_BYTES = 200
"""A value whose quoted name is longer is in the store itself."""
T = TypeVar("T")
Given = TypeVarTuple("Given")
INLINE, FILE = b"=", b"@"
"""The first byte of what the store has: the value follows, or is in a file."""


class Blobs:
    """The files of one store; without a folder everything is inline."""

    def __init__(self, folder: Path | None, sealer: Sealer) -> None:
        self.folder = folder
        self._sealer = sealer

    async def keep(self, name: str, value: bytes) -> bytes:
        """Write a large value to a new file; return what the store keeps. Raises StateUnavailable."""
        if self.folder is None or len(value) <= INLINE_BYTES or len(quote(name, safe="")) > NAME_BYTES:
            return INLINE + value
        kept = FILE + secrets.token_hex(8).encode()
        await _in_thread(_write, self._path(name, kept), self._sealer.seal(f"blob {name}", value))
        return kept

    async def whole(self, name: str, kept: bytes | None) -> bytes | None:
        """Return the value of what the store has; None where its file is gone. Raises StateUnavailable."""
        if kept is None or kept.startswith(INLINE):
            return kept and kept[1:]
        sealed = await _in_thread(_read, self._path(name, kept)) if self.folder is not None else None
        return None if sealed is None else self._sealer.unseal(f"blob {name}", sealed)

    async def drop(self, name: str, kept: bytes | None) -> None:
        """Delete the file of a value that the store had under this name."""
        if self.folder is not None and kept is not None and kept.startswith(FILE):
            await _in_thread(_unlink, self._path(name, kept))

    async def sweep(self, read: Callable[[Sequence[str]], Awaitable[Sequence[bytes | None]]]) -> None:
        """Delete the files of values that have expired or were replaced; `read` returns what the store has under names."""
        if self.folder is None:
            return
        found = await _in_thread(_old, self.folder)
        if found:
            kept = await read([name for name, _ in found])
            for (name, file), value in zip(found, kept, strict=True):
                if file != value:
                    await self.drop(name, file)

    def _path(self, name: str, kept: bytes) -> Path:
        assert self.folder is not None  # noqa: S101 - the callers have checked it
        return self.folder / f"{quote(name, safe='')}{kept.decode()}"


async def _in_thread(function: Callable[[*Given], T], *args: *Given) -> T:
    try:
        return await anyio.to_thread.run_sync(function, *args)
    except OSError as error:
        raise StateUnavailable(f"a file in state.blobs cannot be used: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def _old(folder: Path) -> list[tuple[str, bytes]]:
    """Return, for each file that is not young, the name of its value and the marker that the store has if it is in use."""
    before = time.time() - YOUNG_SECONDS
    parts = [
        path.name.partition(FILE.decode())
        for path in folder.iterdir()
        if path.is_file() and path.stat().st_mtime < before
    ]
    return [(unquote(name), (mark + file).encode()) for name, mark, file in parts]
