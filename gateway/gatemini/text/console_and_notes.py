"""The console's lines and the notes beside a chain's value or error, within the room they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gatemini.text.escape import visible
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
    text = visible("\n".join(lines), lines=True)
    if left.plain >= LEAST_CONSOLE or left.holds(text):
        return "\n".join([HEADING, *([truncate(text, left).text] if lines else []), *tail])
    count = f"[console: {len(lines) + dropped} lines]"
    return count if room.holds(count) else ""


def notes_text(notes: Sequence[str], before: str = "") -> str:
    """The notes a line each, escaped, in their order; of equal ones the first, and how many there were."""
    said = Counter(visible(note, lines=True) for note in notes)
    return "\n".join(
        f"{before}{note}" if count == 1 else f"{before}{note} (×{count})" for note, count in said.items()
    )
