"""Context tools for programs that talk to a model themselves: pure functions on the provider's own request JSON.

    from gatemini.context import fold_results, trim_history

    request, report = trim_history(request, {"max_history_tokens": 16000}, format="anthropic")

A request is bytes, whose spellings all survive, or a dict; the outcome is of the same type, and the input is never changed.
"""

from collections.abc import Sequence
from typing import Any

from gatemini.context.caps import Caps, caps
from gatemini.context.fold import FETCH_ROWS, FoldOptions, compact_results, fold_results
from gatemini.context.mark import mark_cache
from gatemini.context.meter import TurnMeter, cache_savings, measure_turns
from gatemini.context.options import Outcome, WrongOption
from gatemini.context.plot import write_svg
from gatemini.context.request.formats import (
    FORMATS,
    NotARequest,
    Request,
    format_of_path,
    parse_request,
    user_message,
)
from gatemini.context.request.messages import Format, Message, tokens_of
from gatemini.context.session import Session, Sessions, session_key
from gatemini.context.steps import Steps, own_tools
from gatemini.context.stores import SessionStore, StateStore, Store
from gatemini.context.tools.filter import Found, ToolFilter, filter_tools
from gatemini.context.tools.metrics import Fallback, FilterMetrics
from gatemini.context.tools.predict import (
    Prediction,
    Predictor,
    Question,
    SearchPredictor,
    predict,
    prediction_prompt,
    question_of,
    read_prediction,
)
from gatemini.context.trim import trim_history
from gatemini.output.compact import compact
from gatemini.output.store.fetched_rows import fetch_rows

__all__ = [
    "FETCH_ROWS",
    "FORMATS",
    "Caps",
    "Fallback",
    "FilterMetrics",
    "FoldOptions",
    "Format",
    "Found",
    "Message",
    "NotARequest",
    "Outcome",
    "Prediction",
    "Predictor",
    "Question",
    "Request",
    "SearchPredictor",
    "Session",
    "SessionStore",
    "Sessions",
    "StateStore",
    "Steps",
    "Store",
    "ToolFilter",
    "TurnMeter",
    "WrongOption",
    "cache_savings",
    "caps",
    "compact_results",
    "compact_rows",
    "fetch_rows",
    "filter_tools",
    "fold_results",
    "format_of_path",
    "mark_cache",
    "measure_turns",
    "own_tools",
    "parse_request",
    "predict",
    "prediction_prompt",
    "question_of",
    "read_prediction",
    "session_key",
    "tokens_of",
    "trim_history",
    "user_message",
    "write_svg",
]


def compact_rows(
    rows: Sequence[Any], fields: Sequence[str] | None = None, budget_tokens: float = 6_000
) -> dict[str, Any]:
    """Bring rows to their `fields` and a budget: `{rows, total_rows, returned_rows, truncated, dropped_fields, note}`.

    Fields are left out before rows, and the last row is never taken away.
    """
    return compact(list(rows), fields=fields, budget_tokens=budget_tokens)
