"""Bodies of the records of calls, put together from parts that repeat from call to call.

Building each record from a mapping takes three times as long, measured during real calls, when the processor's caches
are cold.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from gatemini.config.variables.redaction import Redactor
from gatemini.discovery.types.identifiers import spoken
from gatemini.policy.audit.record import members
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallEnd, CallFacts

MOST_PARTS = 10_000
"""Parts that are kept; redacting the names of one anew costs more than the rest of a record."""


class CallRecords:
    """The records of one instance's calls, as the members of a JSON object."""

    def __init__(self, instance: str, redactor: Redactor) -> None:
        self._instance = instance
        self._redactor = redactor
        self._secrets = 0
        self._callers: dict[tuple[str, ...], bytes] = {}
        self._decisions: dict[tuple[str, str, str], bytes] = {}
        self._second = 0
        self._prefix = b""

    def intent(
        self, facts: CallFacts, decision: Decision, revision: str, arguments: bytes, labels: Sequence[str]
    ) -> bytes:
        """Return the record of a call that is about to leave; `arguments` is a JSON text."""
        return b'"time":"%b","kind":"intent",%b,"arguments":%b,%b,"labels":%b' % (
            self._now(),
            self._caller(facts),
            arguments,
            self._decision(decision, revision),
            _list(labels),
        )

    def outcome(self, intent: int, facts: CallFacts, end: CallEnd, labels: Sequence[str]) -> bytes:
        """Return the record of how a call ended."""
        word = b"ok" if end.ok else end.outcome.partition(":")[0].encode()
        return (
            b'"time":"%b","kind":"outcome",%b,"intent":%d,"outcome":"%b","sent":%b,"ms":%.3f,"bytes":%d,"labels":%b'
            % (
                self._now(),
                self._caller(facts),
                intent,
                word,
                b"true" if end.sent else b"false",
                end.ms,
                end.bytes,
                _list(labels),
            )
        )

    def decision(self, facts: CallFacts, decision: Decision, revision: str) -> bytes:
        """Return the record of a call that is refused."""
        reason = members({"reason": self._redactor.redact(decision.reason)})
        made = self._now(), self._caller(facts), self._decision(decision, revision), reason
        return b'"time":"%b","kind":"decision",%b,%b,%b' % made

    def _now(self) -> bytes:
        """The time in UTC with microseconds, as other records have it."""
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._prefix = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
        return b"%b.%06dZ" % (self._prefix, int((now - second) * 1_000_000))

    def _caller(self, facts: CallFacts) -> bytes:
        """Who calls what: without secrets, for a server may call a tool by its key."""
        if len(self._redactor.secrets) != self._secrets or len(self._callers) > MOST_PARTS:
            self._callers.clear()
            self._secrets = len(self._redactor.secrets)
        who = facts.who
        key = (facts.session, facts.chain, facts.trace, facts.qualified, who.id, who.client, who.transport)
        found = self._callers.get(key)
        if found is None:
            known = {
                "instance": self._instance,
                "session": facts.session,
                "principal": who.id,
                "client": who.client,
                "transport": who.transport,
                "chain": facts.chain,
                **({"trace": facts.trace} if facts.trace else {}),
                "tool": spoken(facts.qualified),
            }
            found = self._callers[key] = members(self._redactor.value(known))
        return found

    def _decision(self, decision: Decision, revision: str) -> bytes:
        key = (revision, decision.action, decision.rule)
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) > MOST_PARTS:
                self._decisions.clear()
            known = {"policy": revision, "action": decision.action, "rule": decision.rule}
            found = self._decisions[key] = members(known)
        return found


def _list(labels: Sequence[str]) -> bytes:
    return members({"": list(labels)})[3:] if labels else b"[]"
