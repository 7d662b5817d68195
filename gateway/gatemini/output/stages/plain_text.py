"""Shorten text: head, tail and an outline of what is between, or a plain cut."""

from __future__ import annotations

from gatemini.output.options import OutputOptions
from gatemini.output.stages.draft import BRIEF_BELOW, Draft
from gatemini.output.text_outline import shortened
from gatemini.text.size_limit import SizeLimit
from gatemini.text.truncate import truncate


def shorten_text(draft: Draft, options: OutputOptions) -> None:
    """Shorten plain text to head, tail and an outline of what is between, unless the call says how much it takes."""
    if draft.raw is not None or options.named_size or not options.smart_truncation:
        return
    if len(draft.text) <= options.text_threshold or options.budget_tokens is not None:
        return
    limit = options.limit.within(SizeLimit(options.text_target)).beside(*draft.notes)
    if limit.plain >= BRIEF_BELOW:
        draft.write(shortened(draft.text, limit), lossy=True)


def truncate_text(draft: Draft, options: OutputOptions) -> None:
    """Cut what does not fit after all other stages."""
    if not options.smart_truncation or draft.fits(options.limit):
        return
    if not options.limit.part(1, 2).holds(*draft.notes):
        draft.notes.clear()  # a budget this small goes to the answer; the footer still says how much was cut
    draft.write(truncate(draft.text, options.limit.beside(*draft.notes)).text, lossy=True)
