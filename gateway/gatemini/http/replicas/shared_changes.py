"""Changes at one replica, published to all: a client's stream of notifications may be at another than its requests."""

from __future__ import annotations

import anyio
import msgspec

from gatemini.errors import StateUnavailable
from gatemini.http.replicas.subscription import RETRY_SECONDS, subscribe
from gatemini.state.store import StateStore
from gatemini.upkeep.changes import Changes, Kind

CHANNEL = "changes"
GATHER_SECONDS = 0.1
"""How long changes are gathered for one message."""


class Change(msgspec.Struct, array_like=True, frozen=True):
    """A change of the tools or of the state of one backend, or of all backends (None)."""

    kind: Kind
    backend: str | None


class Announced(msgspec.Struct, array_like=True):
    """One message: the changes at one replica."""

    replica: str
    changes: list[Change]


class SharedChanges:
    """The changes of one replica and of the others. Changes of its counts of calls are not published."""

    def __init__(self, store: StateStore, replica: str, changes: Changes) -> None:
        self._store = store
        self._replica = replica
        self._changes = changes
        self._new: dict[Change, None] = {}
        self._pending = anyio.Event()
        self._applying = False

    async def run(self) -> None:
        """Publish changes, and notify this replica's clients of those of the others, until cancelled."""
        self._changes.listen(self._add, "tools", "state")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._publish)
                tasks.start_soon(subscribe, self._store, CHANNEL, self._apply)
        finally:
            self._changes.leave(self._add, "tools", "state")

    def _add(self, kind: Kind, backend: str | None) -> None:
        if not self._applying:
            self._new[Change(kind, backend)] = None
            self._pending.set()

    async def _publish(self) -> None:
        while True:
            await self._pending.wait()
            await anyio.sleep(GATHER_SECONDS)
            self._pending = anyio.Event()
            new, self._new = list(self._new), {}
            try:
                await self._store.publish(CHANNEL, msgspec.msgpack.encode(Announced(self._replica, new)))
            except StateUnavailable:
                self._new = dict.fromkeys([*new, *self._new])
                self._pending.set()
                await anyio.sleep(RETRY_SECONDS)

    async def _apply(self, message: bytes) -> None:
        try:
            announced = msgspec.msgpack.decode(message, type=Announced)
        except msgspec.MsgspecError:
            return  # a replica of another version has published it
        if announced.replica == self._replica:
            return
        self._applying = True
        try:
            for change in announced.changes:
                self._changes.tell(change.kind, change.backend)
        finally:
            self._applying = False
