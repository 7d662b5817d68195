"""Answer commands of the terminal about approvals for all replicas, at the one that the terminal reaches."""

from __future__ import annotations

import secrets
from typing import Any

import anyio
import msgspec

from gatemini.config.variables.redaction import Redactor
from gatemini.daemon import console
from gatemini.daemon.hello import Hello
from gatemini.errors import StateUnavailable
from gatemini.http.replicas.subscription import subscribe
from gatemini.policy.approvals.asking import Approvals
from gatemini.state.store import StateStore

CHANNEL = "console"
LISTING_SECONDS = 0.3
"""How long answers of other replicas are gathered: how many replicas there are is not known."""
DECIDING_SECONDS = 2.0
"""How long the replica whose call waits for the approval may take to answer."""
KEPT_SECONDS = 60.0


class Command(msgspec.Struct, array_like=True):
    """One command that `replica` publishes to the others; `answers` is the stream for their answers."""

    replica: str
    answers: str
    control: str
    arguments: dict[str, Any]


class SharedConsole:
    """The open approvals of one replica, and those of the others."""

    def __init__(self, store: StateStore, replica: str, approvals: Approvals, redactor: Redactor) -> None:
        self._store, self._replica = store, replica
        self._approvals, self._redactor = approvals, redactor

    async def run(self) -> None:
        """Answer the commands of other replicas until cancelled."""
        await subscribe(self._store, CHANNEL, self._reply)

    async def _reply(self, message: bytes) -> None:
        try:
            command = msgspec.msgpack.decode(message, type=Command)
        except msgspec.MsgspecError:
            return  # a replica of another version has published it
        if command.replica == self._replica:
            return
        hello = Hello(gatemini=1, control=command.control, arguments=command.arguments)
        if hello.control == console.LIST or self._knows(hello):
            found = await console.answer(self._approvals, self._redactor, hello)
            await self._store.send(command.answers, msgspec.msgpack.encode(found), KEPT_SECONDS)

    async def answer(self, hello: Hello) -> dict[str, Any]:
        """Return the answer to one of these commands."""
        decides_own = self._knows(hello)  # looked up first: a decided approval is not known any more
        own = await console.answer(self._approvals, self._redactor, hello)
        if decides_own:
            return own
        stream = f"answers:{secrets.token_hex(8)}"
        command = Command(self._replica, stream, hello.control, hello.arguments)
        try:
            await self._store.publish(CHANNEL, msgspec.msgpack.encode(command))
        except StateUnavailable:
            return own
        deciding = hello.control == console.DECIDE
        with anyio.move_on_after(DECIDING_SECONDS if deciding else LISTING_SECONDS):
            async for message in self._store.read(stream):
                found: dict[str, Any] = msgspec.msgpack.decode(message)
                if deciding:
                    return found
                own["approvals"] += found["approvals"]
        return own

    def _knows(self, hello: Hello) -> bool:
        """Whether a decision is about an approval of this replica."""
        return hello.control == console.DECIDE and self._approvals.knows(str(hello.arguments.get("id", "")))
