"""Sessions of HTTP clients: by `Mcp-Session-Id` in the handshake eras, by principal and session key on 2026-07-28.

`HttpSessions` has those of this process. Where replicas share a store, an idle session that ends in this process goes on in
the store.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.lowlevel import Server

from gatemini.daemon.sessions.kept_sessions import KeptSessions
from gatemini.daemon.sessions.seal import seal_for
from gatemini.http.shortcut import Shortcut
from gatemini.policy.principal import Principal
from gatemini.protocol.mcp_server import build_server
from gatemini.protocol.sessions.client_session import Session
from gatemini.protocol.subscriptions import Feed
from gatemini.proxy.places import Place

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.protocol.surface import Surface

logger = logging.getLogger(__name__)

FULL_SHARE = 0.9
"""Share of `http.sessions.max` from which on a replica drops copies of sessions that the store has."""


class TooManySessions(Exception):
    """`http.sessions.max` sessions are open."""


@dataclass(eq=False, slots=True)
class HttpSession:
    """One session: its state, its server, and how many requests of it are in flight."""

    key: tuple[str, str]
    """(principal, key of the session among the principal's)."""
    session: Session
    surface: Surface
    server: Server[Any]
    shortcut: Shortcut
    feed: Feed
    keyed: bool
    """Whether its client has named it, so that no other client shares it."""
    kept: bool
    """Whether the client can come back to it after a restart of the gateway."""
    user: AuthenticatedUser | None = None
    """The user that opened it, whom the SDK compares with those of later requests."""
    ident: str = ""
    """The `Mcp-Session-Id` that its client was given."""
    since: float = field(default_factory=time.time)
    requests: int = 0
    in_flight: int = 0
    used: float = field(default_factory=time.monotonic)
    chains: dict[str | int | None, str] = field(default_factory=dict)
    """Request in flight → the id of the chain that it has started."""
    planned: dict[str | int | None, str] = field(default_factory=dict)
    """Request in flight → the id of the chain that it will start, which is in its claim."""
    end_stream: Callable[[], None] | None = None
    """Ends the stream of notifications of the handshake eras, while it is open at this replica."""
    ended: bool = False

    @property
    def known(self) -> bool:
        """Whether its client has a way to come back to it."""
        return self.kept or bool(self.ident)

    def touch(self) -> None:
        """Mark it as used: a request that has found it may wait before it counts as in flight."""
        self.used = time.monotonic()

    def renew(self) -> None:
        """Describe the current tools to a client that connects to a session which others have used before."""
        self.surface.renew_definitions()
        self.server.instructions = self.surface.instructions()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is in flight."""
        self.requests += 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self.touch()


class HttpSessions:
    """All sessions of one server. `run` owns their tasks."""

    def __init__(self, app: App, place: Place, share: Callable[[Session], None] | None = None) -> None:
        """`share` lets a session keep its data in the store of replicas; without it the data are kept on the disk."""
        self._app = app
        self._share = share
        self._settings = app.loaded.config.http.sessions
        self._kept = KeptSessions(place.key, seal_for(app.loaded.config, place)) if share is None else None
        """Sessions on the disk, for the next process."""
        self._by_key: dict[tuple[str, str], HttpSession] = {}
        self._by_id: dict[str, HttpSession] = {}
        self._restoring = anyio.Lock()
        self._tasks: anyio.abc.TaskGroup | None = None

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the sessions' tasks until cancelled."""
        if self._kept is not None:
            self._kept.sweep()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    def __iter__(self) -> Iterator[HttpSession]:
        yield from self._by_key.values()
        yield from self._by_id.values()

    def __len__(self) -> int:
        return len(self._by_key) + len(self._by_id)

    async def of_principal(self, principal: Principal, key: str | None) -> HttpSession:
        """Return the session that a client of 2026-07-28 names, or its principal's. Raises TooManySessions."""
        place = (principal.id, key or "")
        found = self._by_key.get(place)
        if found is None:
            async with self._restoring:
                found = self._by_key.get(place)
                if found is None:
                    ident = None if self._kept is not None else _token(place)
                    found = self._opened(principal, place[1], keyed=key is not None, kept=True, ident=ident)
                    if self._kept is not None:
                        await self._kept.restore(_token(place), found.session)
                    self._by_key[place] = found
        found.touch()
        return found

    def of_id(self, ident: str, principal: Principal) -> HttpSession | None:
        """Return the session of this `Mcp-Session-Id`, if it belongs to this principal."""
        found = self._by_id.get(ident)
        if found is None or found.key[0] != principal.id:
            return None
        found.touch()
        return found

    def named_by(self, ident: str) -> HttpSession | None:
        """Return the session of this `Mcp-Session-Id`, for messages of other replicas: the principal is not checked."""
        return self._by_id.get(ident)

    def opened_by_handshake(
        self, principal: Principal, user: AuthenticatedUser | None, session: str | None = None
    ) -> HttpSession:
        """Open a session whose `Mcp-Session-Id` is not known yet. Raises TooManySessions.

        `session`: the gateway's own id of a session that another replica has opened.
        """
        opened = self._opened(principal, "", keyed=True, kept=False, ident=session)
        opened.user = user
        return opened

    def named(self, session: HttpSession, ident: str) -> None:
        """Register the `Mcp-Session-Id` of a session."""
        self._by_id[ident] = session
        session.ident = ident

    def _opened(
        self, principal: Principal, key: str, *, keyed: bool, kept: bool, ident: str | None = None
    ) -> HttpSession:
        if len(self) >= self._settings.max or self._tasks is None:
            raise TooManySessions
        session = self._app.new_session(principal, shared=not keyed, ident=ident)
        if self._share is not None:
            self._share(session)
        surface = self._app.surface(session)
        shortcut = Shortcut(surface, streams=self._app.loaded.config.http.response == "sse")
        feed = Feed(surface)
        server = build_server(surface, shortcut, feed)
        made = HttpSession((principal.id, key), session, surface, server, shortcut, feed, keyed, kept)
        if self._share is not None:
            surface.streams_here = lambda: made.end_stream is not None
        if keyed:
            surface.on_chain, surface.planned_chain = made.chains.__setitem__, made.planned.get
        feed.begin(self._tasks)
        return made

    def end(self, session: HttpSession) -> None:
        """End a session that its client has ended, or that is idle."""
        if self._by_key.get(session.key) is session:
            del self._by_key[session.key]
        self._by_id.pop(session.ident, None)
        if not session.ended:
            session.ended = True
            session.feed.end()
            session.session.journals.leave()
            if self._tasks is not None and session.kept and self._kept is not None:
                self._tasks.start_soon(self._forget, session.key, self._kept)
            self._app.end_session(session.session)

    async def _forget(self, key: tuple[str, str], kept: KeptSessions) -> None:
        async with self._restoring:
            if key not in self._by_key:
                await anyio.to_thread.run_sync(kept.remove, _token(key))

    def sweep(self) -> list[HttpSession]:
        """End sessions that are idle, and return them.

        Where replicas share sessions, those of this process are copies: the least recently used end before there are too
        many.
        """
        limit = time.monotonic() - self._settings.idle
        unused = sorted((each for each in self if not each.in_flight), key=lambda each: each.used)
        idle = [each for each in unused if each.used < limit]
        if self._share is not None:
            excess = len(self) - len(idle) - int(FULL_SHARE * self._settings.max)
            copies = [each for each in unused[len(idle) :] if each.end_stream is None]
            idle += copies[: max(0, excess)]
        for session in idle:
            self.end(session)
        return idle

    async def close(self) -> None:
        """Notify no client any more, and write the sessions that can be continued after a restart to the disk."""
        for each in self:
            each.feed.end()
        if self._kept is None:
            return
        for key, found in self._by_key.items():
            await self._kept.keep(_token(key), found.session)


def _token(key: tuple[str, str]) -> str:
    return "http-" + hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()
