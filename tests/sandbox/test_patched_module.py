"""The guest's WebAssembly: its hash, and the patch."""

from __future__ import annotations

import pytest

from fixtures.wasm import functions
from gatemini_sandbox.errors import GuestTampered
from gatemini_sandbox.webassembly.patched_module import (
    ARGUMENT_CHECK,
    CODE_SECTION,
    GLOBAL_SET,
    MORE_ARGUMENTS,
    check_hash,
    guest_wasm,
    patched,
    read_leb,
    sections,
)
from gatemini_sandbox.webassembly.quickjs import REJECTION_TRACKER


def test_one_changed_byte_is_refused():
    wasm = bytearray(guest_wasm())
    wasm[-1] ^= 1
    with pytest.raises(GuestTampered, match="pinned"):
        check_hash(bytes(wasm))


def test_the_patch_changes_the_stack_its_checks_one_export_and_one_constant():
    before, after = dict(sections(guest_wasm())), dict(sections(patched(guest_wasm())))
    assert {number for number in before if before[number] != after[number]} == {5, 6, 7, 10}
    assert (before[5].hex(), after[5].hex()) == ("010003", "010043")  # pages of memory
    assert [*_exports(before[7]), ("__stack_pointer", 3, 0)] == list(_exports(after[7]))
    old, new = (list(functions(parts[CODE_SECTION])) for parts in (before, after))
    kinds = [[[kind for kind, _, _ in body] for body in code] for code in (old, new)]
    assert sum(map(len, kinds[1])) > sum(map(len, kinds[0]))
    assert [_without_checks(body) for body in kinds[1]] == kinds[0]
    assert after[CODE_SECTION].count(MORE_ARGUMENTS) == before[CODE_SECTION].count(ARGUMENT_CHECK) == 1


def test_every_instruction_that_lowers_the_stack_pointer_is_checked():
    ADD, CONST = 0x6A, 0x41
    lowered = 0
    for body in functions(dict(sections(patched(guest_wasm())))[CODE_SECTION]):
        kinds = [kind for kind, _, _ in body]
        for place, (kind, operand, _) in enumerate(body):
            if kind == GLOBAL_SET and operand == 0 and kinds[place - 2 : place] != [CONST, ADD]:
                assert kinds[place + 1 : place + 1 + len(CHECK)] == CHECK
                lowered += 1
    assert lowered > 500


def test_a_build_that_is_not_as_the_patch_assumes_is_refused_by_the_name_of_the_assumption():
    for known, name in (
        (ARGUMENT_CHECK, "ARGUMENT_CHECK"),
        (b"\x05\x03\x01\x00\x03", "MEMORY"),
        (b"\x02\x7f\x01\x41\xb0", "STACK_GLOBAL"),
    ):
        wasm = guest_wasm()
        assert wasm.count(known) == 1
        with pytest.raises(GuestTampered, match=name):
            patched(wasm.replace(known, known[:-2] + b"\x7e" + known[-1:]))


CHECK = [0x23, 0x41, 0x48, 0x04, 0x00, 0x0B]
"""global.get, i32.const, i32.lt_s, if, unreachable, end"""


def _without_checks(kinds: list[int]) -> list[int]:
    kept: list[int] = []
    for kind in kinds:
        kept.append(kind)
        if kept[-len(CHECK) :] == CHECK and kept[-len(CHECK) - 1] == GLOBAL_SET:
            del kept[-len(CHECK) :]
    return kept


def test_the_slot_of_the_rejection_tracker_is_that_of_the_pinned_build():
    # Element segment 0 starts at slot 1; the function's index comes from the export section.
    wasm = guest_wasm()
    parts = dict(sections(wasm))
    index = next(index for name, _, index in _exports(parts[7]) if name == TRACKER)
    assert _table_slots(parts[9])[index] == REJECTION_TRACKER


def _exports(section: bytes):
    count, at = read_leb(section, 0)
    for _ in range(count):
        length, at = read_leb(section, at)
        name, at = section[at : at + length].decode(), at + length
        kind, (index, at) = section[at], read_leb(section, at + 1)
        yield name, kind, index


def _table_slots(section: bytes) -> dict[int, int]:
    _, at = read_leb(section, 0)
    _, at = read_leb(section, at)
    first, at = read_leb(section, at + 1)
    count, at = read_leb(section, at + 1)
    slots = {}
    for slot in range(first, first + count):
        index, at = read_leb(section, at)
        slots[index] = slot
    return slots


TRACKER = "js_std_promise_rejection_tracker"
