"""Copies that a replica makes of sessions which another one has opened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from gatemini.http.replicas.session_ids import SessionIds
from gatemini.http.replicas.shared_sessions import SharedSessions
from gatemini.policy.principal import local
from gatemini.state.memory import MemoryStore

pytestmark = pytest.mark.anyio


class CountingStore(MemoryStore):
    """Counts how many reads are in progress at once."""

    reading = most = reads = 0

    async def get(self, *keys: str) -> list[bytes | None]:
        self.reading += 1
        self.reads += 1
        self.most = max(self.most, self.reading)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        self.reading -= 1
        return await super().get(*keys)


async def test_requests_of_one_session_copy_it_one_after_another() -> None:
    store, ids = CountingStore(), SessionIds("one", ["key"])
    sessions: Any = SimpleNamespace(of_id=lambda ident, principal: None)
    shared = SharedSessions(store, ids, "one", cast("Any", None), sessions, 60)
    ident = ids.new()

    async def adopt() -> None:
        assert await shared.adopt(ident, local("http"), None) is None
        assert await shared.adopt(ident, local("http"), None) is None

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(adopt)
    assert (store.reads, store.most) == (4, 1)
