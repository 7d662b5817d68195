"""The guest's WebAssembly: its hash, and the patch."""

from __future__ import annotations

import pytest

from gatemini_sandbox import module as guest_module
from gatemini_sandbox.errors import GuestTampered
from gatemini_sandbox.guest import REJECTION_TRACKER
from gatemini_sandbox.module import check_hash, guest_wasm, patched


def test_one_changed_byte_is_refused():
    wasm = bytearray(guest_wasm())
    wasm[-1] ^= 1
    with pytest.raises(GuestTampered, match="pinned"):
        check_hash(bytes(wasm))


def test_the_patch_adds_one_export_doubles_one_constant_and_changes_nothing_else():
    before, after = dict(_sections(guest_wasm())), dict(_sections(patched(guest_wasm())))
    old, new = before.pop(7), after.pop(7)
    code, changed = before.pop(10), after.pop(10)
    assert before == after
    assert [(a, b) for a, b in zip(code, changed, strict=True) if a != b] == [(0x04, 0x08)]
    assert [*_exports(old), ("__stack_pointer", 3, 0)] == list(_exports(new))


def test_the_slot_of_the_rejection_tracker_is_that_of_the_pinned_build():
    # Element segment 0 starts at slot 1; the function's index comes from the export section.
    wasm = guest_wasm()
    sections = dict(_sections(wasm))
    index = next(index for name, _, index in _exports(sections[7]) if name == TRACKER)
    assert _table_slots(sections[9])[index] == REJECTION_TRACKER


def _sections(wasm: bytes):
    at = 8
    while at < len(wasm):
        number = wasm[at]
        size, at = guest_module._read_leb(wasm, at + 1)
        if number:
            yield number, wasm[at : at + size]
        at += size


def _exports(section: bytes):
    count, at = guest_module._read_leb(section, 0)
    for _ in range(count):
        length, at = guest_module._read_leb(section, at)
        name, at = section[at : at + length].decode(), at + length
        kind, (index, at) = section[at], guest_module._read_leb(section, at + 1)
        yield name, kind, index


def _table_slots(section: bytes) -> dict[int, int]:
    _, at = guest_module._read_leb(section, 0)
    _, at = guest_module._read_leb(section, at)
    first, at = guest_module._read_leb(section, at + 1)
    count, at = guest_module._read_leb(section, at + 1)
    slots = {}
    for slot in range(first, first + count):
        index, at = guest_module._read_leb(section, at)
        slots[index] = slot
    return slots


TRACKER = "js_std_promise_rejection_tracker"
