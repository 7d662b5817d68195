"""Rotation loses and tears no line, whoever writes, and follows a file that is renamed from outside."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from pathlib import Path

from gatemini.logs.rotating_file import RotatingFile

LINES = 2000
WRITERS = 8


def write_lines(path: str, writer: int) -> None:
    file = RotatingFile(path, limit=100_000, keep=50)
    for number in range(LINES):
        file.append(f"{writer} {number} {'x' * (number % 90)} end")
    file.close()


def test_eight_processes_lose_and_tear_no_line(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_lines, args=(str(path), n)) for n in range(WRITERS)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    files = [f for f in tmp_path.iterdir() if f.suffix != ".lock"]
    assert len(files) > 3
    assert all(file.stat().st_size <= 110_000 for file in files)
    found: Counter[tuple[int, int]] = Counter()
    for file in files:
        for line in file.read_text().splitlines():
            writer, number, *_, end = line.split(" ")
            assert end == "end"
            found[int(writer), int(number)] += 1
    assert found == Counter((w, n) for w in range(WRITERS) for n in range(LINES))


def test_only_the_configured_number_of_earlier_files_stays(tmp_path: Path) -> None:
    file = RotatingFile(str(tmp_path / "log"), limit=100, keep=2)
    for number in range(50):
        file.append(f"line {number}".ljust(40, "."))
    file.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log", "log.1", "log.2", "log.lock"]
    assert (tmp_path / "log").read_text().splitlines()[-1].startswith("line 49")


def test_a_file_that_was_renamed_from_outside_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = RotatingFile(str(path), limit=1000, keep=2)
    file.append("first")
    os.rename(path, tmp_path / "kept")
    file.append("second")
    file.close()
    assert ((tmp_path / "kept").read_text(), path.read_text()) == ("first\n", "second\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_descriptors_of_the_process_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = os.open(os.devnull, os.O_WRONLY)
    file = RotatingFile(str(path), limit=50, keep=1, descriptors=(follower,))
    file.append("a" * 40)
    file.append("b" * 40)
    os.write(follower, b"stray\n")
    os.close(follower)
    file.close()
    assert path.read_text() == "b" * 40 + "\nstray\n"
