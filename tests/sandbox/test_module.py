"""The guest's WebAssembly: its hash, the patch, and a cache that only believes its own HMAC."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import wasmtime

from gatemini_sandbox import GuestTampered
from gatemini_sandbox import module as guest_module
from gatemini_sandbox.guest import REJECTION_TRACKER
from gatemini_sandbox.module import KEY_FILE, ModuleCache, check_hash, guest_wasm, patched


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


@pytest.fixture
def cache(tmp_path: Path) -> ModuleCache:
    made = ModuleCache.open(tmp_path / "modules")
    assert made is not None
    return made


def test_what_was_written_is_read_back_by_another_process_with_the_same_key(cache, tmp_path):
    cache.write(b"code")
    again = ModuleCache.open(tmp_path / "modules")
    assert again is not None
    assert again.read() == b"code"


def test_the_directory_and_its_files_are_private(cache):
    cache.write(b"code")
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700
    for path in cache.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "change",
    [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"\0" + d[1:], lambda _: b"", lambda _: b"short"],
)
def test_a_changed_file_reads_as_not_there(cache, change):
    cache.write(b"code")
    cache.path.write_bytes(change(cache.path.read_bytes()))
    assert cache.read() is None


def test_a_file_made_under_another_key_reads_as_not_there(cache, tmp_path):
    cache.write(b"code")
    (tmp_path / "modules" / KEY_FILE).unlink()
    other = ModuleCache.open(tmp_path / "modules")
    assert other is not None
    assert other.read() is None


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_directory_or_key_others_can_reach_is_not_used(tmp_path):
    open_directory = tmp_path / "open"
    open_directory.mkdir(mode=0o755)
    open_directory.chmod(0o755)
    assert ModuleCache.open(open_directory) is None
    private = tmp_path / "private"
    assert ModuleCache.open(private) is not None
    (private / KEY_FILE).chmod(0o644)
    assert ModuleCache.open(private) is None
    linked = tmp_path / "linked"
    linked.symlink_to(private)
    assert ModuleCache.open(linked) is None


def test_code_of_another_engine_is_compiled_again(tmp_path, monkeypatch):
    cache = ModuleCache.open(tmp_path)
    if cache is None:
        tmp_path.chmod(0o700)
        cache = ModuleCache.open(tmp_path)
    assert cache is not None
    cache.write(b"not code at all")
    engine = wasmtime.Engine()
    assert guest_module.load_module(engine, tmp_path).exports
    assert cache.read() != b"not code at all"
