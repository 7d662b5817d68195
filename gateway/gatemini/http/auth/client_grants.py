"""What a principal may reach: all patterns of `http.clients` that match it, and the limits of its token, together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from gatemini.config.model.http.auth import ClientGrant
from gatemini.policy.principal import Grant, PeriodBudget

NOTHING = Grant(allow=((),))


def grant_of(
    clients: Mapping[str, ClientGrant] | None, client: str, tools: tuple[str, ...] | None
) -> Grant | None:
    """Return the limits of a client and its token, which may use `tools` (None: all); None where there is no limit."""
    found = [grant for pattern, grant in (clients or {}).items() if fnmatchcase(client, pattern)]
    if clients is not None and not found:
        return NOTHING
    allow = [grant.tools.allow for grant in found if grant.tools.allow is not None]
    if tools is not None:
        allow.append(tools)
    limits = [grant.calls_per_minute for grant in found if grant.calls_per_minute is not None]
    made = Grant(
        tuple(allow),
        tuple(glob for grant in found for glob in grant.tools.deny),
        _common(grant.backends for grant in found if grant.backends is not None),
        min(limits, default=None),
        tuple(
            PeriodBudget(each.calls, each.writes, each.period)
            for grant in found
            if (each := grant.budget) is not None
        ),
    )
    return None if made == Grant() else made


def _common(lists: Iterable[tuple[str, ...]]) -> frozenset[str] | None:
    found: frozenset[str] | None = None
    for names in lists:
        found = frozenset(names) if found is None else found & frozenset(names)
    return found
