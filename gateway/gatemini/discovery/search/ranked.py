"""What a ranking returns for one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from gatemini.discovery.search.postings import Scores
from gatemini.model import Tool

Meaning = Sequence[float]
"""Cosine of the query's vector with each tool's, by slot; 0 where a tool has no vector yet."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Scores of the matching slots, the tier that found them, and each signal for explanations."""

    scores: Scores
    tier: str
    did_you_mean: str | None = None
    signals: Mapping[str, Scores] = field(default_factory=dict)


class Ranker(Protocol):
    """A ranking over slots. `rank` returns scores of slots in `allowed` only."""

    def add(self, slot: int, tool: Tool) -> None: ...
    def remove(self, slot: int, tool: Tool) -> None: ...
    def rank(self, text: str, allowed: AbstractSet[int], meaning: Meaning | None, limit: int) -> Ranked: ...


def likeness(meaning: Meaning, slots: AbstractSet[int]) -> Scores:
    """Return the cosines of `slots` that are above zero."""
    return {slot: value for slot, value in enumerate(meaning) if value > 0 and slot in slots}
