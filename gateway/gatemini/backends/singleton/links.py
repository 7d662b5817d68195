"""The two ends of a singleton: the link to a backend at another replica, and the guarded link to one of this replica."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

import anyio
import msgspec

from gatemini.backends.calls.failures import MAY_HAVE_RUN, NOT_RUN, copied
from gatemini.backends.calls.large_messages import read_messages
from gatemini.backends.singleton import messages
from gatemini.backends.singleton.messages import TO_OWNER, Failure, FromOwner, ToOwner
from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.wire import Frame, Piece, encode
from gatemini.errors import BackendCrashed, BackendError, BackendUnreachable, StateUnavailable
from gatemini.model import Json
from gatemini.state.replicas.lease import Lease
from gatemini.state.replicas.peers import Peers

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Between two checks that the other replica is alive and has the lease."""
LAST_WORD_SECONDS = 1.0
"""How long the end of a connection may take to be sent to the other replica."""
STARTS_AGAIN = "it starts again at another replica; look whether this call took effect before you repeat it"

CHANGES = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))
"""Notifications of a backend that concern all replicas."""


class RelayedLink(Link):
    """The connection to a backend that another replica runs."""

    all_or_nothing = False

    def __init__(
        self, name: str, receiver: Receiver, peers: Peers, holder: tuple[str, str], link: str
    ) -> None:
        """`holder`: the replica that runs the backend, and its life there."""
        super().__init__(name, receiver)
        self.leaves = anyio.Event()
        """Set when the other replica is about to end the backend, after the open calls."""
        self.over = False
        """Whether the backend has ended there, or is about to: this life of it cannot be connected to again."""
        self._peers, self._link = peers, link
        self._replica, self._life = holder
        self._give, self._take = anyio.create_memory_object_stream[FromOwner](float("inf"))

    def receive(self, message: FromOwner) -> None:
        """Take a message of the other replica."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._give.send_nowait(message)

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        del ident
        if self.failure is not None:
            raise copied(self.failure, sent=False)
        if (problem := self._peers.store.problem) is not None:
            text = f"{self._name} runs at another replica, and {problem}"
            raise BackendUnreachable(text, hint=NOT_RUN)
        try:
            await self._send(encode(message))
        except StateUnavailable as error:
            text = f"{self._name} runs at another replica, and {error.message}"
            raise BackendUnreachable(text, sent=True, hint=MAY_HAVE_RUN) from error

    async def _send(self, message: bytes) -> None:
        packed = ToOwner(self._name, self._life, message)
        await messages.send(self._peers, self._replica, TO_OWNER, self._link, packed)

    async def run(self) -> None:
        """Pass on what arrives until the connection has ended, and watch that the other replica is alive."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            async for message in self._take:
                self.over = self.over or message.kind in ("leaves", "ended")
                if message.kind == "leaves":
                    self.leaves.set()
                elif message.kind == "ended":
                    self._end("has ended at the replica that ran it")
                elif message.kind == "lost":
                    self._end("runs at a replica that has ended the connection to it", MAY_HAVE_RUN)
                else:
                    await self._pass(message)

    async def _pass(self, message: FromOwner) -> None:
        try:
            body = await messages.body(self._peers, message)
        except StateUnavailable as error:
            lost = BackendCrashed(
                f"an answer of {self._name} is lost: {error.message}", sent=True, hint=MAY_HAVE_RUN
            )
            self._receiver.fail_one(message.ident, lost)
            return
        if message.kind == "failed":
            self._receiver.fail_one(message.ident, msgspec.json.decode(body, type=Failure).error)
            return
        for piece in await read_messages(body):
            if isinstance(piece, Frame) and message.size:
                piece = Frame(piece.message, message.notes, message.size)
            self._receiver.receive(piece)

    async def _watch(self) -> None:
        while True:
            await anyio.sleep(CHECK_SECONDS)
            with suppress(StateUnavailable):
                if not await self._peers.alive(self._replica):
                    self._end("is lost: the replica that ran it is gone")
                elif await self._peers.store.leased_by(key(self._name)) != owner(self._replica, self._life):
                    self._end("is lost: the replica that ran it has lost its lease")

    def _end(self, how: str, hint: str = STARTS_AGAIN) -> None:
        if self.failure is None:
            self.failure = BackendCrashed(f"{self._name} {how}", sent=True, hint=hint)
            self._receiver.fail(self.failure)
            self.closed.set()

    async def leave(self) -> None:
        """Let the other replica know that this connection has ended."""
        self._give.close()
        self._take.close()
        with anyio.move_on_after(LAST_WORD_SECONDS, shield=True), suppress(StateUnavailable):
            await self._send(b"")


class GuardedLink(Link):
    """The connection to a backend of this replica: nothing is written to it once another replica may have the lease."""

    def __init__(self, name: str, receiver: Receiver, link: Link, lease: Lease) -> None:
        super().__init__(name, receiver)
        self.closed = link.closed
        self.all_or_nothing = link.all_or_nothing
        self._link, self._lease = link, lease

    @property
    def failure(self) -> BackendError | None:  # type: ignore[override]
        return self._link.failure

    @property
    def pid(self) -> int | None:
        return self._link.pid

    @property
    def skipped(self) -> int:
        return self._link.skipped

    def stderr_tail(self) -> list[str]:
        return self._link.stderr_tail()

    def send_now(self, message: Json) -> bool:
        return self._lease.held and self._link.send_now(message)

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        if not self._lease.held:
            self.lose()
            raise lease_lost(self._name, sent=False)
        await self._link.send(message, ident=ident)

    def abandon(self, ident: int) -> bool:
        return self._link.abandon(ident)

    def lose(self) -> None:
        """End the connection: the lease is lost."""
        if self._link.failure is None:
            self._link.failure = lease_lost(self._name, sent=True)
            self._receiver.fail(self._link.failure)
            self.closed.set()


class Overheard:
    """Passes a backend's messages on to a receiver; those on changes of its lists go to `on_change` as well."""

    def __init__(self, receiver: Receiver, on_change: Callable[[Json], None]) -> None:
        self._receiver, self._on_change = receiver, on_change
        self.fail, self.fail_one, self.waiting = receiver.fail, receiver.fail_one, receiver.waiting

    def receive(self, piece: Piece, during: int | None = None) -> None:
        if isinstance(piece, Frame) and piece.message.get("method") in CHANGES:
            self._on_change(piece.message)
        self._receiver.receive(piece, during)


def lease_lost(name: str, *, sent: bool) -> BackendCrashed:
    """Return the error for calls at a replica that may not run a backend any more."""
    text = f"this replica has lost the lease of {name}, which may run at another one now"
    return BackendCrashed(text, sent=sent, hint=MAY_HAVE_RUN if sent else NOT_RUN)


def key(backend: str) -> str:
    """Return the name of the lease of a backend."""
    return f"singleton:{backend}"


def owner(replica: str, life: str) -> str:
    """Return the owner of the lease: a replica, and which of its starts of the backend."""
    return f"{replica}:{life}"
