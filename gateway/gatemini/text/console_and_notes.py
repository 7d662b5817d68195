"""The console's lines and the notes beside a chain's value or error, within the room they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gatemini.text.size_limit import SizeLimit
from gatemini.text.truncate import truncate

HEADING: Final = "[console]"

LEAST_CONSOLE: Final = 40
"""Characters or bytes below which the console is not worth its heading."""


def console_block(lines: Sequence[str], dropped: int, room: SizeLimit) -> str:
    """`[console]` and its lines, cut like any text, or how many there are; "" where nothing fits."""
    tail = [f"[{dropped} more lines dropped]"] if dropped else []
    if not lines and not tail:
        return ""
    left = room.beside(HEADING, *tail)
    text = "\n".join(lines)
    if left.plain >= LEAST_CONSOLE or left.holds(text):
        return "\n".join([HEADING, *([truncate(text, left).text] if lines else []), *tail])
    count = f"[console: {len(lines) + dropped} lines]"
    return count if room.holds(count) else ""


def without_repeats(notes: Sequence[str]) -> list[str]:
    """The notes in their order; of equal ones the first, and how many there were."""
    return [note if count == 1 else f"{note} (×{count})" for note, count in Counter(notes).items()]
