"""Folders of spilled results: private, removed at the end, and swept after gateways that had no end."""

import os
import subprocess
import sys
from pathlib import Path

from gatemini.output.spill import PREFIX, SpillFolder, sweep_abandoned

SPILLS = """
import sys
from pathlib import Path
from gatemini.output.results import ResultStore
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
        process.wait(20)
    assert list(folder.iterdir())
    assert sweep_abandoned(tmp_path) == 1
    assert not folder.exists()


def test_a_folder_of_another_process_with_our_number_is_swept(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}{os.getpid()}-1000-abc").mkdir()
    own = SpillFolder(tmp_path)
    path = own.write("res_0", b"data")
    assert sweep_abandoned(tmp_path) == 1
    assert path.read_bytes() == b"data"


def test_what_is_no_folder_of_ours_is_left_alone(tmp_path: Path) -> None:
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
