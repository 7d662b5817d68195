"""The steps that a proxy takes with each request, in their order: fold, trim, filter, mark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatemini.config.model.context import CacheConfig, ContextConfig
from gatemini.context.fold import fold_results
from gatemini.context.mark import mark_cache
from gatemini.context.options import Outcome
from gatemini.context.request.formats import Request, parse_request
from gatemini.context.request.messages import Format
from gatemini.context.session import Session
from gatemini.context.tools.filter import ToolFilter
from gatemini.context.tools.metrics import FilterMetrics
from gatemini.context.tools.predict import Prediction, Predictor, Question
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

    def read(self, data: bytes, format: Format | None = None) -> Request:
        """A request from outside, checked. Raises NotARequest."""
        return parse_request(data, format)

    def before_filter(self, request: Request, session: Session) -> tuple[Request, dict[str, Any]]:
        """Fold and trim; the request as it is then and a report with one entry a step."""
        report: dict[str, Any] = {}
        if self.config.fold is not None:
            made, report["fold"] = fold_results(
                request, self.config.fold, store=session.store, fetch_tool=True
            )
            request = _again(request, made)
        if self.config.history is not None:
            made, report["trim"] = trim_history(
                request, self.config.history, store=session.store, mark_dropped=True
            )
            request = _again(request, made)
        return request, report

    def question(self, request: Request) -> Question | None:
        """What is to be predicted for a request, as it came from outside; None where no prediction is wanted."""
        return self.filter.question(request) if self.filter is not None else None

    def from_filter(
        self,
        request: Request,
        session: Session,
        prediction: Prediction | None,
        *,
        own: Collection[str] = (),
        called: Sequence[str] | None = None,
    ) -> Outcome:
        """Filter by a prediction and mark: what a request needs again that is repeated after `tool_search`."""
        report: dict[str, Any] = {}
        if self.filter is not None:
            made, report["filter"] = self.filter.apply(
                request, prediction, session=session, own=own, called=called
            )
            request = _again(request, made)
        data = request.data
        if self.config.cache is not None:
            data, report["mark"] = mark_cache(request, self.config.cache, session=session)
        return Outcome(data, report)

    def run(self, data: bytes, format: Format | None, session: Session) -> Outcome:
        """All steps; the request and a report with one entry a step. Raises NotARequest."""
        given = self.read(data, format)
        question = self.question(given)
        prediction = None
        if self.filter is not None and question is not None:
            prediction = self.filter.predict(question)
        return self.take(given, session, prediction)[1]

    def take(
        self, given: Request, session: Session, prediction: Prediction | None
    ) -> tuple[Request, Outcome]:
        """All steps with a prediction that was made; the request before the filter, and what `run` returns."""
        request, report = self.before_filter(given, session)
        made, more = self.from_filter(
            request, session, prediction, own=own_tools(report), called=given.called if self.filter else None
        )
        return request, Outcome(made, report | more)


def _again(request: Request, data: bytes) -> Request:
    """The request that a step made."""
    return request if data is request.data else parse_request(data, request.format, checked=True)


def own_tools(report: dict[str, Any]) -> list[str]:
    """Names of tools that the fold step added."""
    name = report.get("fold", {}).get("fetch_rows")
    return [name] if name else []
