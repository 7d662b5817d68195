"""JSON too large to show: what it is, how it begins, and where the rest lies.

`collapse` turns uniform arrays, at any depth where the bulk lies, into an object with count, types, first
rows and identities; `outline` shows small branches in full and the rest as key paths with sizes. What they
return is JSON. Above: `pipeline.py`. Below: `branches.py`, `digest.py`,
`naming.py`, `jsontext.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from gatemini.output.branches import Branch, Stretch
from gatemini.output.digest import StandIn, Summary
from gatemini.output.jsontext import dump, size
from gatemini.output.naming import IDENTITY_CHARS, ITEMS, described, identity, keys_told, kind, short
from gatemini.output.passages import MOST_SHOWN, LongText, long_text, shown_pieces
from gatemini.output.survey import Bulk

FIRST_ROWS = 3
IDENTITIES = 20
MIN_ROWS = 5
"""Fewer rows than this are shown, not collapsed."""
MIN_BYTES = 1024
"""Arrays smaller than this are not where the bulk lies."""
CHUNK_BYTES = 4096
SMALL_BYTES = 512
"""A branch up to this size is shown in full by the outline, while there is room."""
MAX_CHUNKS = 40
ROW_SHOWN_BYTES = 1024
"""Of rows that have differing keys, the first ones up to this size are shown."""
MISSING_TOLD = 24
"""Keys that some rows lack, of which is told how many lack them."""
MAX_DEPTH = 12
"""Levels looked into; deeper ones are part of their branch's chunk."""
SEPARATOR = " > "


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a collapsed array is shown; `pipeline` steps down when the budget asks for it."""

    rows: int = FIRST_ROWS
    identities: int = IDENTITIES
    digest: bool = True
    texts: int = CHUNK_BYTES
    """Characters that plain texts may have together; each has at least those of an identity."""


DETAILS = (
    Detail(),
    Detail(rows=1, identities=10, texts=CHUNK_BYTES // 4),
    Detail(rows=1, identities=0, digest=False, texts=0),
    Detail(0, 0, False, 0),
)


@dataclass(slots=True)
class Collapse:
    """A collapsed document and what was dropped: path → (total rows, rows shown)."""

    value: Any
    arrays: dict[str, tuple[int, int]] = field(default_factory=dict)


def collapsed_rows(summary: Summary, head: Sequence[Any], detail: Detail) -> StandIn:
    """The object that stands for a uniform array, or for one of plain values; `head` are its first rows."""
    if summary.plain is not None:
        first = head[: detail.identities or detail.rows]
        each = max(IDENTITY_CHARS, detail.texts // max(1, len(first)))
        shown = [short(value, each) for value in first]
    else:
        shown = list(head[: detail.rows])
    made = StandIn()
    made |= {
        "$reduced": f"{summary.total} {'values' if summary.plain else 'rows'}, first {len(shown)} shown",
        "total_rows": summary.total,
        "shown_rows": len(shown),
        "types": summary.schema(),
    }
    if summary.missing:
        made["missing_in_rows"] = summary.missing
    made["first_rows"] = shown
    keys = summary.identity
    if keys is not None and detail.identities:
        later = head[detail.rows : detail.rows + detail.identities]
        named = [short(_at(row, keys)) for row in later]
        made["next_identities"] = {"key": ".".join(keys), "values": named}
    if detail.digest and (digest := summary.digest()):
        made["digest"] = digest
    return made


def _at(row: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        row = row.get(key) if isinstance(row, dict) else None
    return row


def stand_in(bulk: Bulk, detail: Detail) -> StandIn:
    """The object that stands for a long array of a surveyed document: collapsed rows, else its stretches."""
    if bulk.summary.collapsible:
        made = collapsed_rows(bulk.summary, bulk.head, detail)
        made.bytes = bulk.bytes
        return made
    step = -(-len(bulk.batches) // MAX_CHUNKS) or 1
    chunks: dict[str, str] = {}
    for at in range(0, len(bulk.batches), step):
        group = bulk.batches[at : at + step]
        first, count = group[0].first, sum(batch.count for batch in group)
        weight = kilobytes(group[-1].end - group[0].start)
        chunks[f"[{first}-{first + count - 1}]"] = f"{weight}, {count} items"
    facts = varied_rows(bulk.summary, bulk.head, detail)
    shown = facts["shown_rows"]
    what = f"{bulk.summary.total} items, first {shown} shown, the others as key paths"
    made = StandIn({"$reduced": what, **facts, "chunks": chunks})
    made.bytes = bulk.bytes
    return made


def varied_rows(summary: Summary, head: Sequence[Any], detail: Detail) -> dict[str, Any]:
    """What can be said of rows that are of no one kind: how many, types, which keys some lack, the first, a digest."""
    shown = list(takewhile(lambda row: size(row) <= ROW_SHOWN_BYTES, head[: detail.rows]))
    made: dict[str, Any] = {"total_rows": summary.total, "shown_rows": len(shown), "types": summary.schema()}
    if summary.all_objects and 0 < len(summary.missing) <= MISSING_TOLD:
        made["missing_in_rows"] = summary.missing
    made["first_rows"] = shown
    if detail.digest and (digest := summary.digest()):
        made["digest"] = digest
    return made


def collapse(value: Any, *, target: int, detail: Detail = DETAILS[0]) -> Collapse | None:
    """Collapses uniform arrays, largest first by level, until at most `target` bytes are left.

    None when there is no uniform array worth it.
    """
    made = Collapse(value)
    made.value = _collapse(value, (), made, detail)
    if not made.arrays:
        return None
    if detail.rows and size(made.value) > target:
        # The first rows themselves hold the bulk: arrays inside them are collapsed too.
        made.value = _inside_rows(made.value, made, detail)
    return made


def _collapse(value: Any, path: tuple[str, ...], made: Collapse, detail: Detail) -> Any:
    if not isinstance(value, dict | list) or len(path) > MAX_DEPTH or (whole := size(value)) < MIN_BYTES:
        return value
    if isinstance(value, dict):
        if isinstance(value, StandIn):
            return value
        return {key: _collapse(item, (*path, key), made, detail) for key, item in value.items()}
    stood_for = any(isinstance(item, StandIn) for item in value)
    summary = summarise(value) if len(value) >= MIN_ROWS and not stood_for else None
    if summary is None or not summary.collapsible:
        return [_collapse(item, (*path, f"[{i}]"), made, detail) for i, item in enumerate(value)]
    instead = collapsed_rows(summary, value[: detail.rows + IDENTITIES], detail)
    if size(instead) >= whole:
        return value
    instead.bytes = whole
    made.arrays[path_text(path)] = (summary.total, instead["shown_rows"])
    return instead


def _inside_rows(value: Any, made: Collapse, detail: Detail) -> Any:
    """Walks to the `first_rows` of collapsed arrays and collapses what lies within."""
    if isinstance(value, list):
        return [_inside_rows(item, made, detail) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value, StandIn):
        rows = [
            _collapse(row, ("first_rows", f"[{i}]"), made, detail)
            for i, row in enumerate(value["first_rows"])
        ]
        made_anew = StandIn({**value, "first_rows": rows})
        made_anew.bytes = value.bytes
        return made_anew
    return {key: _inside_rows(item, made, detail) for key, item in value.items()}


def collapsed_paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths, as `Collapse.arrays` has them, of the collapsed arrays that can be seen in `value`."""
    if isinstance(value, dict):
        if isinstance(value, StandIn):
            yield path_text(path)
        for key, item in value.items():
            yield from collapsed_paths(item, (*path, str(key)))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from collapsed_paths(item, (*path, f"[{at}]"))


def summarise(rows: list[Any]) -> Summary:
    summary = Summary()
    summary.add(rows)
    return summary


def path_text(path: Sequence[str]) -> str:
    """`results > items > [0-4]`; the document itself is `(root)`."""
    return SEPARATOR.join(key or '""' for key in path) if path else "(root)"


# ---------------------------------------------------------------------------------------------- outline


@dataclass(slots=True)
class Chunk:
    """A stretch of siblings that is not shown: where, how large, what it is."""

    path: tuple[str, ...]
    label: str
    bytes: int
    count: int
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


def kilobytes(count: int) -> str:
    return f"{count / 1024:.1f}KB"


def outline(
    value: Any, *, max_chunks: int = MAX_CHUNKS, shown_bytes: int = CHUNK_BYTES, collapsed: bool = False
) -> Outline:
    """Key-path chunks of about `CHUNK_BYTES`, larger where that would make more than `max_chunks`; of more the largest.

    `collapsed`: something in it stands for arrays, which count in full wherever it is not shown.
    """
    chunk_bytes = max(CHUNK_BYTES, _weight(value) // max_chunks)
    walk = _Walk(chunk_bytes, shown_bytes, collapsed)
    shown = walk.level(value)
    order = sorted(range(len(walk.chunks)), key=lambda number: -walk.chunks[number].bytes)
    listed = [walk.chunks[number] for number in sorted(order[:max_chunks])]
    rest = [walk.chunks[number].bytes for number in order[max_chunks:]]
    return Outline(shown, listed, len(rest), sum(rest), walk.texts)


class _Open(dict[str, Any]):
    """A container of ours in what is shown (of an array: by `[index]`), not one of the document's."""


@dataclass(slots=True)
class _Branch:
    """A container being looked into: its place in the document and in what is shown."""

    value: Any
    path: tuple[str, ...]
    shown: _Open


class _Walk:
    """Breadth first, so that facts near the root get the room before deep ones do."""

    def __init__(self, chunk_bytes: int, room: int, collapsed: bool) -> None:
        self.chunk_bytes = chunk_bytes
        self.collapsed = collapsed
        self.room = room
        self.chunks: list[Chunk] = []
        self.texts: dict[str, str] = {}
        self._long: list[tuple[str, LongText]] = []

    def level(self, value: Any) -> Any:
        root = _Branch(value, (), _Open())
        queue = [root]
        while queue:
            queue = [inner for branch in queue for inner in self._look(branch)]
        self._show_texts()
        return _pruned(root.shown)

    def _show_texts(self) -> None:
        """What room is left is for pieces of long texts."""
        pieces = shown_pieces([text for _, text in self._long], self.room)
        self.texts = {self._long[number][0]: piece for number, piece in pieces.items()}

    def _look(self, branch: _Branch) -> Iterator[_Branch]:
        """Shows small children, chunks middling ones together, yields large containers for the next level."""
        if isinstance(branch.value, list):
            self._tell_rows(branch)
        run: list[tuple[Any, Any, int]] = []
        load = 0  # bytes in `run`, kept along: summing anew for each child would be quadratic
        for key, child in _children(branch.value):
            weight = _weight(child)
            label = f"[{key}]" if _is_array(branch.value) else str(key)
            if weight <= self.room and self._tells(branch, child, weight):
                self.room -= weight + len(label) + 4
                branch.shown[label] = child
                continue
            if (text := _long_text(child)) is not None:
                self._long.append((path_text((*branch.path, label)), text))
            large = isinstance(child, dict | list | Branch) and (
                weight > self.chunk_bytes or _is_page(branch.value, child)
            )
            if large and len(branch.path) < MAX_DEPTH:
                self._flush(branch, run)
                load = 0
                inner = branch.shown[label] = _Open()
                yield _Branch(child, (*branch.path, label), inner)
                continue
            if run and load + weight > self.chunk_bytes:
                self._flush(branch, run)
                load = 0
            run.append((key, child, weight))
            load += weight
        self._flush(branch, run)

    def _tell_rows(self, branch: _Branch) -> None:
        """What can be said of an array's items of no one kind, with as much detail as there is room for."""
        if len(branch.value) < MIN_ROWS:
            return
        summary = summarise(branch.value)
        for detail in DETAILS:
            facts = varied_rows(summary, branch.value, detail)
            facts = {
                "$reduced": f"{summary.total} items as key paths, first {facts['shown_rows']} shown",
                **facts,
            }
            weight = size(facts)
            if weight <= self.room:
                self.room -= weight
                branch.shown.update(facts)
                return

    def _tells(self, branch: _Branch, child: Any, weight: int) -> bool:
        """Whether a child is to be shown in full: small ones of an object, and what stands for a long array."""
        if isinstance(child, StandIn):
            return True
        held = not isinstance(child, Branch | Stretch)
        return held and weight <= SMALL_BYTES and not _is_array(branch.value)

    def _flush(self, branch: _Branch, run: list[tuple[Any, Any, int]]) -> None:
        if not run:
            return
        first, last = run[0][0], run[-1][1].last if isinstance(run[-1][1], Stretch) else run[-1][0]
        count = sum(_count(child) for _, child, _ in run)
        if _is_array(branch.value):
            label = f"[{first}-{last}]" if count > 1 else f"[{first}]"
        else:
            label = f"{first} … {last} ({count} keys)" if count > 1 else str(first)
        weight = sum(w for _, _, w in run)
        if self.collapsed:
            weight += sum(_stood_for(child) for _, child, _ in run)
        self.chunks.append(Chunk(branch.path, label, weight, count, _what(run)))
        run.clear()


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Branch):
        yield from value.children
    else:
        yield from value.items() if isinstance(value, dict) else enumerate(value)


def _is_page(outer: Any, child: Any) -> bool:
    """Whether an object, one of few, holds a text of which a piece is worth showing."""
    few = not isinstance(outer, Branch) and len(outer) <= MOST_SHOWN
    return few and isinstance(child, dict) and any(_long_text(item) for item in child.values())


def _long_text(child: Any) -> LongText | None:
    """The text a child is, if a piece of it says more than the words in the list of key paths."""
    if isinstance(child, Stretch):
        return child.text
    return long_text(child) if isinstance(child, str) and len(child) > SMALL_BYTES else None


def _is_array(value: Any) -> bool:
    return value.array if isinstance(value, Branch) else isinstance(value, list)


def _pruned(shown: Any) -> Any:
    """Drops containers that ended up empty because all of their content went into chunks."""
    if not isinstance(shown, _Open):
        return shown
    kept = {key: _pruned(item) for key, item in shown.items()}
    return _Open({key: item for key, item in kept.items() if item or not isinstance(item, _Open)})


def _what(run: Sequence[tuple[Any, Any, int]]) -> str:
    """A chunk's identity: names of its members, or of a single one what it is."""
    children = [child for _, child, _ in run]
    count = sum(_count(child) for child in children)
    if count == 1:
        (child,) = children
        if isinstance(child, Branch):
            return f"array of {child.count}" if child.array else keys_told(child.keys)
        return str(child.only) if isinstance(child, Stretch) else described(child)
    names = [name for child in children for name in _names(child)]
    if names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        return f"{count} items: {shown}"
    kinds = {child.kind if isinstance(child, Stretch) else kind([child]) for child in children}
    return f"{count} {kinds.pop() if len(kinds) == 1 else ITEMS}"


def _count(child: Any) -> int:
    return child.count if isinstance(child, Stretch) else 1


def _names(child: Any) -> tuple[str, ...]:
    if isinstance(child, Stretch):
        return child.names
    name = identity(child)
    return () if name is None else (name,)


def _stood_for(value: Any) -> int:
    """Bytes of collapsed arrays in a value that are not in what stands for them."""
    if isinstance(value, StandIn):
        return max(0, value.bytes - size(value))
    if not isinstance(value, dict | list) or '"$reduced":' not in dump(value):
        return 0  # writing it costs less than walking through it
    return sum(map(_stood_for, value.values() if isinstance(value, dict) else value))


def _weight(value: Any) -> int:
    """Bytes of a value, or of what was not held of it."""
    return value.bytes if isinstance(value, Branch | Stretch) else size(value)
