"""Read and write the gateway's own files: bounded, replaced as a whole, readable by their owner alone."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


class NotOurs(OSError):
    """The path is no file that a gateway wrote."""


def read_own(path: Path, limit: int) -> bytes:
    """Read the whole file.

    Raises `NotOurs` for anything but a regular file of at most `limit` bytes (reading a pipe or a device would
    block), and another OSError if the file cannot be read.
    """
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise NotOurs("is not a regular file")
    if info.st_size > limit:
        raise NotOurs(f"has {info.st_size} bytes, more than {limit}")
    with path.open("rb") as file:
        return file.read(limit)


def others_may_write(path: Path) -> bool:
    """Whether the group or everybody may change a file; of a folder, whether everybody may replace what is in it."""
    try:
        mode = path.stat().st_mode if os.name == "posix" else 0
    except OSError:
        return False
    if stat.S_ISDIR(mode):  # the sticky bit keeps files for their owners, as in /tmp
        return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
    return bool(mode & (stat.S_IWGRP | stat.S_IWOTH))


def others_may_read(info: os.stat_result) -> bool:
    """Whether users other than this one may read or change a file.

    A file of root's that only our own group may read is private: so Kubernetes gives a secret to a container that does
    not run as root. Root's own group is not meant.
    """
    given = info.st_uid == 0 and info.st_gid == os.getegid() != 0
    return bool(stat.S_IMODE(info.st_mode) & (0o037 if given else 0o077))


def replace_own(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    lasting: bool = False,
    new: bool = False,
) -> None:
    """Write a temporary file beside `path` and rename it; a missing folder is made for its owner alone.

    `owner`: user and group that the file is to have, where those are not ours. `lasting`: flush to the disk before the
    rename. `new`: raise FileExistsError where there is one already, such as another process has just made. Raises
    OSError and then leaves nothing behind.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes the file readable by this user only, from the beginning.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=temporary_prefix(path))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        if owner is not None and os.name == "posix":
            made = os.stat(temporary)
            if (made.st_uid, made.st_gid) != owner:
                os.chown(temporary, *owner)
        if mode != 0o600:
            os.chmod(temporary, mode)
        if not (new and _linked(temporary, path)):
            os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _linked(temporary: str, path: Path) -> bool:
    """Give a file its name unless that is taken, which raises FileExistsError; False where files have one name only."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        return False
    os.unlink(temporary)
    return True


def temporary_prefix(path: Path) -> str:
    """The prefix of temporary files beside `path`; a killed process may leave one behind."""
    return f".{path.name}."


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file by this text, and return once it is on the disk."""
    replace_own(path, text.encode(), mode=mode, lasting=True)
