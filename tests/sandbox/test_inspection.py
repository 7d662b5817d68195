"""What the guest can reach: the import list, held; what each import does when it is called; no host functions."""

from __future__ import annotations

import json
import struct

import pytest

from gatemini_sandbox.errors import GuestFault, GuestTampered
from gatemini_sandbox.inspection import inspect
from gatemini_sandbox.webassembly import wasi
from gatemini_sandbox.webassembly.engine import Engine, check_import

BOUND = {
    "clock": "clock_time_get",
    "empty": "environ_get environ_sizes_get",
    "sink": "fd_write",
    "trap": "proc_exit",
    "refused": "fd_close fd_fdstat_get fd_fdstat_set_flags fd_prestat_dir_name fd_prestat_get fd_read fd_readdir fd_seek "
    "path_create_directory path_filestat_get path_filestat_set_times path_open path_remove_directory path_rename "
    "path_unlink_file poll_oneoff",
}
IMPORTS = {name: bound for bound, names in BOUND.items() for name in names.split()}


def test_the_guest_imports_exactly_this_and_nothing_of_it_reaches_the_host(module_cache):
    facts = inspect()
    assert {entry["name"]: entry["bound_to"].split(":")[0] for entry in facts["imports"]} == IMPORTS
    assert {entry["module"] for entry in facts["imports"]} == {"wasi_snapshot_preview1"}
    assert facts["host_functions"] == 0
    assert json.dumps(facts)
    assert {entry.name for entry in Engine(module_cache).module.imports} == set(IMPORTS)


@pytest.mark.parametrize("extra", [("env", "open"), ("wasi_snapshot_preview1", "sock_connect")])
def test_a_guest_that_imports_more_is_not_started(extra):
    with pytest.raises(GuestTampered, match="not bound"):
        check_import(*extra)


class Bytes:
    """A small linear memory."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)

    def read(self, at: int, size: int) -> bytes:
        if at + size > len(self.data):
            raise GuestFault
        return bytes(self.data[at : at + size])

    def write(self, at: int, data: bytes) -> None:
        self.data[at : at + len(self.read(at, len(data)))] = data


def call(memory: Bytes, name: str, *arguments: int) -> int:
    return wasi.answer(name, memory, wasi.Clock.at(5000.0), arguments)


def test_the_clock_starts_where_the_host_says_and_moves_on():
    memory = Bytes(16)
    assert call(memory, "clock_time_get", 0, 0, 0) == 0
    first = struct.unpack("<Q", memory.data[:8])[0]
    assert 5_000_000_000 <= first < 6_000_000_000
    assert first % 1000 == 0
    assert call(memory, "clock_time_get", 0, 0, 12) == wasi.ERRNO_INVAL


def test_the_sink_counts_and_keeps_nothing():
    memory = Bytes(64)
    memory.write(0, struct.pack("<IIII", 32, 5, 40, 7))
    assert call(memory, "fd_write", 1, 0, 2, 16) == 0
    assert struct.unpack("<I", memory.data[16:20]) == (12,)
    assert call(memory, "fd_write", 3, 0, 2, 16) == wasi.ERRNO_BADF
    for wrong in [(1, 60, 2, 16), (1, 0, 10**6, 16), (1, 0, 2, 63)]:
        assert call(memory, "fd_write", *wrong) == wasi.ERRNO_INVAL


def test_the_environment_is_empty():
    memory = Bytes(8)
    memory.data[:] = b"\xff" * 8
    assert call(memory, "environ_sizes_get", 0, 4) == 0
    assert bytes(memory.data) == bytes(8)
    assert call(memory, "environ_get", 0, 0) == 0


def test_every_refusal_is_an_error_number():
    refused = [name for name, bound in wasi.BINDINGS.items() if bound.startswith("refused")]
    assert len(refused) == 16
    assert {call(Bytes(0), name) for name in refused} == {wasi.ERRNO_BADF, wasi.ERRNO_NOSYS}
