"""Fold tool results: those that the model has read become handles, and large ones are reduced before it reads them."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from gatemini.config.model.context import CompactConfig, FoldConfig
from gatemini.context import bodies
from gatemini.context.options import Given, Outcome, opened, outcome, read_options
from gatemini.context.request.formats import Request
from gatemini.context.request.json_places import Edit, spliced
from gatemini.context.request.messages import Counter, Format, ToolResult, tokens_of
from gatemini.context.request.tool_definitions import added_definition, free_name, written_definition
from gatemini.context.stores import StateStore, Store
from gatemini.output.store.results import MAX_ROWS
from gatemini.text.utf8 import encode

FETCH_ROWS = "fetch_rows"
STUB_BYTES = len(bodies.stub("res_00000000"))
ALL_TURNS = 1 << 30
"""Of `keep_turns`: nothing is folded."""
_DESCRIBED = (
    "Read rows (of a text: lines) of a tool result that was replaced by a handle. "
    f"Returns up to {MAX_ROWS} rows from offset, total_rows and next_offset."
)
_PARAMETERS = {
    "type": "object",
    "properties": {
        "handle": {"type": "string", "description": "res_ and 8 hex digits"},
        "offset": {"type": "integer", "description": "first row, from 0"},
        "limit": {"type": "integer", "description": f"rows, at most {MAX_ROWS}"},
    },
    "required": ["handle"],
}


class FoldOptions(FoldConfig):
    """Without a proxy every result that was read is folded."""

    min_tokens: int = Field(default=0, ge=0)
    """Smaller results stay."""
    keep_turns: int = Field(default=0, ge=0)
    """A result stays for so many turns of the model after the one that read it."""


class CompactOptions(CompactConfig):
    """The reduction of rows as a step of its own."""

    enabled: bool = True
    """Off: requests pass unchanged."""


def fold_results(
    request: Given | Request,
    options: Mapping[str, Any] | FoldConfig | None = None,
    *,
    format: Format | None = None,
    store: Store | None = None,
    fetch_tool: bool = False,
    count: Counter = tokens_of,
) -> Outcome:
    """Put `{"status":"processed","handle":"res_…"}` in the place of each result that was read; the request and a report.

    Results that the model has not read, errors and small results stay. The texts go to `store`, without one to private
    files in the state directory. `fetch_tool` adds the definition of `fetch_rows` once a handle is in the
    request; the report has its name.
    """
    settings = options if isinstance(options, FoldConfig) else read_options(FoldOptions, options)
    opened_request = opened(request, format)
    if not settings.enabled:
        return outcome(request, opened_request, opened_request.data, {"enabled": False})
    folder = _Folder(settings, store if store is not None else StateStore(), count)
    read_by = 0
    for message in reversed(opened_request.messages):
        read_by += message.role == "assistant"
        for result in message.results:
            folder.look_at(result, read_by)
    edits = folder.decide()
    report = folder.report()
    if fetch_tool and folder.handles:
        name = free_name(FETCH_ROWS, {tool.name for tool in opened_request.tools})
        definition = written_definition(opened_request.format, name, _DESCRIBED, _PARAMETERS)
        edits.append(added_definition(opened_request.root, opened_request.format, definition))
        report["fetch_rows"] = name
    return outcome(request, opened_request, spliced(opened_request.data, edits), report)


class _Folder:
    """The results of one request and what becomes of each."""

    def __init__(self, settings: FoldConfig, store: Store, count: Counter) -> None:
        self._settings = settings
        self._store = store
        self._count = count
        self._seen: list[tuple[ToolResult, int]] = []
        self._repeated: Tally[tuple[str | None, str]] = Tally()
        self.handles: dict[str, None] = {}
        self._folded: list[str] = []
        self._reduced: list[str] = []
        self._tokens = [0, 0]

    def look_at(self, result: ToolResult, read_by: int) -> None:
        self._seen.append((result, read_by))

    def decide(self) -> list[Edit]:
        """The edits, results in the order of the request."""
        edits: list[Edit] = []
        for result, read_by in reversed(self._seen):
            text = bodies.stored(result)
            size = self._count(text)
            new = None if result.is_error else self._new_body(result, text, size, read_by)
            self._tokens[0] += size
            self._tokens[1] += size if new is None else self._count(new)
            if new is not None:
                edits.append(result.body.replaced(bodies.in_form(result.body, new)))
        return edits

    def _new_body(self, result: ToolResult, text: str, size: int, read_by: int) -> str | None:
        """What the result becomes; None where it stays."""
        known = bodies.known_handle(text)
        key = self._key(result, text)
        if known is not None and not bodies.is_stub(text) and not self._store.has(known):
            known = None  # the tool itself answers with handles
        if known is not None:
            self.handles[known] = None
        if bodies.is_stub(text):
            return None
        spent = read_by > self._settings.keep_turns
        if spent and size >= self._settings.min_tokens:
            if len(encode(result.text)) <= STUB_BYTES:
                return None
            handle = known or self._kept(key, text)
            self._folded.append(handle)
            return bodies.stub(handle)
        return None if known or bodies.is_compacted(text) else self._reduced_body(key, text, size)

    def _reduced_body(self, key: str, text: str, size: int) -> str | None:
        """Rows within their budget, or a description; None where neither is asked for or shorter."""
        settings, new = self._settings, None
        rows = bodies.rows_of(text) if settings.compact is not None else None
        if settings.compact is not None and rows is not None:
            handle = self._kept(key, text)
            new = bodies.compacted(rows, settings.compact, handle)
        limit = settings.handle_over_tokens
        if limit is not None and (size if new is None else self._count(new)) > limit:
            handle = self._kept(key, text)
            made = bodies.described(self._store, handle)
            new = made if self._count(made) < size else new
        if new is not None:
            self._reduced.append(handle)
        return new

    def _key(self, result: ToolResult, text: str) -> str:
        """What tells a result from others of the same text: its call's id, else its place among equal ones."""
        if result.call_id is not None:
            return result.call_id
        self._repeated[result.name, text] += 1
        return f"{result.name}#{self._repeated[result.name, text]}"

    def _kept(self, key: str, text: str) -> str:
        handle = self._store.keep(key, encode(text))
        self.handles[handle] = None
        return handle

    def report(self) -> dict[str, Any]:
        return {
            "folded": len(self._folded),
            "reduced": len(self._reduced),
            "handles": [*self._folded, *self._reduced],
            "result_tokens_before": self._tokens[0],
            "result_tokens_after": self._tokens[1],
        }


def compact_results(
    request: Given | Request,
    options: Mapping[str, Any] | CompactConfig | None = None,
    *,
    format: Format | None = None,
    store: Store | None = None,
    count: Counter = tokens_of,
) -> Outcome:
    """Reduce every result that holds rows to its `fields` and `budget_tokens`; the request and a report."""
    settings = read_options(CompactOptions, options)
    kept = FoldOptions(enabled=settings.enabled, keep_turns=ALL_TURNS, compact=settings)
    return fold_results(request, kept, format=format, store=store, count=count)
