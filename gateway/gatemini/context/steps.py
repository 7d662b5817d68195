"""The steps that a proxy takes with each request, in their order: fold, trim, filter, mark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from gatemini.config.model.context import CacheConfig, ContextConfig
from gatemini.context.fold import fold_results
from gatemini.context.mark import mark_cache
from gatemini.context.options import Outcome
from gatemini.context.request.formats import parse_request
from gatemini.context.request.messages import Format
from gatemini.context.session import Session
from gatemini.context.tools.filter import ToolFilter
from gatemini.context.tools.metrics import FilterMetrics
from gatemini.context.tools.predict import Prediction, Predictor, predict
from gatemini.context.trim import trim_history


@dataclass(slots=True)
class Steps:
    """The steps that a configuration switches on."""

    config: ContextConfig
    predictor: Predictor | None = None
    metrics: FilterMetrics = field(default_factory=FilterMetrics)
    filter: ToolFilter | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        config = self.config
        if not any((config.history, config.fold, config.tools, config.cache)):
            self.config = config = ContextConfig(cache=CacheConfig())
        if config.tools is not None and config.tools.enabled:
            self.filter = ToolFilter(config.tools, predictor=self.predictor, metrics=self.metrics)

    def before_filter(self, data: bytes, format: Format, session: Session) -> Outcome:
        """Fold and trim."""
        report: dict[str, Any] = {}
        if self.config.fold is not None:
            data, report["fold"] = fold_results(
                data, self.config.fold, format=format, store=session.store, fetch_tool=True
            )
        if self.config.history is not None:
            data, report["trim"] = trim_history(
                data, self.config.history, format=format, store=session.store, mark_dropped=True
            )
        return Outcome(data, report)

    def from_filter(
        self,
        data: bytes,
        format: Format,
        session: Session,
        prediction: Prediction | None,
        own: Collection[str] = (),
    ) -> Outcome:
        """Filter by a prediction and mark; what a repeated request needs."""
        report: dict[str, Any] = {}
        if self.filter is not None:
            request = parse_request(data, format)
            data, report["filter"] = self.filter.apply(request, prediction, session=session, own=own)
        if self.config.cache is not None:
            data, report["mark"] = mark_cache(data, self.config.cache, format=format, session=session)
        return Outcome(data, report)

    def run(self, data: bytes, format: Format, session: Session) -> Outcome:
        """All steps; the request and a report with one entry a step."""
        data, report = self.before_filter(data, format, session)
        prediction, own = None, own_tools(report)
        if self.filter is not None:
            question = self.filter.question(parse_request(data, format))
            prediction = None if question is None else predict(self.filter.predictor, question)
        data, more = self.from_filter(data, format, session, prediction, own)
        return Outcome(data, report | more)


def own_tools(report: dict[str, Any]) -> list[str]:
    """Names of tools that the fold step added."""
    name = report.get("fold", {}).get("fetch_rows")
    return [name] if name else []
