"""Reading what gateways keep for themselves beside the cache: a regular file, and no larger than it can be.

Whatever else stands in its place (a pipe, a device, somebody's dump) would be waited for or read without end, and
the gateway would not start. Above: `cache.py`, `accounts.py`, `backends/children.py`. Below: the file system.
"""

from __future__ import annotations

import stat
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
