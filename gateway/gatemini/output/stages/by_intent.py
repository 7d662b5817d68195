"""Keep what an intent asks for: sections of the document, and parts of long texts in it."""

from __future__ import annotations

from gatemini.output.collapsed_arrays import path_text
from gatemini.output.intent import filter_json, filter_text
from gatemini.output.json import lazy_json
from gatemini.output.options import OutputOptions
from gatemini.output.passages import filter_texts
from gatemini.output.stages.draft import Draft

INTENT_SHOWN = 80
"""Characters of the intent that its note repeats."""
NAMED_TEXTS = 5
"""Most filtered texts with a note of their own."""


def filter_sections(draft: Draft, options: OutputOptions) -> None:
    """Keep the sections of the document that share words with the intent."""
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
        _note(draft, options, found.kept, found.total)
        if draft.raw is not None:
            draft.notes.append("Kept by shared words, not by a condition: filter in code for that.")
    elif found.total > 1:
        none = "tells none from the others" if found.all_match else "matches none"
        draft.remarks.append(
            f"[Intent '{_shown(options)}': of {found.total} sections it {none}, so all are kept]"
        )


def filter_long_texts(draft: Draft, options: OutputOptions) -> None:
    """Filter the paragraphs or lines of long texts inside the document."""
    if draft.raw is None or not options.filters(draft.bytes):
        return
    node, filtered = filter_texts(draft.raw, options.intent or "", options.intent_threshold)
    if filtered:
        draft.remarks.clear()
        draft.write_json(lazy_json.written(node), lossy=True)
    for text in filtered[:NAMED_TEXTS]:
        _note(draft, options, text.kept, text.total, f" of {path_text(text.path)}")
    if len(filtered) > NAMED_TEXTS:
        draft.notes.append(f"{len(filtered) - NAMED_TEXTS} more texts filtered by intent")


def _note(draft: Draft, options: OutputOptions, kept: int, total: int, where: str = "") -> None:
    draft.notes.append(f"[Filtered by intent: '{_shown(options)}' — {kept}/{total} sections{where}]")


def _shown(options: OutputOptions) -> str:
    intent = " ".join((options.intent or "").split())
    return intent if len(intent) <= INTENT_SHOWN else intent[:INTENT_SHOWN] + "…"
