"""The records of a chain's journal file: what is appended while the chain runs, and from which the run is rebuilt.

`path` leads to a run: empty for the chain's own, else the ids of the calls of composite tools around it.
"""

from __future__ import annotations

import hashlib

import msgspec

from gatemini.chain.replay.outcome import Fate
from gatemini_sandbox.messages import Start

Path = tuple[int, ...]


def code_hash(code: str) -> bytes:
    """Return the hash by which the code of a run is recognised when it is resumed."""
    return hashlib.blake2b(code.encode("utf-8", "replace"), digest_size=16).digest()


class Begun(msgspec.Struct, frozen=True, array_like=True, tag="begun"):
    """The first record: the hash of the chain's code."""

    code: bytes


class Opened(msgspec.Struct, frozen=True, array_like=True, tag="opened"):
    """A composite tool's run began; `source` is the hash of its code."""

    path: Path
    source: bytes


class Started(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """The guest of a run was started with this message."""

    path: Path
    start: Start


class Called(msgspec.Struct, frozen=True, array_like=True, tag="called"):
    """A call as it is now, in the fields of `recorded_calls.Entry`; a later record of the same id replaces it."""

    path: Path
    id: int
    name: str
    digest: bytes
    shown: str
    step: int
    fate: Fate
    sent: bool
    repeatable: bool
    read_only: bool
    ok: bool
    text: str | None
    notes: tuple[str, ...]
    read_anew: bool
    place: int


class Stepped(msgspec.Struct, frozen=True, array_like=True, tag="stepped"):
    """The code gets the answers to these calls together, when it has read the clock `clock` times."""

    path: Path
    ids: tuple[int, ...]
    clock: int


class Clock(msgspec.Struct, frozen=True, array_like=True, tag="clock"):
    """Further readings of the clock: unsigned 64-bit nanoseconds in the machine's byte order."""

    path: Path
    readings: bytes


class Rewound(msgspec.Struct, frozen=True, array_like=True, tag="rewound"):
    """The chain is being resumed."""


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """The run ended; `why` names what interrupted it, empty where it came to its own end. `when` is in seconds since
    the epoch.
    """

    why: str
    when: float


class TooLarge(msgspec.Struct, frozen=True, array_like=True, tag="too_large"):
    """The results are more than a journal holds: the chain cannot be resumed."""


Record = Begun | Opened | Started | Called | Stepped | Clock | Rewound | Ended | TooLarge
