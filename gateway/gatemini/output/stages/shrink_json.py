"""Collapse the arrays of a document, else outline it by key paths, with less detail each time until it fits."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from gatemini.output.collapsed_arrays import CHUNK_BYTES, DETAILS, Node, collapsed, kilobytes, look
from gatemini.output.document_outline import MAX_CHUNKS, Outline, outline
from gatemini.output.json import lazy_json
from gatemini.output.json.json_text import dump
from gatemini.output.options import OutputOptions
from gatemini.output.stages.draft import BRIEF_BELOW, LOAD, Draft

OUTLINED = "Large branches are listed by key path with their size."
NAMED_ARRAYS = 5
"""Most collapsed arrays named in the note; the JSON itself describes all."""
CUT_TEXTS = f"Long texts are cut; the next chain reads them whole: {LOAD}."
_OUTLINES = ((MAX_CHUNKS, CHUNK_BYTES), (20, 2048), (10, 1024), (4, 256), (2, 128))
"""(chunks, bytes shown in full) of outlines for small budgets, largest first."""


def shrink_json(draft: Draft, options: OutputOptions) -> None:
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
    return f"Arrays collapsed ({listed}); counts and types are of all rows, which {LOAD} gives."
