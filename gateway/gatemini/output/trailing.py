"""The console's lines and the notes beside a chain's value or error, within the room they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gatemini.output.room import Room
from gatemini.output.truncate import beginning

HEADING: Final = "[console]"

LEAST_CONSOLE: Final = 40
"""Characters or bytes below which the console is not worth its heading."""


def console_block(lines: Sequence[str], dropped: int, room: Room) -> str:
    """`[console]` and all lines, or the first and the last ones that fit, or how many there are; "" where nothing fits."""
    tail = [f"[{dropped} more lines dropped]"] if dropped else []
    if not lines and not tail:
        return ""
    if room.holds(HEADING, *lines, *tail):
        return "\n".join([HEADING, *lines, *tail])
    left = room.beside(HEADING, f"[… {len(lines)} lines left out …]", *tail)
    if left.plain < LEAST_CONSOLE:
        count = f"[console: {len(lines) + dropped} lines]"
        return count if room.holds(count) else ""
    head: list[str] = []
    end: list[str] = []
    front, back = 0, len(lines)
    while front < back:
        from_front = len(head) <= len(end)
        line = lines[front] if from_front else lines[back - 1]
        if not left.holds(line):
            break
        left = left.beside(line)
        if from_front:
            head.append(line)
            front += 1
        else:
            end.append(line)
            back -= 1
    if not head:
        head, front = [beginning(lines[0], left)], 1
    gap = [f"[… {back - front} lines left out …]"] if back > front else []
    return "\n".join([HEADING, *head, *gap, *reversed(end), *tail])


def without_repeats(notes: Sequence[str]) -> list[str]:
    """The notes in their order; of equal ones the first, and how many there were."""
    return [note if count == 1 else f"{note} (×{count})" for note, count in Counter(notes).items()]
