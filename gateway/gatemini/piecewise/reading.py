"""Large JSON as a value, or as the text JavaScript writes, a batch of members at a time.

One call of a parser on forty megabytes holds the interpreter for a quarter of a second, on whichever thread it runs;
here every call takes a few milliseconds at most. Read as text, no more than a batch is ever held as objects, which
the garbage collector would walk again and again. What comes out is what reading all at once gives; where that is not
certain, NotInPieces says so, and the caller reads it at once. Pure.
Above: `backends/wire.py`, `chain/values.py`. Below: `cutting.py`, `keys.py`, `steps.py`, `strings.py`, `chain/jsvalue.py`, `chain/large.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from gatemini.chain.jsvalue import NotJson, dumps, is_index, loads_deep, loads_exact, quoted
from gatemini.chain.large import release, write
from gatemini.piecewise.cutting import MEMBER, Cutter, skip_space
from gatemini.piecewise.keys import Keys
from gatemini.piecewise.steps import encoded, give_way, joined, part
from gatemini.piecewise.strings import NotInPieces, windows

BATCH_BYTES = 128 * 1024
"""Members read at once: one or two milliseconds, of whatever shape they are."""
MOST_LEVELS = 32
"""Containers gone into, one in another; what has large ones further down is read at once."""
NESTED = 900
"""With more brackets than this a batch may nest as deeply as a parser takes."""
SAMPLE_MEMBERS = 1_000
"""Members of a container that a sample shows, and what is left of the batch with the last of them."""
SAMPLE_LARGE = 16
"""Of large members so many."""

_DIGITS = frozenset("0123456789")

Load = Callable[[bytes, bool], Any]
"""The value of JSON text; raises ValueError where it is none. The second argument tells that its end was guessed."""


class _Reordered(Exception):
    """JavaScript would write the members of an object in another order, or fewer of them."""


@dataclass(frozen=True, slots=True)
class Written:
    """A large object or array of which only the text is held, as JavaScript writes it.

    `sample` is its beginning as a value; `cut` are the strings and containers in it that go on.
    """

    text: str
    sample: Any
    cut: Sequence[Any]

    def value(self) -> Any:
        """All of it, as a value that belongs to the caller."""
        return Reader(encoded(self.text), _load_own).value(0)[0]

    def only(self, key: str) -> Written | str | None:
        """What is under this key where it is large and there is no other key; else None."""
        if not isinstance(self.sample, dict) or self.sample.keys() != {key} or self.goes_on(self.sample):
            return None
        inner = part(self.text, len(dumps(key)) + 2, len(self.text) - 1)
        if inner[:1] == '"':
            return Reader(encoded(inner), _load_own).string(0)[0]
        return Written(inner, self.sample[key], self.cut)

    def goes_on(self, part: Any) -> bool:
        """Whether there is more of this part of `sample` than it shows."""
        return any(part is one for one in self.cut)


def _load_own(data: bytes, guessed: bool) -> Any:
    text = data.decode("utf-8", "surrogatepass")
    try:
        return loads_exact(text)
    except NotJson:
        if guessed:
            raise
        return loads_deep(text)  # it was read once, so it can be read again


def read_document(text: str, load: Load) -> Written:
    """The object or array that is all of `text`. Raises NotInPieces."""
    data = encoded(text)
    written, end = Reader(data, load).text(skip_space(data, 0))
    if skip_space(data, end) != len(data):
        raise NotInPieces
    return written


class _Sink(Protocol):
    """Takes the members of one container in their order."""

    def batch(self, members: Any) -> None:
        """Several, as a list or dict."""

    def large(self, key: str, at: int) -> int:
        """One that begins at `at` and is too large for a batch; the offset after it."""


class Reader:
    """Reads values of one document. `load` reads a batch of members; all methods raise NotInPieces.

    `written_at`: the keys that lead to an object or array which, where it is large, is read as `Written`.
    """

    def __init__(self, data: bytes, load: Load, written_at: tuple[str, ...] = ()) -> None:
        self.data = data
        self._load = load
        self._written_at = written_at

    def value(self, at: int, path: tuple[str, ...] = ()) -> tuple[Any, int]:
        """The container whose bracket is at `at`, under so many keys, and the offset after it."""
        made: list[Any] | dict[str, Any] = [] if self.data[at : at + 1] == b"[" else {}
        end = self.members(at, _Values(self, made, path), len(path))
        return made, end

    def text(self, at: int, level: int = 0) -> tuple[Written, int]:
        """The same as text; `level`: how many containers are around it."""
        parts: list[str] = []
        cut: list[Any] = []
        sample, end = self.write(at, level, parts, cut)
        return Written(joined(parts), sample, cut), end

    def string(self, at: int) -> tuple[str, int]:
        """The string whose quote is at `at`, and the offset after it."""
        parts, end = [], at
        for start, end in windows(self.data, at):
            parts.append(self._window(start, end))
        return joined(parts), end + 1

    def inner(self, at: int, path: tuple[str, ...]) -> tuple[Any, int]:
        """A large member."""
        first = self.data[at : at + 1]
        if first == b'"':
            return self.string(at)
        if path == self._written_at and first in (b"{", b"["):
            return self.text(at, len(path))
        return self.value(at, path)

    def write(self, at: int, level: int, parts: list[str], cut: list[Any]) -> tuple[Any, int]:
        """Adds a large value's text to `parts`; its beginning as a value, and the offset after it."""
        if self.data[at : at + 1] == b'"':
            return self._write_string(at, parts, cut)
        mark = len(parts)
        texts = _Texts(self, self.data[at : at + 1] == b"[", level, parts, cut)
        try:
            end = self.members(at, texts, level)
            texts.close()
        except _Reordered:
            del parts[mark:]
            value, end = self.value(at, ("",) * level)
            parts.append(write(value))
            release(value)
            cut.append(value)
            return value, end
        return texts.sample, end

    def _write_string(self, at: int, parts: list[str], cut: list[Any]) -> tuple[str, int]:
        sample: str | None = None
        end = at
        parts.append('"')
        for start, end in windows(self.data, at):
            text = self._window(start, end)
            parts.append(dumps(text)[1:-1])
            sample = text if sample is None else sample
        parts.append('"')
        sample = sample or ""
        cut.append(sample)
        return sample, end + 1

    def members(self, at: int, sink: _Sink, level: int) -> int:
        """Gives the sink every member of the container at `at`; the offset after it."""
        data = self.data
        if level > MOST_LEVELS or data[at : at + 1] not in (b"{", b"["):
            raise NotInPieces
        array = data[at] == 0x5B
        closing = b"]" if array else b"}"
        position = skip_space(data, at + 1)
        if data[position : position + 1] == closing:
            return position + 1
        cutter = Cutter(data, at, position, BATCH_BYTES, partial(self._read, array, level))
        while True:
            opened = position if array else self._value_of(position)
            found = None if self._is_giant(opened) else cutter.next(position)
            if found is None:
                end = sink.large("" if array else self._key(position), opened)
            else:
                end, members = found
                sink.batch(members)
                give_way()
            after = skip_space(data, end)
            if data[after : after + 1] == closing:
                return after + 1
            if data[after : after + 1] != b",":
                raise NotInPieces
            position = skip_space(data, after + 1)

    def _value_of(self, position: int) -> int:
        found = MEMBER.match(self.data, position)
        if found is None:
            raise NotInPieces
        return found.end()

    def _key(self, position: int) -> str:
        found = MEMBER.match(self.data, position)
        return self._text_of(found[1]) if found else ""

    def _is_giant(self, opened: int) -> bool:
        """Whether a string begins there that goes on after its first window."""
        data = self.data
        if data[opened : opened + 1] != b'"':
            return False
        quote = data.find(b'"', opened + 1, opened + BATCH_BYTES)
        if quote > 0 and data[quote - 1] != 0x5C:
            return False
        _, end = next(windows(self.data, opened))
        return data[end : end + 1] != b'"'

    def _window(self, start: int, end: int) -> str:
        return self._text_of(b'"' + self.data[start:end] + b'"')

    def _text_of(self, quoted_text: bytes) -> str:
        try:
            text = self._load(quoted_text, False)
        except ValueError:
            raise NotInPieces from None
        return str(text)

    def _read(self, array: bool, level: int, start: int, end: int, guessed: bool) -> Any:
        """As `cutting.Read`."""
        opening, closing = (b"[", b"]") if array else (b"{", b"}")
        piece = b"".join((opening, memoryview(self.data)[start:end], closing))
        # Parsers count how deep a value nests: what is around it counts as well.
        around = level if piece.count(b"[") + piece.count(b"{") > NESTED else 0
        try:
            value = self._load(b"[" * around + piece + b"]" * around, guessed)
            for _ in range(around):
                [value] = value  # ValueError where the piece closed what is around it and opened it again
        except (ValueError, RecursionError):
            return None
        return value


class _Values:
    """Gathers a container as a value."""

    def __init__(self, reader: Reader, made: list[Any] | dict[str, Any], path: tuple[str, ...]) -> None:
        self._reader, self._made, self._path = reader, made, path

    def batch(self, members: Any) -> None:
        if isinstance(self._made, list):
            self._made += members
        else:
            self._made |= members

    def large(self, key: str, at: int) -> int:
        value, end = self._reader.inner(at, (*self._path, key))
        if isinstance(self._made, list):
            self._made.append(value)
        else:
            self._made[key] = value
        return end


class _Texts:
    """Gathers a container as text. Raises _Reordered where the order of its members is not simply theirs."""

    def __init__(self, reader: Reader, array: bool, level: int, parts: list[str], cut: list[Any]) -> None:
        self.sample: Any = [] if array else {}
        self._reader, self._level, self._parts, self._cut = reader, level, parts, cut
        self._brackets = "[]" if array else "{}"
        self._before = self._brackets[0]
        self._keys = Keys()
        self._goes_on = False
        self._large = 0

    def batch(self, members: Any) -> None:
        if isinstance(members, dict):
            self._note(members)
        self._parts += (self._before, dumps(members)[1:-1])
        self._before = ","
        if len(self.sample) >= SAMPLE_MEMBERS:
            self._goes_on = True
        elif isinstance(members, dict):
            self.sample |= members
        else:
            self.sample += members

    def large(self, key: str, at: int) -> int:
        self._parts.append(self._before)
        self._before = ","
        if isinstance(self.sample, dict):
            self._note((key,))
            self._parts.append(f"{quoted(key)}:")
        sample, end = self._reader.write(at, self._level + 1, self._parts, self._cut)
        self._large += 1
        if self._large > SAMPLE_LARGE:
            self._goes_on = True
        elif isinstance(self.sample, dict):
            self.sample[key] = sample
        else:
            self.sample.append(sample)
        return end

    def close(self) -> None:
        if self._keys.repeat():
            raise _Reordered
        self._parts += (self._before if self._before in "[{" else "", self._brackets[1])
        if self._goes_on:
            self._cut.append(self.sample)

    def _note(self, keys: Collection[str]) -> None:
        self._keys.add(keys)
        beginnings = {key[:1] for key in keys}
        if not beginnings.isdisjoint(_DIGITS) and any(map(is_index, keys)):
            raise _Reordered
