"""One record of the audit log: its line, and the hash that the next line carries.

A line is one JSON object in UTF-8 with `seq` first and `prev` last. `prev` is the SHA-256 of the whole line before it,
newline included, so that `tail -n 1 FILE | sha256sum` prints the head of a file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import orjson

GENESIS = "0" * 64
"""`prev` of the first record of an instance."""

SUFFIX = ".jsonl"

_FORMAT = orjson.OPT_UTC_Z


@dataclass(frozen=True, slots=True)
class Head:
    """The last line of an instance: its number, its hash, and the file it is in."""

    instance: str
    seq: int
    hash: str
    file: str = ""


class Line(msgspec.Struct):
    """The fields of a line that give its place in the log; its other fields are covered by the hash."""

    seq: int
    kind: str
    instance: str
    prev: str
    intent: int = 0
    time: str = ""
    tool: str = ""
    joins: list[Head] = []
    file: str = ""
    of: str = ""
    last: int = 0
    hash: str = ""


MOST_LINE_BYTES = 64 << 20
"""A longer line is no record: whatever wrote it, it is not held in memory whole."""

MOST_DEPTH = 254
"""Levels of one member of a line, as many as orjson writes; programs that read deeper ones fail."""

_DECODER = msgspec.json.Decoder(Line)


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Return the lines of a file, each with its newline; one that is too long comes in pieces."""
    return iter(partial(file.readline, MOST_LINE_BYTES), b"")


def read_line(text: bytes) -> Line | None:
    """Decode a line of the log, None if it is no record."""
    try:
        return None if is_too_deep(text) else _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def is_too_deep(text: bytes) -> bool:
    """Whether a member of a line nests beyond `MOST_DEPTH`."""
    if text.count(b"[") + text.count(b"{") <= MOST_DEPTH:
        return False
    try:
        for member in orjson.loads(text).values():
            orjson.dumps(member)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, AttributeError):
        return True
    return False


def first_line(path: Path) -> Line | None:
    """Decode the first line of a file of the log, None if it is no record."""
    with path.open("rb") as file:
        return read_line(next(lines_of(file), b""))


def members(record: dict[str, Any]) -> bytes:
    """Return the JSON text of a record without its braces."""
    return json_text(record)[1:-1]


def json_text(value: Any) -> bytes:
    """Return a JSON text that every program reads: integers beyond 64 bits become texts, lone surrogates the text `\\udc80`.

    Most programs refuse a line with either, so that a name with half a character would hide all that comes after it.
    Raises RecursionError for a value that nests beyond `MOST_DEPTH`.
    """
    try:
        return orjson.dumps(value, option=_FORMAT)
    except TypeError:  # one of these, or a type or depth that orjson refuses
        return json.dumps(_readable(value), separators=(",", ":"), ensure_ascii=False).encode()


def line_of(seq: int, body: bytes, prev: str) -> bytes:
    """Return the line of a record, newline included; `body` is what `members` returns."""
    return b'{"seq":%d,%b,"prev":"%b"}\n' % (seq, body, prev.encode())


def digest(line: bytes) -> str:
    """Return the hash of a line, as the next line carries it."""
    return hashlib.sha256(line).hexdigest()


def _readable(value: Any, levels: int = MOST_DEPTH) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Head):
        value = asdict(value)
    if isinstance(value, Mapping | list | tuple):
        if levels == 0:
            raise RecursionError(f"the value nests beyond {MOST_DEPTH} levels")
        if isinstance(value, Mapping):
            return {_readable(str(key)): _readable(inner, levels - 1) for key, inner in value.items()}
        return [_readable(inner, levels - 1) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    isoformat = getattr(value, "isoformat", None)
    return _readable(str(isoformat() if isoformat is not None else value))
