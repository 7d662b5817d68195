"""The compiled guest on disk: only what carries our key is used, whatever lies there; no start fails or hangs for it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import wasmtime

from fixtures.modes import MODES
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.webassembly import module_cache as module_cache_module
from gatemini_sandbox.webassembly.module_cache import (
    KEY_FILE,
    MOST_KEPT,
    CacheUnusable,
    ModuleCache,
    load_module,
    read_private,
)

posix = pytest.mark.skipif(os.name != "posix", reason="modes and kinds of files are those of POSIX")
STRANGER = 12_345
SMALLEST = wasmtime.wat2wasm('(module (func (export "one") (result i32) i32.const 1))')
HANGING = 60
"""Seconds after which a process of these tests counts as one that hangs."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with a key and compiled code, as a gateway leaves it."""
    made = tmp_path / "modules"
    assert loaded(made) == ""
    return made


def loaded(directory: Path) -> str:
    """Why the module could not be kept; that it is the right one is asserted."""
    engine = wasmtime.Engine()
    module, problem = load_module(engine, lambda: SMALLEST, directory)
    assert [export.name for export in module.exports] == ["one"]
    return problem


def compiled(directory: Path) -> Path:
    (found,) = directory.glob("guest-*.bin")
    return found


def compilations(monkeypatch: pytest.MonkeyPatch, directory: Path) -> tuple[int, str]:
    """How often a start compiles, and what it says of the cache."""
    counted = 0
    real = wasmtime.Module

    class Counting(real):
        def __init__(self, *arguments: object) -> None:
            nonlocal counted
            counted += 1
            super().__init__(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(wasmtime, "Module", Counting)
        problem = loaded(directory)
    return counted, problem


def test_a_second_start_compiles_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compilations(monkeypatch, folder) == (0, "")


def test_the_directory_and_its_files_are_private(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def give_away(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, STRANGER, STRANGER)


def another_version(path: Path) -> None:
    """A file our own key has signed, under the name of another engine."""
    other = path.with_name(f"guest-{'0' * 32}.bin")
    cache = ModuleCache(path.parent)
    cache.path = other
    cache.write(b"code of another engine")
    other.replace(path)


FILES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "one byte changed": lambda path: path.write_bytes(
        path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])
    ),
    "empty": lambda path: path.write_bytes(b""),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path, 0o600)),
    "a link": lambda path: path.symlink_to(path.rename(path.parent.parent / "elsewhere")),
    "a link to endless bytes": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "a link to nothing": lambda path: (path.unlink(), path.symlink_to(path.parent / "nowhere")),
    "missing": lambda path: path.unlink(),
    "open to all": lambda path: path.chmod(0o666),
    "of another user": give_away,
}


@posix
@pytest.mark.parametrize("damage", [*FILES.values(), another_version], ids=[*FILES, "of another engine"])
def test_a_damaged_or_foreign_module_is_not_used_and_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    damage(compiled(folder))
    assert compilations(monkeypatch, folder) == (1, "")
    assert compilations(monkeypatch, folder) == (0, "")
    assert compiled(folder).is_file()
    assert not compiled(folder).is_symlink()


@posix
@pytest.mark.parametrize("damage", FILES.values(), ids=FILES)
def test_without_its_key_no_module_is_used_and_a_new_key_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    before = (folder / KEY_FILE).read_bytes()
    damage(folder / KEY_FILE)
    assert compilations(monkeypatch, folder) == (1, "")
    assert compilations(monkeypatch, folder) == (0, "")
    assert (folder / KEY_FILE).read_bytes() != before


@pytest.mark.parametrize("name", [KEY_FILE, "the module"])
def test_a_directory_in_the_place_of_a_file_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = folder / KEY_FILE if name == KEY_FILE else compiled(folder)
    path.unlink()
    path.mkdir()
    compiled_anew, problem = compilations(monkeypatch, folder)
    assert compiled_anew == 1
    assert problem.startswith(f"nothing can be kept in {folder}")


@posix
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda d: d.chmod(0o777), "can be reached by other users (its mode is 0777, not 0700)"),
        (lambda d: d.chmod(0o750), "can be reached by other users (its mode is 0750, not 0700)"),
        (give_away, "belongs to another user"),
        (lambda d: (d.rename(d.with_name("real")), d.symlink_to(d.with_name("real"))), "a symbolic link"),
        (lambda d: (shutil.rmtree(d), d.symlink_to(d.with_name("nowhere"))), "a symbolic link"),
        (lambda d: (shutil.rmtree(d), d.write_text("")), "File exists"),
        (lambda d: (shutil.rmtree(d), os.mkfifo(d)), "File exists"),
    ],
)
def test_a_directory_that_others_can_reach_is_not_used_and_the_reason_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object], why: str
) -> None:
    spoil(folder)
    compiled_anew, problem = compilations(monkeypatch, folder)
    assert compiled_anew == 1
    assert str(folder) in problem
    assert why in problem


def test_code_of_another_configuration_of_the_engine_is_compiled_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ModuleCache(folder).write(b"signed, but not code at all")
    assert compilations(monkeypatch, folder) == (1, "")


@posix
def test_a_full_disk_leaves_nothing_half_written_and_is_reported(tmp_path: Path) -> None:
    """A bound on the size of files replaces a full disk: the write ends in the middle either way."""
    code = (
        "import resource, sys, pathlib\n"
        "from gatemini_sandbox.webassembly import module_cache as m\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    m.ModuleCache(pathlib.Path(sys.argv[1])).write(b'x' * 100_000)\n"
        "except m.CacheUnusable as exc:\n"
        "    print(exc)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-B", "-c", code, tmp_path / "d"],
        capture_output=True,
        text=True,
        timeout=HANGING,
        check=True,
    ).stdout
    assert printed.startswith(f"nothing can be kept in {tmp_path / 'd'}")
    assert [path.name for path in (tmp_path / "d").iterdir()] == [KEY_FILE]


def test_the_next_that_compiles_removes_parts_of_killed_processes_and_modules_of_old_versions(
    folder: Path,
) -> None:
    current = compiled(folder)
    old = [folder / f"guest-{number:032}.bin" for number in range(MOST_KEPT + 2)]
    for age, path in enumerate(old):
        path.write_bytes(b"old")
        os.utime(path, (1e9 - age, 1e9 - age))
    (folder / "part-abandoned").write_bytes(b"half")
    current.unlink()
    assert loaded(folder) == ""
    assert set(folder.iterdir()) == {current, folder / KEY_FILE, *old[:MOST_KEPT]}


COMPILE = """
import sys, pathlib, wasmtime
from gatemini_sandbox.webassembly import module_cache
real, counted = wasmtime.Module, []
class Counting(real):
    def __init__(self, *arguments):
        counted.append(1)
        super().__init__(*arguments)
wasmtime.Module = Counting
sys.stdin.readline()
_, problem = module_cache.load_module(wasmtime.Engine(), lambda: bytes.fromhex(sys.argv[2]), pathlib.Path(sys.argv[1]))
print(len(counted), problem)
"""


@posix
@pytest.mark.long
def test_of_many_that_start_at_once_one_compiles(tmp_path: Path) -> None:
    words = [sys.executable, "-c", COMPILE, tmp_path / "new", SMALLEST.hex()]
    started = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = sorted(process.communicate(timeout=HANGING)[0].strip() for process in started)
    assert printed == ["0", "0", "0", "1"]


@posix
def test_a_process_that_never_ends_its_turn_keeps_no_other_from_starting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_cache_module, "COMPILING_SECONDS", 0.05)
    compiled(folder).unlink()
    with ModuleCache(folder).turn():
        assert compilations(monkeypatch, folder) == (1, "")
    assert compilations(monkeypatch, folder) == (0, "")


def test_a_file_larger_than_any_module_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.touch(0o600)
    os.truncate(file, 101)
    assert read_private(file, 100) is None
    assert read_private(file, 101) == b"\0" * 101


@posix
@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_the_sandbox_reports_why_it_compiles_at_every_start(
    module_cache: Path, sandbox: Sandbox, tmp_path: Path, mode: str
) -> None:
    copied = shutil.copytree(module_cache, tmp_path / "engine")
    copied.chmod(0o700)
    well = Sandbox(cache_dir=copied, isolation=mode)
    well.warm()
    assert well.cache_problem == ""
    well.close()
    copied.chmod(0o755)
    spoiled = Sandbox(cache_dir=copied, isolation=mode)
    spoiled.warm()
    assert spoiled.cache_problem.startswith(f"{copied} can be reached by other users")
    spoiled.close()


def test_a_directory_that_cannot_be_made_is_reported() -> None:
    with pytest.raises(CacheUnusable, match="cannot be used"):
        ModuleCache(Path("/proc/no-such-place/engine"))
