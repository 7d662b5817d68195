"""The decision about one call: allow, deny or ask, the rule that made it, and the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gatemini.config.model.approvals import CHANNELS, Channel
from gatemini.config.model.flow import Label
from gatemini.config.model.policy import Action

_STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Ask:
    """How an approval is asked for: `remember` is `call`, `session` or seconds; `via` the channels in order."""

    remember: Literal["call", "session"] | float = "call"
    via: tuple[Channel, ...] = CHANNELS


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` names the rule or step that decided, for errors, the audit and `policy explain`."""

    action: Action
    rule: str
    reason: str = ""
    ask: Ask = Ask()
    labels: tuple[Label, ...] = ()
    """Labels of the session for which the data-flow guard objects."""

    @property
    def grounds(self) -> str:
        """The rule, with the labels that it is about: an approval on other grounds admits nothing."""
        return f"{self.rule} ({', '.join(self.labels)})" if self.labels else self.rule


def stricter(one: Decision, other: Decision | None) -> Decision:
    """Return the stricter decision, `one` where they are equally strict or `other` is None.

    Of two that ask it is `one`, with the reasons of both and the channels that both allow.
    """
    if other is None or _STRICTNESS[other.action] < _STRICTNESS[one.action]:
        return one
    if one.action != "ask" or other.action != "ask":
        return other if _STRICTNESS[other.action] > _STRICTNESS[one.action] else one
    via = tuple(channel for channel in one.ask.via if channel in other.ask.via)
    reasons = "; ".join(reason for reason in (one.reason, other.reason) if reason)
    labels = (*one.labels, *(label for label in other.labels if label not in one.labels))
    rule, ask = f"{one.rule}, {other.rule}", replace(one.ask, via=via)
    return replace(one, rule=rule, reason=reasons, ask=ask, labels=labels)
