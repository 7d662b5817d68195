"""The values of open sessions, for backends that are started with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from gatemini.backends.transports.interface import Link, OpenLink, Receiver
from gatemini.config.model.backend import BackendConfig
from gatemini.config.session_values import SessionValues, for_session, needs_session
from gatemini.errors import BackendStopped


class SessionBook:
    """The values of each session.

    `own`: those of a gateway that is started by its client, and so may start such backends at once.
    """

    def __init__(self, own: SessionValues | None) -> None:
        self._own = own
        self._sessions: dict[str, SessionValues] = {}
        self._begun = anyio.Event()

    def begin(self, session: str, values: SessionValues | None) -> None:
        """Note the values of a session; None for one of this gateway itself."""
        self._sessions[session] = values or self._own or SessionValues()
        self._begun.set()
        self._begun = anyio.Event()

    def end(self, session: str) -> None:
        self._sessions.pop(session, None)

    def of(self, session: str | None) -> SessionValues:
        """Return the values of a session; none for one that has ended."""
        return self._sessions.get(session or "", SessionValues())

    async def for_any(self, config: BackendConfig) -> BackendConfig:
        """Return the configuration with the values of some session that has all of them, the latest first.

        Waits for a session. Raises BackendStopped where none has.
        """
        while self._own is None and not self._sessions:
            await self._begun.wait()
        lacking: BackendStopped | None = None
        for values in reversed([*self._sessions.values()] if self._own is None else [self._own]):
            try:
                return for_session(config, values)
            except BackendStopped as error:
                lacking = error
        raise lacking or BackendStopped(f"{config.name} has no session to be started for")

    def opener(self, config: BackendConfig, of: Callable[[BackendConfig], OpenLink]) -> OpenLink:
        """Return what opens a connection; one that only lists tools, where a backend needs the values of a session."""
        if not needs_session(config):
            return of(config)

        @asynccontextmanager
        async def opened(receiver: Receiver) -> AsyncIterator[Link]:
            async with of(await self.for_any(config))(receiver) as link:
                yield link

        return opened
