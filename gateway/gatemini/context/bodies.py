"""The body of a tool result: what of it is kept, whether it is ours already, and what the model gets instead."""

from __future__ import annotations

import re
from typing import Any

from gatemini.config.model.context import CompactConfig
from gatemini.context.request.json_places import Json
from gatemini.context.request.messages import ToolResult
from gatemini.context.stores import Store
from gatemini.output.compact import compact
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import dump
from gatemini.text.utf8 import encode

WRAPPERS = ("result", "output", "content")
"""Members under which clients of Gemini put a result that is no object."""
STUB = re.compile(r'\{"status":\s*"processed",\s*"handle":\s*"(res_[0-9a-f]{8})"\}')
_OURS = re.compile(r'\{"handle":\s*"(res_[0-9a-f]{8})",\s*"total_rows":')
_COMPACTED = re.compile(r'\{"total_rows":\s*\d+,\s*"returned_rows":')
_HANDLE = re.compile(r'"handle":\s*"(res_[0-9a-f]{8})"')
NOTE = "read on with fetch_rows(handle, offset, limit): at most 40 rows a call"


def stub(handle: str) -> str:
    """The text that replaces a result that was read."""
    return dump({"status": "processed", "handle": handle})


def wrapped(body: Json) -> tuple[str, str] | None:
    """Member and text of a body that is an object around one text: `{"result": "…"}`."""
    members = body.members()
    if len(members) == 1 and members[0][1].is_string and members[0][0] in WRAPPERS:
        return members[0][0], members[0][1].string()
    return None


def stored(result: ToolResult) -> str:
    """What is kept of a result: its text; JSON where it is more than text."""
    if result.body.is_object:
        inner = wrapped(result.body)
        return result.text if inner is None else inner[1]
    return result.text if result.only_text else result.body.compact().decode("utf-8", "replace")


def known_handle(text: str) -> str | None:
    """The handle in a body that replaces another: a stub, a description, rows that were compacted."""
    found = STUB.fullmatch(text) or _OURS.match(text)
    if found is not None:
        return found[1]
    if _COMPACTED.match(text):
        inner = _HANDLE.search(text[:400])
        return inner[1] if inner else None
    return None


def is_stub(text: str) -> bool:
    return STUB.fullmatch(text) is not None


def is_compacted(text: str) -> bool:
    """Whether a body is rows that were compacted already."""
    return _COMPACTED.match(text) is not None


def in_form(body: Json, text: str) -> bytes:
    """A new body in the form of the old one: Gemini's is an object, the others are strings."""
    return encode(text) if body.is_object else encode(dump(text))


def described(store: Store, handle: str) -> str:
    """Count, schema, digest and handle of a kept result."""
    info = store.info(handle)
    made = {"handle": handle, "total_rows": info.get("total_rows", 1)}
    made |= {"schema": info.get("schema", info.get("kind", "text")), "digest": info.get("digest", {})}
    return dump({**made, "bytes": info.get("bytes"), "note": NOTE})


def compacted(rows: list[Any], settings: CompactConfig, handle: str) -> str | None:
    """The rows of a result within the budget; None where nothing is to be reduced."""
    made = compact(rows, fields=settings.fields, budget_tokens=settings.budget_tokens)
    whole = not made["truncated"] and not made["dropped_fields"]
    if settings.fields is None and whole:
        return None
    facts = {key: made[key] for key in ("total_rows", "returned_rows", "truncated", "dropped_fields")}
    return dump(
        {**facts, **({} if whole else {"handle": handle, "note": made["note"]}), "rows": made["rows"]}
    )


def rows_of(text: str) -> list[Any] | None:
    """The rows that a result holds; None where it holds something else."""
    root = lazy.checked(encode(text))
    if root is None:
        return None
    keys = lazy.bulk_path(root)
    rows = lazy.value(lazy.at_keys(root, keys)) if keys is not None else None
    return rows if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows) else None
