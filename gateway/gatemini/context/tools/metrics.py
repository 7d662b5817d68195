"""What the tool filter did: per request, and in total."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

WARNING_RATE = 0.1
"""More requests than this share that needed a tool left out: the prediction does not fit this agent."""
FALLBACKS_KEPT = 100


@dataclass(frozen=True, slots=True)
class Fallback:
    """A call of `tool_search`: the name asked for, the reason given, and whether there is such a tool."""

    name: str
    reason: str
    success: bool


@dataclass(slots=True)
class FilterMetrics:
    """Totals over requests."""

    requests: int = 0
    predicted: int = 0
    included: int = 0
    excluded: int = 0
    used: int = 0
    used_predicted: int = 0
    prediction_failures: int = 0
    requests_with_fallback: int = 0
    bytes_saved: int = 0
    fallbacks: list[Fallback] = field(default_factory=list)

    def record_request(self, report: dict[str, Any]) -> None:
        """Add the report of one filtered request."""
        self.requests += 1
        self.predicted += len(report.get("predicted", ()))
        self.included += len(report.get("included", ()))
        self.excluded += len(report.get("excluded", ()))
        self.prediction_failures += report.get("prediction_failures", 0)
        self.bytes_saved += report.get("bytes_saved", 0)

    def record_used(self, predicted: Collection[str], used: Collection[str]) -> None:
        """Add the tools that the model called after a prediction."""
        self.used += len(set(used))
        self.used_predicted += len(set(used) & set(predicted))

    def record_fallbacks(self, fallbacks: Collection[Fallback]) -> None:
        """Add what one request's answers asked for by `tool_search`."""
        self.requests_with_fallback += bool(fallbacks)
        self.fallbacks = [*self.fallbacks, *fallbacks][-FALLBACKS_KEPT:]

    @property
    def fallback_rate(self) -> float:
        return self.requests_with_fallback / self.requests if self.requests else 0.0

    @property
    def warning(self) -> bool:
        return self.fallback_rate > WARNING_RATE

    def totals(self) -> dict[str, Any]:
        """The totals with precision and recall of prediction (None before there is anything to divide by)."""
        return {
            "requests": self.requests,
            "predicted": self.predicted,
            "included": self.included,
            "excluded": self.excluded,
            "used": self.used,
            "precision": round(self.used_predicted / self.predicted, 4) if self.predicted else None,
            "recall": round(self.used_predicted / self.used, 4) if self.used else None,
            "prediction_failures": self.prediction_failures,
            "fallback_rate": round(self.fallback_rate, 4),
            "warning": self.warning,
            "bytes_saved": self.bytes_saved,
            "fallbacks": [{"name": f.name, "reason": f.reason, "success": f.success} for f in self.fallbacks],
        }
