"""What the connected clients can be asked, for backends outside of any call: at the handshake, and for roots.

A backend is told before any call what its client can do, so the truth has to be known before its handshake: that
waits for the client to speak, which clients do first of all. Above: app.py, gateway.py (which learns it). Below:
backends/base.py, whose `Clients` this is.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from gatemini.backends.callers import INTERNAL_ERROR, METHOD_NOT_FOUND, AskFn, RpcError
from gatemini.model import Json
from gatemini.server.questions import ROOTS

CLIENT_SPEAKS_SECONDS = 10.0
"""How long a backend's handshake waits for the first word of a client that is expected; then it is told of none."""


@dataclass(frozen=True, slots=True)
class _Client:
    can: Json
    ask: AskFn | None


class ConnectedClients:
    """The clients of one gateway by session. `expected`: one will come and say what it can."""

    def __init__(self, *, expected: bool) -> None:
        self._expected = expected
        self._known: dict[str, _Client] = {}
        self._spoken = anyio.Event()

    def learn(self, session: str, can: Json, ask: AskFn | None) -> None:
        """A client said what it can be asked; `ask` is how, outside of its calls, where its era has a way."""
        self._known[session] = _Client(can, ask)
        self._spoken.set()

    def forget(self, session: str) -> None:
        """That client is gone."""
        self._known.pop(session, None)

    async def can(self) -> Json:
        """Everything that at least one client can be asked."""
        if self._expected and not self._known:
            with anyio.move_on_after(CLIENT_SPEAKS_SECONDS):
                await self._spoken.wait()
        everything: Json = {}
        for client in self._known.values():
            for capability, details in client.can.items():
                everything[capability] = {**everything.get(capability, {}), **details}
        return everything

    async def ask(self, method: str, params: Json) -> Json:
        """The roots of the only client there is: that disturbs nobody. Everything else belongs to a call, and is refused."""
        if method != ROOTS:
            raise RpcError(
                METHOD_NOT_FOUND, f"{method} is passed on to a client only while a call of it is open"
            )
        able = [client for client in self._known.values() if "roots" in client.can]
        if not able:
            raise RpcError(METHOD_NOT_FOUND, f"the gateway's client does not answer {ROOTS}")
        if len(self._known) > 1:
            raise RpcError(
                INTERNAL_ERROR, f"several clients are connected, so {ROOTS} has to wait for a call"
            )
        if able[0].ask is None:
            raise RpcError(
                METHOD_NOT_FOUND, f"this client can be asked {ROOTS} only while a call of it is open"
            )
        return await able[0].ask(method, params)
