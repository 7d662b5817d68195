"""Claim the process's stdin and stdout for the protocol, before anything heavy is imported.

The real descriptors move to private numbers, fd 0 is pointed at the null device and fd 1 at stderr: a stray `print`, a
library or a child can then write nothing that a client would read as a message. Imports only the standard library.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wire:
    """The private descriptors of the real stdin and stdout."""

    stdin: int
    stdout: int


def claim_stdio() -> Wire:
    """Move stdin and stdout to private descriptors; afterwards fd 0 is empty and fd 1 is stderr."""
    sys.stdout.flush()
    wire = Wire(_private_copy(0), _private_copy(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return wire


def _private_copy(fd: int) -> int:
    copy = os.dup(fd)
    while copy <= 2:  # with a closed standard descriptor the copy would take its place
        copy = os.dup(fd)
    os.set_inheritable(copy, False)
    return copy
