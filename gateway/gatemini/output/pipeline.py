"""Reduce what a chain returns to what the model reads, in stages; the result store keeps the whole.

`reduced` decides purely; `reduce_output` also keeps what was left out in the result store, under the handle that the
footer names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gatemini.errors import ResultNotKept
from gatemini.output.json import lazy_json
from gatemini.output.json.json_text import dump, looks_like_json, parse
from gatemini.output.options import OutputOptions
from gatemini.output.stages.bulk_array import fit_tokens, write_table
from gatemini.output.stages.by_intent import filter_long_texts, filter_sections
from gatemini.output.stages.draft import HANDLE, LOAD, Draft
from gatemini.output.stages.plain_text import shorten_text, truncate_text
from gatemini.output.stages.shrink_json import shrink_json
from gatemini.output.store.entry import Kind
from gatemini.output.store.results import ResultStore
from gatemini.output.store.row_index import RowIndex, index_rows
from gatemini.text.size_limit import SizeLimit, weight
from gatemini.text.utf8 import encode

CAREFUL_BYTES = 256 << 10
"""Up to this size a document is parsed whole: keys that occur twice and numbers beyond a double's digits are counted."""
INDEXED_BYTES = 256 << 10
"""From this size on rows are indexed when a result is stored, not when it is first read."""
LOSSLESS_SAVING = 200
"""Lossless savings above this many bytes are worth a footer."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The reduced answer: `text` is its first block; notes and footer belong into its last one."""

    text: str
    notes: list[str] = field(default_factory=list)
    footer: str | None = None
    handle: str | None = None
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class Plan:
    """A reduced answer before the whole is stored: `footer` has a placeholder for the handle."""

    text: str
    notes: list[str]
    footer: str | None
    kind: Kind
    index: RowIndex | None = None


def reduced(text: str, options: OutputOptions) -> Plan | None:
    """Reduce `text` to `options.limit`; None if it is answered unchanged.

    The result is never longer than the input in the unit (bytes or characters) that exceeded the limit.
    """
    data = encode(text)
    if len(data) <= options.table_threshold and options.limit.holds(text):
        return None
    draft = Draft(text, len(data))
    if looks_like_json(text):
        _read_json(draft, data)
    kind: Kind = "text" if draft.raw is None else "json"
    whole = draft.raw
    _run_stages(draft, options)
    if draft.text == text:
        return _unreduced(draft, text, kind, options)
    footer = _footer(draft, len(data))
    lines = [*draft.notes, footer.format(handle=HANDLE)] if footer else draft.notes
    if not _shorter("\n".join([draft.text, *lines]), text, len(data), options.limit):
        return _unreduced(draft, text, kind, options)
    index = None
    if footer and len(data) > INDEXED_BYTES:
        # Arrays already described have the data's offsets, unless it was filtered or has white space.
        if draft.raw is whole and whole is not None and len(whole) == len(data):
            index = index_rows(data, as_text=False, root=whole, known=draft.known)
        else:
            index = index_rows(data, as_text=kind == "text")
    notes = [*draft.notes, *draft.remarks]
    return Plan(
        draft.text, notes if options.limit.holds(draft.text, *notes) else draft.notes, footer, kind, index
    )


def _unreduced(draft: Draft, text: str, kind: Kind, options: OutputOptions) -> Plan | None:
    """The input as it is with what holds for it, where there is room for that."""
    fits = draft.remarks and options.limit.holds(text, *draft.remarks)
    return Plan(text, draft.remarks, None, kind) if fits else None


def reduce_output(
    text: str,
    *,
    options: OutputOptions,
    store: ResultStore,
    label: str | None = None,
    kept_text: str | None = None,
) -> Reduced:
    """Reduce `text`, and store the whole if something was left out; if the store has no room, the footer says so.

    `kept_text` is stored in place of `text`, if given: `text` is then without secrets, since a cut could show part of one.
    """
    count = weight(text)
    plan = reduced(text, options)
    if plan is None:
        return Reduced(text, bytes_in=count, bytes_out=count)
    if kept_text is not None:
        plan.index = None
    return kept(plan, encode(text if kept_text is None else kept_text), store, bytes_in=count, label=label)


def kept(plan: Plan, whole: bytes, store: ResultStore, *, bytes_in: int, label: str | None = None) -> Reduced:
    """Return the answer, and store the whole if something was left out."""
    footer, handle = plan.footer, None
    if footer:
        try:
            handle = store.save_bytes(whole, plan.kind, label=label, index=plan.index)
            footer = footer.format(handle=handle)
            plan.notes[:] = [note.replace(HANDLE, handle) for note in plan.notes]
        except ResultNotKept as error:
            footer = footer.format(handle=f"not kept ({error.message})")
            plan.notes[:] = [note.replace(LOAD, "nothing (not kept)") for note in plan.notes]
    out = weight("\n".join([plan.text, *plan.notes, *([footer] if footer else [])]))
    return Reduced(plan.text, plan.notes, footer, handle, bytes_in=bytes_in, bytes_out=out)


def _read_json(draft: Draft, data: bytes) -> None:
    """Read the document; the draft stays plain text if it is not JSON."""
    parsed = parse(data) if len(data) <= CAREFUL_BYTES else None
    if parsed is not None and not parsed.faithful:
        if parsed.duplicates:
            draft.notes.append(f"{parsed.duplicates} duplicate keys: only the last value of each is shown")
        if parsed.long_numbers:
            draft.notes.append(
                f"{parsed.long_numbers} numbers of more digits than can be read are shown as strings"
            )
        draft.raw = lazy_json.checked(encode(dump(parsed.value)))
        return
    found = lazy_json.checked(data)
    if found is None:
        return
    draft.raw = lazy_json.compacted(found, data)
    draft.faithful = bytes(found) == data.strip(lazy_json.WHITE)  # memoryviews are compared byte by byte
    if draft.faithful and len(draft.raw) < len(data):
        draft.write(bytes(draft.raw).decode(), lossy=False)


def _run_stages(draft: Draft, options: OutputOptions) -> None:
    """Run the stages in order; a stage that does not apply leaves the draft unchanged."""
    filter_sections(draft, options)
    filter_long_texts(draft, options)
    if write_table(draft, options):
        return
    if options.budget_tokens is not None and not draft.fits(options.limit):
        fit_tokens(draft, options)
    shrink_json(draft, options)
    shorten_text(draft, options)
    truncate_text(draft, options)


def _footer(draft: Draft, bytes_in: int) -> str | None:
    """Return the footer with a `{handle}` placeholder; None if nothing was lost and little was saved."""
    saved = bytes_in - draft.bytes
    if not draft.lossy and saved <= LOSSLESS_SAVING:
        return None
    percent = int(100 * saved / bytes_in)
    return (
        f"[Output: {draft.bytes / 1024:.1f}KB returned, {bytes_in / 1024:.1f}KB processed, "
        f"{percent}% reduced; full result: {{handle}}]"
    )


def _shorter(made: str, text: str, size: int, limit: SizeLimit) -> bool:
    """Whether a reduced answer with its notes is shorter, in bytes and in characters.

    If the bytes exceeded the limit, only bytes count: a footer may have more characters than a cut of non-ASCII text.
    """
    fewer_chars, fewer_bytes = len(made) < len(text), weight(made) < size
    return fewer_bytes and (fewer_chars or size > limit.bytes)
