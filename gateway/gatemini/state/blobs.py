"""Large values of a shared store, as sealed files in a folder that all replicas mount; the store has a marker instead.

A file is named after its key and is never renamed or touched, since mounts of object storage can do neither. It is
deleted with its key, or by a sweep after the key has expired.
"""

from __future__ import annotations

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
        """Write a large value to its file; return what the store keeps. Raises StateUnavailable."""
        if self.folder is None or len(value) <= INLINE_BYTES or (path := self._path(name)) is None:
            return INLINE + value
        await _in_thread(_write, path, self._sealer.seal(f"blob {name}", value))
        return FILE

    async def whole(self, name: str, kept: bytes | None) -> bytes | None:
        """Return the value of what the store has; None where its file is gone. Raises StateUnavailable."""
        if kept is None or kept.startswith(INLINE):
            return kept and kept[1:]
        path = self._path(name)
        sealed = await _in_thread(_read, path) if path is not None else None
        return None if sealed is None else self._sealer.unseal(f"blob {name}", sealed)

    async def drop(self, names: Sequence[str]) -> None:
        """Delete the files of values that are gone from the store."""
        paths = [path for name in names if (path := self._path(name)) is not None]
        if paths:
            await _in_thread(_unlink, paths)

    async def sweep(self, exist: Callable[[Sequence[str]], Awaitable[Sequence[int]]]) -> None:
        """Delete the files of keys that have expired; `exist` returns 0 for each name that the store does not have."""
        if self.folder is None:
            return
        names = await _in_thread(_old, self.folder)
        if names:
            known = await exist(names)
            await self.drop([name for name, exists in zip(names, known, strict=True) if not exists])

    def _path(self, name: str) -> Path | None:
        if self.folder is None or len(file := quote(name, safe="")) > NAME_BYTES:
            return None
        return self.folder / file


async def _in_thread(function: Callable[[*Given], T], *args: *Given) -> T:
    try:
        return await anyio.to_thread.run_sync(function, *args)
    except OSError as error:
        raise StateUnavailable(f"a file in state.blobs cannot be used: {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _old(folder: Path) -> list[str]:
    before = time.time() - YOUNG_SECONDS
    return [
        unquote(path.name) for path in folder.iterdir() if path.is_file() and path.stat().st_mtime < before
    ]
