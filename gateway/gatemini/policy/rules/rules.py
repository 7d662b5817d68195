"""Decide about a call by the rules: the first that applies, else the default. Pure, and compiled once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from gatemini.config.model.policy import PolicyConfig, Rule
from gatemini.model import Json, Tool
from gatemini.policy.budgets import Counts
from gatemini.policy.decision import Ask, Decision, stricter
from gatemini.policy.facts import CallFacts, Hints
from gatemini.policy.principal import Principal
from gatemini.policy.rules.arguments import Match, compile_arguments
from gatemini.policy.rules.globs import compile_globs, tool_names
from gatemini.policy.rules.hints import HintRules
from gatemini.policy.rules.hours import Hours
from gatemini.policy.rules.when import When, WhenFailed


@dataclass(frozen=True, slots=True)
class Subject:
    """The part of a call that does not depend on its arguments: tool, client, time."""

    names: tuple[str, ...]
    tags: tuple[str, ...]
    hints: Hints
    who: Principal
    at: float

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at).astimezone()


class CompiledRule:
    """One rule, ready to be matched."""

    def __init__(self, number: int, rule: Rule) -> None:
        self.name = f"policy.rules[{number}]"
        self.rule = rule
        self.decision = Decision(rule.action, self.name, rule.reason, Ask(rule.ask.remember, rule.ask.via))
        self._tools = compile_globs(rule.tools) if rule.tools else None
        self._tags = frozenset(rule.tags) if rule.tags else None
        self._hints = tuple(_hints(rule))
        self._clients = compile_globs(rule.clients) if rule.clients else None
        self._scopes = frozenset(rule.scopes) if rule.scopes else None
        self._transport = frozenset(rule.transport) if rule.transport else None
        self._hours = tuple(Hours(text) for text in rule.hours) if rule.hours else None
        self._arguments = compile_arguments(rule.arguments)
        self._when = When(rule.when) if rule.when is not None else None

    @property
    def conditional(self) -> bool:
        """Whether it depends on arguments, or on what an expression says."""
        return bool(self._arguments) or self._when is not None

    def covers(self, names: tuple[str, ...], tags: tuple[str, ...], hints: Hints) -> bool:
        """Whether it is about this tool."""
        if self._tools is not None and not any(map(self._tools, names)):
            return False
        if self._tags is not None and self._tags.isdisjoint(tags):
            return False
        return all(getattr(hints, name) is value for name, value in self._hints)

    def concerns(self, subject: Subject) -> bool:
        """Whether it is about this tool, for this client, now."""
        who = subject.who
        return (
            self.covers(subject.names, subject.tags, subject.hints)
            and (self._clients is None or bool(self._clients(who.client) or self._clients(who.id)))
            and (self._scopes is None or self._scopes <= who.scopes)
            and (self._transport is None or who.transport in self._transport)
            and (self._hours is None or any(subject.now in hours for hours in self._hours))
        )

    def matches(self, subject: Subject, facts: CallFacts, counts: Counts) -> Match:
        """Whether it applies to the call. Raises WhenFailed."""
        if not self.concerns(subject):
            return Match.NO
        found = {test(facts.arguments) for test in self._arguments}
        if Match.NO in found:
            return Match.NO
        if self._when is not None and not self._when(facts.arguments, _variables(subject, facts, counts)):
            return Match.NO
        return Match.DOUBT if Match.DOUBT in found else Match.YES


class Rules:
    """The rules of one configuration."""

    def __init__(self, config: PolicyConfig) -> None:
        self.config = config
        self.revision = hashlib.sha256(config.model_dump_json(by_alias=True).encode()).hexdigest()[:16]
        self.rules = tuple(CompiledRule(number, rule) for number, rule in enumerate(config.rules))
        self.hints = HintRules(config)
        self.default = Decision(config.default, "policy.default")

    def decide(self, facts: CallFacts, counts: Counts) -> Decision:
        """Return the decision about a call.

        A rule whose matchers are in doubt decides only where the rest of the rules is not stricter.
        """
        if self.config.read_only and not facts.hints.read_only:
            return NOT_READ_ONLY
        names = tool_names(facts.backend, facts.tool, facts.qualified)
        subject = Subject(names, facts.tags, facts.hints, facts.who, facts.at)
        doubtful: Decision | None = None
        decision = self.default
        for rule in self.rules:
            try:
                match = rule.matches(subject, facts, counts)
            except WhenFailed as failure:
                return Decision("deny", rule.name, f"its `when` could not be evaluated: {failure}")
            if match is Match.YES:
                decision = rule.decision
                break
            if match is Match.DOUBT:
                doubtful = rule.decision if doubtful is None else stricter(doubtful, rule.decision)
        return decision if doubtful is None else stricter(decision, doubtful)

    def possible(self, tool: Tool, hints: Hints, who: Principal, at: float) -> Decision:
        """Return the least strict decision that some arguments could get: deny where none could be allowed."""
        if self.config.read_only and not hints.read_only:
            return NOT_READ_ONLY
        subject = Subject(tool_names(tool.backend, tool.name, tool.qualified), tool.tags, hints, who, at)
        asks: Decision | None = None
        for rule in self.rules:
            action = rule.rule.action
            if (rule.conditional and action == "deny") or not rule.concerns(subject):
                continue
            if action == "ask" and rule.conditional:
                asks = asks or rule.decision
                continue
            decision = rule.decision
            break
        else:
            decision = self.default
        return asks if asks is not None and decision.action == "deny" else decision


NOT_READ_ONLY = Decision(
    "deny", "policy.read_only", "only tools that are read-only by a trusted or overridden hint may be called"
)


def _hints(rule: Rule) -> list[tuple[str, bool]]:
    wanted = rule.annotations
    if wanted is None:
        return []
    pairs = (
        ("read_only", wanted.readOnly),
        ("destructive", wanted.destructive),
        ("open_world", wanted.openWorld),
        ("idempotent", wanted.idempotent),
    )
    return [(name, value) for name, value in pairs if value is not None]


def _variables(subject: Subject, facts: CallFacts, counts: Counts) -> Json:
    """What an expression can name beside `args`."""
    hints, who = subject.hints, subject.who
    return {
        "tool": {
            "name": facts.tool,
            "backend": facts.backend,
            "qualified": subject.names[-1],
            "tags": list(facts.tags),
            "readOnly": hints.read_only,
            "destructive": hints.destructive,
            "openWorld": hints.open_world,
            "idempotent": hints.idempotent,
        },
        "client": {
            "id": who.id,
            "name": who.client,
            "scopes": sorted(who.scopes),
            "transport": who.transport,
        },
        "session": {"calls": counts.calls, "writes": counts.writes},
        "now": subject.now,
    }
