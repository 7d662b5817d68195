"""What commands show of counts: bars, times, and whether the process that counted still runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatemini.upkeep.process_records import ProcessRecord

BAR_CELLS = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(before: int, added: int, full: int) -> str:
    """`before` and `added` bytes on a scale on which `full` is `BAR_CELLS` long; never shorter than a sliver."""
    if full <= 0:
        return ""
    start = before * BAR_CELLS // full
    eighths = max(1, round((before + added) * BAR_CELLS * 8 / full) - start * 8) if added else 0
    return "░" * start + "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def bar_of_savings(sent: int, before: int, full: int) -> str:
    """What was sent instead of `before`, and what that saved, on the same scale."""
    cells = sent * BAR_CELLS // max(full, 1)
    return "█" * cells + "░" * max(0, before * BAR_CELLS // max(full, 1) - cells)


def moment(written: str) -> str:
    """The time of a record for people, to the second."""
    return written[:19].replace("T", " ")


def life(record: ProcessRecord, started: str) -> str:
    """`running, since 2026-01-31 10:00:00 UTC`."""
    state = "running" if record.running else "ended" if record.ended else "gone without an end"
    return f"{state}, since {moment(started)} UTC"
