"""Outline a document: small branches in full, pieces of long texts, the rest as key paths with sizes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any

from msgspec import Raw

from gatemini.output.collapsed_arrays import (
    CHUNK_BYTES,
    DETAILS,
    MAX_DEPTH,
    MIN_ROWS,
    Detail,
    Node,
    Opened,
    Rows,
    kilobytes,
    path_text,
    stand_in,
    varied_rows,
)
from gatemini.output.describe_value import (
    IDENTITY_KEYS,
    described,
    identity,
    is_base64,
    json_inside,
    keys_told,
    kind,
)
from gatemini.output.digest import summarise
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.lazy_json import size
from gatemini.output.passages import MOST_SHOWN, shown_pieces

SMALL_BYTES = 512
"""Largest branch, in bytes, that is shown in full if there is room."""
MAX_CHUNKS = 40
NAMED = 5
"""Most members of a chunk that are named."""
NAMED_OF = 50
"""Most members of a chunk that are read to find their names."""


@dataclass(slots=True)
class Chunk:
    """Neighbouring members that are not shown: their path, size and content."""

    path: tuple[str, ...]
    label: str
    bytes: int
    what: str

    @property
    def text(self) -> str:
        return path_text((*self.path, self.label) if self.label else self.path)


@dataclass(slots=True)
class Outline:
    """Small branches in full (`shown`, the document's own shape) and chunks for the rest."""

    shown: Any
    chunks: list[Chunk]
    unlisted: int = 0
    unlisted_bytes: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    """Pieces of long texts, by their key paths."""
    arrays: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Path → (total rows, rows shown) of arrays that a description replaces."""

    def value(self) -> dict[str, Any]:
        made: dict[str, Any] = {"$reduced": "small branches in full under `shown`, the others as key paths"}
        if self.shown:
            made["shown"] = self.shown
        if self.texts:
            made["$reduced"] += ", of long texts their ends under `texts`"
            made["texts"] = self.texts
        made["chunks"] = {chunk.text: f"{kilobytes(chunk.bytes)}, {chunk.what}" for chunk in self.chunks}
        if self.unlisted:
            made["more_chunks"] = f"{self.unlisted} more, {kilobytes(self.unlisted_bytes)}"
        return made


def outline(
    node: Node, detail: Detail | None = None, *, max_chunks: int = MAX_CHUNKS, shown_bytes: int = CHUNK_BYTES
) -> Outline:
    """Key-path chunks of about `CHUNK_BYTES`, larger where that would make more than `max_chunks`; of more the largest.

    With `detail`, described arrays are replaced by their descriptions if there is room.
    """
    walk = _Walk(max(CHUNK_BYTES, _weight(node) // max_chunks), shown_bytes, detail)
    shown = walk.level(node)
    order = sorted(range(len(walk.chunks)), key=lambda number: -walk.chunks[number].bytes)
    listed = [walk.chunks[number] for number in sorted(order[:max_chunks])]
    rest = [walk.chunks[number].bytes for number in order[max_chunks:]]
    return Outline(shown, listed, len(rest), sum(rest), walk.texts, walk.arrays)


class _Open(dict[str, Any]):
    """A partly shown container, its members by key (array items by `[index]`). Its type differs from those of the document."""


@dataclass(slots=True)
class _Branch:
    """A container whose members are outlined: its path in the document and its part of the outline."""

    node: Node
    path: tuple[str, ...]
    shown: _Open


class _Walk:
    """Builds the outline breadth first, so that members near the root get the room before deep ones do."""

    def __init__(self, chunk_bytes: int, room: int, detail: Detail | None) -> None:
        self.chunk_bytes = chunk_bytes
        self.detail = detail
        self.room = room
        self.chunks: list[Chunk] = []
        self.texts: dict[str, str] = {}
        self.arrays: dict[str, tuple[int, int]] = {}
        self._long: list[tuple[int, tuple[str, ...], Raw]] = []

    def level(self, node: Node) -> Any:
        root = _Branch(node, (), _Open())
        if not self._stood_for(root, node, "", root.shown):
            queue = [root]
            while queue:
                queue = [inner for branch in queue for inner in self._look(branch)]
        longest = sorted(self._long, key=lambda found: -found[0])[:MOST_SHOWN]
        read = [(path_text(path), lazy.string(raw)) for _, path, raw in longest]
        # Neither JSON with its escapes nor base64 says much.
        texts = [(path, text) for path, text in read if json_inside(text) is None and not is_base64(text)]
        pieces = shown_pieces([text for _, text in texts], self.room)
        paths = [path for path, _ in texts]
        self.texts = {path: piece for path, piece in zip(paths, pieces, strict=False) if piece}
        return _pruned(root.shown)

    def _stood_for(self, branch: _Branch, node: Node, label: str, shown: _Open) -> bool:
        """Show the description of an array, if there is room."""
        if self.detail is None or not isinstance(node, Rows):
            return False
        made = stand_in(node, self.detail)
        weight = size(made)
        if weight > self.room or weight >= node.bytes:
            return False
        self.room -= weight + len(label) + 4
        path = (*branch.path, label) if label else branch.path
        self.arrays[path_text(path)] = (node.summary.total, made["shown_rows"])
        if label:
            shown[label] = made
        else:
            shown |= made
        return True

    def _look(self, branch: _Branch) -> Iterator[_Branch]:
        """Show small children, group middle-sized ones into chunks, yield large containers for the next level."""
        array = _is_array(branch.node)
        children = _children(branch.node)
        if isinstance(children, list):
            self._tell_rows(branch, children)
            if set(map(type, children)) == {Raw} and max(map(len, children)) <= SMALL_BYTES:
                self._run_of_small(branch, children)
                return
        run: list[tuple[Any, Node]] = []
        load = 0
        few = len(children) <= MOST_SHOWN
        for key, child in enumerate(children) if isinstance(children, list) else children.items():
            weight = _weight(child)
            label = f"[{key}]" if array else str(key)
            if not array and weight <= min(self.room, SMALL_BYTES):
                self.room -= weight + len(label) + 4
                branch.shown[label] = child.raw if isinstance(child, Opened | Rows) else child
                continue
            if self._stood_for(branch, child, label, branch.shown):
                continue
            if _is_long(child):
                self._long.append((weight, (*branch.path, label), child))
            large = _is_container(child) and (weight > self.chunk_bytes or (few and _is_page(child)))
            if large and len(branch.path) < MAX_DEPTH:
                self._flush(branch, run)
                load = 0
                inner = branch.shown[label] = _Open()
                yield _Branch(child, (*branch.path, label), inner)
                continue
            if run and load + weight > self.chunk_bytes:
                self._flush(branch, run)
                load = 0
            run.append((key, child))
            load += weight
        self._flush(branch, run)

    def _run_of_small(self, branch: _Branch, children: list[Raw]) -> None:
        """Group an array's items into chunks when all are small, without a Python call for each of a hundred thousand."""
        ends = list(accumulate(map(len, children)))
        first = before = 0
        while first < len(children):
            after = max(first + 1, bisect_right(ends, before + self.chunk_bytes, first))
            label = f"[{first}-{after - 1}]" if after - first > 1 else f"[{first}]"
            weight = ends[after - 1] - before
            self.chunks.append(Chunk(branch.path, label, weight, _what(children[first:after])))
            first, before = after, ends[after - 1]

    def _tell_rows(self, branch: _Branch, items: list[Any]) -> None:
        """Describe an array's items of differing kinds, in as much detail as there is room for."""
        if len(items) < MIN_ROWS:
            return
        node = branch.node
        summary = None if isinstance(node, Raw) else node.summary
        raws = list(map(_raw, items[: DETAILS[0].rows]))
        summary = summary or summarise(list(map(_raw, items)))
        for detail in DETAILS:
            facts = varied_rows(summary, raws, detail)
            note = f"{summary.total} items as key paths, first {facts['shown_rows']} shown"
            facts = {"$reduced": note, **facts}
            weight = size(facts)
            if weight <= self.room:
                self.room -= weight
                branch.shown.update(facts)
                return

    def _flush(self, branch: _Branch, run: list[tuple[Any, Node]]) -> None:
        if not run:
            return
        (first, _), (last, _), count = run[0], run[-1], len(run)
        if _is_array(branch.node):
            label = f"[{first}-{last}]" if count > 1 else f"[{first}]"
        else:
            label = f"{first} … {last} ({count} keys)" if count > 1 else str(first)
        weight = sum(_weight(child) for _, child in run)
        self.chunks.append(Chunk(branch.path, label, weight, _what([child for _, child in run])))
        run.clear()


def _children(node: Node) -> dict[str, Any] | list[Any]:
    if isinstance(node, Raw):
        return lazy.members(node)
    return list(node.items) if isinstance(node, Rows) else node.inner


def _weight(node: Node) -> int:
    return len(node) if isinstance(node, Raw) else len(node.raw)


def _raw(node: Node) -> Raw:
    return node if isinstance(node, Raw) else node.raw


def _is_array(node: Node) -> bool:
    return lazy.is_array(_raw(node))


def _is_container(node: Node) -> bool:
    return lazy.is_container(_raw(node))


def _is_long(node: Node) -> bool:
    """Whether this is a text long enough that a piece says more than its first words in the list of key paths."""
    return isinstance(node, Raw) and len(node) > SMALL_BYTES and lazy.is_string(node)


def _is_page(node: Node) -> bool:
    """Whether an object holds a text that is long enough to show a piece of it."""
    raw = _raw(node)
    return len(raw) > SMALL_BYTES and lazy.is_object(raw) and any(map(_is_long, lazy.fields(raw).values()))


def _pruned(shown: Any) -> Any:
    """Drop containers that are empty because all of their content is in chunks."""
    if not isinstance(shown, _Open):
        return shown
    kept = {key: _pruned(item) for key, item in shown.items()}
    return _Open({key: item for key, item in kept.items() if item or not isinstance(item, _Open)})


def _what(run: Sequence[Node]) -> str:
    """Return the label of a chunk: names of its members, or a description of a single one."""
    raws = [node if type(node) is Raw else node.raw for node in run]
    if len(raws) == 1:
        [raw] = raws
        if lazy.is_object(raw) and len(raw) > CHUNK_BYTES:
            return keys_told(list(islice(lazy.fields(raw), 20)))
        if lazy.is_array(raw):
            return f"array of {len(lazy.items(raw))}"
        return described(lazy.value(raw))
    objects = (raw for raw in raws[:NAMED_OF] if lazy.is_object(raw))
    names = list(islice(filter(None, map(_name, objects)), NAMED + 1))
    if names:
        shown = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        return f"{len(raws)} items: {shown}"
    return f"{len(raws)} {kind(lazy.openings(raws))}"


def _name(raw: Raw) -> str | None:
    """Return `id 7` for an object with an identity key."""
    fields = lazy.fields(raw)
    known = {key: lazy.value(fields[key]) for key in IDENTITY_KEYS if key in fields}
    return identity(known) if known else None
