"""Content beside a result's structured content: what is worth keeping, and the note that says where it is kept.

Many servers repeat their structured content as text; only what says something else is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gatemini.backends.calls.large_messages import JsonText, Written
from gatemini.discovery.types.identifiers import short_name
from gatemini.model import Json
from gatemini.output.json.javascript_json import NotJson, loads

SHOWN_PER_TOOL: Final = 5
"""Handles in the note on one tool; the rest are counted."""

COMPARED_CHARS: Final = 1_000_000
"""Longest text that is parsed to compare it; a longer one counts as the same only if it is so letter by letter."""


def texts_beside(structured: Any, texts: Sequence[str]) -> list[str]:
    """Return the texts that are not the structured content once more, in whole or as its items."""
    said = [text for text in texts if text and not text.isspace()]
    if isinstance(structured, Written):
        return [text for text in said if not _is_written(text, structured)]
    if (
        isinstance(structured, list)
        and [line.removesuffix("\r") for line in "\n".join(texts).split("\n")] == structured
    ):
        return []  # the lines of the text
    inner = structured.get("result") if isinstance(structured, dict) and len(structured) == 1 else None
    values = [_value(text) for text in said]
    for whole in (structured, inner):
        if whole is not None and (values == [whole] or (isinstance(whole, list) and values == whole)):
            return []
    known = list(structured.values()) if isinstance(structured, dict) else []
    return [
        text
        for text, value in zip(said, values, strict=True)
        if value not in (structured, inner) and text not in known and value not in known
    ]


def _is_written(text: str, structured: Written) -> bool:
    """Return whether a large text is the large structured content, or the one text in it."""
    if isinstance(text, JsonText):
        inner = structured.member() if structured.key is not None else None
        return text.written == structured.text or (isinstance(inner, Written) and inner.text == text.written)
    return structured.key is not None and structured.member() == text


def _value(text: str) -> Any:
    """Return the value of a text that is JSON, else the text itself."""
    if isinstance(text, JsonText):
        return text
    try:
        return loads(text)[0] if len(text) <= COMPARED_CHARS else text
    except NotJson:
        return text


def notes_of(kept: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one note for each tool on what is kept of its results; see `Value.beside`."""
    by_tool: dict[str, list[Json]] = {}
    for one in kept:
        by_tool.setdefault(str(one["tool"]), []).append(dict(one))
    notes = []
    for tool, items in by_tool.items():
        shown = [f"{_described(item)} as {item['ref']}" for item in items[:SHOWN_PER_TOOL]]
        more = f" and {len(items) - SHOWN_PER_TOOL} more" if len(items) > SHOWN_PER_TOOL else ""
        load = f'await results.load("{items[0]["ref"]}")'
        notes.append(
            f"beside its structured content {short_name(tool)} sent {', '.join(shown)}{more}: {load} gives it"
        )
    return notes


def _described(item: Mapping[str, Any]) -> str:
    if "chars" in item:
        return f"{item['type']} ({item['chars']:,} characters)"
    return f"{item['type']} ({item['mimeType']}, {item['bytes']:,} bytes)"
