"""A large JSON document read in pieces: where its long arrays lie, and their rows batch by batch.

Parsing 10 MB at once takes over 100 MB; here only one batch of rows is ever held. Batches are cut at places
that look like a boundary between two rows and are certain once parsed: from a true boundary on, a slice that
ends inside a string or a row is never valid JSON. Where the guess fails, a tokenizer finds the boundary.
Above: `pipeline.py`, `rows.py`. Below: `digest.py`, `deep.py`,
`jsontext.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from gatemini.output.deep import parse_shown
from gatemini.output.digest import Summary
from gatemini.output.jsontext import decode, parse, size
from gatemini.piecewise.cutting import BOUNDARY, SCALAR_BOUNDARY, TOKEN_OR_COMMA, likely_cuts, skip_space
from gatemini.piecewise.steps import give_way

WHOLE_BYTES = 256 << 10
"""Documents up to this size are parsed at once."""
BATCH_BYTES = 96 << 10
LEAST_BATCH = 16 << 10
BATCH_SHARE = 20
"""A batch is at most this part of the document: parsed, it takes fifteen to forty times its size."""
WINDOW_BYTES = 16 << 10
"""An array still open this far after the last one is where bulk lies."""
LITERAL_BYTES = 1 << 20
"""With more than this outside of long arrays a document has no shape to make use of."""
LITERAL_SHARE = 24
"""… and with more than this part of it: parsed, it takes up fifteen times its size."""
ROW_BYTES = 128 << 10
"""With a row larger than this an array is no list of records, but a branch to be looked into."""
BULK_SHARE = 0.5
"""An array holds the bulk of a document from this share of its bytes on."""
BULK_DEPTH = 4
"""Levels of objects looked into for the array that holds the bulk."""
HEAD_ROWS = 64
"""First rows kept of every long array, to be shown, while they fit a batch."""
LEAST_HEAD = 3
"""First rows kept however large they are."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_STRINGS_IN_A_ROW = 32
_STRINGS_AND_BRACKET = re.compile(
    rb'(?:("[^"\\]*+(?:\\.[^"\\]*+)*+")[^"\[\]{}]*+){1,%d}+[\[\]{}]?+|[\[\]{}]' % _STRINGS_IN_A_ROW, re.DOTALL
)
"""A few strings, of which the last is told, and the bracket behind them: the loop over these is what takes time."""
_PLAIN_WINDOW = re.compile(rb'[^"\[\]{}]{%d}' % WINDOW_BYTES)
_FIRST_KEY = re.compile(rb'\{[ \t\r\n]*"[^"\\]{1,64}"[ \t\r\n]*:')

Visit = Callable[[list[Any], bytes], None]
"""Told each batch of rows, read at full speed, and the JSON array they were read from."""


class NotSurveyed(Exception):
    """The document is not valid JSON or has no long array; only callers of `survey` see this."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows `first` to `first + count - 1` lie in `data[start:end]`, separated by commas."""

    first: int
    count: int
    start: int
    end: int


@dataclass(slots=True)
class Bulk:
    """One long array: the keys that lead to it, its rows described, and where they are."""

    keys: tuple[str, ...]
    summary: Summary = field(default_factory=Summary)
    head: list[Any] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return self.batches[-1].end - self.batches[0].start if self.batches else 0


@dataclass(frozen=True, slots=True)
class Survey:
    """The document without the rows of its long arrays (`skeleton`; `pieces` is its text), and these arrays."""

    skeleton: Any
    bulks: list[Bulk]
    pieces: list[bytes]

    def written(self, rows: Callable[[Bulk], str]) -> str:
        """The document's text with other rows in each long array."""
        made = [decode(self.pieces[0])]
        for bulk, piece in zip(self.bulks, self.pieces[1:], strict=True):
            made += [rows(bulk), decode(piece)]
        return "".join(made)

    def filled(self, instead: Sequence[Any]) -> Any:
        """The document with something else in place of each long array, in their order."""
        value = self.skeleton
        for bulk, item in zip(self.bulks, instead, strict=True):
            value = placed(value, bulk.keys, item)
        return value


def placed(value: Any, keys: tuple[str, ...], item: Any) -> Any:
    """The value with `item` at the place that these keys lead to."""
    if not keys:
        return item
    return {**value, keys[0]: placed(value[keys[0]], keys[1:], item)}


def bulk_path(value: Any) -> tuple[str, ...] | None:
    """Keys that lead to the array holding at least half of the document; None if there is none."""
    total = size(value)
    keys: list[str] = []
    while isinstance(value, dict) and len(keys) < BULK_DEPTH:
        large = [(size(child), key) for key, child in value.items() if isinstance(child, dict | list)]
        weight, key = max(large, default=(0, ""), key=lambda pair: pair[0])
        if weight < total * BULK_SHARE:
            return None
        keys.append(key)
        value = value[key]
    return tuple(keys) if isinstance(value, list) else None


def at_keys(value: Any, keys: Sequence[str]) -> Any:
    """What these keys lead to."""
    for key in keys:
        value = value[key]
    return value


def survey(data: bytes, visit: Callable[[Bulk], Visit] | None = None) -> Survey:
    """Reads all of `data` once; `visit(bulk)` gives a function that is told each batch of rows.

    Raises NotSurveyed.
    """
    bulks: list[Bulk] = []
    pieces: list[bytes] = []
    literal = 0
    most = min(LITERAL_BYTES, len(data) // LITERAL_SHARE)
    piece = position = 0
    stack: list[_Frame] = []
    while (opened := _next_long_array(data, position, stack, most)) is not None:
        literal += opened - piece
        if literal > most:
            raise NotSurveyed
        pieces.append(data[piece:opened])
        bulk = Bulk(tuple(_key(frame.key) for frame in stack[1:]))
        bulks.append(bulk)
        piece = _read_bulk(data, opened, bulk, visit(bulk) if visit else None)
        position = piece + 1
        stack.pop()
    if not bulks or literal + len(data) - piece > most:
        raise NotSurveyed
    pieces.append(data[piece:])
    skeleton = parse_shown(b"".join(pieces))
    if skeleton is None or skeleton.duplicates:
        raise NotSurveyed
    return Survey(skeleton.value, bulks, pieces)


class _Frame(NamedTuple):
    """An open container: under which key of its parent, and where its bracket is."""

    key: bytes
    array: bool
    at: int


def _next_long_array(data: bytes, position: int, stack: list[_Frame], most: int) -> int | None:
    """The offset after the bracket of the next array open for `WINDOW_BYTES`; None at the document's end.

    `stack` is brought up to that array, whose parents are all objects. Looks for it no further than `most` bytes.
    """
    if not stack and not 0 <= data.find(b"[") <= most + 3 * WINDOW_BYTES:
        raise NotSurveyed  # no array, or none that is looked for
    key = b'""'
    window = position + WINDOW_BYTES
    for token in _STRINGS_AND_BRACKET.finditer(data, position):
        key = token[1] or key
        at = token.end() - 1
        if at >= window:
            if any(frame.array and at - frame.at > WINDOW_BYTES for frame in stack):
                return _outermost(stack)
            window = at + WINDOW_BYTES
            if window - position > most + 2 * WINDOW_BYTES:
                raise NotSurveyed
        first = data[at]
        if first in b"[{":
            stack.append(_Frame(key, first == 0x5B, at))
            if first == 0x5B and _PLAIN_WINDOW.match(data, at + 1):
                return _outermost(stack)  # the next token may be megabytes of numbers away
        elif first in b"]}":
            if not stack:
                raise NotSurveyed
            stack.pop()
    return None


def _outermost(stack: list[_Frame]) -> int:
    """Leaves the outermost array on top of the stack; the offset after its bracket."""
    depth = next(i for i, frame in enumerate(stack) if frame.array)
    del stack[depth + 1 :]
    return stack[depth].at + 1


def _key(token: bytes) -> str:
    parsed = parse(token)
    if parsed is None or not isinstance(parsed.value, str):
        raise NotSurveyed
    return parsed.value


def _read_bulk(data: bytes, start: int, bulk: Bulk, visit: Visit | None) -> int:
    """Feeds every row to the bulk; the offset of the closing bracket."""
    reader = _Rows(data, start)
    head_end = start + batch_bytes(data)
    for begin, end, rows in reader:
        if reader.exact:
            bulk.head += rows[: HEAD_ROWS - len(bulk.head)]
            # What is shown must be exact; what is only counted may be read at full speed.
            reader.exact = len(bulk.head) < (HEAD_ROWS if end < head_end else LEAST_HEAD)
        bulk.batches.append(Batch(bulk.summary.total, len(rows), begin, end))
        bulk.summary.add(rows)
        if visit is not None:
            visit(rows, b"[" + data[begin:end] + b"]")
        give_way()
    return reader.end


class _Rows:
    """Iterates (start, end, rows) over the array whose content begins at `start`; then `end` is its bracket."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.end = -1
        self.exact = True
        self._batch = batch_bytes(data)
        self._counting = False
        self._at = skip_space(data, start)
        opening = data[self._at : self._at + 1]
        self._boundary = BOUNDARY.get(opening[0], SCALAR_BOUNDARY) if opening else None
        self._token = _TOKEN if opening in (b"{", b"[") else TOKEN_OR_COMMA
        self._first_key: re.Pattern[bytes] | None = None
        if found := _FIRST_KEY.match(data, self._at):
            name = found[0][1:-1].strip()
            self._first_key = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{[ \t\r\n]*" + re.escape(name))

    def __iter__(self) -> Iterator[tuple[int, int, list[Any]]]:
        data = self.data
        if data[self._at : self._at + 1] == b"]":
            self.end = self._at
            return
        while self.end < 0:
            start = self._at
            cut, rows = self._guess(start) or self._walk(start)
            after = skip_space(data, cut)
            if data[after : after + 1] == b"]":
                self.end = after
            elif data[after : after + 1] == b",":
                self._at = skip_space(data, after + 1)
            else:
                raise NotSurveyed
            yield start, cut, rows

    def _guess(self, start: int) -> tuple[int, list[Any]] | None:
        """A batch cut at a likely boundary; None where none proves right."""
        for pattern in (self._first_key, self._boundary):
            if pattern is None:
                continue
            for cut in likely_cuts(self.data, pattern, start, self._batch, counting=self._counting):
                rows = self._parsed(start, cut, guessed=True)
                if rows is not None:
                    return cut, rows
        if self._counting:
            return None
        self._counting = True  # counting takes time: only where it is needed
        return self._guess(start)

    def _walk(self, start: int) -> tuple[int, list[Any]]:
        """A batch cut where the tokenizer says a row ends; the array's end at the latest."""
        depth = 0
        target = start + self._batch
        limit = start + ROW_BYTES
        cut = len(self.data)
        last = start
        for token in self._token.finditer(self.data, start):
            at = token.start()
            if at > limit:
                cut = last  # the row that began there goes into the next batch
                break
            first = self.data[at]
            if first in b"{[":
                depth += 1
                continue
            if first in b"}]":
                depth -= 1
                if depth < 0:
                    cut = at
                    break
            if depth == 0 and (first == 0x2C or self._token is _TOKEN):
                last = at if first == 0x2C else token.end()
                if at >= target:
                    cut = last
                    break
        if cut == start:
            raise NotSurveyed  # a row too large to be held
        rows = self._parsed(start, cut, guessed=False)
        if rows is None:
            raise NotSurveyed
        return cut, rows

    def _parsed(self, start: int, end: int, *, guessed: bool) -> list[Any] | None:
        """The rows between; None where these are not whole rows."""
        piece = b"[" + self.data[start:end] + b"]"
        try:
            rows = orjson.loads(piece)
        except orjson.JSONDecodeError:
            if guessed:
                return None
            rows = None
        if rows is None or self.exact:
            careful = parse_shown(piece)
            if careful is not None and careful.duplicates:
                raise NotSurveyed
            rows = careful.value if careful else None
        return rows if isinstance(rows, list) and rows else None


def batch_bytes(data: bytes) -> int:
    """How much of a document is held at a time."""
    return min(BATCH_BYTES, max(LEAST_BATCH, len(data) // BATCH_SHARE))
