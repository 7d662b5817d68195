"""Decide about a call by the rules: the first that applies, else the default. Pure, and compiled once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from gatemini.config.model.policy import PolicyConfig, Rule
from gatemini.model import Json
from gatemini.policy.decision import Ask, Decision, stricter
from gatemini.policy.facts import CallFacts, Hints
from gatemini.policy.limits.budgets import Counts
from gatemini.policy.principal import Principal
from gatemini.policy.rules.arguments import DOUBT, NO, YES, Match, compile_arguments
from gatemini.policy.rules.globs import compile_globs, tool_names
from gatemini.policy.rules.hints import HintRules
from gatemini.policy.rules.hours import Hours
from gatemini.policy.rules.when import When, WhenFailed

MOST_KEPT = 20_000
"""Tools whose rules are kept; with more, all are found anew."""


@dataclass(frozen=True, slots=True)
class Known:
    """The names of the arguments of a call that are known before it is made; `complete`: it has no others."""

    names: frozenset[str] = frozenset()
    complete: bool = False

    def has(self, name: str | None) -> bool:
        """Whether this argument is known; None: all of them."""
        return self.complete if name is None else name in self.names


NOTHING_KNOWN = Known()


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

        self.anyone = not (rule.clients or rule.scopes or rule.transport or rule.hours)
        """Whether it is about every client at any time."""
        self.conditional = bool(self._arguments) or self._when is not None
        """Whether it depends on arguments, or on what an expression says."""
        self.tells_ids = bool(rule.clients) or (self._when is not None and "client" in self._when.names)
        """Whether it may tell principals apart that are equal in all but their id."""

    @property
    def when_of_session(self) -> bool:
        """Whether it depends on what the session has called so far."""
        return self._when is not None and "session" in self._when.names

    def covers(self, names: tuple[str, ...], tags: tuple[str, ...], hints: Hints) -> bool:
        """Whether it is about this tool."""
        if self._tools is not None and not any(map(self._tools, names)):
            return False
        if self._tags is not None and self._tags.isdisjoint(tags):
            return False
        return all(getattr(hints, name) is value for name, value in self._hints)

    def concerns(self, who: Principal, at: float) -> bool:
        """Whether it is about this client, now."""
        return (
            (self._clients is None or bool(self._clients(who.client) or self._clients(who.id)))
            and (self._scopes is None or self._scopes <= who.scopes)
            and (self._transport is None or who.transport in self._transport)
            and (self._hours is None or any(_local(at) in hours for hours in self._hours))
        )

    def matches(self, facts: CallFacts, counts: Counts) -> Match:
        """Whether a rule that covers the tool applies to the call. Raises WhenFailed."""
        if not self.anyone and not self.concerns(facts.who, facts.at):
            return NO
        if not self.conditional:
            return YES
        result = YES
        for test in self._arguments:
            found = test(facts.arguments)
            if found is NO:
                return found
            if found is DOUBT:
                result = found
        return result if self.holds(facts, counts) else NO

    def foreseen(self, facts: CallFacts, known: Known) -> Match:
        """Whether it applies to all calls that are known so far (YES), to none (NO), or to some. Raises WhenFailed."""
        result = YES
        for test in self._arguments:
            found = test(facts.arguments) if known.has(test.name) else DOUBT
            if found is NO:
                return found
            if found is DOUBT:
                result = found
        if self._when is None:
            return result
        if "session" in self._when.names or ("args" in self._when.names and not known.complete):
            return DOUBT
        try:
            return result if self.holds(facts, NO_CALLS) else NO
        except WhenFailed:
            if result is DOUBT:
                return result
            raise

    def holds(self, facts: CallFacts, counts: Counts) -> bool:
        """Whether the expression holds; without one it does. Raises WhenFailed."""
        return self._when is None or self._when(facts.arguments, self._variables(facts, counts))

    def _variables(self, facts: CallFacts, counts: Counts) -> Json:
        """What the expression names beside `args`."""
        names: frozenset[str] = frozenset() if self._when is None else self._when.names
        found: Json = {}
        if "tool" in names:
            found["tool"] = _tool(facts)
        if "client" in names:
            found["client"] = _client(facts.who)
        if "session" in names:
            found["session"] = {"calls": counts.calls, "writes": counts.writes}
        if "now" in names:
            found["now"] = _local(facts.at)
        return found


_HINTS = {
    "readOnly": "read_only",
    "destructive": "destructive",
    "openWorld": "open_world",
    "idempotent": "idempotent",
}


def _tool(facts: CallFacts) -> Json:
    hints = {name: getattr(facts.hints, field) for name, field in _HINTS.items()}
    named = {"name": facts.tool, "backend": facts.backend, "qualified": facts.qualified}
    return {**named, "tags": list(facts.tags), **hints}


def _client(who: Principal) -> Json:
    return {
        "id": who.id,
        "name": who.client,
        "scopes": sorted(who.scopes),
        "transport": who.transport,
        "claims": dict(who.claims),
    }


class Rules:
    """The rules of one configuration."""

    def __init__(self, config: PolicyConfig) -> None:
        self.config = config
        self.revision = hashlib.sha256(config.model_dump_json(by_alias=True).encode()).hexdigest()[:16]
        self.rules = tuple(CompiledRule(number, rule) for number, rule in enumerate(config.rules))
        self.hints = HintRules(config)
        self.default = Decision(config.default, "policy.default")
        self.of_session = any(rule.when_of_session for rule in self.rules)
        """Whether some rule depends on what the session has called so far."""
        self.tells_ids = any(rule.tells_ids for rule in self.rules)
        """Whether a decision may depend on the id of a principal."""

        self._covering: dict[
            tuple[str, str, str], tuple[Hints, tuple[str, ...], tuple[CompiledRule, ...]]
        ] = {}

    def covering(
        self, backend: str, tool: str, qualified: str, tags: tuple[str, ...], hints: Hints
    ) -> tuple[CompiledRule, ...]:
        """Return the rules about a tool in order, up to the first that always applies.

        They are kept: a call costs a fifth of what matching its tool with twenty globs takes.
        """
        key = backend, tool, qualified
        kept = self._covering.get(key)
        if kept is not None and (kept[0] is hints or kept[0] == hints) and kept[1] == tags:
            return kept[2]
        names, found = tool_names(backend, tool, qualified), []
        for rule in self.rules:
            if rule.covers(names, tags, hints):
                found.append(rule)
                if rule.anyone and not rule.conditional:
                    break
        if len(self._covering) >= MOST_KEPT:
            self._covering.clear()
        self._covering[key] = hints, tags, tuple(found)
        return tuple(found)

    def of_call(self, facts: CallFacts) -> tuple[CompiledRule, ...]:
        """Return the rules about the tool of a call."""
        return self.covering(facts.backend, facts.tool, facts.qualified, facts.tags, facts.hints)

    def decide(self, facts: CallFacts, counts: Counts) -> Decision:
        """Return the decision about a call.

        A rule whose matchers are in doubt decides only where the rest of the rules is not stricter.
        """
        if self.config.read_only and not facts.hints.read_only:
            return NOT_READ_ONLY
        doubtful: Decision | None = None
        decision = self.default
        for rule in self.of_call(facts):
            try:
                match = rule.matches(facts, counts)
            except WhenFailed as failure:
                return _failed(rule, failure)
            if match is YES:
                decision = rule.decision
                break
            if match is DOUBT:
                doubtful = rule.decision if doubtful is None else stricter(doubtful, rule.decision)
        return stricter(decision, doubtful)

    def possible(self, facts: CallFacts, known: Known | None = None) -> Decision:
        """Return the least strict decision that the call could get with other arguments: deny where with none.

        `known` are the arguments that are equal in all such calls; without it, none are.
        """
        known = known or NOTHING_KNOWN
        if self.config.read_only and not facts.hints.read_only:
            return NOT_READ_ONLY
        asks: Decision | None = None
        decision = self.default
        for rule in self.of_call(facts):
            if not rule.concerns(facts.who, facts.at):
                continue
            try:
                match = rule.foreseen(facts, known)
            except WhenFailed as failure:
                return _failed(rule, failure)
            if match is NO:
                continue
            conditional = match is DOUBT
            if conditional and rule.rule.action == "deny":
                continue
            if conditional and rule.rule.action == "ask":
                asks = asks or rule.decision
                continue
            decision = rule.decision
            break
        return asks if asks is not None and decision.action == "deny" else decision


NO_CALLS = Counts()


def _failed(rule: CompiledRule, failure: WhenFailed) -> Decision:
    return Decision("deny", rule.name, f"its `when` could not be evaluated: {failure}")


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at).astimezone()


NOT_READ_ONLY = Decision(
    "deny", "policy.read_only", "only tools that are read-only by a trusted or overridden hint may be called"
)


def _hints(rule: Rule) -> list[tuple[str, bool]]:
    """The hints that a rule demands: field of `Hints`, value."""
    wanted = rule.annotations
    pairs = [] if wanted is None else [(field, getattr(wanted, name)) for name, field in _HINTS.items()]
    return [(field, value) for field, value in pairs if value is not None]
