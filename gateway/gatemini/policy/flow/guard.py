"""Decide whether a call could send out what its session has read.

Only labels count: after `untrusted`, every call that can send or change something is denied or needs approval (under
`warn`: is logged); after `private`, every call to the open world. The arguments do not matter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gatemini.config.model.flow import LABELS, Label
from gatemini.config.model.policy import Action, PolicyConfig
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
from gatemini.model import Tool
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts
from gatemini.policy.flow.labels import WORDS, Held
from gatemini.policy.rules.globs import Match, compile_globs, tool_names
from gatemini.policy.rules.hints import UNKNOWN, HintRules

logger = logging.getLogger(__name__)

RULE = "policy.flow"
_ACTIONS: Mapping[str, Action] = {"warn": "allow", "ask": "ask", "deny": "deny"}


def only_unknown(tools: Iterable[Tool], hints: HintRules) -> list[str]:
    """Return the backends that make a session untrusted only because no hint of their tools is believed.

    They are neither annotated nor trusted, so that each of their tools counts as open-world.
    """
    known: dict[str, bool] = {}
    for tool in tools:
        if tool.backend != COMPOSITE_BACKEND:
            known[tool.backend] = known.get(tool.backend, False) or hints.of(tool) != UNKNOWN
    return sorted(backend for backend, believed in known.items() if not believed)


@dataclass(slots=True)
class FlowGuard:
    """The guard of one gateway, and what each of its sessions has read."""

    config: PolicyConfig = field(default_factory=PolicyConfig)
    _held: dict[str, Held] = field(default_factory=dict)
    _untrusted: Match = field(init=False)
    _private: Match = field(init=False)

    def __post_init__(self) -> None:
        self.set_config(self.config)

    @property
    def on(self) -> bool:
        return self.config.flow != "off"

    def set_config(self, config: PolicyConfig) -> None:
        """Put other labels and rules in force. What is read while the guard is off is not known later."""
        self.config = config
        self._untrusted = compile_globs(config.labels.untrusted)
        self._private = compile_globs(config.labels.private)
        if not self.on:
            for held in self._held.values():
                held.add_unknown()
            self._held.clear()

    def begin(self, session: str) -> Held:
        """Gather the labels of a session from its first call on."""
        held = self._held[session] = Held()
        return held

    def end_session(self, session: str) -> None:
        self._held.pop(session, None)

    def held(self, session: str) -> Held:
        """Return what a session has read. One that began while the guard was off may have read anything."""
        found = self._held.get(session)
        if found is None:
            found = self._held[session] = Held()
            found.add_unknown()
        return found

    def sources(self, facts: CallFacts) -> tuple[Label, ...]:
        """Return the labels of the call's result. A composite tool adds none to those of its own calls."""
        if facts.backend == COMPOSITE_BACKEND:
            return ()
        names = tool_names(facts.backend, facts.tool, facts.qualified)
        found: list[Label] = []
        if facts.hints.open_world or any(map(self._untrusted, names)):
            found.append("untrusted")
        if any(map(self._private, names)):
            found.append("private")
        return tuple(found)

    def objection(self, facts: CallFacts) -> Decision | None:
        """Return the objection to a call as things are now; with `warn`, one that allows it."""
        if not self.on:
            return None
        hints = facts.hints  # those of a composite tool are harmless
        targets: Mapping[Label, bool] = {
            "untrusted": hints.open_world or not hints.read_only,
            "private": hints.open_world,
        }
        if not any(targets.values()):
            return None
        held = self.held(facts.session)
        against = [
            label
            for label in LABELS
            if targets[label] and label in held and not self._declassified(facts, label)
        ]
        if not against:
            return None
        does = "it reaches the open world" if hints.open_world else "it can change something"
        read = " and ".join(f"{WORDS[label]} ({held.reads(label)})" for label in against)
        reason = f"{does}, and this session has read {read}"
        return Decision(_ACTIONS[self.config.flow], RULE, reason, labels=tuple(against))

    def warned(self, facts: CallFacts, decision: Decision) -> Decision:
        """Return the decision with the objection, with which `policy.flow: warn` lets the call pass."""
        objection = self.objection(facts)
        if objection is None:
            return decision
        logger.warning("%s: %s (policy.flow: warn)", facts.qualified, objection.reason)
        return replace(decision, rule=f"{decision.rule}, {objection.rule}", reason=objection.reason)

    def settle(self, facts: CallFacts) -> tuple[Label, ...]:
        """Add the labels of an admitted call's result, however it ended: the text of an error is content too."""
        if not self.on:
            return ()
        labels = self.sources(facts)
        self.held(facts.session).add(labels, facts.qualified)
        return labels

    def _declassified(self, facts: CallFacts, label: Label) -> bool:
        names = tool_names(facts.backend, facts.tool, facts.qualified)
        return any(
            label in rule.labels and self._matches(rule.tools, names) for rule in self.config.declassify
        )

    def _matches(self, globs: tuple[str, ...], names: Iterable[str]) -> bool:
        return any(map(compile_globs(globs), names))
