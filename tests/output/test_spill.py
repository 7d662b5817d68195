"""Folders of spilled results: private, removed at the end, and swept after gateways that had no end."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemini.errors import ResultGone
from gatemini.output.store.results import ResultStore
from gatemini.output.store.spill import PREFIX, SpillFolder, sweep_abandoned

SPILLS = """
import sys
from pathlib import Path
from gatemini.output.store.results import ResultStore
store = ResultStore(memory_bytes=10, directory=Path(sys.argv[1]))
store.save("x" * 1000)
print("spilled", flush=True)
sys.stdin.read()
"""


def test_the_folder_of_a_killed_gateway_is_swept_and_that_of_a_running_one_stays(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SPILLS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"spilled\n"
        assert sweep_abandoned(tmp_path) == 0
        (folder,) = tmp_path.iterdir()
        process.kill()
        process.wait(60)
    assert list(folder.iterdir())
    assert sweep_abandoned(tmp_path) == 1
    assert not folder.exists()


def test_a_folder_of_another_process_with_our_number_is_swept(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}{os.getpid()}-1000-abc").mkdir()
    own = SpillFolder(tmp_path)
    file = own.write("res_0", b"data")
    assert sweep_abandoned(tmp_path) == 1
    assert file.read() == b"data"


def test_folders_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    there = tmp_path / "tmp"
    there.mkdir()
    (there / f"{PREFIX}1-1-link").symlink_to(outside)
    (there / f"{PREFIX}1-1-file").write_text("")
    (there / f"{PREFIX}notes").mkdir()
    (there / f"{PREFIX}99999999999-1-x").mkdir()
    assert sweep_abandoned(there) == 0
    assert (outside / "file").read_text() == "precious"
    assert len(list(there.iterdir())) == 4
    assert sweep_abandoned(tmp_path / "none") == 0


def test_closing_removes_the_folder_and_may_be_repeated(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    folder.write("res_1", b"x")
    folder.close()
    folder.close()
    assert list(tmp_path.iterdir()) == []


KILLED_WHILE_WRITING = """
import resource, signal, sys
from pathlib import Path
from gatemini.output.store.results import ResultStore
store = ResultStore(memory_bytes=10, directory=Path(sys.argv[1]))
store.save("x" * 1000)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the system ends the process in the middle of its next write
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
store.save("y" * 100_000)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of a file's size that ends a process")
def test_a_gateway_killed_during_a_write_leaves_no_file_after_the_next_start(tmp_path: Path) -> None:
    command = [sys.executable, "-B", "-P", "-c", KILLED_WHILE_WRITING, str(tmp_path)]
    ended = subprocess.run(command, timeout=60, check=False)
    assert ended.returncode == -signal.SIGXFSZ
    (folder,) = tmp_path.iterdir()
    assert sorted(file.stat().st_size for file in folder.iterdir()) == [1000, 5000]
    store = ResultStore(memory_bytes=10, directory=tmp_path)
    handle = store.save("z" * 100)
    assert sweep_abandoned(tmp_path) == 1
    assert not folder.exists()
    assert store.text(handle) == "z" * 100
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_any_range_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    data = os.urandom(300_077)
    folder = SpillFolder(tmp_path)  # it removes its files when it goes
    file = folder.write("res_1", data)
    assert file.read() == data
    for begin, end in ((0, 0), (5, 5), (0, 1), (300_070, None), (3, len(data) + 9), (len(data), None)):
        assert file.read(begin, end) == data[begin:end]


def shorten(path: Path) -> None:
    with path.open("r+b") as opened:
        opened.truncate(path.stat().st_size // 2)


def touch_up(path: Path) -> None:
    with path.open("r+b") as opened:
        opened.seek(100)
        opened.write(b"?")
    os.utime(path, ns=(0, 0))


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: list[Callable[[Path], object]] = [
    shorten, touch_up, directory, lambda path: path.write_bytes(b""), Path.unlink,
    lambda path: shutil.rmtree(path.parent), lambda path: path.write_bytes(path.read_bytes() + b"x"),
]  # fmt: skip
LOOKS: list[Callable[[ResultStore, str], Any]] = [
    ResultStore.load, ResultStore.json_text, ResultStore.text, ResultStore.rows, ResultStore.chunk,
    ResultStore.read, lambda store, handle: store.read(handle, 0),
]  # fmt: skip
KINDS: dict[str, Any] = {
    "rows": [{"id": n, "text": "word " * 8} for n in range(9000)],
    "lines": "\n".join(f"line {n}" for n in range(90_000)),
}


@pytest.mark.parametrize("kind", ["rows", "lines"])
@pytest.mark.parametrize("known", [True, False], ids=["read before", "never read"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_fails_every_read_and_names_the_store(
    tmp_path: Path, damage: Callable[[Path], object], kind: str, known: bool
) -> None:
    for look in LOOKS:
        store = ResultStore(memory_bytes=10, directory=tmp_path)
        handle = store.save(KINDS[kind])
        if known:
            store.rows(handle)
        (path,) = tmp_path.glob(f"*/{handle}")
        damage(path)
        with pytest.raises(
            ResultGone, match=rf"{handle} is lost to the gateway's result store \(its file on disk"
        ):
            look(store, handle)
        with pytest.raises(ResultGone):
            store.info(handle)
        store.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_info_of_a_damaged_result_is_refused(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    for binary in (True, False):
        store = ResultStore(memory_bytes=10, directory=tmp_path)
        handle = store.save_blob("QUJD" * 200, "image/png") if binary else store.save(KINDS["rows"])
        store.info(handle)
        (path,) = tmp_path.glob(f"*/{handle}")
        damage(path)
        with pytest.raises(ResultGone, match="result store"):
            store.info(handle)
        store.close()
