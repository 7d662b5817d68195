"""Requests of backends to the connected clients outside of any call: capabilities for the handshake, and roots.

A backend's handshake declares the capabilities of its client, so it waits for the first message of the gateway's
client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from gatemini.backends.calls.callers import INTERNAL_ERROR, LEVELS, METHOD_NOT_FOUND, AskFn, Clients, RpcError
from gatemini.model import Json
from gatemini.protocol.questions.translation import ROOTS

CLIENT_SPEAKS_SECONDS = 10.0
"""How long a backend's handshake waits for an expected client; without one it declares no capabilities."""


@dataclass(frozen=True, slots=True)
class Client:
    """What one client can answer; `ask` sends it requests outside of its calls."""

    can: Json
    ask: AskFn | None
    may_use: Callable[[str], bool]
    """Whether the client may call or read anything of a backend; any other backend learns nothing of the client."""


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
        self._known: dict[str, Client] = {}
        self._levels: dict[str, str] = {}
        self._spoken = anyio.Event()

    def learn(
        self,
        session: str,
        can: Json,
        ask: AskFn | None,
        may_use: Callable[[str], bool] = lambda backend: True,
    ) -> None:
        """Record a client's capabilities; `ask` sends it requests outside of calls, where its protocol revision has a
        way.
        """
        self._known[session] = Client(can, ask, may_use)
        self._spoken.set()

    def forget(self, session: str) -> None:
        """Forget a client that disconnected."""
        self._known.pop(session, None)
        self._levels.pop(session, None)

    def least_level(self, session: str, level: str) -> str:
        """Note the log level of a client; return the one at which backends log for all of them."""
        self._levels[session] = level
        return min(self._levels.values(), key=LEVELS.index)

    def of(self, session: str | None, backend: str) -> Clients:
        return _OfBackend(self, session, backend)

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

    def known(self, session: str | None) -> list[Client]:
        """Return the client of a session, if it has announced itself; all that have for None."""
        if session is None:
            return list(self._known.values())
        return [self._known[session]] if session in self._known else []


class _OfBackend(Clients):
    """The clients of one backend: that of the session which a dedicated instance serves, or all that may use it."""

    def __init__(self, clients: ConnectedClients, session: str | None, backend: str) -> None:
        self._clients = clients
        self._session = session
        self._backend = backend

    async def can(self) -> Json:
        """Return their capabilities; a dedicated instance is started by a call, so its client has announced them."""
        if self._session is None:
            return await self._clients.can()
        return next((client.can for client in self._clients.known(self._session)), {})

    async def ask(self, method: str, params: Json) -> Json:
        """Answer `roots/list` from the only client there is; refuse any other method, which needs an open call."""
        if method != ROOTS:
            raise RpcError(
                METHOD_NOT_FOUND, f"{method} is passed on to a client only while a call of it is open"
            )
        clients = [each for each in self._clients.known(self._session) if each.may_use(self._backend)]
        able = [client for client in clients if "roots" in client.can]
        if not able:
            raise RpcError(METHOD_NOT_FOUND, f"the gateway's client does not answer {ROOTS}")
        if len(clients) > 1 or able[0].ask is None:
            raise RpcError(
                INTERNAL_ERROR, f"{ROOTS} is passed on to this client only while a call of it is open"
            )
        return await able[0].ask(method, params)
