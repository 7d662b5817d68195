"""Send only the tool definitions that the next step may need, and let the model ask for the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz import process

from gatemini.config.model.context import ToolsConfig
from gatemini.context.options import Given, Outcome, WrongOption, opened, outcome, read_options
from gatemini.context.request.formats import Request
from gatemini.context.request.json_places import Edit, Json, spliced
from gatemini.context.request.messages import Format
from gatemini.context.request.tool_definitions import DECLARATIONS, free_name, written_definition
from gatemini.context.session import Session
from gatemini.context.tools.metrics import FilterMetrics
from gatemini.context.tools.predict import (
    Prediction,
    Predictor,
    Question,
    SearchPredictor,
    predict,
    question_of,
)
from gatemini.text.shorten import shorten

TOOL_SEARCH = "tool_search"
NAMES_BYTES = 4_000
"""Names of tools that the description of `tool_search` lists at most."""
SHOWN_NAME = 120
"""Characters shown of a name that no tool has."""
_PARAMETERS = {
    "type": "object",
    "properties": {
        "tool_name": {"type": "string", "description": "name of the tool that is needed"},
        "reason": {"type": "string", "description": "what it is needed for"},
    },
    "required": ["tool_name", "reason"],
}


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one `tool_search`: the tool that was added, or the closest name."""

    wanted: str
    added: str | None
    closest: str | None
    text: str
    """For the model."""


class ToolFilter:
    """Filters requests of any number of sessions by the same settings, and counts what it did."""

    def __init__(
        self,
        options: Mapping[str, Any] | ToolsConfig | None = None,
        *,
        predictor: Predictor | None = None,
        metrics: FilterMetrics | None = None,
    ) -> None:
        self.settings = read_options(ToolsConfig, options)
        self.search = SearchPredictor(self.settings.limit)
        self.predictor = predictor
        self.metrics = metrics or FilterMetrics()

    def question(self, request: Request) -> Question | None:
        """What is to be predicted for a request; None where no prediction is wanted."""
        settings = self.settings
        if not (settings.enabled and settings.use_prediction and request.tools):
            return None
        last = next((m for m in reversed(request.messages) if m.role != "system"), None)
        if last is not None and last.role == "tool" and settings.skip_prediction_on_tool_results:
            return None
        return question_of(request)

    def predict(self, question: Question) -> Prediction:
        """Ask the predictor. Raises WrongOption where it is another than the search and no function was given."""
        if self.predictor is None and self.settings.predictor != "search":
            raise WrongOption(
                f"options.predictor: {self.settings.predictor} needs a function that predicts; allowed is search"
            )
        return predict(self.predictor or self.search, question)

    def filter(
        self,
        request: Given | Request,
        *,
        format: Format | None = None,
        session: Session | None = None,
        own: Collection[str] = (),
    ) -> Outcome:
        """Predict and filter in one step; the request and a report. `own` are tools of ours, which stay."""
        opened_request = opened(request, format)
        question = self.question(opened_request)
        prediction = None if question is None else self.predict(question)
        data, report = self.apply(opened_request, prediction, session=session, own=own)
        return outcome(request, opened_request, data, report)

    def apply(
        self,
        request: Request,
        prediction: Prediction | None,
        *,
        session: Session | None = None,
        own: Collection[str] = (),
        called: Sequence[str] | None = None,
    ) -> Outcome:
        """Keep the tools of a prediction (None: those of the request before) beside those that always stay.

        `called` are the tools that the conversation has called, where the request does not have all of it any more.
        """
        if not self.settings.enabled:
            return Outcome(request.data, {"enabled": False})
        used = request.called if called is None else called
        choice = _Choice(request, self.settings, prediction, session or Session(), own, used)
        data = choice.written()
        report = choice.report(len(request.data) - len(data))
        self.metrics.record_request(report)
        return Outcome(data, report)

    def may_repeat(self, repeats: int) -> bool:
        """Whether a request that was repeated so often may be repeated once more for `tool_search`."""
        return repeats < self.settings.max_retries

    def add(self, request: Request, session: Session, wanted: Sequence[str]) -> list[Found]:
        """Answer the `tool_search` calls of one answer, all at once; what is found stays in the session."""
        known = [tool.name for tool in request.tools if tool.name]
        return [_found(name, known, session) for name in wanted]


def filter_tools(
    request: Given | Request,
    options: Mapping[str, Any] | ToolsConfig | None = None,
    *,
    format: Format | None = None,
    session: Session | None = None,
    predictor: Predictor | None = None,
) -> Outcome:
    """Leave out the tool definitions that the next step is unlikely to need; the request and a report.

    What stays is byte for byte what the request has; `tool_search`, by which the model asks for a tool that was left
    out, comes last. In a `session` the set only grows, and what is new goes behind.
    """
    return ToolFilter(options, predictor=predictor).filter(request, format=format, session=session)


def _found(wanted: str, known: Sequence[str], session: Session) -> Found:
    if wanted in known:
        if wanted not in session.sent and wanted not in session.added:
            session.added.append(wanted)
            return Found(wanted, wanted, None, f"{wanted} is available now: call it")
        return Found(wanted, None, None, f"{wanted} is available already: call it")
    if not wanted:
        return Found("", None, "", "this call has no tool_name: give it the name of one tool as text")
    near = process.extractOne(wanted, known, processor=str.lower)
    closest = near[0] if near else None
    hint = f"; the closest name is {closest}" if closest else ""
    return Found(wanted, None, closest, f"there is no tool {shorten(wanted, SHOWN_NAME)}{hint}")


class _Choice:
    """Which tools of a request stay, and in which order."""

    def __init__(
        self,
        request: Request,
        settings: ToolsConfig,
        prediction: Prediction | None,
        session: Session,
        own: Collection[str],
        called: Sequence[str],
    ) -> None:
        self._request = request
        self._called = called
        self._settings = settings
        self._session = session
        self._own = set(own)
        self.names = list(dict.fromkeys(tool.name for tool in request.tools if tool.name))
        self.predicted = list(prediction.names) if prediction is not None else []
        self.failure = prediction.failure if prediction is not None else None
        wanted = {*settings.always_included, *self.predicted, *called, *forced(request), *own}
        if self.failure is not None:
            wanted |= set(self.names)
        self.kept = self._ordered(wanted)
        kept = set(self.kept)
        self.excluded = [name for name in self.names if name not in kept]
        self.search_name: str | None = None

    def _ordered(self, wanted: set[str]) -> list[str]:
        """Those of the session's last request first, then what is new, then what `tool_search` added."""
        session = self._session
        there = set(self.names)
        before = [name for name in session.sent if name in there]
        added = [name for name in session.added if name in there and name not in before]
        new = (wanted & there) - set(before) - set(added)
        everything = len(before) + len(new) + len(added) == len(self.names)
        fresh = [name for name in self.names if name in new] if everything and not before else sorted(new)
        order = [*before, *fresh, *added]
        session.sent = [*(name for name in session.sent if name not in there), *order]
        return order

    def written(self) -> bytes:
        """The request with the tools that stay."""
        request = self._request
        if self.kept == self.names:
            return request.data
        by_name = {tool.name: tool for tool in reversed(request.tools)}
        nameless = [tool.place.written for tool in request.tools if not tool.name]
        definitions = [*nameless, *(by_name[name].place.written for name in self.kept)]
        if self.excluded and self._settings.include_fallback:
            self.search_name = free_name(TOOL_SEARCH, set(self.names))
            definitions.append(self._tool_search(self.search_name))
        return spliced(request.data, _replaced(request, definitions))

    def _tool_search(self, name: str) -> bytes:
        listed, size = [], 0
        for each in sorted(set(self.names) - self._own):
            size += len(each) + 2
            if size > NAMES_BYTES:
                listed.append("…")
                break
            listed.append(each)
        text = f"Get a tool that is not defined here. Tools: {', '.join(listed)}"
        return written_definition(self._request.format, name, text, _PARAMETERS)

    def report(self, saved: int) -> dict[str, Any]:
        there = set(self.names)
        report: dict[str, Any] = {
            "tools": len(self.names),
            "predicted": self.predicted,
            "included": [*self.kept, *([self.search_name] if self.search_name else [])],
            "excluded": self.excluded,
            "used": [name for name in self._called if name in there],
            "prediction_failures": int(self.failure is not None),
            "tool_search": self.search_name,
            "bytes_saved": saved,
        }
        if self.failure is not None:
            report["failure"] = self.failure
        return report


def forced(request: Request) -> list[str]:
    """Names of tools that the request's choice names."""
    if request.format == "gemini":
        config = request.root.get("toolConfig", "tool_config")
        calling = config.get("functionCallingConfig", "function_calling_config") if config else None
        names = calling.get("allowedFunctionNames", "allowed_function_names") if calling else None
        return [name.string() for name in names.items() if name.is_string] if names and names.is_array else []
    choice = request.root.get("tool_choice")
    if choice is None:
        return []
    allowed = choice.get("allowed_tools") or choice
    tools = allowed.get("tools")
    named: list[Json] = [choice, *(tools.objects() if tools is not None else ())]
    functions = [each.get("function", "custom") or each for each in named]
    return [name for each in functions if (name := each.text_of("name")) is not None]


def _replaced(request: Request, definitions: Sequence[bytes]) -> list[Edit]:
    """The edits that make these the tools of a request."""
    tools = request.root.get("tools")
    if tools is None:
        return []
    if request.format != "gemini":
        return [tools.replaced(b"[%b]" % b",".join(definitions))]
    edits: list[Edit] = []
    for group in tools.objects():
        declared = group.get(*DECLARATIONS)
        if declared is not None and declared.is_array:
            edits.append(declared.replaced(b"[%b]" % b",".join(definitions)))
            definitions = []
    return edits
