"""Decide whether this replica serves a request, or the one that has what the request belongs to."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
from starlette.types import Message, Receive, Send

from gatemini.chain.replay.journals_in_memory import new_chain
from gatemini.errors import ResumeRefused, StateUnavailable
from gatemini.http.exchange import Call, Exchange
from gatemini.http.replicas.claims import Claims
from gatemini.http.replicas.forwarding import Forwarded, Relay
from gatemini.http.retries import Key, resuming
from gatemini.http.sessions import HttpSession
from gatemini.protocol.questions.shared_parking import waiting_replica

logger = logging.getLogger(__name__)

RETAKE_SECONDS = 0.02
"""Between two looks at whether another replica has replaced the claim of one that is gone."""
KEPT_HEADERS = frozenset({b"accept", b"content-type", b"host", b"last-event-id"})
"""Forwarded with those of MCP."""


class Routing:
    """The routes of one replica's requests."""

    def __init__(
        self, claims: Claims, relay: Relay, home: Callable[[HttpSession], Awaitable[str | None]]
    ) -> None:
        """`home` returns the other replica that is the home of a session; None where this one may run its chains."""
        self._claims = claims
        self._relay = relay
        self._home = home

    async def forward_answer(self, call: Call, send: Send) -> bool:
        """Forward a client's answer to a question of another replica to that one; False for every other message.

        Raises StateUnavailable or OwnerLost.
        """
        owner = None if call.forwarded else waiting_replica(call.envelope.request_state, call.answers)
        return owner is not None and await self._relay.forward(owner, _forwarded(call), send)

    async def request_to_serve(
        self,
        call: Call,
        session: HttpSession,
        exchange: Exchange,
        key: Key | None,
        receive: Receive,
        send: Send,
    ) -> Receive | None:
        """Return the request for this replica to serve; None where another one has answered it. Raises OwnerLost."""
        if call.forwarded and not call.begins:
            return receive
        exchange.elsewhere = True
        try:
            if await self.forward_answer(call, send):
                return None
            if call.envelope.method != "tools/call":
                return receive
            if not call.begins and await self._forward_home(call, session, send):
                return None
            if key is None:
                return receive
            return await self._claimed(call, session, exchange, key, receive, send)
        except StateUnavailable as error:
            logger.warning("a request is served without the other replicas: %s", error.message)
            return receive
        finally:
            exchange.elsewhere = False

    async def _forward_home(self, call: Call, session: HttpSession, send: Send) -> bool:
        """Forward a call to the home of its session; False where this replica may run it."""
        tried = None
        while (home := await self._home(session)) not in (None, tried):
            if await self._relay.forward(home, _forwarded(call, begins=True), send):
                return True
            tried = home
        return False

    async def _claimed(
        self, call: Call, session: HttpSession, exchange: Exchange, key: Key, receive: Receive, send: Send
    ) -> Receive | None:
        chain = new_chain()
        while (claim := await self._claims.take(key, chain)) is not None:
            if await self._relay.forward(claim.replica, _forwarded(call), send):
                return None
            resumes = await _has_journal(session, claim.chain)
            if await self._claims.take_over(key, claim, claim.chain if resumes else chain):
                if resumes:
                    chain, receive = claim.chain, _with_body(receive, resuming(call.body, claim.chain))
                break
            await anyio.sleep(RETAKE_SECONDS)
        session.planned[call.envelope.id] = chain
        exchange.claimed = True
        return receive

    async def release(self, exchange: Exchange, key: Key | None) -> None:
        """Release the claim of a request that has ended, unless its client was lost: a repeated one resumes the chain."""
        if exchange.claimed and key is not None and exchange.chain is None:
            await self._claims.release(key)


async def _has_journal(session: HttpSession, chain: str) -> bool:
    journals = session.session.journals
    try:
        await journals.reach(chain)
    except ResumeRefused:
        return True  # resuming it answers with the reason
    return chain in journals.kept


def _forwarded(call: Call, *, begins: bool = False) -> Forwarded:
    headers = [
        (name, value)
        for name, value in call.scope["headers"]
        if name in KEPT_HEADERS or name.startswith(b"mcp-")
    ]
    return Forwarded(call.login.principal, call.scope["method"], headers, call.body, begins, call.login.facts)


def _with_body(receive: Receive, body: bytes) -> Receive:
    unread = [body]

    async def receive_changed() -> Message:
        message = await receive()
        return {**message, "body": unread.pop()} if unread else message

    return receive_changed
