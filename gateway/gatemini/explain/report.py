"""The text an agent reads after a failed chain: cause first, within what its client shows of an error.

`Type: message (line L, column C)`, the source line with a caret, HINT, the calls that were made (so that nothing is
done twice), notes, the console.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gatemini.explain.source_lines import line_at
from gatemini.text.console_and_notes import console_block, notes_text
from gatemini.text.escape import one_line
from gatemini.text.shorten import cut_middle, shorten
from gatemini.text.size_limit import SizeLimit, weight

BUDGET: Final = SizeLimit(10_000)
"""Of an error text for a client nothing is known of."""

SHOWN_CALLS: Final = 40
"""Calls listed; of more, the first and the last ones (failed ones are always among them as far as they fit)."""

SHOWN_WIDTH: Final = 120
"""Characters shown of a source line, around the caret: minified code has lines of 100 KB."""

SHOWN_ARGUMENTS: Final = 80
"""Characters shown of the arguments of a call, where another one has the same tool."""

SHOWN_OUTCOME: Final = 160
"""Characters shown of what became of one call."""

_SHARE_MESSAGE: Final = 0.5
_SHARE_HINT: Final = 0.2
_SHARE_CALLS: Final = 0.3


@dataclass(frozen=True, slots=True)
class CallLine:
    """One call the chain made: qualified name, `ok` or what went wrong, milliseconds (None: unanswered).

    `sent` is False for one that was refused or held before it left; `arguments` is their JSON."""

    tool: str
    outcome: str
    ms: float | None = None
    sent: bool = True
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """Everything the text is made of. `source` is the text as submitted; `tool` the one that failed; `cause` the
    causes of the error, a line each."""

    name: str
    message: str
    tool: str | None = None
    line: int | None = None
    column: int | None = None
    source: str = ""
    hint: str | None = None
    cause: str | None = None
    calls: Sequence[CallLine] = ()
    console: Sequence[str] = ()
    console_dropped: int = 0
    notes: Sequence[str] = ()


def render_error(report: ErrorReport, *, budget: SizeLimit = BUDGET) -> str:
    """The whole text within its budget; what is cut is cut from the end backwards."""
    chars = budget.plain
    while True:
        text = _rendered(report, chars)
        if budget.holds(text):
            return text
        # Of text that is not ASCII fewer characters fit; a quarter of the bytes holds any.
        chars = max(0, min(chars - 1, chars * budget.bytes // weight(text)))


def _rendered(report: ErrorReport, budget: int) -> str:
    """The text in at most `budget` characters."""
    head = _first_lines(report, budget)
    calls = _calls(report, int(budget * _SHARE_CALLS))
    notes = notes_text(report.notes, "NOTE: ")
    text = "\n".join([*head, *calls, *filter(None, (notes,))])
    if len(text) > budget:
        return cut_middle(text, budget)
    console = console_block(report.console, report.console_dropped, SizeLimit(budget).beside(text))
    return f"{text}\n{console}" if console else text


def _first_lines(report: ErrorReport, budget: int) -> list[str]:
    where = f" (line {report.line}, column {report.column or 1})" if report.line else ""
    said = report.message.strip() or "(no message)"
    if report.tool and report.tool not in said and not _names(said, report.tool):
        said = f"{report.tool}: {said}"
    message = cut_middle(said, int(budget * _SHARE_MESSAGE))
    first, newline, rest = message.partition("\n")
    lines = [f"{report.name}: {first}{where}"]
    if newline:
        lines.append(rest)
    source_line = line_at(report.source, report.line) if report.line else None
    if source_line is not None and source_line.strip():
        lines += [part.rstrip() for part in excerpt(source_line, report.column or 1)]
    if report.cause:
        lines.append(cut_middle(report.cause, int(budget * _SHARE_HINT)))
    if report.hint:
        lines.append(f"HINT: {cut_middle(report.hint, int(budget * _SHARE_HINT))}")
    return lines


def _names(said: str, tool: str) -> bool:
    """Whether a message quotes the tool and its backend already."""
    backend, _, name = tool.rpartition(".")
    return f"'{backend}'" in said and f"'{name}'" in said


def _calls(report: ErrorReport, budget: int) -> list[str]:
    """One line for each call; in the middle of many, those that went well are counted only."""
    # The call the error is about need not be listed when it never left: there is nothing to look after.
    calls = [call for call in report.calls if call.sent or not _is_this(call, report.message)]
    if not calls:
        return []
    chosen = list(range(len(calls)))
    if len(calls) > SHOWN_CALLS:
        edge = SHOWN_CALLS // 4
        failed = [i for i in chosen[edge:-edge] if calls[i].outcome != "ok"]
        chosen = [*chosen[:edge], *failed[: SHOWN_CALLS // 2], *chosen[-edge:]]
    lines = ["Calls made before the error:"]
    times = Counter(call.tool for call in calls)
    left = budget - len(lines[0])
    before = -1
    for position, index in enumerate(chosen):
        skipped = index - before - 1
        call = calls[index]
        given = (
            f"({shorten(one_line(call.arguments), SHOWN_ARGUMENTS)})"
            if times[call.tool] > 1 and call.arguments
            else ""
        )
        line = f"  {_call(index, call, report.message, given)}"
        if skipped:
            line = f"  … {skipped} more\n{line}"
        if len(line) + 1 > left and position > 0:
            lines.append(f"  … {len(calls) - before - 1} more")
            break
        lines.append(line)
        left -= len(line) + 1
        before = index
    return lines


def _call(index: int, call: CallLine, message: str, given: str) -> str:
    took = f" ({_duration(call.ms)})" if call.ms is not None and call.sent else ""
    outcome = shorten(one_line(call.outcome), SHOWN_OUTCOME)
    if not call.sent:
        why = outcome.removeprefix("error: ")
        outcome = "held, not sent" if why == "ok" else f"not sent: {why}"
    elif _is_this(call, message):
        outcome = "failed with this error"
    return f"{index + 1}. {call.tool}{given}: {outcome}{took}"


def _is_this(call: CallLine, message: str) -> bool:
    """Whether the error of this call is the one that is reported."""
    outcome = shorten(one_line(call.outcome), SHOWN_OUTCOME)
    said = outcome.removeprefix("error: ").removesuffix("...").removesuffix("…")
    return said != outcome and said != "" and " ".join(message.split()).startswith(said)


def _duration(ms: float) -> str:
    if ms >= 10_000:
        return f"{ms / 1000:.0f} s"
    if ms >= 1_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.0f} ms" if ms >= 1 else "<1 ms"


def excerpt(source_line: str, column: int) -> tuple[str, str]:
    """The source line and, below it, a caret under the 1-based column; tabs are kept so that the two line up."""
    start = max(0, column - 1 - SHOWN_WIDTH // 2) if len(source_line) > SHOWN_WIDTH else 0
    shown = source_line[start : start + SHOWN_WIDTH]
    before = source_line[start : column - 1]
    padding = "".join("\t" if character == "\t" else " " for character in before)
    left = "…" if start else ""
    right = "…" if start + SHOWN_WIDTH < len(source_line) else ""
    return f"  {left}{shown}{right}", f"  {' ' * len(left)}{padding}^"
