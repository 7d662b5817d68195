"""Private files are replaced as a whole, readable by their owner only; a failure leaves nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gatemini.processes.own_files import others_may_read, replace_own


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("how", [{}, {"lasting": True}])
def test_the_file_and_its_new_folder_are_private(tmp_path: Path, how: dict[str, bool]) -> None:
    path = tmp_path / "folder" / "file"
    replace_own(path, b"one", **how)
    replace_own(path, b"two", **how)
    assert path.read_bytes() == b"two"
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


def test_a_given_mode_is_used(tmp_path: Path) -> None:
    replace_own(tmp_path / "file", b"", mode=0o644)
    assert mode(tmp_path / "file") == 0o644


def test_a_symbolic_link_is_replaced_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"theirs")
    (tmp_path / "file").symlink_to(tmp_path / "other")
    replace_own(tmp_path / "file", b"ours")
    assert (tmp_path / "other").read_bytes() == b"theirs"
    assert (tmp_path / "file").read_bytes() == b"ours"


def test_on_a_full_disk_the_old_file_stays(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "file"
    replace_own(path, b"one")
    with full_disk(), pytest.raises(OSError, match="too large"):
        replace_own(path, b"two")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_replacement_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "file" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="file"):
        replace_own(tmp_path / "file", b"one")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def file_of(mode: int, uid: int, gid: int) -> os.stat_result:
    return os.stat_result((0o100000 | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("facts", "others"),
    [
        ((0o600, 10001, 10001), False),
        ((0o640, 10001, 10001), True),
        ((0o440, 0, 10001), False),  # a secret of Kubernetes: root's, and the pod's group may read it
        ((0o460, 0, 10001), True),
        ((0o444, 0, 10001), True),
        ((0o440, 0, 20), True),
        ((0o440, 7, 10001), True),
    ],
)
def test_a_file_of_roots_for_our_group_is_private_and_one_that_anybody_else_may_read_is_not(
    monkeypatch: pytest.MonkeyPatch, facts: tuple[int, int, int], others: bool
) -> None:
    monkeypatch.setattr(os, "getegid", lambda: 10001)
    assert others_may_read(file_of(*facts)) is others


def test_the_group_of_root_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getegid", lambda: 0)
    assert others_may_read(file_of(0o440, 0, 0))
