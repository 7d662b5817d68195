"""What the compute process does: read large messages, reduce large answers.

`answer` is called with one request at a time; its parts are described in `processes/compute_process.py`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
from msgspec import Raw

from gatemini.backends import wire
from gatemini.config.variables.redaction import Redactor
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.javascript_json import (
    NotJson,
    dumps,
    loads,
    loads_lenient,
    with_long_integers_quoted,
)
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import reduced
from gatemini.output.store.row_index import index_rows
from gatemini.processes.workers.compute_process import frame, unframed
from gatemini.text.utf8 import decode, encode

LARGE_PART = 64 * 1024
"""Strings and containers from this size on stand outside the message they are part of."""
MEDIA = ("data", "blob", "text")
"""Members of a content block, or of the resource in it, that may be long strings."""
CHUNK_BYTES = 64 * 1024
"""Of a long list, such as that of tools, what the event loop reads at a time."""


def answer(request: bytearray) -> bytes:
    """The answer to one request, as `WorkerPool` wants it."""
    header, body = unframed(request)
    return OPERATIONS[header["op"]](header, bytes(body))


# -- large JSON ----------------------------------------------------------------------------------------


def _as_json(text: bytes) -> tuple[bytes, int, int] | None:
    """(the JSON of an object or array without white space, integers in it kept as strings, numbers read as null);
    None where it is none."""
    bare = text.strip(b" \t\r\n\xef\xbb\xbf")
    if not bare or bare[0] not in b"{[" or bare[-1] not in b"}]":
        return None
    raw = _strictly(bare)
    if raw is not None:
        return *with_long_integers_quoted(bytes(lazy.compacted(raw, bare))), 0
    try:
        value, kept, nulls = loads_lenient(bare)
    except NotJson:
        return None
    return encode(dumps(value)), kept, nulls


def _strictly(data: bytes) -> Raw | None:
    """The document, where it can be read lazily as it is."""
    try:
        data.decode()
        return msgspec.json.decode(data, type=Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


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
        self.kept = 0
        """Integers beyond 2^53 that became strings."""
        self._parts = parts

    def _load(self, data: bytes) -> Any:
        value, kept = loads(data)
        self.kept += kept
        return value

    def envelope(self, fields: dict[str, Raw]) -> dict[str, Any]:
        result = fields.pop("result", None)
        message = {key: self._load(bytes(item)) for key, item in fields.items()}
        if result is None:
            return message
        if not lazy.is_object(result):
            return {**message, "result": self._load(bytes(result))}
        return {**message, "result": self._result(lazy.fields(result))}

    def _result(self, fields: dict[str, Raw]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        structured = fields.get("structuredContent")
        for key, item in fields.items():
            made[key] = None
            if len(item) < LARGE_PART:
                made[key] = self._load(bytes(item))
            elif key == "structuredContent" and lazy.is_container(item):
                self._structured(item)
            elif key == "content" and lazy.is_array(item):
                blocks = lazy.items(item)
                alone = len(blocks) == 1 and structured is None
                made[key] = [self._block(block, n, alone=alone) for n, block in enumerate(blocks)]
            elif lazy.is_array(item):
                self._list(key, lazy.items(item))
            else:
                made[key] = self._load(bytes(item))
        return made

    def _structured(self, raw: Raw) -> None:
        text, kept = with_long_integers_quoted(bytes(lazy.compacted(raw, bytes(raw))))
        self.kept += kept
        members = lazy.fields(raw) if lazy.is_object(raw) else {}
        key = next(iter(members)) if len(members) == 1 else None
        if key is not None and not text.startswith(b"{%b:" % encode(dumps(key))):
            key = None  # written with escapes
        place = self._parts.add(text)
        self.large.append({"at": ["result", "structuredContent"], "kind": "json", "text": place, "key": key})

    def _block(self, raw: Raw, number: int, *, alone: bool) -> Any:
        if len(raw) < LARGE_PART or not lazy.is_object(raw):
            return self._load(bytes(raw))
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
                made[key] = self._load(bytes(item))
        return made

    def _text(self, path: list[str | int], text: str, *, is_value: bool) -> None:
        data = encode(text)
        made: dict[str, Any] = {"at": path, "kind": "text", "text": self._parts.add(data), "json": None}
        found = _as_json(data) if is_value else None
        if found is not None:
            json, made["kept"], made["nulls"] = found
            made["json"] = made["text"] if json == data else self._parts.add(json)
        self.large.append(made)

    def _list(self, key: str, rows: list[Raw]) -> None:
        groups: list[list[Raw]] = [[]]
        load = 0
        for row in rows:
            if load > CHUNK_BYTES:
                groups.append([])
                load = 0
            groups[-1].append(row)
            load += len(row)
        chunks = [self._parts.add(encode(dumps(self._load(b"[%b]" % b",".join(g))))) for g in groups]
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
        return parts.after([_described(read, message, notes, len(line), parts)] if wire.is_rpc(read) else [])
    described = []
    for piece in wire.decode(data):
        if isinstance(piece, wire.Broken):
            described.append({"broken": piece.reason, "id": piece.ident})
            continue
        message = _Message(parts)
        repaired = _strictly(encode(dumps(piece.message)))
        read = piece.message if repaired is None else message.envelope(lazy.fields(repaired))
        described.append(_described(read, message, list(piece.notes), piece.size, parts))
    return parts.after(described)


def _described(read: Any, message: _Message, notes: list[str], size: int, parts: _Parts) -> dict[str, Any]:
    return {"message": parts.add(wire.encode(read)), "large": message.large, "notes": notes, "size": size}


# -- large answers --------------------------------------------------------------------------------------


def _reduce(header: dict[str, Any], data: bytes) -> bytes:
    """Secrets are taken out before anything is cut; the index is that of the text as it came."""
    text = decode(data)
    shown = Redactor((name, value) for value, name in header["secrets"].items()).redact(text)
    plan = reduced(shown, OutputOptions(**header["options"]))
    facts: dict[str, Any] = {"bytes": len(encode(shown)), "plan": None, "index": None}
    parts = _Parts()
    if plan is None:
        facts["text"] = None if shown is text else parts.add(encode(shown))
        return parts.after(facts)
    facts["text"] = parts.add(encode(plan.text))
    facts["plan"] = {"notes": plan.notes, "footer": plan.footer, "kind": plan.kind}
    if plan.footer is not None:
        index = plan.index if shown is text and plan.index else index_rows(data, as_text=plan.kind == "text")
        facts["index"] = asdict(index)
    return parts.after(facts)


OPERATIONS = {"message": _read_message, "reduce": _reduce}
