"""The client of one chain: requests it can answer and notifications it wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from gatemini.backends.calls.callers import LOGGED, NOBODY, AskFn, Caller, ProgressFn, RpcError, TellFn
from gatemini.model import Json
from gatemini.policy import principal
from gatemini.policy.door import Admission
from gatemini.policy.facts import CallEnd
from gatemini.policy.principal import Behalf, Principal
from gatemini.policy.reach import CannotAsk
from gatemini.text.shorten import shorten

MOST_TOLD = 50
"""Log messages of backends kept in a chain's `_meta`; later ones are dropped."""

TOLD_CHARS = 1000
"""Characters kept of one."""


@dataclass(slots=True)
class CallRecord:
    """One call of a chain: tool, outcome, duration. `outcome` is None while the call is open."""

    id: int
    backend: str
    tool: str
    started: float
    outcome: str | None = None
    ms: float = 0.0
    bytes: int = 0
    sent: bool = False
    """Whether it left the gateway (for a composite tool: whether its code began)."""
    answered_by: str | None = None
    """The backend that answered in place of the called one, if any."""
    arguments: str = ""
    """The JSON of its arguments, shortened."""
    admission: Admission | None = None
    """What the door to backends admitted, where there is a policy."""

    def settle(self, outcome: str, *, ms: float) -> None:
        """Report the end of the call to the door that admitted it."""
        if self.admission is not None:
            admission, self.admission = self.admission, None
            admission.door.settle(admission, CallEnd(outcome, ms, self.bytes, self.sent))

    def progress_line(self) -> str:
        """Return the finished call as one line of progress."""
        return f"{self.tool}: {self.outcome} ({self.ms:.0f} ms)"


@dataclass(frozen=True, slots=True)
class ChainClient:
    """One client's open `call_tool_chain`."""

    caller: Caller = NOBODY
    on_call_done: Callable[[CallRecord], None] | None = None
    on_call_progress: Callable[[CallRecord, float, float | None, str | None], None] | None = None
    """Receives progress, total and message of an open call."""
    on_begin: Callable[[str], None] | None = None
    """Receives the id of the chain, by which it can be resumed."""
    chain: str | None = None
    """The id that the chain is to have."""
    behalf: Behalf | None = None
    """For whom the chain makes its calls; None where nobody is known."""
    trace: str = ""
    """The id of the trace that the client's request belongs to, as hexadecimal digits; "" for none."""

    @property
    def who(self) -> Principal:
        """The principal of the chain now."""
        return principal.NOBODY if self.behalf is None else self.behalf.who

    def progress_of(self, record: CallRecord) -> ProgressFn | None:
        """Return the listener for progress of one call, where the client wants it."""
        on_progress = self.on_call_progress
        if on_progress is None:
            return None
        return lambda done, total, message: on_progress(record, done, total, message)


NO_CLIENT = ChainClient()


def of_person(ask: AskFn | None) -> AskFn | None:
    """Return `ask` for questions of the gateway itself, which raises CannotAsk."""
    if ask is None:
        return None

    async def asks(method: str, params: Json) -> Json:
        try:
            return await ask(method, params)
        except RpcError as refused:
            raise CannotAsk(refused.message) from refused

    return asks


def pass_on(kept: list[Json], tell: TellFn | None, backend: str, method: str, params: Json) -> None:
    """Pass a backend's notification on to the client; log messages are kept for the chain's `_meta` as well."""
    if method == LOGGED and len(kept) < MOST_TOLD:
        data = params.get("data")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        kept.append({"backend": backend, "level": params["level"], "data": shorten(text, TOLD_CHARS)})
    if tell is not None:
        tell(backend, method, params)
