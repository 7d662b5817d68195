"""Reduce what a chain returns to what the model reads, in stages; the result store keeps the whole.

`reduced` decides purely; `reduce_output` also keeps what was left out in the result store, under the handle that the
footer names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from gatemini.errors import ResultNotKept
from gatemini.output import table
from gatemini.output.compact import BYTES_PER_TOKEN, compact
from gatemini.output.document_outline import MAX_CHUNKS, Outline, outline
from gatemini.output.intent import filter_json, filter_text
from gatemini.output.json import lazy_json
from gatemini.output.json.json_text import dump, looks_like_json, parse
from gatemini.output.json.lazy_json import at_keys, bulk_path, placed
from gatemini.output.json_outline import (
    CHUNK_BYTES,
    DETAILS,
    Node,
    Opened,
    Rows,
    collapsed,
    kilobytes,
    look,
    path_text,
)
from gatemini.output.options import OutputOptions
from gatemini.output.passages import filter_texts
from gatemini.output.store.entry import Kind
from gatemini.output.store.results import ResultStore
from gatemini.output.store.row_index import Found, RowIndex, index_rows
from gatemini.output.text_outline import shortened
from gatemini.text.size_limit import SizeLimit, weight
from gatemini.text.truncate import truncate
from gatemini.text.utf8 import encode

CAREFUL_BYTES = 256 << 10
"""Up to this size a document is parsed whole: keys that occur twice and numbers beyond a double's digits are counted."""
INDEXED_BYTES = 256 << 10
"""From this size on rows are indexed when a result is stored, not when it is first read."""
TABLE_REACH = 20
"""An object larger than this many tables is not searched for an array: writing keys once does not save that much."""
LOSSLESS_SAVING = 200
"""Lossless savings above this many bytes are worth a footer."""
INTENT_SHOWN = 80
"""Characters of the intent that its note repeats."""
OUTLINED = "Large branches are listed by key path with their size."
NAMED_ARRAYS = 5
"""Most collapsed arrays named in the note; the JSON itself describes all."""
BRIEF_BELOW = 300
"""A budget below this many characters or bytes gets one line about the document: it holds only a dozen words of a cut text."""
DISCLOSURE_CHARS = 400
"""Reserved for counts and dropped fields in token-budget mode; if they take more, half of the room is reserved."""
_HANDLE = "res_00000000"
"""A placeholder, as long as every handle, for comparing lengths."""
_LOAD = f'await results.load("{_HANDLE}")'
"""How a note names the whole; the handle is put in once there is one."""
CUT_TEXTS = f"Long texts are cut; the next chain reads them whole: {_LOAD}."
_OUTLINES = ((MAX_CHUNKS, CHUNK_BYTES), (20, 2048), (10, 1024), (4, 256), (2, 128))
"""(chunks, bytes shown in full) of outlines for small budgets, largest first."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The reduced answer: `text` is its first block; notes and footer belong into its last one."""

    text: str
    notes: list[str] = field(default_factory=list)
    footer: str | None = None
    handle: str | None = None
    bytes_in: int = 0
    bytes_out: int = 0


class _Draft:
    """The answer that the stages change. `lossy`: a stage left something out."""

    def __init__(self, text: str, size_in_bytes: int) -> None:
        self.text = text
        self.bytes = size_in_bytes
        self.raw: Raw | None = None
        """The document after the last stage, as compact JSON; None for plain text."""
        self.node: Node | None = None
        """`raw` with its arrays described."""
        self.faithful = False
        """Whether `raw` holds all of the original text's data."""
        self.notes: list[str] = []
        self.remarks: list[str] = []
        """Notes that hold for the whole input too."""
        self.lossy = False

    def write(self, text: str, *, lossy: bool) -> None:
        self.text = text
        self.bytes = len(encode(text))
        self.lossy = self.lossy or lossy

    def write_json(self, data: bytes, *, lossy: bool) -> None:
        self.raw = Raw(data)
        self.write(data.decode(), lossy=lossy)

    def fits(self, room: SizeLimit) -> bool:
        """Whether the text and the notes so far fit into `room` together."""
        return room.holds(self.text, *self.notes)

    def known(self, keys: tuple[str, ...]) -> Found | None:
        """Return the array at these keys, if it was described."""
        node: Any = self.node
        for key in keys:
            inner = node.inner if isinstance(node, Opened) else None
            node = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(node, Rows):
            return node.raw, node.items, node.summary
        if isinstance(node, Opened) and node.summary is not None:
            items = node.inner if isinstance(node.inner, list) else []
            if set(map(type, items)) != {Raw}:
                items = lazy_json.items(node.raw)
            return node.raw, items, node.summary
        return None


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
    draft = _Draft(text, len(data))
    if looks_like_json(text):
        _read_json(draft, data)
    kind: Kind = "text" if draft.raw is None else "json"
    whole = draft.raw
    _run_stages(draft, options)
    if draft.text == text:
        return _unreduced(draft, text, kind, options)
    footer = _footer(draft, len(data))
    lines = [*draft.notes, footer.format(handle=_HANDLE)] if footer else draft.notes
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


def _unreduced(draft: _Draft, text: str, kind: Kind, options: OutputOptions) -> Plan | None:
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
            plan.notes[:] = [note.replace(_HANDLE, handle) for note in plan.notes]
        except ResultNotKept as error:
            footer = footer.format(handle=f"not kept ({error.message})")
            plan.notes[:] = [note.replace(_LOAD, "nothing (not kept)") for note in plan.notes]
    out = weight("\n".join([plan.text, *plan.notes, *([footer] if footer else [])]))
    return Reduced(plan.text, plan.notes, footer, handle, bytes_in=bytes_in, bytes_out=out)


def _read_json(draft: _Draft, data: bytes) -> None:
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


def _run_stages(draft: _Draft, options: OutputOptions) -> None:
    """Run the stages in order; a stage that does not apply leaves the draft unchanged."""
    _filter(draft, options)
    _filter_texts(draft, options)
    if _write_table(draft, options):
        return
    if options.budget_tokens is not None and not draft.fits(options.limit):
        _fit_tokens(draft, options)
    _shrink_json(draft, options)
    _shorten_text(draft, options)
    _truncate(draft, options)


def _filter(draft: _Draft, options: OutputOptions) -> None:
    if not options.filters(draft.bytes):
        return
    intent = options.intent or ""
    if draft.raw is None:
        found = filter_text(draft.text, intent)
        if found.kept:
            draft.write(found.text, lossy=True)
    else:
        found = filter_json(draft.raw, intent)
        if found.kept:
            draft.write_json(lazy_json.written(found.value), lossy=True)
    if found.kept:
        _note_intent(draft, options, found.kept, found.total)
        if draft.raw is not None:
            draft.notes.append("Kept by shared words, not by a condition: filter in code for that.")
    elif found.total > 1:
        none = "tells none from the others" if found.all_match else "matches none"
        draft.remarks.append(
            f"[Intent '{_shown_intent(options)}': of {found.total} sections it {none}, so all are kept]"
        )


def _filter_texts(draft: _Draft, options: OutputOptions) -> None:
    """Filter the paragraphs or lines of long texts inside the document."""
    if draft.raw is None or not options.filters(draft.bytes):
        return
    node, filtered = filter_texts(draft.raw, options.intent or "", options.intent_threshold)
    if filtered:
        draft.remarks.clear()
        draft.write_json(lazy_json.written(node), lossy=True)
    for text in filtered[:NAMED_ARRAYS]:
        _note_intent(draft, options, text.kept, text.total, f" of {path_text(text.path)}")
    if len(filtered) > NAMED_ARRAYS:
        draft.notes.append(f"{len(filtered) - NAMED_ARRAYS} more texts filtered by intent")


def _note_intent(draft: _Draft, options: OutputOptions, kept: int, total: int, where: str = "") -> None:
    draft.notes.append(f"[Filtered by intent: '{_shown_intent(options)}' — {kept}/{total} sections{where}]")


def _shown_intent(options: OutputOptions) -> str:
    intent = " ".join((options.intent or "").split())
    return intent if len(intent) <= INTENT_SHOWN else intent[:INTENT_SHOWN] + "…"


def _write_table(draft: _Draft, options: OutputOptions) -> bool:
    limit = min(options.chunk_threshold, options.limit.plain)
    if not options.table or not draft.faithful or draft.raw is None:
        return False
    if not options.table_threshold < draft.bytes <= limit * TABLE_REACH:
        return False
    document = draft.raw
    keys = bulk_path(document)
    if keys is None:
        return False
    rows = lazy_json.value(at_keys(document, keys))
    made = table.as_table(rows, limit=limit)
    if made is None:
        return False
    line = table.note(len(rows), made, keys)
    if keys:
        made = table.within(lazy_json.written(placed(document, keys, table.PLACE)).decode(), made)
    count = weight(made)
    if count > options.chunk_threshold or count > draft.bytes * (1 - table.MIN_SAVING):
        return False
    if not options.limit.holds(made, *draft.notes, line):
        return False
    draft.write(made, lossy=False)
    draft.notes.append(line)
    draft.raw = None
    return True


def _fit_tokens(draft: _Draft, options: OutputOptions) -> None:
    """Drop fields, then rows, of the array with the bulk, to fit the token budget; leave it whole if no row would remain."""
    keys = None if draft.raw is None else bulk_path(draft.raw)
    if draft.raw is None or keys is None:
        return
    document = draft.raw
    array = at_keys(document, keys)
    rows = lazy_json.value(array)
    room = options.limit.beside(*draft.notes).less(len(document) - len(array)).plain
    for left in (room - DISCLOSURE_CHARS, room // 2):
        if left < BYTES_PER_TOKEN:
            return
        made = compact(rows, budget_tokens=left // BYTES_PER_TOKEN)
        del made["note"]  # repeats the counts
        if not made["rows"]:
            return
        data = lazy_json.written(placed(document, keys, Raw(encode(dump(made)))))
        if options.limit.holds(data.decode(), *draft.notes):
            draft.write_json(data, lossy=True)
            return


def _shrink_json(draft: _Draft, options: OutputOptions) -> None:
    """Collapse uniform arrays, else outline by key paths, with less detail each time until it fits."""
    if not options.auto_chunk_json or draft.raw is None:
        return
    # A token budget replaces the threshold: an answer that fits it is not reduced further.
    target = options.chunk_threshold if options.budget_tokens is None else options.limit.plain
    if draft.bytes <= target:
        return
    draft.node = look(draft.raw)
    for text, line in _candidates(draft.node, target):
        if options.limit.holds(text, *draft.notes, line) and len(text) < len(draft.text):
            draft.write(text, lossy=True)
            draft.notes.append(line)
            return
    if options.limit.plain < BRIEF_BELOW and not draft.fits(options.limit):
        draft.write(_brief(draft.raw), lossy=True)
        if not draft.fits(options.limit):
            draft.notes.clear()


def _brief(raw: Raw) -> str:
    """Describe the document in one line: the number of items or keys, and its size."""
    found = lazy_json.members(raw)
    what = f"array of {len(found)} items" if isinstance(found, list) else f"object of {len(found)} keys"
    return dump({"$reduced": f"{what}, {kilobytes(len(raw))}"})


def _candidates(node: Node, target: int) -> Iterator[tuple[str, str]]:
    """Yield (text, note) from most to least detail."""
    for detail in DETAILS:
        made = collapsed(node, detail, target)
        if not made.arrays:
            break
        data = lazy_json.written(made.value)
        if len(data) <= target:
            yield data.decode(), _collapsed_note(made.arrays)
            continue
        outlined = outline(node, detail)
        note = _collapsed_note(outlined.arrays) if outlined.arrays else ""
        yield _text(outlined), f"{note} The rest by key path." if note else _outlined_note(outlined)
    for chunks, shown in _OUTLINES:
        outlined = outline(node, max_chunks=chunks, shown_bytes=shown)
        yield _text(outlined), _outlined_note(outlined)


def _text(made: Outline) -> str:
    return lazy_json.written(made.value()).decode()


def _outlined_note(made: Outline) -> str:
    return f"{OUTLINED} {CUT_TEXTS}" if made.texts else OUTLINED


def _collapsed_note(arrays: dict[str, tuple[int, int]]) -> str:
    counts = [f"{path}: {total} rows, {shown} shown" for path, (total, shown) in arrays.items()]
    more = f"; {len(counts) - NAMED_ARRAYS} more" if len(counts) > NAMED_ARRAYS else ""
    listed = "; ".join(counts[:NAMED_ARRAYS]) + more
    return f"Arrays collapsed ({listed}); counts and types are of all rows, which {_LOAD} gives."


def _shorten_text(draft: _Draft, options: OutputOptions) -> None:
    """Plain text that nobody asked for at this length: head, tail, and an outline of what is between."""
    if draft.raw is not None or options.named_size or not options.smart_truncation:
        return
    if len(draft.text) <= options.text_threshold or options.budget_tokens is not None:
        return
    limit = options.limit.within(SizeLimit(options.text_target)).beside(*draft.notes)
    if limit.plain >= BRIEF_BELOW:
        draft.write(shortened(draft.text, limit), lossy=True)


def _truncate(draft: _Draft, options: OutputOptions) -> None:
    if not options.smart_truncation or draft.fits(options.limit):
        return
    if not options.limit.part(1, 2).holds(*draft.notes):
        draft.notes.clear()  # a budget this small goes to the answer; the footer still says how much was cut
    draft.write(truncate(draft.text, options.limit.beside(*draft.notes)).text, lossy=True)


def _footer(draft: _Draft, bytes_in: int) -> str | None:
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
