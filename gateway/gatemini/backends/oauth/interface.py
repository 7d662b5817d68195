"""What a connection and its owner need of a login. It imports little: most gateways have no backend with a login."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import anyio.abc
import httpx2

from gatemini.model import Json

Hide = Callable[[str, Iterable[str]], None]
"""Called with a name and the secrets that redaction knows by it from now on, in place of the earlier ones."""


class TokenSource(Protocol):
    """The login to one backend for one principal."""

    key: str
    """Identifies the backend, its address and the principal."""

    @property
    def is_lacking(self) -> bool:
        """Whether a person must log in: there is no login, or one that is refused and that nothing renews."""
        ...

    @property
    def facts(self) -> Json | None:
        """What may be shown of the login: the end of its token, whether it is renewed without a person, its scopes."""
        ...

    async def token(self, tasks: anyio.abc.TaskGroup) -> str | None:
        """Return the token for a request, None to send it without one. Renewals run in `tasks`. Raises BackendError."""
        ...

    async def refused(
        self, response: httpx2.Response, token: str | None, attempt: int, tasks: anyio.abc.TaskGroup
    ) -> bool:
        """Handle a 401 or 403; return whether the request can be sent again with another token.

        Raises LoginRequired where only a person can get one.
        """
        ...

    async def until_login(self) -> None:
        """Wait until there is a login, made by this process or another."""
        ...
