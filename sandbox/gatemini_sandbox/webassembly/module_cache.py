"""Keep compiled modules (the guest, OXC) on disk, so that a new process does not compile for a second each.

A compiled module is native code, so a file is used only with our HMAC: the key is in a 0600 file beside it, in a
directory of mode 0700, all of the same user. A file that fails this is replaced; a directory that others can reach is
not used, and the reason is reported. No file can make a start fail or hang: files are opened without following links or
waiting, and read up to a bound.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib.metadata
import os
import platform
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import wasmtime

from gatemini_sandbox.webassembly.patched_module import patch_identity

if sys.platform != "win32":
    import fcntl

KEY_FILE = "module.key"
KEY_BYTES = 32
TAG_BYTES = 32
PART = "part-"
"""How a file begins that is not whole yet; one that stays was left by a process that was killed."""
MOST_BYTES = 256 << 20
"""Of a compiled module; the guest's has some ten million."""
MOST_KEPT = 4
"""Compiled modules of other versions that stay beside ours: gateways of two versions may run by turns."""
COMPILING_SECONDS = 5.0
"""How long one waits for another process that compiles: a second or two, more where many start at once. Then it
compiles for itself, as when the other one was stopped."""
LOOK_AGAIN_SECONDS = 0.02


class CacheUnusable(Exception):
    """The argument says what is wrong with the directory or its files."""


def load_module(
    engine: wasmtime.Engine, wasm: Callable[[], bytes], directory: Path | None, kind: str = "guest"
) -> tuple[wasmtime.Module, str]:
    """The module, from the cache when that can be trusted, and why it could not be kept ("" when it could).

    `kind` begins the name of its file."""
    if directory is None:
        return wasmtime.Module(engine, wasm()), ""
    try:
        cache = ModuleCache(directory, kind)
    except CacheUnusable as exc:
        return wasmtime.Module(engine, wasm()), str(exc)
    found = _from(cache, engine)
    if found is not None:
        return found, ""
    with cache.turn():
        found = _from(cache, engine)  # another process may have written it meanwhile
        if found is not None:
            return found, ""
        module = wasmtime.Module(engine, wasm())
        try:
            cache.write(bytes(module.serialize()))
        except CacheUnusable as exc:
            return module, str(exc)
        return module, ""


def _from(cache: ModuleCache, engine: wasmtime.Engine) -> wasmtime.Module | None:
    body = cache.read()
    if body is None:
        return None
    try:
        return wasmtime.Module.deserialize(engine, body)
    except wasmtime.WasmtimeError:
        return None  # ours, but made by another configuration of the engine


class ModuleCache:
    """One file of compiled code under an HMAC, in a directory that is ours alone."""

    def __init__(self, directory: Path, kind: str = "guest") -> None:
        """Makes the directory where there is none. Raises CacheUnusable."""
        self.directory = directory
        self._kind = kind
        self.path = directory / f"{kind}-{_identity()}.bin"
        problem = "is a symbolic link" if directory.is_symlink() else ""
        try:
            if not problem:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                problem = _not_ours_alone(directory.stat())
        except OSError as exc:
            problem = f"cannot be used: {exc.strerror or exc}"
        if problem:
            raise CacheUnusable(f"{directory} {problem}")

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One process at a time, so that of many that start at once one compiles; bounded, and then without."""
        until = time.monotonic() + COMPILING_SECONDS
        handle: int | None = None
        try:
            if sys.platform != "win32":
                with contextlib.suppress(OSError):  # a file system without locks
                    handle = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
                    while not _locked(handle) and time.monotonic() < until:
                        time.sleep(LOOK_AGAIN_SECONDS)
            yield
        finally:
            if handle is not None:
                os.close(handle)  # and with it the lock

    def read(self) -> bytes | None:
        """The compiled code, or None when it is not there or not under our key."""
        key = self._key()
        data = None if key is None else read_private(self.path, MOST_BYTES)
        if key is None or data is None:
            return None
        tag, body = data[:TAG_BYTES], data[TAG_BYTES:]
        return body if body and hmac.compare_digest(tag, self._tag(key, body)) else None

    def write(self, body: bytes) -> None:
        """Whole or not at all. Raises CacheUnusable."""
        self._tidy()
        try:
            key = self._key()
            if key is None:
                key = secrets.token_bytes(KEY_BYTES)
                self._put(self.directory / KEY_FILE, key)
            self._put(self.path, self._tag(key, body) + body)
        except OSError as exc:
            raise CacheUnusable(f"nothing can be kept in {self.directory}: {exc.strerror or exc}") from None

    def _put(self, path: Path, data: bytes) -> None:
        handle, part = tempfile.mkstemp(prefix=PART, dir=self.directory)  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(part).replace(path)
        except OSError:
            Path(part).unlink(missing_ok=True)
            raise

    def _tidy(self) -> None:
        """Remove files that killed processes left, and modules of old versions. Called only by a process that compiles."""
        with contextlib.suppress(OSError):
            for left in self.directory.glob(f"{PART}*"):
                left.unlink(missing_ok=True)
            others = [path for path in self.directory.glob(f"{self._kind}-*.bin") if path != self.path]
            others.sort(key=lambda path: path.lstat().st_mtime, reverse=True)
            for old in others[MOST_KEPT:]:
                old.unlink(missing_ok=True)

    def _key(self) -> bytes | None:
        key = read_private(self.directory / KEY_FILE, KEY_BYTES)
        return key if key is not None and len(key) == KEY_BYTES else None

    def _tag(self, key: bytes, body: bytes) -> bytes:
        return hmac.digest(key, self.path.name.encode() + b"\0" + body, "sha256")


def _locked(handle: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_private(path: Path, most: int) -> bytes | None:
    """A file's content if it is a plain file of ours that no other user can reach and not too large, else None."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or _not_ours_alone(status) or status.st_size > most:
                return None
            return file.read(most)
    except OSError:
        return None


def _not_ours_alone(status: os.stat_result) -> str:
    """What lets others reach it; "" when nothing does."""
    if sys.platform == "win32":
        return ""
    if status.st_uid != os.getuid():
        return "belongs to another user"
    if status.st_mode & 0o077:
        return f"can be reached by other users (its mode is {stat.S_IMODE(status.st_mode):04o}, not 0700)"
    return ""


def _identity() -> str:
    """Versions of the engine and of what is compiled, and the CPU: what compiled code depends on."""
    cpu = [platform.system(), platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        cpu += [line for line in lines if line.startswith(("flags", "Features"))][:1]
    except OSError:
        pass
    versions = [importlib.metadata.version(name) for name in ("wasmtime", "quickjs-rs")]
    parts = [*versions, patch_identity(), *cpu]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
