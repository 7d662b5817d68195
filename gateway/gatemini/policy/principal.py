"""The principal of a call: the user and client program on behalf of which it is made."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gatemini.config.model.policy import Transport


@dataclass(frozen=True, slots=True)
class PeriodBudget:
    """What one principal may call within a period, in seconds, from its first call on; None is no limit."""

    calls: int | None
    writes: int | None
    period: float


@dataclass(frozen=True, slots=True)
class Grant:
    """The limits of one client's grant over HTTP: globs of tools, and names of backends.

    A tool must match a glob of each list in `allow` and none of `deny`. `backends` and `calls_per_minute` of None are no
    limit.
    """

    allow: tuple[tuple[str, ...], ...] = ()
    deny: tuple[str, ...] = ()
    backends: frozenset[str] | None = None
    calls_per_minute: int | None = None
    budgets: tuple[PeriodBudget, ...] = ()


@dataclass(frozen=True, slots=True)
class Principal:
    """One principal. `id` is stable; `client` is the program's name as it says itself, or the client id of its token."""

    id: str
    client: str = ""
    scopes: frozenset[str] = frozenset()
    transport: Transport = "stdio"
    grant: Grant | None = None
    session: str = field(default="", compare=False)
    """The session in which it finds what was registered there; "" where sessions share all backends."""
    claims: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The checked claims of its token, for expressions of rules."""

    @property
    def user(self) -> tuple[str, str] | None:
        """The issuer and the subject of the token with which it has logged in; None for the user of this process."""
        if not self.id.startswith("["):
            return None
        issuer, subject, _ = json.loads(self.id)
        return issuer, subject


@dataclass(slots=True)
class Behalf:
    """The principal for which a chain makes its calls: that of the request that began it or has resumed it last."""

    who: Principal
    suspended: bool = False
    """Whether no call may be made: the chain is parked, and its login is no longer valid."""


def _user() -> str:
    uid = getattr(os, "getuid", None)
    return f"uid:{uid()}" if uid is not None else f"user:{os.environ.get('USERNAME', '')}"


def local(transport: Transport, client: str = "") -> Principal:
    """Return the principal of a client that runs as the user of this process."""
    return Principal(_user(), client, transport=transport)


TERMINAL = "gatemini"
"""The client's name of commands in the terminal."""
NOBODY = Principal("nobody")
"""For calls without a client, which only tests make."""
