"""Files that gateways keep for themselves: read with care, replaced as a whole, readable by their owner alone.

Whatever else stands in a file's place (a pipe, a device, somebody's dump) would be waited for or read without end, and
the gateway would not start. Above: `cache.py`, `accounts.py`, `history.py`, `config/store.py`, `backends/children.py`.
Below: the file system.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


class NotOurs(OSError):
    """What stands there is no file that a gateway wrote."""


def read_own(path: Path, limit: int) -> bytes:
    """The file's bytes; `NotOurs` where it is no file or has more than `limit`, another OSError where it cannot be read."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise NotOurs("is not a regular file")
    if info.st_size > limit:
        raise NotOurs(f"has {info.st_size} bytes, more than {limit}")
    with path.open("rb") as file:
        return file.read(limit)


def replace_own(
    path: Path, data: bytes, *, mode: int = 0o600, lasting: bool = False, at_once: bool = False
) -> None:
    """Write a temporary file beside `path` and rename it; a missing folder is made for its owner alone.

    `lasting`: on the disk before it is renamed, which takes a while. `at_once`: in microseconds, for callers on
    the event loop; for as long there is no file, because ext4 writes a file out (4 ms) that is renamed over
    another. Raises OSError and then leaves nothing.
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
        if mode != 0o600:
            os.chmod(temporary, mode)
        if at_once:
            path.unlink(missing_ok=True)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def temporary_prefix(path: Path) -> str:
    """How names of files begin that a killed process may have left beside `path`."""
    return f".{path.name}."
