"""A large JSON document without a shape of its own, read in pieces: the tree of its large branches.

Where `survey.py` finds no long array that explains the document, it is read here, container by container: members are
parsed in batches and only described; a container too large for a batch is gone into. Nothing but one batch and what
is to be shown is ever held. Above: `pipeline.py`, `json_reduce.py`. Below: `survey.py`, `pieces.py`, `passages.py`, `naming.py`,
`deep.py`, `jsontext.py`, `piecewise/cutting.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from operator import not_
from typing import Any, Protocol

import orjson

from gatemini.output.deep import parse_shown
from gatemini.output.digest import IDENTITY_KEYS
from gatemini.output.jsontext import parse, parse_carefully, size
from gatemini.output.naming import KEYS, described, identity, kind
from gatemini.output.passages import LongText, Place, long_text
from gatemini.output.pieces import members as members_of
from gatemini.output.survey import BATCH_BYTES, HEAD_ROWS, LEAST_BATCH, Batch, Bulk, NotSurveyed
from gatemini.piecewise.cutting import MEMBER, Cutter, skip_space
from gatemini.piecewise.keys import Keys
from gatemini.piecewise.steps import give_way
from gatemini.piecewise.strings import NotInPieces

PIECES = 40
"""A document is read in at least about so many batches, as many as are listed of it."""
MAX_DEPTH = 12
"""Containers gone into, one in another; a document with large ones further down is parsed at once."""
MEMBER_BYTES = 512
SHOWN_BYTES = 4096
"""Members of an object up to `MEMBER_BYTES` are kept to be shown, up to this together."""
SHOWN_BATCHES = 4
"""Batches of an object in which such members are looked for: these have to be read exactly, at half the speed."""
HEAD_BYTES = 128 << 10
"""Of an array's first rows, kept to be shown, no more than a batch beyond this."""
NAMES = 6
"""Members of a stretch that are named: one more than shown, to tell whether there are more."""
GIANT = 3
"""A batch of more batches than this holds one giant text; nothing of it is shown but the beginning."""
_NAMING = frozenset(IDENTITY_KEYS)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Members `first` to `last` of a container, described and not held; `what` tells of a single one."""

    first: str | int
    last: str | int
    count: int
    bytes: int
    names: tuple[str, ...]
    kind: str
    only: str | None = None
    text: LongText | None = None
    """Of a single long text, its ends."""
    place: tuple[int, int] = (0, 0)
    """Where in the document the batch with that text lies."""


@dataclass(slots=True)
class Branch:
    """A container gone into. Its children: values, `Stretch`, `Bulk` (or what stands for it), `Branch`."""

    array: bool
    bytes: int = 0
    count: int = 0
    keys: list[str] = field(default_factory=list)
    """Of an object the first ones, one more than are told."""
    children: list[tuple[str | int, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Tree:
    """The whole document, and the long arrays somewhere in it."""

    root: Any
    bulks: list[Bulk]

    def filled(self, instead: Sequence[Any]) -> Any:
        """The tree with something else in place of each long array; branches that are then whole become JSON."""
        places = {id(bulk): item for bulk, item in zip(self.bulks, instead, strict=True)}
        return _filled(self.root, places)

    def long_texts(self) -> list[Place]:
        """The texts of which only the ends are held, in document order."""
        return list(_long_texts(self.root, ()))


def _long_texts(node: Any, path: tuple[str, ...]) -> Iterator[Place]:
    for key, child in node.children if isinstance(node, Branch) else ():
        inner = (*path, f"[{key}]" if node.array else str(key))
        if isinstance(child, Stretch) and child.text is not None:
            yield (inner, *child.place)
        else:
            yield from _long_texts(child, inner)


def _filled(node: Any, places: dict[int, Any]) -> Any:
    if isinstance(node, Bulk):
        return places[id(node)]
    if not isinstance(node, Branch):
        return node
    children = [(key, _filled(child, places)) for key, child in node.children]
    if any(isinstance(child, Branch | Stretch) for _, child in children):
        return replace(node, children=children)
    return [child for _, child in children] if node.array else dict(children)


class Level(Protocol):
    """Told of the members of one container as they pass by."""

    end: int
    """The offset after the container, once it is known."""

    def batch(self, items: Any, piece: bytes) -> None:
        """Members, read at full speed, and the JSON they were read from."""

    def large(self, start: int, end: int) -> None:
        """A member too large for a batch lies here in the document."""


Enter = Callable[[Sequence[str], int], Level | None]
"""Asked for each container gone into, by its path and its bracket's offset, whether to tell of its members."""


def read_tree(data: bytes, enter: Enter | None = None) -> Tree:
    """Reads all of `data` once. Raises NotSurveyed where it is no JSON, or large branches lie too deep."""
    reader = _Reader(data, enter)
    start = skip_space(data, 0)
    if data[start : start + 1] not in (b"{", b"["):
        raise NotSurveyed
    try:
        root, end = reader.container(start, ())
    except NotInPieces:
        raise NotSurveyed from None
    if skip_space(data, end) != len(data):
        raise NotSurveyed
    return Tree(root, reader.bulks)


class _Reader:
    def __init__(self, data: bytes, enter: Enter | None) -> None:
        self.data = data
        self.enter = enter
        self.batch = min(BATCH_BYTES, max(LEAST_BATCH, len(data) // PIECES))
        self.bulks: list[Bulk] = []

    def container(self, at: int, path: tuple[str, ...]) -> tuple[Any, int]:
        """What the container whose bracket is at `at` becomes, and the offset after its end."""
        data = self.data
        if len(path) > MAX_DEPTH:
            raise NotSurveyed
        array = data[at] == 0x5B
        closing = b"]" if array else b"}"
        position = skip_space(data, at + 1)
        if data[position : position + 1] == closing:
            return ([] if array else {}), position + 1
        level = self.enter(path, at) if self.enter else None
        batches = _Batches(data, array, self.batch)
        cutter = Cutter(data, at, position, self.batch, batches.read)
        made: _Array | _Object = _Array(path) if array else _Object()
        while True:
            batches.exact = made.shows
            found = cutter.next(position)
            if found is None:
                key, opened = self._large(position, made)
                label = f"[{key}]" if array else str(key)
                child, end = self.container(opened, (*path, label))
                made.inner(key, child)
                if level is not None:
                    level.large(position, end)
            else:
                end, items = found
                made.take(items, position, end)
                if level is not None:
                    level.batch(items, data[at : at + 1] + data[position:end] + closing)
                give_way()
            after = skip_space(data, end)
            if data[after : after + 1] == closing:
                node = made.node(after + 1 - at)
                if level is not None:
                    level.end = after + 1
                if isinstance(node, Bulk):
                    self.bulks.append(node)
                return node, after + 1
            if data[after : after + 1] != b",":
                raise NotSurveyed
            position = skip_space(data, after + 1)

    def _large(self, position: int, made: _Array | _Object) -> tuple[str | int, int]:
        """(key, offset of the bracket) of the large member that begins here."""
        if isinstance(made, _Array):
            return made.count, position
        found = MEMBER.match(self.data, position)
        key = parse(found[1]) if found else None
        if found is None or key is None:
            raise NotSurveyed
        return str(key.value), found.end()


class _Batches:
    """Reads the batches of one container: exactly, where something of them may be shown."""

    def __init__(self, data: bytes, array: bool, batch: int) -> None:
        self.data = data
        self.batch = batch
        self.exact = True
        self._array = array

    def read(self, start: int, end: int, guessed: bool) -> Any:
        """The members between; None where these are not whole members."""
        opening, closing = (b"[", b"]") if self._array else (b"{", b"}")
        piece = b"".join((opening, memoryview(self.data)[start:end], closing))
        items: Any = None
        if end - start > GIANT * self.batch:  # one text, mostly: orjson would reserve twelve times its size
            careful = parse_carefully(piece)
            return careful.value or None if careful else None
        try:
            items = orjson.loads(piece)
        except orjson.JSONDecodeError:
            if guessed:
                return None
        if items is None or self.exact:
            careful = parse_shown(piece)
            items = careful.value if careful and not careful.duplicates else None
        elif not self._array and _may_lack(items, piece) and _count(piece) > len(items):
            raise NotSurveyed  # a key occurs twice
        return items or None


def _may_lack(items: dict[str, Any], piece: bytes) -> bool:
    """Whether members of `piece` may not be in `items`: their keys' quotes are missing then."""
    try:
        written = orjson.dumps(items)
    except TypeError:  # what orjson cannot write
        return True
    if written == piece:
        return False
    return written.count(b'"') != piece.count(b'"') or b"\\u0022" in piece


def _count(data: bytes) -> int:
    return sum(1 for _ in members_of(data, 0, len(data)))


class _Object:
    """An object on its way through: small first members are kept, the others told by stretches."""

    def __init__(self) -> None:
        self._branch = Branch(array=False)
        self._room = SHOWN_BYTES
        self._batches = 0
        self._keys = Keys()

    @property
    def shows(self) -> bool:
        return self._room > 0 and self._batches < SHOWN_BATCHES

    def inner(self, key: str | int, child: Any) -> None:
        self._branch.count += 1
        self._keys.add([str(key)])
        self._name([str(key)])
        self._branch.children.append((key, child))

    def take(self, members: dict[str, Any], start: int, end: int) -> None:
        self._branch.count += len(members)
        self._keys.add(members)
        self._name(members)
        self._batches += 1
        kept = 0
        rest = members
        if self.shows:
            rest = {}
            for key, value in members.items():
                weight = (
                    MEMBER_BYTES + 1 if isinstance(value, str) and len(value) > MEMBER_BYTES else size(value)
                )
                if weight <= min(MEMBER_BYTES, self._room):
                    self._branch.children.append((key, value))
                    self._room -= weight + len(key) + 4
                    kept += weight + len(key) + 4
                else:
                    rest[key] = value
        if rest:
            self._branch.children += _stretches(rest, start, end, max(0, end - start - kept))

    def _name(self, keys: Iterable[str]) -> None:
        known = self._branch.keys
        known += islice(keys, KEYS + 1 - len(known))

    def node(self, weight: int) -> Branch:
        if self._keys.repeat():
            raise NotSurveyed  # parsed at once, what is said of a doubled key is exact
        self._branch.bytes = weight
        return self._branch


class _Array:
    """An array on its way through: its rows described, while none of them is too large for a batch."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._bulk = Bulk(path)
        self._branch = Branch(array=True)
        self._parts: list[tuple[str | int, Any]] = self._branch.children
        self._whole = True
        self._head_bytes = 0
        self.count = 0

    @property
    def shows(self) -> bool:
        return len(self._bulk.head) < HEAD_ROWS and self._head_bytes < HEAD_BYTES

    def inner(self, key: str | int, child: Any) -> None:
        self._whole = False
        self._parts.append((key, child))
        self.count += 1

    def take(self, rows: list[Any], start: int, end: int) -> None:
        if self.shows:
            self._bulk.head += rows[: HEAD_ROWS - len(self._bulk.head)]
            self._head_bytes += end - start
        if self._whole:
            self._bulk.batches.append(Batch(self.count, len(rows), start, end))
            self._bulk.summary.add(rows)
        if self.shows and end - start <= MEMBER_BYTES:
            self._parts += enumerate(rows, self.count)
        else:
            last = self.count + len(rows) - 1
            stretch = _stretch(self.count, last, rows, end - start)
            if len(rows) == 1 and _dominates(
                rows[0], end - start
            ):  # no row of a list, but a document in itself
                stretch = replace(stretch, text=long_text(rows[0]), place=(start, end))
                self._whole = False
            self._parts.append((self.count, stretch))
        self.count += len(rows)

    def node(self, weight: int) -> Any:
        if self._whole:
            return self._bulk
        self._branch.bytes, self._branch.count = weight, self.count
        return self._branch


def _stretch(first: str | int, last: str | int, values: Sequence[Any], weight: int) -> Stretch:
    names: list[str] = []
    objects = [value for value in values if isinstance(value, dict)]
    # Of a million without a name none is looked at one by one.
    for value in compress(objects, map(not_, map(_NAMING.isdisjoint, objects))):
        name = identity(value)
        if name is not None:
            names.append(name)
            if len(names) == NAMES:
                break
    only = described(values[0]) if len(values) == 1 else None
    return Stretch(first, last, len(values), weight, tuple(names), kind(values), only)


def _stretches(members: dict[str, Any], start: int, end: int, weight: int) -> Iterator[tuple[str, Stretch]]:
    """Members of an object from a batch between `start` and `end`: a text that is most of it stands alone."""
    keys = list(members)
    values = list(members.values())
    long = (n for n, value in enumerate(values) if _dominates(value, end - start))
    at = next(long, None) if str in set(map(type, values)) else None
    if at is None:
        yield keys[0], _stretch(keys[0], keys[-1], values, weight)
        return
    text = min(weight, size(values[at]))
    before = min(weight - text, sum(map(size, values[:at])))
    parts = ((0, at, before), (at, at + 1, text), (at + 1, len(keys), weight - text - before))
    for first, after, share in parts:
        if first == after:
            continue
        stretch = _stretch(keys[first], keys[after - 1], values[first:after], share)
        if first == at:
            stretch = replace(stretch, text=long_text(values[at]), place=(start, end))
        yield keys[first], stretch


def _dominates(value: Any, weight: int) -> bool:
    """Whether a text is most of a batch of `weight` bytes: only so few are held, and by their ends."""
    return isinstance(value, str) and len(value) > SHOWN_BYTES and 2 * len(value) > weight
