"""Input tokens of each turn of a conversation, and what folding and trimming would have made of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatemini.config.model.context import HistoryConfig
from gatemini.context import bodies
from gatemini.context.caps import caps
from gatemini.context.options import Given, Outcome, opened, outcome, read_options
from gatemini.context.request.formats import Request
from gatemini.context.request.messages import Counter, Format, Message, tokens_of
from gatemini.context.stores import SessionStore
from gatemini.context.trim import recent_from, turn_starts, units
from gatemini.text.utf8 import encode

JUMP_TOKENS = 10_000
"""Growth from one turn to the next that is named."""
STUB_TOKENS = tokens_of(bodies.stub("res_00000000"))
HANDLE_OVER_TOKENS = 2_000
"""Results over this are a description and a handle in the projection `fold+handles`."""


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


@dataclass(frozen=True, slots=True)
class Part:
    """Text that is sent from turn `first` on. Of a tool result that folds, `folded` is what its stub has."""

    first: int
    tokens: int
    folded: int | None = None


def measure_turns(
    request: Given | Request,
    options: Mapping[str, Any] | HistoryConfig | None = None,
    *,
    format: Format | None = None,
    count: Counter = tokens_of,
) -> Outcome:
    """Measure a conversation: the request unchanged, and a report with the input tokens of each turn.

    `with` projects the same conversation with results folded, large ones as handles from the beginning, and the history
    trimmed by the options of `trim_history`.
    """
    settings = read_options(HistoryConfig, options)
    opened_request = opened(request, format)
    parts, turns = _parts(opened_request, count)
    with_handles, _ = _parts(opened_request, count, HANDLE_OVER_TOKENS)
    measured = TurnMeter(spent(parts, turns))
    projected = {
        "fold": spent(parts, turns, fold=True),
        "fold+handles": spent(with_handles, turns, fold=True),
        "trim": _trimmed(opened_request, settings, count),
    }
    report: dict[str, Any] = {
        "lines": measured.lines(),
        "turns": measured.turns,
        "jumps": measured.jumps,
        "total": measured.total,
        "with": {name: _beside(tokens, measured.total) for name, tokens in projected.items()},
    }
    return outcome(request, opened_request, opened_request.data, report)


def turn_tokens(request: Request, count: Counter = tokens_of) -> list[int]:
    """Input tokens of each turn of the model: tools, system text and all messages before its answer."""
    parts, turns = _parts(request, count)
    return spent(parts, turns)


def spent(parts: Sequence[Part], turns: int, *, fold: bool = False, keep_turns: int = 0) -> list[int]:
    """Input tokens of each turn; with `fold` a result has its stub's once the model has read it."""
    steps = [0] * (turns + 2)
    for part in parts:
        steps[min(part.first, turns + 1)] += part.tokens
        if fold and part.folded is not None:
            steps[min(part.first + 1 + keep_turns, turns + 1)] += part.folded - part.tokens
    made, total = [], 0
    for step in steps[1 : turns + 1]:
        total += step
        made.append(total)
    return made


def _base(request: Request, count: Counter) -> int:
    """Tokens of what every turn sends: tools and system text."""
    parts = (request.root.get("tools"), request.system)
    return sum(count(part.compact().decode("utf-8", "replace")) for part in parts if part is not None)


def _parts(request: Request, count: Counter, handle_over: int | None = None) -> tuple[list[Part], int]:
    """What is sent, and the number of turns; the next request is a turn where the model has not answered yet."""
    parts, turn = [Part(1, _base(request, count))], 1
    store = SessionStore()
    for message in request.messages:
        texts = sum(count(piece.text) for piece in message.pieces)
        if message.role == "assistant":
            turn += 1
        parts.append(Part(turn, texts))
        for result in message.results:
            text = bodies.stored(result)
            tokens = count(result.text)
            if handle_over is not None and tokens > handle_over and not result.is_error:
                tokens = min(tokens, count(bodies.described(store, store.keep("", encode(text)))))
            folds = not result.is_error and tokens > STUB_TOKENS
            parts.append(Part(turn, tokens, STUB_TOKENS if folds else None))
    answered = bool(request.messages) and request.messages[-1].role == "assistant"
    return parts, turn - 1 if answered else turn


def _beside(tokens: list[int], total: int) -> dict[str, Any]:
    """The turns of a projection, and what it saves of the tokens that were measured."""
    projected = sum(tokens)
    saved = round(100 * (total - projected) / total, 1) if total else 0.0
    return {"turns": tokens, "total": projected, "saved_pct": saved}


def _trimmed(request: Request, settings: HistoryConfig, count: Counter) -> list[int]:
    """Input tokens of each turn with the history trimmed; caps of single messages, then whole units."""
    messages, base = request.messages, _base(request, count)
    sizes = [0 if m.role == "system" else m.tokens(count) for m in messages]
    system = [m.tokens(count) if m.role == "system" else 0 for m in messages]
    ends = [index for index, message in enumerate(messages) if message.role == "assistant"]
    if messages and messages[-1].role != "assistant":
        ends.append(len(messages))
    starts, grouped = turn_starts(messages), units(messages)
    firsts = [unit[0] for unit in grouped]
    made = []
    for end in ends:
        total = sum(sizes[:end])
        if total > settings.max_history_tokens:
            recent = recent_from(messages, starts, end, settings)
            old = grouped[: bisect_left(firsts, recent)]
            total = _kept(messages, sizes, old, sum(sizes[recent:end]), settings.max_history_tokens)
        made.append(base + sum(system[:end]) + total)
    return made


def _kept(
    messages: Sequence[Message], sizes: Sequence[int], old: Sequence[Sequence[int]], recent: int, budget: int
) -> int:
    """Tokens of the recent part and of the newest old units that fit beside it."""
    number = sum(map(len, old))
    limits, age, total = caps(budget, number), 0, recent
    for unit in reversed(old):
        tokens = 0
        for index in reversed(unit):
            tokens += min(sizes[index], limits.at(age, number, tool=messages[index].role == "tool"))
            age += 1
        if total + tokens > budget:
            break
        total += tokens
    return total


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
