"""What a grant is bound to, and what a person sees of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gatemini.model import Json
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts


@dataclass(frozen=True, slots=True)
class Subject:
    """One call as a grant is bound to it: a call that differs in any field needs a grant of its own."""

    backend: str
    tool: str
    digest: str
    """SHA-256 of the arguments, as hexadecimal digits."""
    session: str
    principal: str
    revision: str
    """Of the policy in force."""
    grounds: str = ""
    """The rule that asks, with the labels that the data-flow guard objects to: a grant on other grounds admits nothing."""

    @classmethod
    def of(cls, facts: CallFacts, revision: str, grounds: str = "") -> Subject:
        who = facts.who
        identity = json.dumps([who.id, who.client, who.transport])
        return cls(
            facts.backend, facts.tool, digest(facts.arguments), facts.session, identity, revision, grounds
        )


@dataclass(frozen=True, slots=True)
class Request:
    """What is shown of a call: exactly what will be sent but for secrets, which are masked, and why it is asked about."""

    qualified: str
    arguments: Json
    rule: str
    reason: str
    client: str
    chain: str
    reads: tuple[str, ...] = ()
    """What the session has read before, one sentence a label."""
    texts: tuple[tuple[str, str], ...] = field(init=False, repr=False)
    """Name and JSON of each argument, not escaped."""

    def __post_init__(self) -> None:
        texts = tuple((name, json.dumps(v, ensure_ascii=False)) for name, v in self.arguments.items())
        object.__setattr__(self, "texts", texts)

    @property
    def size(self) -> int:
        """Characters of the arguments."""
        return sum(len(name) + len(text) for name, text in self.texts)

    @classmethod
    def of(
        cls,
        facts: CallFacts,
        decision: Decision,
        reads: tuple[str, ...] = (),
        redact: Callable[[Any], Any] = lambda value: value,
    ) -> Request:
        """`redact` masks secrets: here, since a text that was wrapped or cut would show them in pieces."""
        who = facts.who.client or facts.who.transport
        shown = (facts.qualified, facts.arguments, decision.rule, decision.reason, who)
        name, arguments, rule, reason, client, read = redact([*shown, list(reads)])
        return cls(name, arguments, rule, reason, client, facts.chain, tuple(read))


def digest(arguments: Json) -> str:
    """Return the hash of arguments; those that are equal as JSON, in any order of keys, have the same.

    1 and 1.0 differ: a backend may tell them apart.
    """
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
