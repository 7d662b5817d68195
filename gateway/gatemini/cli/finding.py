"""One finding of `gatemini doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(slots=True)
class Finding:
    """The result of one check: how it is, what was seen, and (`mend`) what to do about it."""

    what: str
    verdict: Verdict
    seen: str
    mend: str = ""
