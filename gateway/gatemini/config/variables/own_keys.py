"""The keys that the gateway itself works with: fetched at the start, also from slow providers, since nothing can wait for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gatemini.config.model.http.state import SMALLEST_KEY, StateConfig
from gatemini.config.model.policy import PolicyConfig
from gatemini.config.problems import KeyPath, Problem
from gatemini.config.variables.errors import SecretUnavailable
from gatemini.config.variables.references import SecretResolver


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """The values of keys."""

    webhook: str = field(default="", repr=False)
    """Of `policy.approvals.webhook`."""
    state: tuple[str, ...] = field(default=(), repr=False)
    """Of `state.keys`."""

    @property
    def secrets(self) -> list[tuple[str, str]]:
        """(name, value) of what is hidden everywhere."""
        webhook = [("the webhook's key", self.webhook)] if self.webhook else []
        return [*webhook, *(("a key of state.keys", key) for key in self.state)]


def own_keys(
    resolver: SecretResolver,
    policy: PolicyConfig | None,
    state: StateConfig,
    problem: Callable[..., Problem],
    report: Callable[[Problem, str], None],
) -> OwnKeys:
    """Fetch the keys that the configuration names; one that cannot be had is reported and stops the start.

    `problem` makes a finding of a place in the configuration, `report` takes it with its section.
    """

    def fetch(path: KeyPath, reference: str) -> str:
        provider, _, name = reference.removeprefix("secretref:").partition(":")
        try:
            return replace(resolver, later=False).fetch(provider, name)
        except SecretUnavailable as error:
            report(problem(path, error.message, "", error.remedy, unresolved=True), str(path[0]))
            return ""

    hook = policy.approvals.webhook if policy is not None else None
    webhook = fetch(("policy", "approvals", "webhook", "key"), hook.key) if hook is not None else ""
    found = [fetch(("state", "keys", at), reference) for at, reference in enumerate(state.keys)]
    for at, key in enumerate(found):
        if 0 < len(key) < SMALLEST_KEY:
            what, remedy = f"a key of {len(key)} characters", "Make one with `openssl rand -base64 32`"
            allowed = f"at least {SMALLEST_KEY} characters"
            report(problem(("state", "keys", at), what, allowed, remedy), "state")
    return OwnKeys(webhook, tuple(dict.fromkeys(found)))
