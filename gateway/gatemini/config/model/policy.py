"""`policy`: which calls are allowed, denied, or asked about.

Nothing of this section is replaced by variables: a rule holds as it is written in the file, which is what a reviewer reads.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from gatemini.config.model.approvals import CHANNELS, ApprovalsConfig, Channel
from gatemini.config.model.backend import Duration, Strict
from gatemini.config.model.flow import Declassify, FlowLabels
from gatemini.config.model.values.expressions import ToolGlob, compile_expression, compile_pattern

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
HOURS = re.compile(
    rf"(?:({'|'.join(WEEKDAYS)})(?:-({'|'.join(WEEKDAYS)}))? )?([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]|24(?=:00)):([0-5]\d)"
)
"""`mon-fri 08:00-18:00`: days (all without any), then from and until; past midnight where until is not later."""

PINS_FILE = "gatemini.lock.yaml"
"""The file of pins, beside the configuration."""

Action = Literal["allow", "deny", "ask"]
Transport = Literal["stdio", "socket", "http", "cli"]
"""How a client is connected: a pipe of its own, the daemon's socket, streamable HTTP, or a command of the terminal."""
PinsMode = Literal["off", "warn", "enforce"]


def _hours(text: str) -> str:
    if HOURS.fullmatch(text) is None:
        raise ValueError("hours such as 08:00-18:00 or mon-fri 08:00-18:00")
    return text


def _pointer(text: str) -> str:
    if text and (not text.startswith("/") or re.search(r"~(?![01])", text)):
        raise ValueError('a JSON pointer such as /to or /filter/0/name ("" for all arguments)')
    return text


def _pattern(text: str) -> str:
    compile_pattern(text)
    return text


def _expression(text: str) -> str:
    compile_expression(text)
    return text


Pointer = Annotated[str, AfterValidator(_pointer)]
Scalar = str | int | float | bool | None


class Annotations(Strict):
    """Hints of a tool; those that are written must all be as written."""

    readOnly: bool | None = None
    """It changes nothing."""
    destructive: bool | None = None
    """It may delete or overwrite."""
    openWorld: bool | None = None
    """It reaches beyond a closed set of things."""
    idempotent: bool | None = None
    """A second call with the same arguments changes nothing more."""

    @model_validator(mode="after")
    def _something(self) -> Annotations:
        if not self.model_fields_set:
            raise ValueError("at least one of readOnly, destructive, openWorld, idempotent")
        return self


class ArgumentMatcher(Strict):
    """What the value at a JSON pointer must be; all that is written must hold."""

    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    """Found in the text; Rust's regex syntax (linear time, no look-around), `^` and `$` are its ends."""
    equals: Any = None
    """The same JSON value."""
    one_of: Annotated[tuple[Scalar, ...], Field(min_length=1)] | None = Field(default=None, alias="in")
    """One of these values."""
    max: int | float | None = None
    """A number of at most this."""

    @model_validator(mode="after")
    def _something(self) -> ArgumentMatcher:
        if not self.model_fields_set:
            raise ValueError("at least one of pattern, equals, in, max")
        return self


class AskConfig(Strict):
    """How an approval is asked for."""

    remember: Literal["call", "session"] | Duration = "call"
    """An approval holds for one call, or for equal arguments in the session or for a duration."""
    via: Annotated[tuple[Channel, ...], Field(min_length=1)] = CHANNELS
    """The channels that may ask, the first that works."""


class Rule(Strict):
    """One rule: it applies where all its matchers hold, and then no later rule is looked at."""

    tools: Annotated[tuple[ToolGlob, ...], Field(min_length=1)] | None = None
    """Globs over `backend.tool`, `namespace.tool`, or `composite.tool`; also `backend.readResource` and `backend.getPrompt`."""
    tags: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """One of these is a tag of the tool's backend."""
    annotations: Annotations | None = None
    """Hints that the tool has, after `trust_annotations` and `override_annotations`."""
    arguments: Annotated[dict[Pointer, ArgumentMatcher], Field(min_length=1)] | None = None
    """JSON pointer → what the argument there must be."""
    clients: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Globs over the client's name or the id of its principal."""
    scopes: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Scopes that the client's token must have, all of them."""
    transport: Annotated[tuple[Transport, ...], Field(min_length=1)] | None = None
    """How the client is connected: `stdio`, `socket` (a daemon), `http`, `cli`."""
    hours: Annotated[tuple[Annotated[str, AfterValidator(_hours)], ...], Field(min_length=1)] | None = None
    """Local times such as `mon-fri 08:00-18:00`, one of which it is."""
    when: Annotated[str, AfterValidator(_expression)] | None = None
    """A CEL expression over `args`, `tool`, `client` (with `client.claims` of its token), `session`, `now`; needs the extra `cel`."""
    action: Action
    """What happens to the call."""
    reason: str = ""
    """Shown with a refusal or a question."""
    ask: AskConfig = AskConfig()
    """For the action `ask`."""

    @model_validator(mode="after")
    def _asks(self) -> Rule:
        if "ask" in self.model_fields_set and self.action != "ask":
            raise ValueError("`ask` belongs to a rule with action: ask")
        return self


class BudgetConfig(Strict):
    """The most that one session may call; composite tools count by the calls they make."""

    calls_per_session: int | None = Field(default=None, ge=0)
    """Calls of one session."""
    writes_per_session: int | None = Field(default=None, ge=0)
    """Its calls of tools that are not read-only."""
    calls_per_minute: int | None = Field(default=None, ge=1)
    """Its calls within any minute."""


class PolicyConfig(Strict):
    """Rules over calls: the first that applies decides, else `default`."""

    default: Action = "allow"
    """For calls to which no rule applies."""
    rules: tuple[Rule, ...] = ()
    """In order; the first that applies decides."""
    read_only: bool = False
    """Allow only tools that are read-only by a trusted or overridden hint, whatever the rules say."""
    trust_annotations: tuple[str, ...] = ()
    """Globs of configured backends whose own annotations are believed; elsewhere they only make things stricter."""
    override_annotations: dict[ToolGlob, Annotations] = Field(default_factory=dict)
    """Glob over `backend.tool` → hints that replace its own."""
    budgets: BudgetConfig = BudgetConfig()
    """The most that one session may call."""
    pins: PinsMode = "warn"
    """Whether servers are compared with `gatemini.lock.yaml`: not, with a warning, or what is not approved is withheld."""
    pin_executables: bool = False
    """Pin the program of a command too, and the files among its arguments, by their hash."""
    approvals: ApprovalsConfig = ApprovalsConfig()
    """How a person is asked."""
    flow: Literal["off", "warn", "ask", "deny"] = "off"
    """What happens to a call that could carry away what its session has read: untrusted content or private data."""
    labels: FlowLabels = FlowLabels()
    """Tools whose results carry a label."""
    declassify: tuple[Declassify, ...] = ()
    """Tools that may be called although the session has read something labelled."""

    @model_validator(mode="before")
    @classmethod
    def _literal(cls, given: Any) -> Any:
        """Refuse `${…}`, which is not replaced."""
        if (text := next(_texts(given), None)) is not None:
            raise ValueError(f"no variables: ${{…}} is not replaced in policy (found {text!r})")
        return given


def _texts(value: Any) -> Any:
    """Texts with a reference to a variable, keys included."""
    if isinstance(value, str):
        if "${" in value:
            yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
