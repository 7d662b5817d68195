"""The guest's WebAssembly: found, checked against its pinned hash, patched in memory.

Above: engine.py, which has it compiled or from the cache by module_cache.py. Below: the package that ships it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from pathlib import Path

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
