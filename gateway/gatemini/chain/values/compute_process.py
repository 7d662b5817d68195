"""What the compute process does: read large messages, rewrite large JSON, reduce large answers.

`answer` is called with one request at a time; its parts are described in `processes/compute.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw

from gatemini.backends import wire
from gatemini.config.secrets import Redactor
from gatemini.output import lazy
from gatemini.output.jsontext import decode, encode
from gatemini.output.jsvalue import NotJson, dumps, is_index, loads, ordered_keys, quoted
from gatemini.output.pipeline import OutputOptions, reduced
from gatemini.output.rows import index_rows
from gatemini.processes.compute import frame, unframed

BATCH_BYTES = 96 * 1024
"""Members that are parsed and written together: as values they stay in the processor's cache."""
LARGE_PART = 64 * 1024
"""Strings and containers from this size on stand outside the message they are part of."""
SAMPLE_MEMBERS = 100
SAMPLE_BYTES = 4096
"""Of a large value the first members up to this size each are looked at for its output schema."""
SAMPLE_LEVELS = 3
MEDIA = ("data", "blob", "text")
"""Members of a content block, or of the resource in it, that may be long strings."""
CHUNK_BYTES = 64 * 1024
"""Of a long list, such as that of tools, what the event loop reads at a time."""


def answer(request: bytearray) -> bytes:
    """The answer to one request, as `WorkerPool` wants it."""
    header, body = unframed(request)
    return OPERATIONS[header["op"]](header, bytes(body))


# -- large JSON as JavaScript writes it ------------------------------------------------------------


class _Digits:
    """Reads JSON with integers beyond 2^53 as strings, and counts them."""

    def __init__(self) -> None:
        self.kept = 0

    def load(self, data: bytes) -> Any:
        value, kept = loads(data)
        self.kept += kept
        return value


def javascript(raw: Raw, digits: _Digits) -> Iterator[str]:
    """The text JavaScript writes for a value, in parts."""
    if len(raw) <= BATCH_BYTES:
        yield dumps(digits.load(bytes(raw)))
    elif lazy.is_array(raw):
        yield from _array(lazy.items(raw), digits)
    elif lazy.is_object(raw):
        yield from _object(lazy.fields(raw), digits)
    else:
        yield dumps(digits.load(bytes(raw)))


def _array(rows: list[Raw], digits: _Digits) -> Iterator[str]:
    before = "["
    for group in lazy.batches(rows):
        yield before
        before = ","
        if len(group) > 1 or len(group[0]) <= BATCH_BYTES:
            yield dumps(digits.load(b"[%b]" % b",".join(group)))[1:-1]
        else:
            yield from javascript(group[0], digits)
    yield "]" if rows else "[]"


def _object(fields: dict[str, Raw], digits: _Digits) -> Iterator[str]:
    if any(map(is_index, fields)):
        fields = ordered_keys(fields)
    before = "{"
    group: dict[str, Raw] = {}
    load = 0
    for key, item in fields.items():
        if group and load + len(item) > BATCH_BYTES:
            yield before + dumps(digits.load(lazy.written(group)))[1:-1]
            before, group, load = ",", {}, 0
        if len(item) > BATCH_BYTES:
            yield f"{before}{quoted(key)}:"
            yield from javascript(item, digits)
            before = ","
        else:
            group[key] = item
            load += len(item)
    if group:
        yield before + dumps(digits.load(lazy.written(group)))[1:-1]
    yield "}" if fields else "{}"


def _written(data: bytes) -> tuple[str, int] | None:
    """(the JSON of an object or array as JavaScript writes it, integers kept as strings); None where it is none."""
    bare = data.strip(b" \t\r\n\xef\xbb\xbf")
    if not bare or bare[0] not in b"{[" or bare[-1] not in b"}]":
        return None
    digits = _Digits()
    raw = _strictly(bare)
    try:
        if raw is not None:
            return "".join(javascript(raw, digits)), digits.kept
        return dumps(digits.load(bare)), digits.kept
    except NotJson:
        return None


def _strictly(data: bytes) -> Raw | None:
    """The document, where it can be read lazily as it is."""
    try:
        data.decode()
        return msgspec.json.decode(data, type=Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _sample(raw: Raw, level: int, way: tuple[str | int, ...], cut: list[tuple[str | int, ...]]) -> Any:
    """The beginning of a value; the ways to what goes on are added to `cut`."""
    if len(raw) <= SAMPLE_BYTES:
        return loads(bytes(raw))[0]
    cut.append(way)
    if lazy.is_string(raw):
        return lazy.string(raw)[:SAMPLE_BYTES]
    members: dict[str, Any] = {}
    items: list[Any] = []
    if level == SAMPLE_LEVELS:
        return items if lazy.is_array(raw) else members
    if lazy.is_array(raw):
        rows = lazy.items(raw)
        items += (_sample(row, level + 1, (*way, n), cut) for n, row in enumerate(rows[:SAMPLE_MEMBERS]))
        if len(rows) == len(items):
            cut.remove(way)
        return items
    fields = lazy.fields(raw)
    for key, item in islice(fields.items(), SAMPLE_MEMBERS):
        members[key] = _sample(item, level + 1, (*way, key), cut)
    if len(members) == len(fields):
        cut.remove(way)
    return members


# -- large messages ------------------------------------------------------------------------------------


class _Parts:
    """The bytes of an answer, and where in them each part lies."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> tuple[int, int]:
        start = self._size
        self._data.append(data)
        self._size += len(data)
        return start, self._size

    def after(self, header: Any) -> bytes:
        return b"".join([frame(header), *self._data])


class _Message:
    """One message on its way: what is large in it is taken out."""

    def __init__(self, parts: _Parts) -> None:
        self.large: list[dict[str, Any]] = []
        self._parts = parts
        self._digits = _Digits()

    @property
    def kept(self) -> int:
        return self._digits.kept

    def envelope(self, fields: dict[str, Raw]) -> dict[str, Any]:
        result = fields.pop("result", None)
        message = {key: self._digits.load(bytes(item)) for key, item in fields.items()}
        if result is None:
            return message
        if not lazy.is_object(result):
            return {**message, "result": self._digits.load(bytes(result))}
        return {**message, "result": self._result(lazy.fields(result))}

    def _result(self, fields: dict[str, Raw]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        structured = fields.get("structuredContent")
        for key, item in fields.items():
            made[key] = None
            if len(item) < LARGE_PART:
                made[key] = self._digits.load(bytes(item))
            elif key == "structuredContent" and lazy.is_container(item):
                self._structured(item)
            elif key == "content" and lazy.is_array(item):
                blocks = lazy.items(item)
                alone = len(blocks) == 1 and structured is None
                made[key] = [self._block(block, n, alone=alone) for n, block in enumerate(blocks)]
            elif lazy.is_array(item):
                self._list(key, lazy.items(item))
            else:
                made[key] = self._digits.load(bytes(item))
        return made

    def _structured(self, raw: Raw) -> None:
        text = "".join(javascript(raw, self._digits))
        cut: list[tuple[str | int, ...]] = []
        sample = _sample(Raw(encode(text)), 0, (), cut)
        self.large.append(
            {"at": ["result", "structuredContent"], "kind": "json", "text": self._parts.add(encode(text)),
             "sample": sample, "cut": cut}
        )  # fmt: skip

    def _block(self, raw: Raw, number: int, *, alone: bool) -> Any:
        if len(raw) < LARGE_PART or not lazy.is_object(raw):
            return self._digits.load(bytes(raw))
        return self._object(lazy.fields(raw), ["result", "content", number], alone=alone)

    def _object(self, fields: dict[str, Raw], path: list[str | int], *, alone: bool) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in fields.items():
            made[key] = None
            if len(item) >= LARGE_PART and key in MEDIA and lazy.is_string(item):
                self._text([*path, key], lazy.string(item), is_value=alone and key == "text")
            elif len(item) >= LARGE_PART and key == "resource" and lazy.is_object(item):
                made[key] = self._object(lazy.fields(item), [*path, key], alone=False)
            else:
                made[key] = self._digits.load(bytes(item))
        return made

    def _text(self, path: list[str | int], text: str, *, is_value: bool) -> None:
        data = encode(text)
        found = _written(data) if is_value else None
        place = self._parts.add(data)
        written = (
            None
            if found is None
            else place
            if encode(found[0]) == data
            else self._parts.add(encode(found[0]))
        )
        self.large.append(
            {"at": path, "kind": "text", "text": place, "json": written, "kept": found[1] if found else 0}
        )

    def _list(self, key: str, rows: list[Raw]) -> None:
        groups: list[list[Raw]] = [[]]
        load = 0
        for row in rows:
            if load > CHUNK_BYTES:
                groups.append([])
                load = 0
            groups[-1].append(row)
            load += len(row)
        chunks = [self._parts.add(encode(dumps(self._digits.load(b"[%b]" % b",".join(g))))) for g in groups]
        self.large.append({"at": ["result", key], "kind": "items", "chunks": chunks})


def _read_message(header: dict[str, Any], data: bytes) -> bytes:
    del header
    parts = _Parts()
    line = data.strip(b" \t\r\n\x00\xef\xbb\xbf")
    raw = _strictly(line)
    if raw is not None and lazy.is_object(raw):
        message = _Message(parts)
        read = message.envelope(lazy.fields(raw))
        notes = ["integers beyond 2^53 were kept as text"] if message.kept else []
        return parts.after([_told(read, message, notes, len(line), parts)] if wire.is_rpc(read) else [])
    told = []
    for piece in wire.decode(data):
        if isinstance(piece, wire.Broken):
            told.append({"broken": piece.reason, "id": piece.ident})
            continue
        message = _Message(parts)
        repaired = _strictly(encode(dumps(piece.message)))
        read = piece.message if repaired is None else message.envelope(lazy.fields(repaired))
        told.append(_told(read, message, list(piece.notes), piece.size, parts))
    return parts.after(told)


def _told(read: Any, message: _Message, notes: list[str], size: int, parts: _Parts) -> dict[str, Any]:
    return {"message": parts.add(wire.encode(read)), "large": message.large, "notes": notes, "size": size}


def _read_text(header: dict[str, Any], data: bytes) -> bytes:
    del header
    parts = _Parts()
    found = _written(data)
    place = None if found is None else parts.add(encode(found[0]))
    return parts.after({"json": place, "kept": found[1] if found else 0})


# -- large answers --------------------------------------------------------------------------------------


def _reduce(header: dict[str, Any], data: bytes) -> bytes:
    """Secrets are taken out before anything is cut; the index is that of the text as it came."""
    text = decode(data)
    shown = Redactor.of_forms(header["forms"]).redact(text)
    plan = reduced(shown, OutputOptions(**header["options"]))
    told: dict[str, Any] = {"bytes": len(encode(shown)), "plan": None, "index": None}
    parts = _Parts()
    if plan is None:
        told["text"] = None if shown is text else parts.add(encode(shown))
        return parts.after(told)
    told["text"] = parts.add(encode(plan.text))
    told["plan"] = {"notes": plan.notes, "footer": plan.footer, "kind": plan.kind}
    if plan.footer is not None:
        index = plan.index if shown is text and plan.index else index_rows(data, as_text=plan.kind == "text")
        told["index"] = asdict(index)
        del told["index"]["_cuts"]
        told["index"]["doubled"] = []
    return parts.after(told)


def _index(header: dict[str, Any], data: bytes) -> bytes:
    made = asdict(index_rows(data, as_text=header["as_text"]))
    del made["_cuts"]
    return _Parts().after({**made, "doubled": []})


OPERATIONS = {"message": _read_message, "text": _read_text, "reduce": _reduce, "index": _index}
