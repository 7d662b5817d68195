"""The guest's WebAssembly: found, checked against its pinned hash, patched in memory, compiled or from the cache.

The cache holds native code, so a file is only used when its HMAC fits: the key lies in a 0600 file beside it, in a
directory of mode 0700 that belongs to us. Anything odd means: compile again. Above: engine.py. Below: wasmtime.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.metadata
import os
import platform
import secrets
import stat
import tempfile
from pathlib import Path

import wasmtime

from gatemini_sandbox.errors import GuestMissing, GuestTampered

DISTRIBUTION = "qjs-wasi-reactor.wasm"
GUEST_FILE = "qjs-wasi-reactor.wasm"
GUEST_SHA256 = "718f30dac3b2b42f2ab18d622f8ca11139e193e40f941519165710e4a9b168a3"
STACK_POINTER = "__stack_pointer"
PATCH = b"\x0f" + STACK_POINTER.encode() + b"\x03\x00"
"""One more entry of the export section: name, kind global, index 0."""
IMPORT_SECTION = 2
EXPORT_SECTION = 7
ARGUMENT_CHECK = bytes.fromhex("200641808004490d00")
"""local.get 6; i32.const 65536; i32.lt_u; br_if 0 - QuickJS' bound on the arguments of one call, once in the build."""
MORE_ARGUMENTS = bytes.fromhex("200641808008490d00")
"""The same with 131072: what Node takes too, so that `a.push(...hundredThousand)` works."""
KEY_FILE = "module.key"


def guest_wasm() -> bytes:
    """The guest as shipped by its package; raises GuestMissing or GuestTampered."""
    try:
        found = importlib.metadata.files(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise GuestMissing(f"the package {DISTRIBUTION} is not installed") from None
    path = next((Path(str(f.locate())) for f in found or () if f.name == GUEST_FILE), None)
    if path is None or not path.is_file():
        raise GuestMissing(f"the package {DISTRIBUTION} does not hold {GUEST_FILE}")
    wasm = path.read_bytes()
    check_hash(wasm)
    return wasm


def check_hash(wasm: bytes) -> None:
    digest = hashlib.sha256(wasm).hexdigest()
    if digest != GUEST_SHA256:
        raise GuestTampered(
            f"{GUEST_FILE} has SHA-256 {digest}, pinned is {GUEST_SHA256}: reinstall {DISTRIBUTION}"
        )


def patched(wasm: bytes) -> bytes:
    """The guest as it is run: the C stack pointer exported, and one constant of one check doubled."""
    if wasm.count(ARGUMENT_CHECK) != 1:
        raise GuestTampered("the guest has not the one check of argument counts")
    return export_stack_pointer(wasm.replace(ARGUMENT_CHECK, MORE_ARGUMENTS))


def export_stack_pointer(wasm: bytes) -> bytes:
    """The module with global 0, its C stack pointer, exported as well; nothing else changes."""
    at = 8
    while at < len(wasm):
        section, start = wasm[at], at
        size, at = _read_leb(wasm, at + 1)
        if section == EXPORT_SECTION:
            count, first = _read_leb(wasm, at)
            body = _leb(count + 1) + wasm[first : at + size] + PATCH
            return wasm[:start] + bytes([section]) + _leb(len(body)) + body + wasm[at + size :]
        at += size
    raise GuestTampered("the guest has no export section")


def imports(wasm: bytes) -> list[tuple[str, str]]:
    """(module, name) of every import, read from the import section; all of this guest's are functions."""
    at = 8
    while wasm[at] != IMPORT_SECTION:
        size, at = _read_leb(wasm, at + 1)
        at += size
    _, at = _read_leb(wasm, at + 1)
    count, at = _read_leb(wasm, at)
    found = []
    for _ in range(count):
        names = []
        for _ in range(2):
            length, at = _read_leb(wasm, at)
            names.append(wasm[at : at + length].decode())
            at += length
        if wasm[at] != 0:
            raise GuestTampered(f"the guest imports {names[1]}, which is no function")
        _, at = _read_leb(wasm, at + 1)
        found.append((names[0], names[1]))
    return found


def _read_leb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _leb(value: int) -> bytes:
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if value == 0:
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def load_module(engine: wasmtime.Engine, cache_dir: Path | None) -> wasmtime.Module:
    """The compiled module, from the cache when that can be trusted; compiling takes about a second."""
    wasm = patched(guest_wasm())
    cache = None if cache_dir is None else ModuleCache.open(cache_dir)
    if cache is None:
        return wasmtime.Module(engine, wasm)
    cached = cache.read()
    if cached is not None:
        try:
            return wasmtime.Module.deserialize(engine, cached)
        except wasmtime.WasmtimeError:
            pass  # made by another configuration of the engine: compile again
    module = wasmtime.Module(engine, wasm)
    cache.write(bytes(module.serialize()))
    return module


class ModuleCache:
    """One file of compiled code under an HMAC; every doubt reads as "not there"."""

    def __init__(self, directory: Path, key: bytes) -> None:
        self.path = directory / f"guest-{_identity()}.bin"
        self._key = key

    @classmethod
    def open(cls, directory: Path) -> ModuleCache | None:
        """None when the directory or its key is not ours alone."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _private(directory.lstat(), stat.S_ISDIR):
                return None
            key = _read_key(directory / KEY_FILE)
        except OSError:
            return None
        return None if key is None else cls(directory, key)

    def read(self) -> bytes | None:
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        tag, body = data[:32], data[32:]
        return body if body and hmac.compare_digest(tag, self._tag(body)) else None

    def write(self, body: bytes) -> None:
        """Whole or not at all; a cache that cannot be written is no error."""
        try:
            handle, temporary = tempfile.mkstemp(dir=self.path.parent)
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self._tag(body) + body)
            Path(temporary).replace(self.path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)

    def _tag(self, body: bytes) -> bytes:
        return hmac.digest(self._key, self.path.name.encode() + b"\0" + body, "sha256")


def _read_key(path: Path) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return _make_key(path)
    with os.fdopen(handle, "rb") as file:
        if not _private(os.fstat(file.fileno()), stat.S_ISREG):
            return None
        key = file.read()
    return key if len(key) == 32 else None


def _make_key(path: Path) -> bytes | None:
    key = secrets.token_bytes(32)
    handle, temporary = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(key)
    try:
        os.link(temporary, path)  # fails when another process was first: then its key counts
    except FileExistsError:
        key = path.read_bytes()
    finally:
        Path(temporary).unlink()
    return key if len(key) == 32 else None


def _private(status: os.stat_result, is_kind: object) -> bool:
    if os.name != "posix":
        return True
    kind_fits = callable(is_kind) and bool(is_kind(status.st_mode))
    return kind_fits and status.st_uid == os.getuid() and status.st_mode & 0o077 == 0


def _identity() -> str:
    """Engine version, guest and patch, and the CPU: what compiled code depends on."""
    cpu = [platform.system(), platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        cpu += [line for line in lines if line.startswith(("flags", "Features"))][:1]
    except OSError:
        pass
    parts = [importlib.metadata.version("wasmtime"), GUEST_SHA256, PATCH.hex(), MORE_ARGUMENTS.hex(), *cpu]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
