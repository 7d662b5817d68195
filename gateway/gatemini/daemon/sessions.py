"""Sessions by token: a client that comes back, to this daemon or the next, finds its results and journals."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio.to_thread

from gatemini.chain.replay.journal import KEPT_SECONDS
from gatemini.daemon.hello import Hello
from gatemini.daemon.kept_sessions import KeptSessions
from gatemini.policy.principal import TERMINAL, local
from gatemini.protocol.client_session import Session

if TYPE_CHECKING:
    from gatemini.app import App


@dataclass(slots=True)
class _Known:
    session: Session
    connected: int = 0
    left: float = field(default_factory=time.monotonic)


class Sessions:
    """The sessions of one daemon."""

    def __init__(self, app: App, key: str) -> None:
        self._app = app
        self._kept = KeptSessions(key)
        self._known: dict[str, _Known] = {}
        self._kept.sweep()

    async def attach(self, hello: Hello) -> Session:
        """The session of this token, a new one where there is none."""
        token = hello.token
        if not token:
            is_command = hello.arguments.get("terminal") is True
            return self._app.new_session(local("cli", TERMINAL) if is_command else local("socket"))
        known = self._known.get(token)
        if known is None:
            known = self._known[token] = _Known(self._app.new_session(local("socket")))
            known.connected = 1
            clock = self._app.journals.clock()
            await anyio.to_thread.run_sync(self._kept.restore, token, known.session, clock)
        else:
            known.connected += 1
        return known.session

    def detach(self, token: str, session: Session, *, forget: bool) -> None:
        """A connection of this session ended. `forget`: its proxy will not come back."""
        known = self._known.get(token)
        if known is None or known.session is not session:
            self._app.end_session(session)
            return
        known.connected -= 1
        known.left = time.monotonic()
        if known.connected == 0 and forget:
            del self._known[token]
            self._app.end_session(session)

    def sweep(self) -> None:
        """End sessions that have had no connection for as long as journals are kept."""
        limit = time.monotonic() - KEPT_SECONDS
        for token, known in list(self._known.items()):
            if known.connected == 0 and known.left < limit:
                del self._known[token]
                self._app.end_session(known.session)

    async def close(self) -> None:
        """Write what the next daemon gives back to these clients."""
        clock = self._app.journals.clock()
        for token, known in self._known.items():
            await anyio.to_thread.run_sync(self._kept.save, token, known.session, clock)
