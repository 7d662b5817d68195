"""What a connection and its owner need of a login. Light: most gateways have no backend with a login."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import anyio.abc
import httpx2

from gatemini.model import Json

Hide = Callable[[str, Iterable[str]], None]
"""Replaces the secrets that are known under a name."""


class TokenSource(Protocol):
    """The login to one backend for one principal."""

    key: str
    """Of one backend, address and principal."""

    @property
    def is_lacking(self) -> bool:
        """Whether there is no login, or none but the one with which only a person could go on."""
        ...

    @property
    def facts(self) -> Json | None:
        """What may be shown of the login: the end of its token, whether it is renewed by itself, its scopes."""
        ...

    async def token(self, tasks: anyio.abc.TaskGroup) -> str | None:
        """The token for a request, None to send it without one. Renewals run in `tasks`. Raises BackendError."""
        ...

    async def refused(
        self, response: httpx2.Response, token: str | None, attempt: int, tasks: anyio.abc.TaskGroup
    ) -> bool:
        """Take a 401 or 403; whether the request can be sent again with another token.

        Raises LoginRequired where only a person can get one.
        """
        ...

    async def until_login(self) -> None:
        """Wait until there is a login, made by this process or another."""
        ...
