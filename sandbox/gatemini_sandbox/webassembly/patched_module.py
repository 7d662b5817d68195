"""Find the guest's WebAssembly, check its pinned hash, and patch it in memory.

The build has a C stack of 64 KiB and nothing that notices when it is full: C code then writes over the guest's own data.
The patch gives it a stack of STACK_BYTES between its data and its heap, and a check at each place that moves the stack
pointer, so that a frame of any size traps before something is written into it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from pathlib import Path

from gatemini_sandbox.errors import GuestMissing, GuestTampered

DISTRIBUTION = "qjs-wasi-reactor.wasm"
GUEST_FILE = "qjs-wasi-reactor.wasm"
GUEST_SHA256 = "718f30dac3b2b42f2ab18d622f8ca11139e193e40f941519165710e4a9b168a3"
PAGE = 65536
STACK_PAGES = 64
STACK_BYTES = STACK_PAGES * PAGE
RED_ZONE = 128
"""Bytes below the stack pointer that functions which call nothing use without moving it (LLVM's WebAssembly backend)."""
STACK_POINTER = "__stack_pointer"
STACK_POINTER_EXPORT = bytes([len(STACK_POINTER)]) + STACK_POINTER.encode() + b"\x03\x00"
"""One more entry of the export section: name, kind global, index 0."""
ARGUMENT_CHECK = bytes.fromhex("200641808004490d00")
"""local.get 6; i32.const 65536; i32.lt_u; br_if 0 - QuickJS' bound on the arguments of one call, once in the build."""
MORE_ARGUMENTS = bytes.fromhex("200641808008490d00")
"""The same with 131072: what Node takes too, so that `a.push(...hundredThousand)` works."""

MEMORY_SECTION, GLOBAL_SECTION, EXPORT_SECTION, CODE_SECTION = 5, 6, 7, 10
MEMORY = b"\x01\x00"
"""How the memory section starts: one memory, without a maximum; its first size in pages follows."""
STACK_GLOBAL = b"\x02\x7f\x01\x41"
"""How the global section starts: two globals, the first an i32 that may change; its first value follows."""
GLOBAL_SET, BRANCH_TABLE = 0x24, 0x0E
_LEB = rb"[\x80-\xff]*[\x00-\x7f]"
OTHER_INSTRUCTIONS = re.compile(
    rb"(?:\x41[\x80-\xff]*[\x00-\x3f]\x6a\x24\x80*\x00"  # i32.const n, i32.add, global.set 0: the pointer goes up again
    rb"|[\x00\x01\x05\x0b\x0f\x1a\x1b\x45-\xc4]"  # no operand
    rb"|[\x02-\x04\x0c\x0d\x10\x20-\x23\x25\x26\x3f-\x42\xd2]"
    + _LEB  # a type, index or number
    + rb"|\x24(?!\x80*\x00)"
    + _LEB  # global.set of another global than 0
    + rb"|[\x11\x28-\x3e]"
    + _LEB
    + _LEB  # call_indirect, loads and stores
    + rb"|\x43.{4}|\x44.{8}"  # f32.const, f64.const
    rb"|\xfc(?:[\x00-\x07]|[\x09\x0b\x0d\x0f-\x11]"
    + _LEB
    + rb"|[\x08\x0a\x0c\x0e]"
    + _LEB
    + _LEB
    + rb")|(?!))*+",
    re.DOTALL,
)
"""Instructions (without SIMD, threads and exceptions) that neither lower global 0 nor are a table of branches."""


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


def patch_identity() -> str:
    """What compiled code of the patched guest depends on: the guest, and the text of this file."""
    return GUEST_SHA256 + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def patched(wasm: bytes) -> bytes:
    """The guest as it is run; raises GuestTampered, naming what is not as this file assumes. Takes 0.1 s.

    A large checked stack, its pointer exported, and twice as many arguments of one call."""
    parts = dict(sections(wasm))
    if parts[CODE_SECTION].count(ARGUMENT_CHECK) != 1:
        raise GuestTampered("the guest does not have exactly one check of argument counts (ARGUMENT_CHECK)")
    if not parts[MEMORY_SECTION].startswith(MEMORY):
        raise GuestTampered("the guest does not declare one memory without a maximum (MEMORY)")
    if not parts[GLOBAL_SECTION].startswith(STACK_GLOBAL):
        raise GuestTampered("the guest's first of two globals is not its stack pointer (STACK_GLOBAL)")
    bottom_page, _ = read_leb(parts[MEMORY_SECTION], len(MEMORY))
    bottom, top_page = bottom_page * PAGE, bottom_page + STACK_PAGES
    _, after = read_leb(parts[GLOBAL_SECTION], len(STACK_GLOBAL))
    count, exports = read_leb(parts[EXPORT_SECTION], 0)
    new = {
        MEMORY_SECTION: MEMORY + _leb(top_page),
        GLOBAL_SECTION: STACK_GLOBAL + _signed_leb(top_page * PAGE) + parts[GLOBAL_SECTION][after:],
        EXPORT_SECTION: _leb(count + 1) + parts[EXPORT_SECTION][exports:] + STACK_POINTER_EXPORT,
        CODE_SECTION: _with_checks(
            parts[CODE_SECTION].replace(ARGUMENT_CHECK, MORE_ARGUMENTS), stack_check(bottom + RED_ZONE)
        ),
    }
    out = [wasm[:8]]
    for number, content in sections(wasm):
        content = new.get(number, content)
        out += [bytes([number]), _leb(len(content)), content]
    return b"".join(out)


def stack_check(lowest: int) -> bytes:
    """Instructions that trap when the stack pointer is lower than `lowest`; signed, for a frame may reach below 0."""
    return (
        b"\x23\x00\x41" + _signed_leb(lowest) + b"\x48\x04\x40\x00\x0b"
    )  # get, const, lt_s, if, unreachable, end


def _with_checks(code: bytes, check: bytes) -> bytes:
    """The code section with `check` after each instruction that may lower the stack pointer."""
    count, at = read_leb(code, 0)
    out = [_leb(count)]
    for _ in range(count):
        size, start = read_leb(code, at)
        at = start + size
        groups, first = read_leb(code, start)
        for _ in range(groups):
            _, first = read_leb(code, first)
            first += 1  # the type of these locals
        body = code[start:first] + _checked_body(code, first, at, check)
        out += [_leb(len(body)), body]
    return b"".join(out)


def _checked_body(code: bytes, at: int, end: int, check: bytes) -> bytes:
    out, kept = [], at
    while True:
        found = OTHER_INSTRUCTIONS.match(code, at, end)
        at = at if found is None else found.end()
        if at >= end:
            break
        if code[at] == GLOBAL_SET:
            _, at = read_leb(code, at + 1)
            out += [code[kept:at], check]
            kept = at
        elif code[at] == BRANCH_TABLE:
            targets, at = read_leb(code, at + 1)
            for _ in range(targets + 1):
                _, at = read_leb(code, at)
        else:
            raise GuestTampered(f"the guest has an instruction that is not known: {code[at : at + 2].hex()}")
    return b"".join([*out, code[kept:end]])


def sections(wasm: bytes) -> list[tuple[int, bytes]]:
    """(number, content) of each section in order; number 0 may come several times."""
    found, at = [], 8
    while at < len(wasm):
        size, start = read_leb(wasm, at + 1)
        found.append((wasm[at], wasm[start : start + size]))
        at = start + size
    return found


def read_leb(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number and where it ends."""
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
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _signed_leb(value: int) -> bytes:
    """Of a number that is not negative: bit 6 of the last byte is the sign."""
    out = _leb(value)
    return out if out[-1] < 0x40 else out[:-1] + bytes([out[-1] | 0x80, 0])
