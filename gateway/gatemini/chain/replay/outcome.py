"""The result of one call: a value or an error for the code, and whether it counts as answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from gatemini.errors import (
    ApprovalPending,
    AuditFailed,
    BackendError,
    BackendProtocol,
    CallUnchecked,
    ChainTimeout,
    GateminiError,
    ResultTooLarge,
)
from gatemini.model import Json
from gatemini.output.json.javascript_json import dumps


class Fate(Enum):
    """How far a call came. Only an answered one is certain to have had its effect exactly once."""

    OPEN = auto()
    """Issued, without an answer so far."""
    ANSWERED = auto()
    """The backend answered, with a value or an error, or the call was refused before it was sent."""
    FAILED = auto()
    """No answer, and none will come: crash, no connection, the backend's own timeout."""
    CUT = auto()
    """No answer because the chain's time was over."""
    HELD = auto()
    """Not sent, since its approval is still open: the code gets no answer, and a resumed chain makes the call."""


def fate_of(error: GateminiError, *, in_time: bool) -> Fate:
    """Return how far a call came that ended with an error; `in_time`: the chain's deadline is not the cause."""
    if isinstance(error, BackendProtocol | ResultTooLarge) and error.sent:
        return Fate.ANSWERED
    if isinstance(error, ApprovalPending):
        return Fate.HELD
    if not isinstance(error, BackendError | ChainTimeout | AuditFailed | CallUnchecked):
        return Fate.ANSWERED  # refused before it was sent: it would be refused again
    return Fate.FAILED if in_time else Fate.CUT


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the code gets for one call: a value, or the fields of the error its promise rejects with.

    `text`, where there is one, is JSON text of the same value; a large value has only that. `written` says that it is
    exactly as JavaScript writes it.
    """

    ok: bool
    value: Any
    notes: tuple[str, ...] = ()
    text: str | None = None
    fate: Fate = Fate.ANSWERED
    written: bool = False
    beside: tuple[Json, ...] = ()
    """What the result has beside its structured content, as `Value.beside`."""

    def json(self) -> str:
        """Return JSON text of the value."""
        return self.text if self.text is not None else dumps(self.value)

    def as_javascript(self) -> str:
        """Return the text of `JSON.stringify`: a backend's own may have spaces, another order or other digits."""
        return self.text if self.written and self.text is not None else dumps(self.value)

    def as_result(self, notes: tuple[str, ...]) -> Outcome:
        """Return a composite tool's value, or the error of its code, as the MCP result that `raw` returns."""
        value = self.value if self.ok else str(self.value.get("message"))
        text = value if isinstance(value, str) else self.json()
        result: Json = {"content": [{"type": "text", "text": text}], "isError": not self.ok}
        if isinstance(value, dict):
            result["structuredContent"] = self.value
        return Outcome(True, result, (*notes, *self.notes))
