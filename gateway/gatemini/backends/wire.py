"""From bytes to JSON-RPC messages, leniently: what real servers write is often not quite the protocol.

`LineReader` cuts a byte stream into lines in time linear in its size and bounded in memory; `decode` turns
one line (or one HTTP body, one SSE event) into messages. Neither ever raises on what the other side sent:
junk is counted, a reply that cannot be read becomes a `Broken` naming its request, so that one call fails
and nothing else. Above: `stdio.py`, `http.py`, `peer.py`. Below: `piecewise/reading.py` for large messages, orjson,
and the standard `json` where orjson is too strict.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson

from gatemini.model import Json
from gatemini.piecewise.cutting import skip_space
from gatemini.piecewise.reading import Reader
from gatemini.piecewise.steps import joined_bytes
from gatemini.piecewise.strings import NotInPieces

HEAD_BYTES = 4096
"""Bytes kept of each end of a message that is thrown away, to find out whose reply it was."""

LARGE_BYTES = 256 * 1024
"""A message larger than this is decoded on a thread; a smaller one takes the event loop two milliseconds at most."""

JUNK_SHOWN = 20
"""Lines without a message that are shown to the log, of those that come together."""

SALVAGE_TRIES = 16
"""How many opening braces of an unreadable line are tried as the start of a message."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer JavaScript holds exactly."""

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_SIXTEEN_DIGITS = b"0" * 16
_LONG_INTEGER = re.compile(rb"[:\[,\s]-?\d{16,}(?=[,\]}\s])")
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
REPLACED = "\ufffd"
_REPLACED_KEY = re.compile(rb'(?:\\ufffd|\xef\xbf\xbd)[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*:')
"""The end of a key in which something was replaced."""
_HALF = re.compile(rb"\\u[dD][89abAB]|\\u[dD][c-fC-F]")
_TAIL_ID = re.compile(
    rb'[,{]\s*"id"\s*:\s*(-?\d{1,15}|"[^"\\]{1,64}")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)
_SCALAR = re.compile(rb'\s*(-?\d{1,15}(?=[,}\s])|"[^"\\]{1,64}")')


@dataclass(frozen=True, slots=True)
class Frame:
    """One JSON-RPC message, what had to be mended to read it, and its bytes on the wire (0: not known)."""

    message: Json
    notes: tuple[str, ...] = ()
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Broken:
    """A message that could not be read; `ident` is the request it answered, where that could be found."""

    reason: str
    ident: int | str | None = None
    too_large: bool = False


Piece = Frame | Broken


def request_id(ident: object) -> int | None:
    """Our request that an `id` on the wire stands for: some servers give it back as text or as a float."""
    if isinstance(ident, str):
        return int(ident) if ident.isascii() and ident.isdigit() and len(ident) < 16 else None
    if isinstance(ident, float):
        return int(ident) if ident.is_integer() else None
    return ident if isinstance(ident, int) and not isinstance(ident, bool) else None


class LineReader:
    """Cuts a stream into lines and decodes them; feed it chunks of any size.

    Keeps at most `max_bytes` of an unfinished line: a longer one is dropped as it arrives and reported
    once, as a `Broken` with `too_large`. `skipped` counts lines that were no JSON-RPC. A line of more than
    `LARGE_BYTES` is given to `on_large`, in parts, to be decoded where nobody waits for it meanwhile.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        on_junk: Callable[[bytes], None] | None = None,
        on_large: Callable[[list[bytes]], None] | None = None,
    ) -> None:
        self._max = max_bytes
        self._on_junk = on_junk
        self._on_large = on_large
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping: bytes | None = None  # head of the over-long line being dropped
        self._reported = False
        self._tail = b""
        self._spread: list[bytes] = []  # lines of a message that is printed over several
        self._spread_size = 0
        self.skipped = 0

    def feed(self, chunk: bytes) -> list[Piece]:
        """All messages that `chunk` completes."""
        pieces: list[Piece] = []
        start = self._pass_over(chunk)
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start:end], pieces)
            self._finish(pieces)
            start = end + 1
        if start < len(chunk):
            self._take(chunk[start:] if start else chunk, pieces)
        return pieces

    def _pass_over(self, chunk: bytes) -> int:
        """Count whole lines without a bracket, which cannot be messages, in one go: the place after them."""
        if self._parts or self._spread or self._dropping is not None or b"{" in chunk or b"[" in chunk:
            return 0
        end = chunk.rfind(b"\n") + 1
        lines = [line for line in chunk[:end].split(b"\n") if line.strip()]
        for line in lines[:JUNK_SHOWN]:
            self._junk(line)
        self.skipped += max(0, len(lines) - JUNK_SHOWN)
        return end

    def end(self) -> list[Piece]:
        """The last line, where the stream ended without a newline."""
        pieces: list[Piece] = []
        self._finish(pieces)
        self._give_up_spread()
        return pieces

    def _take(self, part: bytes, pieces: list[Piece]) -> None:
        if self._dropping is not None:
            self._tail = (self._tail + part[-HEAD_BYTES:])[-HEAD_BYTES:]
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size <= self._max:
            return
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        self._dropping, self._tail = line[:HEAD_BYTES], line[-HEAD_BYTES:]
        # Whose reply this is often stands at the start: then the caller need not wait for the end.
        ident = _id_in_head(self._dropping)
        self._reported = ident is not None
        if self._reported:
            pieces.append(self._oversized(ident))

    def _finish(self, pieces: list[Piece]) -> None:
        if self._dropping is not None:
            head, self._dropping = self._dropping, None
            tail, self._tail = self._tail, b""
            if self._reported:
                return
            if head.lstrip()[:1] in (b"{", b"["):
                pieces.append(self._oversized(_id_in_tail(tail)))
            else:
                self._junk(head)
            return
        if not self._parts:
            return
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if size <= LARGE_BYTES and len(parts) > 1:
            parts = [b"".join(parts)]
        if self._spread or parts[0][:1] in (b"{", b"["):
            whole = self._gathered(parts)
            if whole is None:
                return
            parts, size = whole, sum(map(len, whole))
        if size > LARGE_BYTES and self._on_large is not None:
            self._on_large(parts)
            return
        pieces.extend(self.read(parts))

    def _gathered(self, parts: list[bytes]) -> list[bytes] | None:
        """The parts to be read now; None while a message is coming that is printed over many lines, as for people.

        Such a message begins with a line that is one bracket, goes on with indented lines, and ends with one bracket.
        """
        first = parts[0]
        if self._spread:
            if first[:1] in (b" ", b"\t") and self._spread_size < self._max:
                self._spread += parts
                self._spread_size += sum(map(len, parts))
                return None
            if first.rstrip() in (b"}", b"]") and len(parts) == 1:
                whole, self._spread, self._spread_size = [*self._spread, *parts], [], 0
                return whole
            self._give_up_spread()
        if len(parts) == 1 and first.rstrip() in (b"{", b"["):
            self._spread, self._spread_size = [first], len(first)
            return None
        return parts

    def _give_up_spread(self) -> None:
        """What looked like the start of a message was none."""
        lines, self._spread, self._spread_size = self._spread, [], 0
        for line in lines:
            if not line.isspace():
                self._junk(line)

    def read(self, parts: list[bytes]) -> list[Piece]:
        """What stands in one line; may be called on a thread."""
        line = joined_bytes(parts) if len(parts) > 1 else parts[0]
        if not line or line.isspace():
            return []
        decoded = decode(line)
        if not decoded:
            self._junk(line)
        return decoded

    def _junk(self, line: bytes) -> None:
        self.skipped += 1
        if self._on_junk is not None:
            self._on_junk(line)

    def _oversized(self, ident: int | str | None) -> Broken:
        return Broken(
            f"the answer is larger than {self._max:,} bytes (max_message_mb)", ident=ident, too_large=True
        )


def decode(raw: bytes) -> list[Piece]:
    """The messages in one line or body: one, several (batch, glued together), or none (junk)."""
    line = raw.strip(b" \t\r\n\x00\xef\xbb\xbf")
    if line[:1] not in (b"{", b"["):
        # Only a prefix like `log: {...}` can hide a message; anything else is cheap to dismiss.
        return _salvage(line) if b'"jsonrpc"' in line else []
    if len(line) > LARGE_BYTES and (pieces := _in_pieces(line)) is not None:
        return pieces
    long_integers = _has_long_integer(line)
    if not long_integers:
        try:
            return _messages(orjson.loads(line), (), len(line))
        except orjson.JSONDecodeError:
            pass
    line, notes = _mend_text(line)
    apart = bool(notes) and len(_REPLACED_KEY.findall(line)) > 1
    if not long_integers and not apart:
        try:
            return _messages(orjson.loads(line), notes, len(line))
        except orjson.JSONDecodeError:
            pass
    try:
        value, more = _loads_tolerant(line.decode(), apart=apart)
    except RecursionError:
        ident = _id_of(line)
        return [Broken("the answer is nested too deeply to be read", ident)] if ident is not None else []
    except ValueError:
        return _salvage(line)
    return _messages(value, notes + more, len(line))


def _in_pieces(line: bytes) -> list[Piece] | None:
    """The messages of a large line, read without holding the interpreter for long; None where that is not possible.

    Large structured content is then a `Written`.
    """
    mended: list[str] = []
    read: list[str] = []

    @functools.cache
    def keys_may_merge() -> bool:
        return len(_REPLACED_KEY.findall(_mend_text(line)[0])) > 1

    def load(piece: bytes, guessed: bool) -> Any:
        long_integers = piece[:1] != b'"' and _has_long_integer(piece)
        if guessed or not long_integers:
            try:
                value = orjson.loads(piece)
                if not long_integers:
                    return value
            except orjson.JSONDecodeError:
                if guessed:
                    raise
        piece, notes = _mend_text(piece)
        if notes and keys_may_merge():
            raise NotInPieces  # to keep them apart the objects they stand in are looked at as a whole
        value, more = _loads_tolerant(piece.decode())
        mended.extend(notes)
        read.extend(more)
        return value

    reader = Reader(line, load, written_at=("result", "structuredContent"))
    try:
        value, end = reader.value(0)
    except NotInPieces:
        return None
    if skip_space(line, end) != len(line):
        return None
    return _messages(value, tuple(dict.fromkeys(mended + read)), len(line))


def encode(value: Any) -> bytes:
    """Compact JSON of anything; where orjson refuses (integers beyond 64 bits, half surrogates) by `json`."""
    try:
        return orjson.dumps(value)
    except TypeError:
        try:
            return json.dumps(value, separators=(",", ":"), default=str).encode()
        except RecursionError:
            return _flat(value).encode()


class _Written(str):
    """A piece of JSON text among values that are still to be written."""

    __slots__ = ()


def _flat(value: Any) -> str:
    """As `json.dumps`, without recursion: for values nested as deeply as a chain may send them."""
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
    """Whether a JSON value looks like a JSON-RPC message at all."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("method"), str):
        return True
    if "id" in value:
        return "result" in value or "error" in value
    # Without an id: an error about a request that could not be read, or the answer to the only one that is open.
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
    """Whether an integer of 16 digits or more stands outside quotes, as far as its neighbours tell.

    One pass that maps every digit to zero and a substring search are several times faster than a regular
    expression over all of a large message.
    """
    if len(line) < 16 or _SIXTEEN_DIGITS not in line.translate(_DIGITS_TO_ZERO):
        return False
    return _LONG_INTEGER.search(line) is not None


def _mend_text(line: bytes) -> tuple[bytes, tuple[str, ...]]:
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
    return line, tuple(notes)


def _loads_tolerant(text: str, *, apart: bool = False) -> tuple[Any, tuple[str, ...]]:
    """Parse with the standard library: NaN, control characters, integers of any length.

    `apart`: characters of the text were replaced, so that two keys may have become one; no member is to be lost by it.
    """
    notes: list[str] = []
    value = _tolerant_decoder(notes, apart=apart).decode(text)
    return value, tuple(dict.fromkeys(notes))


def _tolerant_decoder(notes: list[str], *, apart: bool = False) -> json.JSONDecoder:
    def integer(digits: str) -> int | str:
        if len(digits) < 16 or (len(digits) < 20 and abs(int(digits)) <= MAX_SAFE_INTEGER):
            return int(digits)
        notes.append("integers beyond 2^53 were kept as text")
        return digits

    def constant(_name: str) -> None:
        notes.append("NaN and Infinity were read as null")

    hook = _kept_apart if apart else None
    return json.JSONDecoder(strict=False, parse_int=integer, parse_constant=constant, object_pairs_hook=hook)


def _kept_apart(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys may have become the same by what was replaced in them: the later ones get a number."""
    made: dict[str, Any] = {}
    for key, value in members:
        name = key
        if key in made and REPLACED in key:
            name = next(other for n in count(2) if (other := f"{key} ({n})") not in made)
        made[name] = value
    return made


def _salvage(line: bytes) -> list[Piece]:
    """Messages glued to each other or to log text; else the id of what was lost, if it shows."""
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
    ident = _id_of(line)
    if ident is None or b'"jsonrpc"' not in line[:HEAD_BYTES] + line[-HEAD_BYTES:]:
        return []
    return [Broken("the answer is not valid JSON", ident)]


def _id_of(line: bytes) -> int | str | None:
    found = _id_in_head(line[:HEAD_BYTES])
    return found if found is not None else _id_in_tail(line[-HEAD_BYTES:])


def _id_in_tail(tail: bytes) -> int | str | None:
    """The id where it is the last or last but one key, as the TypeScript SDK writes it."""
    match = _TAIL_ID.search(tail)
    return _scalar(match[1]) if match else None


def _id_in_head(head: bytes) -> int | str | None:
    """The value of the key `id` at depth one, read from the first bytes of a message."""
    depth = 0
    position = 0
    while position < len(head):
        byte = head[position : position + 1]
        if byte == b'"':
            end = _string_end(head, position)
            key = head[position + 1 : end - 1]
            position = end
            if depth == 1 and key == b"id" and head[position:].lstrip()[:1] == b":":
                match = _SCALAR.match(head, head.index(b":", position) + 1)
                return _scalar(match[1]) if match else None
            continue
        depth += (byte in (b"{", b"[")) - (byte in (b"}", b"]"))
        position += 1
    return None


def _string_end(text: bytes, start: int) -> int:
    position = start + 1
    while position < len(text):
        if text[position] == 0x5C:
            position += 2
        elif text[position] == 0x22:
            return position + 1
        else:
            position += 1
    return len(text)


def _scalar(token: bytes) -> int | str:
    return token[1:-1].decode("utf-8", "replace") if token[:1] == b'"' else int(token)
