"""Decide about calls without a running gateway, for `gatemini policy test` and `gatemini policy explain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gatemini.config.model.backend import Strict
from gatemini.config.model.policy import Action, Annotations, PolicyConfig, Transport
from gatemini.config.model.schema import Config
from gatemini.errors import GateminiError, ToolNotFound
from gatemini.model import Json, Tool
from gatemini.policy.decision import Decision
from gatemini.policy.door import Door
from gatemini.policy.facts import CallFacts
from gatemini.policy.limits.budgets import Counts
from gatemini.policy.principal import Principal, local
from gatemini.policy.rules.arguments import Match
from gatemini.policy.rules.when import WhenFailed
from gatemini.registry import Registry

SESSION = "test"


class CaseClient(Strict):
    """The client of a case; what is left out is that of a client of this user over stdio."""

    name: str = ""
    id: str | None = None
    scopes: tuple[str, ...] = ()
    transport: Transport = "stdio"

    def principal(self) -> Principal:
        default = local(self.transport, self.name)
        return replace(default, id=self.id or default.id, scopes=frozenset(self.scopes))


class CaseCounts(Strict):
    """What the session has called before."""

    calls: int = 0
    writes: int = 0


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Case(Strict):
    """One row of a test file: a call, its client, and what must become of it."""

    call: str
    """`backend.tool`."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    client: Annotated[CaseClient, BeforeValidator(_named)] = CaseClient()
    session: CaseCounts = CaseCounts()
    annotations: Annotations | None = None
    """What the tool says of itself, where it is not known from an earlier run."""
    at: datetime | None = None
    """Local time; else now."""
    expect: Action
    rule: str | None = None
    """The rule that must decide, such as `policy.rules[0]`."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The decision about a call, with what led to it. `steps` are the rules that were looked at: (name, result)."""

    facts: CallFacts
    decision: Decision
    known: bool
    """Whether the tool is known from an earlier run; else it is taken as unannotated."""
    steps: Sequence[tuple[str, str]]


class Judge:
    """The policy of a configuration, and the tools that are known of its backends."""

    def __init__(self, config: Config, registry: Registry) -> None:
        self._config = config
        self._registry = registry
        self.door = Door(config.policy or PolicyConfig())

    def judge(
        self,
        call: str,
        arguments: Json,
        who: Principal,
        *,
        annotations: Annotations | None = None,
        at: datetime | None = None,
        counts: Counts | None = None,
    ) -> Judged:
        """Return what becomes of a call. Raises ToolNotFound for a name whose backend does not exist."""
        tool, known = self._tool(call, annotations)
        facts = self.door.facts(tool, arguments, who, SESSION, "")
        if at is not None:
            facts = replace(facts, at=at.timestamp())
        self.door.budgets.end_session(SESSION)
        own = self.door.budgets.of(SESSION)
        own.calls, own.writes = (counts.calls, counts.writes) if counts else (0, 0)
        return Judged(facts, self.door.judge(facts), known, self._steps(facts, own))

    def _tool(self, call: str, annotations: Annotations | None) -> tuple[Tool, bool]:
        try:
            return self._registry.resolve(call), True
        except GateminiError as unknown:
            space, dot, name = call.partition(".")
            configs = self._config.backends
            config = configs.get(space) or next((c for c in configs.values() if c.namespace == space), None)
            if config is None or not dot or not name:
                raise ToolNotFound(
                    f"{call} names no backend of the configuration",
                    hint=f"write backend.tool; the backends are {', '.join(configs) or 'none'}",
                ) from unknown
        hints = annotations.model_dump(exclude_none=True) if annotations is not None else {}
        own = {f"{name}Hint": value for name, value in hints.items()}
        return Tool(config.name, name, annotations=own, tags=config.tags, namespace=config.namespace), False

    def _steps(self, facts: CallFacts, counts: Counts) -> list[tuple[str, str]]:
        """The rules up to the one that decides, each with whether it applies."""
        steps: list[tuple[str, str]] = []
        covering = self.door.rules.of_call(facts)
        for rule in self.door.rules.rules:
            try:
                match = rule.matches(facts, counts) if rule in covering else Match.NO
            except WhenFailed as failure:
                steps.append((rule.name, f"its `when` could not be evaluated: {failure}"))
                break
            steps.append((rule.name, _WORDS[match]))
            if match is Match.YES:
                break
        return steps


_WORDS = {
    Match.YES: "applies",
    Match.NO: "does not apply",
    Match.DOUBT: "is in doubt: the stricter side holds",
}


def failure(case: Case, judged: Judged) -> str | None:
    """Return what is not as the case expects; None if all is."""
    found = judged.decision
    if found.action != case.expect:
        why = f": {found.reason}" if found.reason else ""
        return f"expected {case.expect}, found {found.action} by {found.rule}{why}"
    if case.rule is not None and found.rule != case.rule:
        return f"expected {case.expect} by {case.rule}, found it by {found.rule}"
    return None
