"""Sessions of the handshake eras that move: any replica goes on with a session that another one has opened.

The store has the handshake of each session, and the requests that changed what its client is notified of. A replica that
meets a session for the first time repeats them to a session of its own. What a client says to one replica and concerns
the others goes to them over the bus.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import anyio
import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from gatemini.errors import StateUnavailable
from gatemini.http.replicas.session_ids import SessionIds
from gatemini.http.session_manager import SessionManager
from gatemini.http.sessions import HttpSession, HttpSessions
from gatemini.policy.principal import Principal
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

CHANNEL = "sessions"
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
REPEATED = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Requests that change the session: kept for replicas that meet it later, and repeated to those that have it."""
PASSED_ON = frozenset({"notifications/cancelled", "notifications/roots/list_changed"})
"""Notifications that concern whatever replica works for the session."""
RENEW_SHARE = 0.25
"""After this share of its time to live a session that is used gets a new one."""
HEAR_SECONDS = 5.0
"""Bounds what one message costs; they are followed in order."""
WAIT_SECONDS = 0.5
"""Between two attempts to reach the store again."""
KEEP_SECONDS = 5.0
"""How long the first answer of a session waits for a store that is away: other replicas are to know the session."""


class Handshake(msgspec.Struct, array_like=True):
    """What another replica needs to go on with a session: to whom it belongs, and how it began."""

    principal: str
    session: str
    initialize: bytes


class News(msgspec.Struct, array_like=True):
    """What the bus carries of a session: a message of its client, that it ended, or that its stream is elsewhere now."""

    replica: str
    ident: str
    kind: Literal["said", "ended", "streams"]
    body: bytes = b""


class SharedSessions:
    """The sessions of one replica that others may go on with."""

    def __init__(
        self,
        store: StateStore,
        ids: SessionIds,
        replica: str,
        manager: SessionManager,
        sessions: HttpSessions,
        idle: float,
    ) -> None:
        self._store = store
        self._ids = ids
        self._replica = replica
        self._manager = manager
        self._sessions = sessions
        self._ttl = idle
        self._adopting: dict[str, anyio.Lock] = {}
        self._renewed: dict[str, float] = {}

    def new_id(self) -> str:
        return self._ids.new()

    async def keep(self, session: HttpSession, initialize: bytes) -> None:
        """Let other replicas go on with a session that was opened here. Its client gets the id afterwards."""
        handshake = Handshake(session.key[0], session.session.id, initialize)
        data, until = msgspec.msgpack.encode(handshake), time.monotonic() + KEEP_SECONDS
        self._renewed[session.ident] = time.monotonic()
        while True:
            try:
                return await self._store.put(_session(session.ident), data, self._ttl)
            except StateUnavailable as error:
                if time.monotonic() > until:
                    logger.warning("a session is known to this replica only: %s", error.message)
                    return None
                await anyio.sleep(WAIT_SECONDS)

    async def renew(self, session: HttpSession) -> None:
        """Keep a session that is in use, with what the store has of it."""
        now = time.monotonic()
        if now - self._renewed.get(session.ident, 0.0) > RENEW_SHARE * self._ttl:
            self._renewed[session.ident] = now
            with _as_far_as_possible("a session may end at other replicas"):
                await self._store.renew(self._ttl, _session(session.ident), _repeated(session.ident))

    async def adopt(
        self, ident: str, principal: Principal, user: AuthenticatedUser | None
    ) -> HttpSession | None:
        """Go on with a session of this principal; None where there is none of that id. Raises TooManySessions."""
        if not self._ids.genuine(ident):
            return None
        lock = self._adopting.setdefault(ident, anyio.Lock())
        try:
            async with lock:
                found = self._sessions.of_id(ident, principal)
                return found or await self._rebuilt(ident, principal, user)
        finally:
            if not lock.statistics().tasks_waiting:
                self._adopting.pop(ident, None)

    async def _rebuilt(
        self, ident: str, principal: Principal, user: AuthenticatedUser | None
    ) -> HttpSession | None:
        [data] = await self._store.get(_session(ident))
        if data is None:
            return None
        handshake = msgspec.msgpack.decode(data, type=Handshake)
        if handshake.principal != principal.id:
            return None
        session = self._sessions.opened_by_handshake(principal, user, handshake.session)
        try:
            if not await self._shaken_hands(session, ident, handshake.initialize):
                self._sessions.end(session)
                return None
        except BaseException:
            self._sessions.end(session)
            raise
        self._renewed[ident] = time.monotonic()
        self._sessions.named(session, ident)
        return session

    async def _shaken_hands(self, session: HttpSession, ident: str, initialize: bytes) -> bool:
        said = await self._store.entries(_repeated(ident))
        status = await self._manager.inject(session.server, session.user, ident, initialize, opens=True)
        if status >= 400:
            logger.warning("a session of another replica was refused: %d", status)
            return False
        for body in (INITIALIZED, *said):
            await self._manager.inject(session.server, session.user, ident, body)
        return True

    async def note(self, session: HttpSession, method: object, body: bytes) -> None:
        """Tell other replicas what a client has said, where it concerns them."""
        if method not in REPEATED and method not in PASSED_ON:
            return
        with _as_far_as_possible(f"other replicas do not know of {method}"):
            if method in REPEATED:
                await self._store.append(_repeated(session.ident), [body], self._ttl)
            await self._publish(session.ident, "said", body)

    async def end(self, session: HttpSession) -> None:
        """End a session everywhere, because its client has."""
        self._renewed.pop(session.ident, None)
        with _as_far_as_possible("a session goes on at other replicas"):
            await self._store.delete(_session(session.ident), _repeated(session.ident))
            await self._publish(session.ident, "ended")

    async def leave(self, session: HttpSession) -> None:
        """Drop this replica's part of a session that was not used here for long."""
        self._renewed.pop(session.ident, None)
        await self._manager.inject(session.server, session.user, session.ident, method="DELETE")

    async def streams(self, session: HttpSession) -> None:
        """The client has opened its stream of notifications here; an earlier one at another replica ends."""
        with _as_far_as_possible("a client may be notified twice"):
            await self._publish(session.ident, "streams")

    async def _publish(
        self, ident: str, kind: Literal["said", "ended", "streams"], body: bytes = b""
    ) -> None:
        await self._store.publish(CHANNEL, msgspec.msgpack.encode(News(self._replica, ident, kind, body)))

    async def run(self) -> None:
        """Until cancelled: repeat here what clients say to other replicas."""
        while True:
            try:
                async with self._store.listen(CHANNEL) as news:
                    async for _, message in news:
                        with anyio.move_on_after(HEAR_SECONDS):
                            await self._heard(message)
            except StateUnavailable:
                await anyio.sleep(WAIT_SECONDS)

    async def _heard(self, message: bytes) -> None:
        try:
            news = msgspec.msgpack.decode(message, type=News)
        except msgspec.MsgspecError as error:
            logger.warning("what a replica of another version says cannot be read: %s", error)
            return
        if news.replica == self._replica:
            return
        if (lock := self._adopting.get(news.ident)) is not None:
            async with lock:
                pass
        session = self._sessions.named_by(news.ident)
        if session is None:
            return
        try:
            match news.kind:
                case "said":
                    await self._manager.inject(session.server, session.user, news.ident, news.body)
                case "streams":
                    if session.end_stream is not None:
                        session.end_stream()
                case "ended":
                    self._sessions.end(session)
                    await self.leave(session)
        except Exception:
            logger.exception("what another replica says of a session could not be followed")


def _session(ident: str) -> str:
    return f"session:{ident}"


def _repeated(ident: str) -> str:
    return f"repeated:{ident}"


@contextmanager
def _as_far_as_possible(otherwise: str) -> Iterator[None]:
    try:
        yield
    except StateUnavailable as error:
        logger.warning("%s: %s", otherwise, error.message)
