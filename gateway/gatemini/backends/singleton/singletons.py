"""The singletons of one replica: run a backend under its lease, or connect to it at the replica that runs it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

import anyio
import anyio.abc
import msgspec

from gatemini.backends.actor import Backend
from gatemini.backends.calls.failures import NOT_RUN
from gatemini.backends.singleton import messages
from gatemini.backends.singleton.links import GuardedLink, Overheard, RelayedLink, key, lease_lost, owner
from gatemini.backends.singleton.messages import FROM_OWNER, TO_OWNER, Failure, FromOwner, ToOwner
from gatemini.backends.singleton.owner import Connection
from gatemini.backends.transports.interface import Link, OpenLink, Receiver
from gatemini.backends.wire import encode
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendUnreachable, StateUnavailable
from gatemini.model import Json
from gatemini.processes.children import Children
from gatemini.state.replicas.lease import MARGIN_SECONDS, Lease
from gatemini.state.replicas.peers import PeerMessage, Peers

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""Between two looks at whether another replica runs the backend, or this one can."""
KILL_SECONDS = MARGIN_SECONDS / 2
"""How long a backend without a lease may take to end before it is killed; another replica may start it later than that."""

Find = Callable[[str], Backend | None]


class _Life:
    """A backend that this replica runs, from its start to its end."""

    def __init__(
        self, name: str, life: str, receiver: Receiver, find: Find, tasks: anyio.abc.TaskGroup
    ) -> None:
        self.life = life
        self.connections: dict[str, Connection] = {}
        self._name, self._receiver, self._find, self._tasks = name, receiver, find, tasks

    def ready(self) -> Backend | None:
        """Return the backend once it is ready."""
        backend = self._find(self._name)
        session = None if backend is None else backend.session
        return backend if session is not None and session.peer is self._receiver else None

    def receive(self, peers: Peers, message: PeerMessage, content: ToOwner) -> None:
        """Take a message of another replica."""
        link = message.exchange
        if link not in self.connections:
            if not content.message:  # the last one of a connection that has ended here, too
                return
            self.connections[link] = Connection(peers, message.sender, link, self.ready)
            self._tasks.start_soon(self._serve, link)
        self.connections[link].receive(content)

    async def _serve(self, link: str) -> None:
        try:
            await self.connections[link].run()
        finally:
            del self.connections[link]

    def post(self, message: FromOwner) -> None:
        """Send a message to all replicas that are connected."""
        for connection in self.connections.values():
            connection.post(message)


class Singletons:
    """The backends of `instance_mode: singleton`. `run` has to run."""

    def __init__(self, peers: Peers, children: Children, find: Find) -> None:
        self._peers, self._children, self._find = peers, children, find
        self._lives: dict[str, _Life] = {}
        self._asks: set[str] = set()
        """Owners for which this replica asks for a lease: another replica may know before this one that it has it."""
        self._links: dict[str, RelayedLink] = {}
        self._over: dict[str, str] = {}
        """Backend → its life at another replica that has ended, or is about to: there is nothing to connect to."""
        self._tasks: anyio.abc.TaskGroup | None = None
        peers.handlers |= {TO_OWNER: self._to_owner, FROM_OWNER: self._from_owner}

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the answers to messages that belong to no connection, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def opener(self, config: BackendConfig, open_link: OpenLink) -> OpenLink:
        """Return what opens a connection to the one process; `open_link` starts it."""
        if not (config.runs_once and self._peers.store.shared):
            return open_link
        return partial(self._open, config, open_link)

    async def hand_over(self) -> None:
        """End the backends that this replica runs, after their open calls, so that another replica has them."""
        async with anyio.create_task_group() as tasks:
            for name, life in list(self._lives.items()):
                life.post(FromOwner("leaves"))
                if (backend := self._find(name)) is not None:
                    tasks.start_soon(backend.retire)

    # -- messages ---------------------------------------------------------------------------------------

    def _to_owner(self, message: PeerMessage) -> None:
        content = msgspec.msgpack.decode(message.data, type=ToOwner)
        life = self._lives.get(content.backend)
        if life is not None and life.life == content.life:
            life.receive(self._peers, message, content)
        elif self._tasks is not None and owner(self._peers.replica, content.life) in self._asks:
            self._tasks.start_soon(self._take_later, message)
        elif content.message and self._tasks is not None:
            self._tasks.start_soon(self._refuse, message, content)

    async def _take_later(self, message: PeerMessage) -> None:
        await anyio.sleep(LOOK_SECONDS)
        self._to_owner(message)

    async def _refuse(self, message: PeerMessage, content: ToOwner) -> None:
        """Refuse a message to a backend that this replica does not run, or not under the lease that the sender knows."""
        crashed = BackendCrashed(f"{content.backend} does not run any more", hint=NOT_RUN)
        reason = Failure.of(crashed).written
        with suppress(StateUnavailable):
            ident = messages.request_of(await messages.body(self._peers, content))
            for answer in (FromOwner("failed", ident, reason), FromOwner("ended")):
                await messages.send(self._peers, message.sender, FROM_OWNER, message.exchange, answer)

    def _from_owner(self, message: PeerMessage) -> None:
        if (link := self._links.get(message.exchange)) is not None:
            link.receive(msgspec.msgpack.decode(message.data, type=FromOwner))

    # -- connections ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open(
        self, config: BackendConfig, open_link: OpenLink, receiver: Receiver
    ) -> AsyncIterator[Link]:
        lease = Lease(self._peers.store, key(config.name), owner(self._peers.replica, secrets.token_hex(8)))
        self._asks.add(lease.owner)
        try:
            async with await self._place(config, open_link, receiver, lease) as link:
                self._asks.discard(lease.owner)
                yield link
        finally:
            self._asks.discard(lease.owner)
            await lease.release()

    async def _place(
        self, config: BackendConfig, open_link: OpenLink, receiver: Receiver, lease: Lease
    ) -> AbstractAsyncContextManager[Link]:
        """Take the lease, or find the replica that has it. Raises BackendUnreachable where neither is possible."""
        problem, give_up = "", anyio.current_time() + config.connect_timeout
        while anyio.current_time() < give_up:
            try:
                if await lease.take():
                    return self._run_here(config, open_link, receiver, lease)
                holder = await self._peers.store.leased_by(key(config.name))
                replica, _, life = (holder or "").partition(":")
                problem = "the replica that ran it ends, or is gone, and its lease ends by itself"
                is_over = replica == self._peers.replica or life == self._over.get(config.name)
                if not is_over and await self._peers.alive(replica):
                    return self._connect(config.name, receiver, (replica, life))
            except StateUnavailable as error:
                problem = error.message
            await anyio.sleep(LOOK_SECONDS)
        raise BackendUnreachable(
            f"{config.name} is a singleton of several replicas: {problem}", hint="call again in a few seconds"
        )

    @asynccontextmanager
    async def _connect(self, name: str, receiver: Receiver, holder: tuple[str, str]) -> AsyncIterator[Link]:
        ident = secrets.token_hex(8)
        link = self._links[ident] = RelayedLink(name, receiver, self._peers, holder, ident)

        async def follow() -> None:
            await link.leaves.wait()
            if (backend := self._find(name)) is not None and backend.link is link:
                backend.restart("the replica that runs it stops, and another one takes it over")

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(link.run)
                tasks.start_soon(follow)
                try:
                    yield link
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            del self._links[ident]
            if link.over:
                self._over[name] = holder[1]
            await link.leave()

    @asynccontextmanager
    async def _run_here(
        self, config: BackendConfig, open_link: OpenLink, receiver: Receiver, lease: Lease
    ) -> AsyncIterator[Link]:
        name, kept, opened = config.name, anyio.CancelScope(shield=True), anyio.Event()
        link: GuardedLink
        is_lost = False

        def changed(message: Json) -> None:
            life.post(FromOwner("message", message=encode(message)))

        async def keep() -> None:
            nonlocal is_lost
            with kept:  # also while the process ends
                await lease.keep()
                is_lost = True
                logger.warning("%s is ended: its lease could not be renewed", name)
                if not opened.is_set():  # it may not be started any more
                    tasks.cancel_scope.cancel()
                    return
                link.lose()
                await anyio.sleep(KILL_SECONDS)
                if link.pid is not None:
                    await self._children.stop(link.pid, name, grace=0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            life = _Life(name, lease.owner.partition(":")[2], receiver, self._find, tasks)
            self._lives[name] = life  # first: other replicas connect as soon as the store has the lease
            try:
                async with open_link(Overheard(receiver, changed)) as real:
                    link = GuardedLink(name, receiver, real, lease)
                    opened.set()
                    try:
                        yield link
                    finally:
                        self._lives.pop(name, None)
            finally:
                self._lives.pop(name, None)
                kept.cancel()
                tasks.cancel_scope.cancel()
        if is_lost:
            raise lease_lost(name, sent=opened.is_set())
