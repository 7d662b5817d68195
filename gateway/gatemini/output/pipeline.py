"""The one way from a chain's value to what the model reads: stages in order, nothing lost.

`reduce_output` decides purely and touches only the result store: whatever is left out stays there under the
handle the footer names. It is synchronous; callers with more than 256 KB run it in a thread. Above:
`chain/run.py`. Below: the stages (`table`, `intent`, `json_reduce`, `compact`, `truncate`) and `results.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gatemini.errors import ResultNotKept
from gatemini.output import table
from gatemini.output.compact import BYTES_PER_TOKEN, compact
from gatemini.output.intent import filter_json, filter_text
from gatemini.output.json_reduce import CHUNK_BYTES, DETAILS, MAX_CHUNKS, collapse, outline
from gatemini.output.jsontext import Parsed, dump, encode, looks_like_json, parse, size
from gatemini.output.results import UNPARSED, Kind, ResultStore
from gatemini.output.rows import bulk_path
from gatemini.output.truncate import truncate

MAX_CHARS = 200_000
TABLE_THRESHOLD = 2048
CHUNK_THRESHOLD = 10_240
INTENT_THRESHOLD = 5000
LOSSLESS_SAVING = 200
"""Lossless savings above this many bytes are worth a footer."""
INTENT_SHOWN = 80
"""Characters of the intent repeated in its note."""
_HANDLE = "res_00000000"
"""Stands for a handle while lengths are compared; all handles are this long."""
_OUTLINES = ((MAX_CHUNKS, CHUNK_BYTES), (20, 2048), (10, 1024), (4, 256))
"""(chunks, bytes shown in full) of ever smaller outlines, for small budgets."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Limits in characters (`max_chars`: the smaller of the client's budget and the request) or bytes."""

    max_chars: int = MAX_CHARS
    intent: str | None = None
    auto_chunk_json: bool = True
    smart_truncation: bool = True
    intent_filter: bool = True
    table: bool = True
    table_threshold: int = TABLE_THRESHOLD
    chunk_threshold: int = CHUNK_THRESHOLD
    intent_threshold: int = INTENT_THRESHOLD
    budget_tokens: int | None = None

    @property
    def limit(self) -> int:
        """Characters of text and notes together."""
        if self.budget_tokens is None:
            return self.max_chars
        return min(self.max_chars, self.budget_tokens * BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Reduced:
    """`text` is the answer's first block; notes and footer belong into its last one."""

    text: str
    notes: list[str] = field(default_factory=list)
    footer: str | None = None
    handle: str | None = None
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class _Draft:
    """An answer on its way through the stages. `lossy`: something was left out."""

    text: str
    document: Parsed | None
    """What the input says, where it is JSON; `value` is what is left of it."""
    value: Any = None
    notes: list[str] = field(default_factory=list)
    lossy: bool = False

    @property
    def bytes(self) -> int:
        return len(encode(self.text))

    def rewrite(self, value: Any) -> None:
        self.value = value
        self.text = dump(value)


def reduce_output(
    text: str,
    *,
    is_json: bool,
    options: OutputOptions,
    store: ResultStore,
    value: Any = UNPARSED,
    label: str | None = None,
) -> Reduced:
    """Reduces `text` (of `value`, if the caller has it parsed) to `options.limit` characters and the footer.

    Never longer than the input. When the store cannot keep the whole, the footer says so.
    """
    data = encode(text)
    unreduced = Reduced(text, bytes_in=len(data), bytes_out=len(data))
    if len(data) <= options.table_threshold and len(text) <= options.limit:
        return unreduced
    document = _document(text, data, is_json, value)
    draft = _Draft(text, document, document.value if document else None)
    _reduce(draft, options)
    if draft.text == text:
        return unreduced
    footer = _footer(draft, len(data))
    spoken = [*draft.notes, footer.format(handle=_HANDLE)] if footer else draft.notes
    if not _shorter([draft.text, *spoken], text, len(data)):
        return unreduced
    handle = None
    if footer:
        kind: Kind = "json" if document is not None else "text"
        footer, handle = _keep(footer, store, data, kind, label)
    block = [draft.text, *draft.notes, *([footer] if footer else [])]
    return Reduced(
        draft.text, draft.notes, footer, handle, bytes_in=len(data), bytes_out=len(encode("\n".join(block)))
    )


def _document(text: str, data: bytes, is_json: bool, value: Any) -> Parsed | None:
    """The parsed JSON container; None for plain text, scalars, and what does not parse."""
    if not looks_like_json(text):
        return None
    if is_json and isinstance(value, dict | list):
        return Parsed(value)
    return parse(data)


def _reduce(draft: _Draft, options: OutputOptions) -> None:
    """The stages of spec 4.1 in order; each leaves the draft alone where it does not apply."""
    if draft.document is None:
        _filter_text(draft, options)
    else:
        _write_compactly(draft, draft.document)
        _filter_records(draft, options)
        if _write_table(draft, draft.document, options):
            return
        if options.budget_tokens is not None and len(draft.text) > options.limit:
            _fit_tokens(draft, options)
        _shrink_json(draft, options)
    _truncate(draft, options)


def _write_compactly(draft: _Draft, document: Parsed) -> None:
    if document.duplicates:
        draft.notes.append(f"{document.duplicates} duplicate keys: only the last value of each is shown")
    if not document.faithful:
        return
    compact_text = dump(draft.value)
    if len(compact_text) < len(draft.text):
        draft.text = compact_text


def _filter_records(draft: _Draft, options: OutputOptions) -> None:
    if not _wants_filter(draft, options):
        return
    found = filter_json(draft.value, options.intent or "")
    if found is not None:
        draft.rewrite(found.value)
        _note_intent(draft, options, found.kept, found.total)


def _filter_text(draft: _Draft, options: OutputOptions) -> None:
    if not _wants_filter(draft, options):
        return
    found = filter_text(draft.text, options.intent or "")
    if found is not None:
        draft.text = found.text
        _note_intent(draft, options, found.kept, found.total)


def _wants_filter(draft: _Draft, options: OutputOptions) -> bool:
    return options.intent_filter and bool(options.intent) and draft.bytes > options.intent_threshold


def _note_intent(draft: _Draft, options: OutputOptions, kept: int, total: int) -> None:
    intent = " ".join((options.intent or "").split())
    shown = intent if len(intent) <= INTENT_SHOWN else intent[:INTENT_SHOWN] + "…"
    draft.notes.append(f"[Filtered by intent: '{shown}' — {kept}/{total} sections]")
    draft.lossy = True


def _write_table(draft: _Draft, document: Parsed, options: OutputOptions) -> bool:
    if not options.table or not document.faithful or draft.bytes <= options.table_threshold:
        return False
    limit = min(options.chunk_threshold, options.limit)
    made = table.as_table(draft.value, limit=limit)
    if made is None:
        return False
    weight = len(encode(made))
    line = table.note(len(draft.value), made)
    if weight > options.chunk_threshold or weight > draft.bytes * (1 - table.MIN_SAVING):
        return False
    if len(made) + sum(map(len, draft.notes)) + len(line) > options.limit:
        return False
    draft.text = made
    draft.notes.append(line)
    return True


def _fit_tokens(draft: _Draft, options: OutputOptions) -> None:
    """Token-budget mode: the array that holds the bulk loses fields, then rows."""
    keys = bulk_path(draft.value)
    if keys is None:
        return
    rows = draft.value
    for key in keys:
        rows = rows[key]
    around = size(draft.value) - size(rows)
    room = options.limit - around - sum(map(len, draft.notes)) - 400  # the disclosure beside the rows
    if room < BYTES_PER_TOKEN:
        return
    made = compact(rows, budget_tokens=room // BYTES_PER_TOKEN)
    draft.rewrite(_with(draft.value, keys, made))
    draft.lossy = True


def _with(value: Any, keys: tuple[str, ...], item: Any) -> Any:
    if not keys:
        return item
    return {**value, keys[0]: _with(value[keys[0]], keys[1:], item)}


def _shrink_json(draft: _Draft, options: OutputOptions) -> None:
    """Uniform arrays collapsed, else key-path chunks; ever less detail until the budget holds it."""
    if not options.auto_chunk_json or draft.bytes <= options.chunk_threshold:
        return
    spoken = sum(len(line) + 1 for line in draft.notes)
    for text, line in _candidates(draft.value, options.chunk_threshold):
        if len(text) + len(line) + spoken <= options.limit and len(text) < len(draft.text):
            draft.text = text
            draft.notes.append(line)
            draft.lossy = True
            return


def _candidates(value: Any, target: int) -> Iterator[tuple[str, str]]:
    """(text, note) from most to least detail."""
    for detail in DETAILS:
        made = collapse(value, target=target, detail=detail)
        if made is None:
            break
        told = ", ".join(
            f"{path}: {total} rows, {shown} shown" for path, (total, shown) in list(made.arrays.items())[:5]
        )
        line = f"Arrays collapsed ({told}); counts and types are of all rows."
        if size(made.value) <= target:
            yield dump(made.value), line
        else:
            yield dump(outline(made.value).value()), f"{line} The rest by key path."
    for chunks, shown in _OUTLINES:
        made_outline = outline(value, max_chunks=chunks, shown_bytes=shown)
        yield dump(made_outline.value()), "Large branches are listed by key path with their size."


def _truncate(draft: _Draft, options: OutputOptions) -> None:
    if not options.smart_truncation:
        return
    spoken = sum(len(line) + 1 for line in draft.notes)
    if len(draft.text) + spoken <= options.limit:
        return
    if spoken > options.limit // 2:
        draft.notes.clear()  # a budget this small goes to the answer; the footer still tells
        spoken = 0
    draft.text = truncate(draft.text, options.limit - spoken).text
    draft.lossy = True


def _footer(draft: _Draft, bytes_in: int) -> str | None:
    """The footer with `{handle}` still open; None when nothing is worth telling."""
    saved = bytes_in - draft.bytes
    if not draft.lossy and saved <= LOSSLESS_SAVING:
        return None
    percent = int(100 * saved / bytes_in)
    return (
        f"[Output: {draft.bytes / 1024:.1f}KB returned, {bytes_in / 1024:.1f}KB processed, "
        f"{percent}% reduced; full result: {{handle}}]"
    )


def _keep(
    footer: str, store: ResultStore, data: bytes, kind: Kind, label: str | None
) -> tuple[str, str | None]:
    try:
        handle = store.save_bytes(data, kind, label=label)
    except ResultNotKept as error:
        return footer.format(handle=f"not kept ({error.message})"), None
    return footer.format(handle=handle), handle


def _shorter(lines: list[str], text: str, bytes_in: int) -> bool:
    """In characters and in bytes: clients count either."""
    made = "\n".join(lines)
    return len(made) < len(text) and len(encode(made)) < bytes_in
