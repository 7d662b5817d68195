"""Decode and encode JSON-RPC messages; tolerant, because real servers do not keep quite to the protocol.

`decode` takes one line, HTTP body or event. It never raises: an unreadable reply becomes a `Broken` with the id of its
request, so that only one call fails. Uses orjson, and the standard `json` where orjson is too strict.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from gatemini.model import Json

HEAD_BYTES = 4096
"""Bytes of each end of an unreadable message in which its request's id is searched."""

SALVAGE_TRIES = 16
"""Opening braces of an unreadable line that are tried as the start of a message."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer JavaScript holds exactly."""

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_SIXTEEN_DIGITS = b"0" * 16
_LONG_INTEGER = re.compile(rb"[:\[,\s]-?\d{16,}(?=[,\]}\s])")
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_HALF = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")
_HEAD_ID = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}(?=[,}\s])|"[^"\\]{1,64}")'
)
_TAIL_ID = re.compile(
    rb'[,{]\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)
"""The id where the SDKs write it: as the first or second member of a message, or as the last or last but one."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One JSON-RPC message, notes on what was repaired, and its bytes on the wire (0: unknown)."""

    message: Json
    notes: tuple[str, ...] = ()
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Broken:
    """A message that could not be read; `ident` is the id of its request, if it was found."""

    reason: str
    ident: int | str | None = None
    too_large: bool = False


Piece = Frame | Broken


def request_id(ident: object) -> int | None:
    """The id of our request that an `id` on the wire means; some servers return it as text or as a float."""
    if isinstance(ident, str):
        return int(ident) if ident.isascii() and ident.isdigit() and len(ident) < 16 else None
    if isinstance(ident, float):
        return int(ident) if ident.is_integer() else None
    return ident if isinstance(ident, int) and not isinstance(ident, bool) else None


def decode(raw: bytes) -> list[Piece]:
    """The messages in one line or body: one, several (batch, glued together), or none (junk)."""
    line = raw.strip(b" \t\r\n\x00\xef\xbb\xbf")
    if line[:1] not in (b"{", b"["):
        # A message may follow a prefix like `log: {...}`; anything else is no message.
        return _salvage(line) if b'"jsonrpc"' in line else []
    if not _has_long_integer(line):
        try:
            return _messages(orjson.loads(line), (), len(line))
        except orjson.JSONDecodeError:
            pass
    line, notes = _repair_text(line)
    try:
        value = _tolerant_decoder(notes).decode(line.decode())
    except RecursionError:
        ident = id_of(line[:HEAD_BYTES], line[-HEAD_BYTES:])
        return [Broken("the answer is nested too deeply to be read", ident)] if ident is not None else []
    except ValueError:
        return _salvage(line)
    return _messages(value, tuple(dict.fromkeys(notes)), len(line))


def encode(value: Any) -> bytes:
    """Compact JSON of any value; by `json` where orjson refuses (integers beyond 64 bits, half surrogates)."""
    try:
        return orjson.dumps(value)
    except TypeError:
        try:
            return json.dumps(value, separators=(",", ":"), default=str).encode()
        except RecursionError:
            return _flat(value).encode()


class _Written(str):
    """JSON text among values that are still to be encoded."""

    __slots__ = ()


def _flat(value: Any) -> str:
    """As `json.dumps`, but without recursion: arguments of chains may be nested deeper than that allows."""
    parts: list[str] = []
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo.append(_Written("}"))
            for number, (key, member) in reversed([*enumerate(item.items())]):
                todo += member, _Written(f"{',' if number else ''}{json.dumps(str(key))}:")
            parts.append("{")
        elif isinstance(item, list | tuple):
            todo.append(_Written("]"))
            for number, member in reversed([*enumerate(item)]):
                todo += member, _Written("," if number else "")
            parts.append("[")
        else:
            parts.append(item if isinstance(item, _Written) else json.dumps(item, default=str))
    return "".join(parts)


def is_rpc(value: object) -> bool:
    """Whether a JSON value has the members of a JSON-RPC message."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("method"), str):
        return True
    if "id" in value:
        return "result" in value or "error" in value
    # Without an id: the error for an unreadable request, or the answer to the only open one.
    return "jsonrpc" in value and ("result" in value or isinstance(value.get("error"), dict))


def _messages(value: Any, notes: tuple[str, ...], size: int) -> list[Piece]:
    if isinstance(value, list):
        return [Frame(item, notes, size // len(value)) for item in value if is_rpc(item)]
    if is_rpc(value):
        return [Frame(value, notes, size)]
    if isinstance(value, dict) and value.get("jsonrpc") == "2.0" and isinstance(value.get("id"), int | str):
        return [Broken("the answer has neither a result nor an error", value["id"])]
    return []


def _has_long_integer(line: bytes) -> bool:
    """Whether the line may contain an integer of 16 digits or more outside of strings.

    Mapping every digit to zero and a substring search are several times faster than a regular expression over all
    of a large message.
    """
    if len(line) < 16 or _SIXTEEN_DIGITS not in line.translate(_DIGITS_TO_ZERO):
        return False
    return _LONG_INTEGER.search(line) is not None


def _repair_text(line: bytes) -> tuple[bytes, list[str]]:
    """Replace invalid UTF-8 and half surrogate pairs by U+FFFD, the replacement character."""
    notes: list[str] = []
    try:
        line.decode()
    except UnicodeDecodeError:
        line = line.decode("utf-8", "replace").encode()
        notes.append("invalid UTF-8 was replaced")
    if _HALF.search(line):
        replaced = 0

        def whole(match: re.Match[bytes]) -> bytes:
            nonlocal replaced
            if match[1] is None:
                return match[0]
            replaced += 1
            return b"\\ufffd"

        line = _ESCAPES.sub(whole, line)
        if replaced:
            notes.append("half surrogate pairs were replaced")
    return line, notes


def _tolerant_decoder(notes: list[str]) -> json.JSONDecoder:
    """The standard library's decoder, for NaN, control characters and integers of any length."""

    def integer(digits: str) -> int | str:
        if len(digits) < 16 or (len(digits) < 20 and abs(int(digits)) <= MAX_SAFE_INTEGER):
            return int(digits)
        notes.append("integers beyond 2^53 were kept as text")
        return digits

    def constant(_name: str) -> None:
        notes.append("NaN and Infinity were read as null")

    def number(digits: str) -> float | None:
        value = float(digits)
        if math.isfinite(value):
            return value
        notes.append("a number beyond 1.8e308 was read as null")
        return None

    return json.JSONDecoder(strict=False, parse_int=integer, parse_float=number, parse_constant=constant)


def _salvage(line: bytes) -> list[Piece]:
    """Messages joined to each other or to log text; else the id of an unreadable reply."""
    text = line.decode("utf-8", "replace")
    notes: list[str] = []
    decoder = _tolerant_decoder(notes)
    found: list[Piece] = []
    position = text.find("{")
    for _ in range(SALVAGE_TRIES):
        if position < 0:
            break
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            if is_rpc(value):
                found.append(Frame(value, ("other text on the line was skipped",), end - position))
        position = text.find("{", end)
    if found:
        return found
    ident = id_of(line[:HEAD_BYTES], line[-HEAD_BYTES:])
    if ident is None or b'"jsonrpc"' not in line[:HEAD_BYTES] + line[-HEAD_BYTES:]:
        return []
    return [Broken("the answer is not valid JSON", ident)]


def id_of(head: bytes, tail: bytes = b"") -> int | str | None:
    """The id of a message, from its first and last bytes."""
    match = _HEAD_ID.match(head) or _TAIL_ID.search(tail)
    if match is None:
        return None
    token = match[1]
    return token[1:-1].decode("utf-8", "replace") if token[:1] == b'"' else int(token)
