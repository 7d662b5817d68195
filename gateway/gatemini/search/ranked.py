"""What a ranking says about every slot. Above: `index.py`, `evaluate.py`. Below: `postings.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatemini.search.postings import Floats


@dataclass(frozen=True, slots=True)
class Ranked:
    """Scores by slot (0 = no match), how they came about, and each signal for explanations."""

    scores: Floats
    tier: str
    did_you_mean: str | None = None
    signals: Mapping[str, Floats] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
