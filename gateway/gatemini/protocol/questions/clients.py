"""Requests of backends to the connected clients outside of any call: capabilities for the handshake, and roots.

A backend's handshake declares the capabilities of its client, so it waits for the first message of the gateway's
client.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from gatemini.backends.calls.callers import INTERNAL_ERROR, LEVELS, METHOD_NOT_FOUND, AskFn, Clients, RpcError
from gatemini.model import Json
from gatemini.protocol.questions.translation import ROOTS

CLIENT_SPEAKS_SECONDS = 10.0
"""How long a backend's handshake waits for an expected client; without one it declares no capabilities."""


@dataclass(frozen=True, slots=True)
class _Client:
    can: Json
    ask: AskFn | None


OF_LATER_CLIENTS: Json = {"elicitation": {"form": {}, "url": {}}}
"""What backends are promised of clients that connect later: one that cannot refuses the request."""


class ConnectedClients(Clients):
    """The clients of one gateway by session.

    With `expected`, one will connect soon and announce its capabilities. Where it is None, clients come and go while
    backends stay connected, whose handshake therefore promises `OF_LATER_CLIENTS`.
    """

    def __init__(self, *, expected: bool | None) -> None:
        self._expected = bool(expected)
        self._promised = OF_LATER_CLIENTS if expected is None else {}
        self._known: dict[str, _Client] = {}
        self._levels: dict[str, str] = {}
        self._spoken = anyio.Event()

    def learn(self, session: str, can: Json, ask: AskFn | None) -> None:
        """Record a client's capabilities; `ask` sends it requests outside of calls, where its protocol revision has a
        way.
        """
        self._known[session] = _Client(can, ask)
        self._spoken.set()

    def forget(self, session: str) -> None:
        """Forget a client that disconnected."""
        self._known.pop(session, None)
        self._levels.pop(session, None)

    def least_level(self, session: str, level: str) -> str:
        """Note the log level of a client; return the one at which backends log for all of them."""
        self._levels[session] = level
        return min(self._levels.values(), key=LEVELS.index)

    async def can(self) -> Json:
        """Return every capability that at least one client has, and what is promised of later ones."""
        if self._expected and not self._known:
            with anyio.move_on_after(CLIENT_SPEAKS_SECONDS):
                await self._spoken.wait()
        everything: Json = dict(self._promised)
        for client in self._known.values():
            for capability, details in client.can.items():
                everything[capability] = {**everything.get(capability, {}), **details}
        return everything

    async def ask(self, method: str, params: Json) -> Json:
        """Answer `roots/list` from the only client there is; refuse any other method, which needs an open call."""
        if method != ROOTS:
            raise RpcError(
                METHOD_NOT_FOUND, f"{method} is passed on to a client only while a call of it is open"
            )
        able = [client for client in self._known.values() if "roots" in client.can]
        if not able:
            raise RpcError(METHOD_NOT_FOUND, f"the gateway's client does not answer {ROOTS}")
        if len(self._known) > 1 or able[0].ask is None:
            raise RpcError(
                INTERNAL_ERROR, f"{ROOTS} is passed on to this client only while a call of it is open"
            )
        return await able[0].ask(method, params)
