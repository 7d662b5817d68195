"""Input tokens of each turn of a conversation, and what folding and trimming would have made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gatemini.context.options import Given, Outcome, opened, outcome
from gatemini.context.request.formats import Request
from gatemini.context.request.messages import Counter, Format, tokens_of

JUMP_TOKENS = 10_000
"""Growth from one turn to the next that is named."""


@dataclass(slots=True)
class TurnMeter:
    """Input tokens of turns, in order."""

    turns: list[int]

    @property
    def total(self) -> int:
        return sum(self.turns)

    @property
    def growth(self) -> list[int]:
        """What each turn has more than the one before; of the first all it has."""
        return [after - before for before, after in zip([0, *self.turns], self.turns, strict=False)]

    @property
    def jumps(self) -> list[int]:
        """Numbers of turns, from 1, that have over 10,000 tokens more than the one before."""
        return [n for n, more in enumerate(self.growth, 1) if n > 1 and more > JUMP_TOKENS]

    def lines(self) -> list[str]:
        """`turn=2 input_tokens=49800 growth=+48560 jump`."""
        jumps = set(self.jumps)
        return [
            f"turn={n} input_tokens={tokens} growth={more:+d}{' jump' if n in jumps else ''}"
            for n, (tokens, more) in enumerate(zip(self.turns, self.growth, strict=True), 1)
        ]


def meter(
    request: Given | Request,
    options: Mapping[str, Any] | None = None,
    *,
    format: Format | None = None,
    count: Counter = tokens_of,
) -> Outcome:
    """Measure a conversation: the request unchanged, and a report with the input tokens of each turn."""
    opened_request = opened(request, format)
    measured = TurnMeter(turn_tokens(opened_request, count))
    report: dict[str, Any] = {
        "lines": measured.lines(),
        "turns": measured.turns,
        "jumps": measured.jumps,
        "total": measured.total,
    }
    return outcome(request, opened_request.data, report)


def turn_tokens(request: Request, count: Counter = tokens_of) -> list[int]:
    """Input tokens of each turn of the model: tools, system text and all messages before its answer."""
    parts = (request.root.get("tools"), request.system)
    total = sum(count(part.compact().decode("utf-8", "replace")) for part in parts if part is not None)
    turns: list[int] = []
    for message in request.messages:
        if message.role == "assistant":
            turns.append(total)
        total += message.tokens(count)
    if request.messages and request.messages[-1].role != "assistant":
        turns.append(total)
    return turns


def cache_savings(static: float, requests: int, discount: float) -> dict[str, float]:
    """What a cached prefix of size `static` saves: the first request in full, each later one at `1 - discount`."""
    without = static * requests
    cached = static + static * (1 - discount) * max(0, requests - 1)
    saved = without - cached
    return {
        "without": without,
        "with": round(cached, 6),
        "saved": round(saved, 6),
        "saved_pct": round(100 * saved / without, 1) if without else 0.0,
    }
