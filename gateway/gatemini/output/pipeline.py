"""The one way from a chain's value to what the model reads: stages in order, nothing lost.

`reduce_output` decides purely and touches only the result store: whatever is left out stays there under the
handle the footer names. It is synchronous; callers with more than 256 KB run it in a thread. Above:
`chain/answer.py`. Below: the stages (`table`, `intent`, `json_reduce`, `compact`, `truncate`), `room.py` and `results.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatemini.errors import ResultNotKept
from gatemini.output import table
from gatemini.output.branches import Branch, Tree, read_tree
from gatemini.output.collector import paused_collector
from gatemini.output.compact import BYTES_PER_TOKEN, compact
from gatemini.output.deep import parse_shown
from gatemini.output.intent import Wanted, filter_json, filter_text
from gatemini.output.json_reduce import (
    CHUNK_BYTES,
    DETAILS,
    MAX_CHUNKS,
    Outline,
    collapse,
    collapsed_paths,
    kilobytes,
    outline,
    path_text,
    stand_in,
)
from gatemini.output.jsontext import SPACE, Parsed, dump, encode, looks_like_json, size
from gatemini.output.passages import FilteredText, filter_texts, filter_written, may_hold_text
from gatemini.output.record_filter import SurveyFilter, TreeFilter
from gatemini.output.results import UNPARSED, Kind, ResultStore
from gatemini.output.room import BOUNDLESS, Room, weight
from gatemini.output.rows import RowIndex, index_survey
from gatemini.output.survey import (
    WHOLE_BYTES,
    Bulk,
    NotSurveyed,
    Survey,
    at_keys,
    bulk_path,
    placed,
    survey,
)
from gatemini.output.truncate import truncate

MAX_CHARS = 200_000
TABLE_THRESHOLD = 2048
WHITE_SPACE = 4
"""Indented JSON may be this many times as long as compact: what may fit `chunk_threshold` has to be written to know."""
SPACE_LOOKS = 1000
"""Bytes looked at to see whether a document is mostly white space: counting all of it takes 10 ms of 10 MB."""
TABLE_REACH = 20
"""An object larger than this many tables is not searched for an array: writing keys once does not save that much."""
CHUNK_THRESHOLD = 10_240
INTENT_THRESHOLD = 5000
LOSSLESS_SAVING = 200
"""Lossless savings above this many bytes are worth a footer."""
INTENT_SHOWN = 80
"""Characters of the intent repeated in its note."""
OUTLINED = "Large branches are listed by key path with their size."
CUT_TEXTS = "Long texts are cut; code reads them whole: results.load(handle)."
NAMED_ARRAYS = 5
"""Collapsed arrays named in the note; the JSON itself tells of all."""
BRIEF_BELOW = 300
"""A smaller budget, in characters or bytes, has room for a dozen words of a cut text: there it is better said what the document is."""
DISCLOSURE_CHARS = 400
"""Kept free beside the rows in token-budget mode, at first: counts and dropped fields."""
DISCLOSURE_TRIES = 3
"""How often more is kept free, where many fields are dropped."""
DISCLOSURE_SLACK = 50
"""Then one part in so many of the answer more than the last ones took, for still more dropped fields."""
_HANDLE = "res_00000000"
"""Stands for a handle while lengths are compared; all handles are this long."""
_OUTLINES = ((MAX_CHUNKS, CHUNK_BYTES), (20, 2048), (10, 1024), (4, 256), (2, 128))
"""(chunks, bytes shown in full) of ever smaller outlines, for small budgets."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Limits of the answer (what was asked for in characters, what the client takes in either) and of stages, in bytes."""

    max_chars: int = MAX_CHARS
    max_bytes: int = BOUNDLESS
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
    def limit(self) -> Room:
        """Of text and notes together. Tokens are bytes, by their estimate."""
        tokens = BOUNDLESS if self.budget_tokens is None else self.budget_tokens * BYTES_PER_TOKEN
        return Room(self.max_chars, min(self.max_bytes, tokens))

    def filters(self, count: int) -> bool:
        """Whether an output of `count` bytes is to be filtered by the intent."""
        return self.intent_filter and bool(self.intent) and count > self.intent_threshold


@dataclass(frozen=True, slots=True)
class Reduced:
    """`text` is the answer's first block; notes and footer belong into its last one."""

    text: str
    notes: list[str] = field(default_factory=list)
    footer: str | None = None
    handle: str | None = None
    bytes_in: int = 0
    bytes_out: int = 0


class _Draft:
    """An answer on its way through the stages. `lossy`: something was left out."""

    def __init__(self, text: str, size_in_bytes: int) -> None:
        self.text = text
        self.bytes = size_in_bytes
        self.value: Any = UNPARSED
        """What is left of the JSON; UNPARSED for plain text."""
        self.faithful = False
        self.survey: Survey | Tree | None = None
        """Of a large document, in place of its value."""
        self.notes: list[str] = []
        self.lossy = False
        self.texts_filtered = False

    def write(self, text: str, *, lossy: bool) -> None:
        self.text = text
        self.bytes = len(encode(text))
        self.lossy = self.lossy or lossy

    @property
    def is_json(self) -> bool:
        return self.value is not UNPARSED or self.survey is not None

    def fits(self, room: Room) -> bool:
        """Whether text and notes so far fit together."""
        return room.holds(self.text, *self.notes)


def reduce_output(
    text: str,
    *,
    is_json: bool,
    options: OutputOptions,
    store: ResultStore,
    value: Any = UNPARSED,
    label: str | None = None,
    kept: str | None = None,
) -> Reduced:
    """Reduces `text` (of `value`, if the caller has it parsed) to `options.limit` and the footer.

    Never longer than the input in the unit in which that was too long. When the store cannot keep the whole, the footer says so. `kept` is what the
    store gets where that is another text: `text` is then without secrets, which a cut could show in part.
    """
    data = encode(text)
    unreduced = Reduced(text, bytes_in=len(data), bytes_out=len(data))
    if len(data) <= options.table_threshold and options.limit.holds(text):
        return unreduced
    draft = _Draft(text, len(data))
    if looks_like_json(text):
        with paused_collector():
            _read_json(draft, data, value if is_json else UNPARSED, options)
    index = index_survey(draft.survey) if isinstance(draft.survey, Survey) else None
    kind: Kind = "json" if draft.is_json else "text"
    _run_stages(draft, options)
    if draft.text == text:
        return unreduced
    footer = _footer(draft, len(data))
    spoken = [*draft.notes, footer.format(handle=_HANDLE)] if footer else draft.notes
    if not _shorter("\n".join([draft.text, *spoken]), text, len(data), options.limit):
        return unreduced
    handle = None
    if footer:
        whole, at = (data, index) if kept is None else (encode(kept), None)
        handle, footer = _keep(footer, store, whole, kind, label, at)
    out = len(encode("\n".join([draft.text, *draft.notes, *([footer] if footer else [])])))
    return Reduced(draft.text, draft.notes, footer, handle, bytes_in=len(data), bytes_out=out)


def _read_json(draft: _Draft, data: bytes, value: Any, options: OutputOptions) -> None:
    """The document, parsed or surveyed; the draft stays plain text where it is not JSON."""
    whole = max(WHOLE_BYTES, options.chunk_threshold * WHITE_SPACE)
    large = len(data) > whole and options.budget_tokens is None and not _mostly_space(data, whole)
    if large and _survey_json(draft, data, options):
        return
    parsed = Parsed(value) if isinstance(value, dict | list) else parse_shown(data)
    if parsed is None:
        return
    draft.value = parsed.value
    draft.faithful = parsed.faithful
    if parsed.duplicates:
        draft.notes.append(f"{parsed.duplicates} duplicate keys: only the last value of each is shown")
    if parsed.long_numbers:
        draft.notes.append(
            f"{parsed.long_numbers} numbers of more digits than can be read are shown as strings"
        )
    if parsed.faithful and len(compactly := dump(parsed.value)) < len(draft.text):
        draft.write(compactly, lossy=False)


def _mostly_space(data: bytes, whole: int) -> bool:
    """Whether little is left of a large document without the white space in it."""
    step = max(1, len(data) // SPACE_LOOKS)
    seen = sum(data[at] in SPACE for at in range(0, len(data), step))
    return seen > SPACE_LOOKS // 2 and len(data.translate(None, SPACE)) <= whole


def _survey_json(draft: _Draft, data: bytes, options: OutputOptions) -> bool:
    """Reads a large document without holding it, and filters it on the way; False where it has to be parsed."""
    narrows = options.filters(len(data)) and not draft.texts_filtered
    wanted = Wanted(options.intent or "") if narrows and not draft.lossy else None
    if not options.auto_chunk_json and not narrows:
        return True  # no stage would look into it: to be cut as text
    found: Survey | Tree
    try:
        try:
            arrays = SurveyFilter(wanted) if wanted else None
            found = survey(data, arrays.visit if arrays else None)
            filtered = arrays.result(found) if arrays else None
        except NotSurveyed:  # no long array explains it
            members = TreeFilter(wanted, data) if wanted else None
            found = read_tree(data, members.enter if members else None)
            filtered = members.result() if members else None
    except NotSurveyed:
        return False
    if filtered is not None:
        draft.write(filtered.text, lossy=True)
        _note_intent(draft, options, filtered.kept, filtered.total)
        _read_json(draft, encode(filtered.text), UNPARSED, options)
    elif narrows and (texts := _filter_written(draft, data, found, options)) is not None:
        _read_json(draft, texts, UNPARSED, options)
    elif options.auto_chunk_json:
        draft.survey = found
    return True


def _run_stages(draft: _Draft, options: OutputOptions) -> None:
    """The stages of spec 4.1 in order; each leaves the draft alone where it does not apply."""
    if not draft.lossy:
        _filter(draft, options)
    _filter_texts(draft, options)
    if draft.value is not UNPARSED:
        if _write_table(draft, options):
            return
        if options.budget_tokens is not None and not draft.fits(options.limit):
            _fit_tokens(draft, options)
    _shrink_json(draft, options)
    _truncate(draft, options)


def _filter(draft: _Draft, options: OutputOptions) -> None:
    if draft.survey is not None or not options.filters(draft.bytes):
        return
    intent = options.intent or ""
    found = filter_text(draft.text, intent) if draft.value is UNPARSED else filter_json(draft.value, intent)
    if found is None:
        return
    if draft.value is UNPARSED:
        draft.write(found.text, lossy=True)
    else:
        draft.value = found.value
        draft.write(dump(found.value), lossy=True)
    _note_intent(draft, options, found.kept, found.total)


def _filter_written(draft: _Draft, data: bytes, found: Survey | Tree, options: OutputOptions) -> bytes | None:
    """The document with its long texts filtered; None where the intent tells nothing of them apart."""
    if isinstance(found, Survey):
        rows = sum(bulk.summary.total for bulk in found.bulks)
        if len(data) <= options.intent_threshold * rows or not may_hold_text(data, options.intent_threshold):
            return None  # records, not pages
        try:
            found = read_tree(data)
        except NotSurveyed:
            return None
    least = options.intent_threshold
    places = [place for place in found.long_texts() if place[2] - place[1] > least]
    text, filtered = filter_written(data, places, options.intent or "")
    if not filtered:
        return None
    draft.write(text, lossy=True)
    draft.texts_filtered = True
    _note_texts(draft, options, filtered)
    return encode(text)


def _filter_texts(draft: _Draft, options: OutputOptions) -> None:
    """Within what is left, the paragraphs or lines of long texts."""
    least = options.intent_threshold
    if draft.value is UNPARSED or draft.texts_filtered or not options.filters(draft.bytes):
        return
    if not may_hold_text(encode(draft.text), least):
        return
    value, filtered = filter_texts(draft.value, options.intent or "", least)
    if filtered:
        draft.value = value
        draft.write(dump(value), lossy=True)
        _note_texts(draft, options, filtered)


def _note_texts(draft: _Draft, options: OutputOptions, filtered: Sequence[FilteredText]) -> None:
    for text in filtered[:NAMED_ARRAYS]:
        _note_intent(draft, options, text.kept, text.total, f" of {path_text(text.path)}")
    if len(filtered) > NAMED_ARRAYS:
        draft.notes.append(f"{len(filtered) - NAMED_ARRAYS} more texts filtered by intent")


def _note_intent(draft: _Draft, options: OutputOptions, kept: int, total: int, where: str = "") -> None:
    intent = " ".join((options.intent or "").split())
    shown = intent if len(intent) <= INTENT_SHOWN else intent[:INTENT_SHOWN] + "…"
    draft.notes.append(f"[Filtered by intent: '{shown}' — {kept}/{total} sections{where}]")


def _write_table(draft: _Draft, options: OutputOptions) -> bool:
    if not options.table or not draft.faithful or draft.bytes <= options.table_threshold:
        return False
    limit = min(options.chunk_threshold, options.limit.plain)
    keys: tuple[str, ...] | None = ()
    if isinstance(draft.value, dict):
        keys = bulk_path(draft.value) if draft.bytes <= limit * TABLE_REACH else None
    if keys is None:
        return False
    rows = at_keys(draft.value, keys)
    made = table.as_table(rows, limit=limit)
    if made is None:
        return False
    line = table.note(len(rows), made, keys)
    if keys:
        made = table.within(dump(placed(draft.value, keys, table.PLACE)), made)
    size = len(encode(made))
    if size > options.chunk_threshold or size > draft.bytes * (1 - table.MIN_SAVING):
        return False
    if not options.limit.holds(made, *draft.notes, line):
        return False
    draft.write(made, lossy=False)
    draft.notes.append(line)
    return True


def _fit_tokens(draft: _Draft, options: OutputOptions) -> None:
    """Token-budget mode: the array that holds the bulk loses fields, then rows; where none would be left it stays whole."""
    keys = bulk_path(draft.value)
    if keys is None:
        return
    rows = at_keys(draft.value, keys)
    room = options.limit.beside(*draft.notes).less(size(draft.value) - size(rows)).plain
    disclosure = DISCLOSURE_CHARS
    for _ in range(DISCLOSURE_TRIES):
        if room - disclosure < BYTES_PER_TOKEN:
            return
        made = compact(rows, budget_tokens=(room - disclosure) // BYTES_PER_TOKEN)
        del made["note"]  # says again what the counts say
        if not made["rows"]:
            return
        value = placed(draft.value, keys, made)
        text = dump(value)
        if options.limit.holds(text, *draft.notes):
            draft.value = value
            draft.write(text, lossy=True)
            return
        disclosure = size(made) - size(made["rows"]) + len(encode(text)) // DISCLOSURE_SLACK


def _shrink_json(draft: _Draft, options: OutputOptions) -> None:
    """Uniform arrays collapsed, else key-path chunks; ever less detail until the budget holds it."""
    if not options.auto_chunk_json or not draft.is_json:
        return
    # A token budget stands in for the size: what fits it is not reduced further.
    target = options.chunk_threshold if options.budget_tokens is None else options.limit.plain
    if draft.bytes <= target:
        return
    for text, line in _candidates(draft, target):
        if options.limit.holds(text, *draft.notes, line) and len(text) < len(draft.text):
            draft.write(text, lossy=True)
            draft.notes.append(line)
            return
    if options.limit.plain < BRIEF_BELOW and not draft.fits(options.limit):
        draft.write(_brief(draft), lossy=True)
        if not draft.fits(options.limit):
            draft.notes.clear()


def _brief(draft: _Draft) -> str:
    """The document in one line: how many items or keys, and how large."""
    found = draft.survey
    value = found.root if isinstance(found, Tree) else found.skeleton if found is not None else draft.value
    if isinstance(value, Bulk):
        count, array = value.summary.total, True
    elif isinstance(value, Branch):
        count, array = value.count, value.array
    else:
        count, array = len(value), isinstance(value, list)
    if isinstance(found, Survey) and array:
        count = found.bulks[0].summary.total
    what = f"array of {count} items" if array else f"object of {count} keys"
    return dump({"$reduced": f"{what}, {kilobytes(draft.bytes)}"})


def _candidates(draft: _Draft, target: int) -> Iterator[tuple[str, str]]:
    """(text, note) from most to least detail."""
    found = draft.survey
    value = draft.value
    for detail in DETAILS:
        arrays: dict[str, tuple[int, int]] = {}
        if found is not None:
            instead = [stand_in(bulk, detail) for bulk in found.bulks]
            arrays = {
                path_text(bulk.keys): (told["total_rows"], told["shown_rows"])
                for bulk, told in zip(found.bulks, instead, strict=True)
            }
            value = found.filled(instead)
        made = collapse(value, target=target, detail=detail)
        smaller = value
        if made is not None:
            smaller, arrays = made.value, {**arrays, **made.arrays}
        if not arrays:
            break
        if not isinstance(smaller, Branch) and size(smaller) <= target:
            yield dump(smaller), _collapsed_note(arrays)
            continue
        outlined = outline(smaller, collapsed=True)
        told = {path: arrays[path] for path in collapsed_paths(outlined.shown) if path in arrays}
        line = _outlined_note(outlined)
        yield dump(outlined.value()), f"{_collapsed_note(told)} The rest by key path." if told else line
    for chunks, shown in _OUTLINES:
        made_outline = outline(value, max_chunks=chunks, shown_bytes=shown)
        yield dump(made_outline.value()), _outlined_note(made_outline)


def _outlined_note(made: Outline) -> str:
    return f"{OUTLINED} {CUT_TEXTS}" if made.texts else OUTLINED


def _collapsed_note(arrays: dict[str, tuple[int, int]]) -> str:
    told = [f"{path}: {total} rows, {shown} shown" for path, (total, shown) in arrays.items()]
    more = f"; {len(told) - NAMED_ARRAYS} more" if len(told) > NAMED_ARRAYS else ""
    return f"Arrays collapsed ({'; '.join(told[:NAMED_ARRAYS])}{more}); counts and types are of all rows."


def _truncate(draft: _Draft, options: OutputOptions) -> None:
    if not options.smart_truncation or draft.fits(options.limit):
        return
    if not options.limit.part(1, 2).holds(*draft.notes):
        draft.notes.clear()  # a budget this small goes to the answer; the footer still tells
    draft.write(truncate(draft.text, options.limit.beside(*draft.notes)).text, lossy=True)


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
    footer: str, store: ResultStore, data: bytes, kind: Kind, label: str | None, index: RowIndex | None
) -> tuple[str | None, str]:
    """(handle, footer); without a handle where the store has no room."""
    try:
        handle = store.save_bytes(data, kind, label=label, index=index)
    except ResultNotKept as error:
        return None, footer.format(handle=f"not kept ({error.message})")
    return handle, footer.format(handle=handle)


def _shorter(made: str, text: str, size: int, limit: Room) -> bool:
    """Whether a reduced answer with its notes is worth giving: shorter in bytes, and in characters.

    A footer may be more characters than were cut of another script than ASCII: where bytes were too many, these count.
    """
    fewer_chars, fewer_bytes = len(made) < len(text), weight(made) < size
    return fewer_bytes and (fewer_chars or size > limit.bytes)
