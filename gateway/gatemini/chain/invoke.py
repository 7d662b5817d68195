"""The one door to backends: every call of every tier passes here, and nothing else calls a backend.

Name → arguments check → deadline → backend → value, with a record of each call for the error texts and
`_meta`. Above: run.py (tiers 1 and 2) and script.py (tier 3). Below: registry, arguments, backends,
values, tracker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from gatemini.chain.arguments import check
from gatemini.chain.jsvalue import dumps
from gatemini.chain.services import ChainServices
from gatemini.chain.values import Value, to_value, tool_error
from gatemini.errors import BackendProtocol, GateminiError, ToolNotFound
from gatemini.model import Json, Tool
from gatemini.output.results import ResultStore
from gatemini.types.typescript import signature


@dataclass(slots=True)
class CallRecord:
    """One call a chain made: what, with which outcome, how long. `outcome` is None while it is open."""

    id: int
    backend: str
    tool: str
    started: float
    outcome: str | None = None
    ms: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the code gets for one call: a value, or the fields of the error its promise rejects with.

    `text`, where there is one, is JSON text of the same value.
    """

    ok: bool
    value: Any
    notes: tuple[str, ...] = ()
    text: str | None = None

    def json(self) -> str:
        """JSON text of the value, as JavaScript writes it."""
        return self.text if self.text is not None else dumps(self.value)


@dataclass(slots=True)
class Invoker:
    """The calls of one chain. `deadline` is on `time.monotonic`; `on_call_done` advances the progress."""

    services: ChainServices
    results: ResultStore
    deadline: float
    on_call_done: Callable[[CallRecord], None] | None = None
    records: list[CallRecord] = field(default_factory=list)
    _in_flight: anyio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._in_flight = anyio.Semaphore(self.services.config.max_calls_in_flight)

    async def call(self, backend: str, spelled: str, arguments: Any, *, raw: bool = False) -> Outcome:
        """One tool call; every failure comes back as an `Outcome`, only cancellation is raised."""
        record = CallRecord(len(self.records) + 1, backend, f"{backend}.{spelled}", time.monotonic())
        self.records.append(record)
        try:
            async with self._in_flight:
                record.started = time.monotonic()
                outcome = await self._call(record, backend, spelled, arguments, raw)
        except GateminiError as exc:
            outcome = Outcome(False, error_fields(exc, record.tool, backend))
        except BaseException:
            self._finish(record, "cancelled")
            raise
        self._finish(record, "ok" if outcome.ok else f"error: {_brief(outcome.value)}")
        return outcome

    async def read_resource(self, backend: str, uri: str) -> Outcome:
        """`backend.readResource(uri)`: the first content as a value, all of them when there are several."""
        record = CallRecord(len(self.records) + 1, backend, f"{backend}.readResource", time.monotonic())
        self.records.append(record)
        try:
            async with self._in_flight:
                result = await self.services.backends.read_resource(
                    backend, uri, timeout=self._time_left(backend)
                )
        except GateminiError as exc:
            self._finish(record, f"error: {exc.message}")
            return Outcome(False, error_fields(exc, record.tool, backend))
        except BaseException:
            self._finish(record, "cancelled")
            raise
        self._finish(record, "ok")
        contents = [_resource_value(c, self.results) for c in result.get("contents") or []]
        return Outcome(True, contents[0] if len(contents) == 1 else contents)

    async def _call(
        self, record: CallRecord, backend: str, spelled: str, arguments: Any, raw: bool
    ) -> Outcome:
        tool = await self._find(backend, spelled)
        record.tool = tool.qualified
        checked, notes = check(tool, arguments, signature)
        outcome = await self.services.backends.call_tool(
            tool.backend, tool.name, checked, timeout=self._time_left(tool.backend)
        )
        notes = (*notes, *outcome.notes)
        if raw:
            return Outcome(True, outcome.result, notes)
        if outcome.result.get("isError"):
            return Outcome(False, tool_error(outcome.result, tool), notes)
        record.bytes = outcome.bytes
        value: Value = to_value(outcome.result, tool, save_blob=self.results.save_blob)
        return Outcome(True, value.value, (*notes, *value.notes), value.text)

    async def _find(self, backend: str, spelled: str) -> Tool:
        """The tool, waiting for a backend that is still connecting instead of failing."""
        try:
            return self.services.registry.find(backend, spelled)
        except GateminiError:
            if self.services.backends.state(backend) not in ("starting", "stopped"):
                raise
            await self.services.backends.wait_ready(backend, self._time_left(backend))
            return self.services.registry.find(backend, spelled)

    def _time_left(self, backend: str) -> float:
        left = self.deadline - time.monotonic()
        return max(0.001, min(left, self.services.backends.timeout(backend)))

    def _finish(self, record: CallRecord, outcome: str) -> None:
        record.outcome = outcome
        record.ms = (time.monotonic() - record.started) * 1000
        self.services.tracker.record_call(
            record.tool, record.backend, record.ms, outcome == "ok", record.bytes
        )
        if self.on_call_done is not None:
            self.on_call_done(record)


def error_fields(exc: GateminiError, tool: str, backend: str) -> Json:
    """The fields of the guest's error object for a failure on our side of the call."""
    fields: Json = {
        "name": "ToolError",
        "message": exc.message,
        "tool": tool,
        "backend": backend,
        "code": exc.code,
    }
    if isinstance(exc, BackendProtocol) and exc.rpc_code is not None:
        fields["code"] = exc.rpc_code
    if isinstance(exc, ToolNotFound):
        fields["name"] = exc.kind
    if exc.hint:
        fields["hint"] = exc.hint
    return fields


def _brief(error: Any) -> str:
    text = str(error.get("message", "")) if isinstance(error, dict) else str(error)
    first = text.splitlines()[0] if text else "failed"
    return first if len(first) <= 120 else first[:117] + "..."


def _resource_value(content: Any, results: ResultStore) -> Any:
    """Text as it is; binary content stays outside under a handle, as images do."""
    if not isinstance(content, dict):
        return content
    if isinstance(content.get("text"), str):
        return content["text"]
    if isinstance(content.get("blob"), str):
        mime = str(content.get("mimeType") or "application/octet-stream")
        return {
            "type": "resource",
            "uri": content.get("uri"),
            "mimeType": mime,
            "bytes": len(content["blob"]) * 3 // 4,
            "ref": results.save_blob(content["blob"], mime),
        }
    return content
