"""The login of a request: which principal it is, and how long that holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.datastructures import Headers
from starlette.types import Scope

from gatemini.config.model.http import HttpConfig
from gatemini.policy.principal import Principal, local


class LoginRefused(Exception):
    """The request has no login that counts, or not the scopes it needs."""

    def __init__(self, status: int, error: str, description: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(description)
        self.status = status
        self.headers = headers
        self.body = json.dumps({"error": error, "error_description": description}).encode()


@dataclass(frozen=True, slots=True)
class Login:
    """A principal, and what the SDK compares of it; None where there is no authentication."""

    principal: Principal
    user: AuthenticatedUser | None = None
    holds: Callable[[], bool] = lambda: True
    """Whether it still counts: its token is neither revoked nor expired."""


class Logins:
    """Finds the login of each request."""

    def __init__(self, config: HttpConfig) -> None:
        self._config = config
        self._anyone = Login(local("http"))

    async def login(self, scope: Scope, headers: Headers) -> Login:
        """The login of a request. Raises LoginRefused."""
        return self._anyone

    def refusal(self) -> LoginRefused:
        return LoginRefused(401, "invalid_token", "the token does not count any more")
