"""Sessions of the handshake eras that move: any replica can serve a session that another one has opened.

The store has the handshake of each session, and the requests that changed what its client is notified of. A replica that
serves a session for the first time replays them into a copy of its own, and adds itself to the session's set of replicas.
Later messages of the client are published to those of the set.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

import anyio
import msgspec
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from gatemini.errors import StateUnavailable
from gatemini.http.replicas.session_ids import SessionIds
from gatemini.http.replicas.subscription import RETRY_SECONDS, subscribe
from gatemini.http.sdk_sessions import SessionManager
from gatemini.http.sessions import HttpSession, HttpSessions
from gatemini.policy.principal import Principal
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
REPLAYED = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Requests that change the session: kept for replicas that copy it later, and published to those that have a copy."""
MOST_REPEATED = 2_000
"""Of these requests of one session, the last ones that are kept."""
PUBLISHED = frozenset({"notifications/cancelled", "notifications/roots/list_changed"})
"""Notifications that concern each replica that runs requests of the session."""
RENEW_SHARE = 0.25
"""Share of its time to live after which the time to live of a session in use is extended."""
APPLY_SECONDS = 5.0
"""How long one message may take to apply: the next one waits for it."""
KEEP_SECONDS = 5.0
"""How long the first answer of a session waits for a store that cannot be reached, so that other replicas know the session."""


class Handshake(msgspec.Struct, array_like=True):
    """What another replica needs to copy a session: the id of its principal, its own id, and its `initialize` request."""

    principal: str
    session: str
    initialize: bytes


Kind = Literal["said", "ended", "streams"]


class SessionMessage(msgspec.Struct, array_like=True):
    """One message about a session: its client has sent `body`, it has ended, or its stream is at the sending replica now."""

    ident: str
    kind: Kind
    body: bytes = b""


class SharedSessions:
    """The sessions of one replica that others can serve, too."""

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
        self._locks: dict[str, anyio.Lock] = {}
        self._renewed: dict[str, float] = {}

    def new_id(self) -> str:
        return self._ids.new()

    async def keep(self, session: HttpSession, initialize: bytes) -> None:
        """Store the handshake of a session that this replica has opened, before its client gets the id."""
        handshake = Handshake(session.key[0], session.session.id, initialize)
        data, until = msgspec.msgpack.encode(handshake), time.monotonic() + KEEP_SECONDS
        self._renewed[session.ident] = time.monotonic()
        while True:
            try:
                await self._store.put(_session(session.ident), data, self._ttl)
                await self._store.add(_copies(session.ident), [self._replica], self._ttl)
                return
            except StateUnavailable as error:
                if time.monotonic() > until:
                    logger.warning("a session is known to this replica only: %s", error.message)
                    return
                await anyio.sleep(RETRY_SECONDS)

    async def renew(self, session: HttpSession) -> None:
        """Extend the time to live of a session in use."""
        now = time.monotonic()
        if now - self._renewed.get(session.ident, 0.0) > RENEW_SHARE * self._ttl:
            self._renewed[session.ident] = now
            with _without_store("a session may end at other replicas"):
                await self._store.renew(self._ttl, *_keys(session.ident))

    async def adopt(
        self, ident: str, principal: Principal, user: AuthenticatedUser | None
    ) -> HttpSession | None:
        """Copy a session of this principal; None where there is none of that id. Raises TooManySessions."""
        if not self._ids.genuine(ident):
            return None
        async with self._copying(ident):
            found = self._sessions.of_id(ident, principal)
            return found or await self._copy(ident, principal, user)

    @asynccontextmanager
    async def _copying(self, ident: str) -> AsyncIterator[None]:
        """Hold the lock of one session, so that it is copied once and messages about it wait for the copy."""
        lock = self._locks.setdefault(ident, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():  # a task that waited for it has it already
                self._locks.pop(ident, None)

    async def _copy(
        self, ident: str, principal: Principal, user: AuthenticatedUser | None
    ) -> HttpSession | None:
        # First, so that what is published from now on comes to this replica.
        await self._store.add(_copies(ident), [self._replica], self._ttl)
        [data] = await self._store.get(_session(ident))
        if data is None:
            return None
        handshake = msgspec.msgpack.decode(data, type=Handshake)
        if handshake.principal != principal.id:
            return None
        session = self._sessions.opened_by_handshake(principal, user, handshake.session)
        try:
            if not await self._replay(session, ident, handshake.initialize):
                self._sessions.end(session)
                return None
        except BaseException:
            self._sessions.end(session)
            raise
        self._renewed[ident] = time.monotonic()
        self._sessions.named(session, ident)
        return session

    async def _replay(self, session: HttpSession, ident: str, initialize: bytes) -> bool:
        requests = await self._store.entries(_repeated(ident))
        status = await self._manager.inject(session.server, session.user, ident, initialize, opens=True)
        if status >= 400:
            logger.warning("a session of another replica was refused: %d", status)
            return False
        for body in (INITIALIZED, *requests):
            await self._manager.inject(session.server, session.user, ident, body)
        return True

    async def note(self, session: HttpSession, method: object, body: bytes) -> None:
        """Publish a message of a client to the other replicas, where it concerns them."""
        if method not in REPLAYED and method not in PUBLISHED:
            return
        with _without_store(f"other replicas do not know of {method}"):
            if method in REPLAYED:
                repeated = await self._store.append(
                    _repeated(session.ident), [body], self._ttl, MOST_REPEATED
                )
                if repeated == MOST_REPEATED:
                    logger.warning(
                        "a session has changed its subscriptions and log level %d times: other replicas forget the first ones",
                        MOST_REPEATED,
                    )
            await self._publish(session.ident, "said", body)

    async def end(self, session: HttpSession) -> None:
        """End the session at the other replicas, after its client has ended it."""
        self._renewed.pop(session.ident, None)
        with _without_store("a session goes on at other replicas"):
            await self._store.delete(_session(session.ident), _repeated(session.ident))
            await self._publish(session.ident, "ended")  # to the replicas of the set, which expires by itself

    async def leave(self, session: HttpSession) -> None:
        """Drop this replica's copy of a session, which goes on in the store."""
        self._renewed.pop(session.ident, None)
        await self._manager.inject(session.server, session.user, session.ident, method="DELETE")

    async def streams(self, session: HttpSession) -> None:
        """End the stream of notifications at another replica, after the client has opened one at this replica."""
        with _without_store("a client may be notified twice"):
            await self._publish(session.ident, "streams")

    async def _publish(self, ident: str, kind: Kind, body: bytes = b"") -> None:
        """Publish a message to the other replicas that have a copy of the session."""
        message = msgspec.msgpack.encode(SessionMessage(ident, kind, body))
        for replica in await self._store.members(_copies(ident)) - {self._replica}:
            await self._store.publish(_channel(replica), message)

    async def run(self) -> None:
        """Apply the messages of other replicas to this replica's copies, until cancelled."""
        await subscribe(self._store, _channel(self._replica), self._apply_in_time)

    async def _apply_in_time(self, data: bytes) -> None:
        with anyio.move_on_after(APPLY_SECONDS):
            await self._apply(data)

    async def _apply(self, data: bytes) -> None:
        try:
            message = msgspec.msgpack.decode(data, type=SessionMessage)
        except msgspec.MsgspecError as error:
            logger.warning("a message of a replica of another version cannot be read: %s", error)
            return
        async with self._copying(message.ident):
            session = self._sessions.named_by(message.ident)
        if session is None:
            return
        try:
            match message.kind:
                case "said":
                    await self._manager.inject(session.server, session.user, message.ident, message.body)
                case "streams":
                    if session.end_stream is not None:
                        session.end_stream()
                case "ended":
                    self._sessions.end(session)
                    await self.leave(session)
        except Exception:
            logger.exception("a message of another replica about a session could not be applied")


def _session(ident: str) -> str:
    return f"session:{ident}"


def _repeated(ident: str) -> str:
    return f"repeated:{ident}"


def _copies(ident: str) -> str:
    return f"copies:{ident}"


def _keys(ident: str) -> tuple[str, ...]:
    return _session(ident), _repeated(ident), _copies(ident)


def _channel(replica: str) -> str:
    return f"sessions:{replica}"


@contextmanager
def _without_store(consequence: str) -> Iterator[None]:
    """Go on without the store while it cannot be reached, and log what that leads to."""
    try:
        yield
    except StateUnavailable as error:
        logger.warning("%s: %s", consequence, error.message)
