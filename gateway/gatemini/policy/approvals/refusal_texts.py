"""The errors of calls that no person has approved."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gatemini.config.model.approvals import Channel
from gatemini.errors import ApprovalDenied, ApprovalPending
from gatemini.policy.approvals.grants import Approval, State
from gatemini.policy.decision import Decision

_ABSENT: Mapping[Channel, str] = {
    "client": "it takes no questions to its user",
    "console": "no command of the terminal reaches this gateway",
    "webhook": "none is configured",
}
"""Why a channel cannot ask."""


def not_granted(tool: str, approval: Approval) -> ApprovalPending | ApprovalDenied:
    """Return the error of a call whose approval is still open, was denied, or cannot be granted any more."""
    if approval.state is State.OPEN:
        return ApprovalPending(
            f"{tool} waits for an approval: {approval.id}",
            hint=f"ask the user to run `gatemini approve {approval.id}`; once it is granted, send the same call again",
            details={"approvals": [approval.id]},
        )
    if approval.state is State.DENIED:
        return ApprovalDenied(
            f"{tool} was denied by a person ({approval.channel}, {approval.id})",
            hint="do not call it again with these arguments unless the user asks for it",
            details={"approval": approval.id, "channel": approval.channel},
        )
    return ApprovalDenied(
        f"{tool} was not approved in time ({approval.id}), and its rule leaves the console out",
        hint="report this to the user, who can be asked again by another call",
        details={"approval": approval.id},
    )


def nothing_asks(tool: str, decision: Decision, allowed: Collection[Channel]) -> ApprovalDenied:
    """Return the error of a call that must be approved and for which nothing can ask, now or later.

    `allowed` are the channels that may be used at all.
    """
    why = "; ".join(
        f"{channel}: {_ABSENT[channel] if channel in allowed else 'policy.approvals.via leaves it out'}"
        for channel in decision.ask.via
    )
    return ApprovalDenied(
        f"{tool} needs an approval ({_rule(decision)}), and nothing can ask for it ({why})",
        hint="report this to the user; only the owner of this gateway can change its policy",
    )


def too_deep(tool: str, decision: Decision) -> ApprovalDenied:
    """Return the error of a call whose arguments nest so deeply that no person can be shown them."""
    return ApprovalDenied(
        f"{tool} needs an approval ({_rule(decision)}), and its arguments nest too deeply to be shown to a person",
        hint="pass arguments of fewer levels",
    )


def _rule(decision: Decision) -> str:
    return f"{decision.rule}: {decision.reason}" if decision.reason else decision.rule
