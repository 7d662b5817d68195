"""Repeated requests: a balancer sends a request again when its connection broke, and it must not run twice.

A request repeated while the first runs joins it. One repeated after its client was lost, which cancelled the chain, runs
from the chain's journal: calls that finished are answered from it.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass

from cachetools import TTLCache

from gatemini.http.body import Envelope
from gatemini.http.exchange import Exchange
from gatemini.http.sessions import HttpSession
from gatemini.protocol.definitions import CALL_TOOL_CHAIN

JOIN_SECONDS = 60.0
"""How long after a request began an equal one counts as its repetition."""
MOST_LOST = 10_000

Key = tuple[tuple[str, str], str, str | int, bytes]


@dataclass(slots=True)
class _Running:
    exchange: Exchange
    began: float


class Retries:
    """The requests in progress, and the chains that were cut off because their clients were lost."""

    def __init__(self) -> None:
        self._running: dict[Key, _Running] = {}
        self._lost: TTLCache[Key, str] = TTLCache(MOST_LOST, JOIN_SECONDS)

    @staticmethod
    def key(session: HttpSession, envelope: Envelope, body: bytes) -> Key | None:
        """Return what a request and its repetition have in common; None where clients may share the session."""
        if not session.keyed:
            return None
        return session.key, session.session.id, envelope.id, hashlib.sha256(body).digest()

    async def join(self, key: Key | None) -> Exchange | None:
        """Return the request in progress that this one repeats. Waits for the end of one that is being cancelled."""
        while (running := self._running.get(key) if key is not None else None) is not None:
            if time.monotonic() - running.began > JOIN_SECONDS:
                return None
            if running.exchange.can_join:
                return running.exchange
            # Of several that wait, the first begins anew, and the others join it.
            await running.exchange.ended.wait()
        return None

    def begin(self, key: Key | None, exchange: Exchange) -> None:
        if key is not None:
            self._running[key] = _Running(exchange, time.monotonic())

    def end(self, key: Key | None, exchange: Exchange) -> None:
        """Remove a request that has ended, and keep the id of its chain if that was cut off."""
        if key is None:
            return
        running = self._running.get(key)
        if running is not None and running.exchange is exchange:
            del self._running[key]
        if exchange.chain is not None:
            self._lost[key] = exchange.chain

    def resumed(self, key: Key | None, body: bytes) -> bytes:
        """Return the body to run: of a request whose first run was cut off, one that resumes it from its journal."""
        chain = self._lost.pop(key, None) if key is not None else None
        return body if chain is None else resuming(body, chain)


def resuming(body: bytes, chain: str) -> bytes:
    """Return a request to run a chain as one that resumes it from its journal; another request as it is."""
    message = json.loads(body)
    params = message.get("params")
    if not isinstance(params, dict) or params.get("name") != CALL_TOOL_CHAIN:
        return body
    arguments = params.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(arguments.get("code"), str):
        return body
    arguments["code"] = f"// @resume {chain}\n{arguments['code']}"
    return json.dumps(message).encode()
