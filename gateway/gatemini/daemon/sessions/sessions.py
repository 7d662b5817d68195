"""Sessions by token: a client that comes back, to this daemon or the next, finds its results and journals."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio.to_thread

from gatemini.chain.replay.journals_in_memory import KEPT_SECONDS
from gatemini.config.session_values import SessionValues, session_environ
from gatemini.config.variables.redaction import is_ordinary
from gatemini.daemon.hello import Hello
from gatemini.daemon.sessions.kept_sessions import KeptSessions
from gatemini.daemon.sessions.seal import seal_for
from gatemini.policy.principal import TERMINAL, local
from gatemini.protocol.sessions.client_session import Session
from gatemini.proxy.places import Place

if TYPE_CHECKING:
    from gatemini.app import App

SWEEP_SECONDS = 600.0
"""Between two looks for sessions of earlier daemons whose clients did not come back."""


@dataclass(slots=True)
class _Known:
    session: Session
    connected: int = 1
    left: float = field(default_factory=time.monotonic)


class Sessions:
    """The sessions of one daemon."""

    def __init__(self, app: App, place: Place, report: Callable[[str | None], None]) -> None:
        self._app = app
        self._kept = KeptSessions(place.key, seal_for(app.loaded.config, place), report)
        self._known: dict[str, _Known] = {}
        self._ended: set[str] = set()
        self._swept = -SWEEP_SECONDS

    async def attach(self, hello: Hello) -> Session:
        """The session of this token, a new one where there is none."""
        token, values = hello.token, self._values(hello)
        if not token:
            is_command = hello.arguments.get("terminal") is True
            return self._app.new_session(local("cli", TERMINAL) if is_command else local("socket"), values)
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = _Known(self._app.new_session(local("socket"), values))
            await self._kept.restore(token, known.session, returns=hello.returns)
        else:
            known.connected += 1
        return known.session

    def _values(self, hello: Hello) -> SessionValues:
        environ = session_environ(hello.environ, self._app.loaded.config)
        self._app.tools.redactor.add(
            (name, value) for name, value in environ.items() if not is_ordinary(name)
        )
        return SessionValues(hello.cwd, environ)

    def detach(self, token: str, session: Session, *, forget: bool) -> None:
        """A connection of this session ended. `forget`: its proxy will not come back."""
        known = self._known.get(token)
        if known is None or known.session is not session:
            self._app.end_session(session)
            return
        known.connected -= 1
        known.left = time.monotonic()
        if known.connected == 0 and forget:
            self._end(token, known)

    def _end(self, token: str, known: _Known) -> None:
        del self._known[token]
        known.session.journals.leave()
        self._ended.add(token)
        self._app.end_session(known.session)

    async def sweep(self) -> None:
        """End sessions that have had no connection for as long as journals are kept, and remove files of ended ones."""
        limit = time.monotonic() - KEPT_SECONDS
        for token, known in list(self._known.items()):
            if known.connected == 0 and known.left < limit:
                self._end(token, known)
        await self._remove_ended()
        if time.monotonic() - self._swept >= SWEEP_SECONDS:
            self._swept = time.monotonic()
            await anyio.to_thread.run_sync(self._kept.sweep)

    async def _remove_ended(self) -> None:
        ended, self._ended = self._ended, set()
        for token in ended - self._known.keys():
            await anyio.to_thread.run_sync(self._kept.remove, token)

    async def close(self) -> None:
        """Write what the next daemon gives back to these clients."""
        await self._remove_ended()
        for token, known in self._known.items():
            await self._kept.keep(token, known.session)
