"""Parked chains in the store that replicas share."""

from __future__ import annotations

import pytest

from gatemini.protocol.questions.shared_parking import SharedParking
from gatemini.state.memory import MemoryStore

pytestmark = pytest.mark.anyio


async def test_a_parked_chain_is_taken_over_once_and_by_its_own_session_only() -> None:
    store = MemoryStore()
    owner, other = (SharedParking(store, name, 60) for name in ("aaaaaaaa", "bbbbbbbb"))
    token = owner.new_token()
    await owner.keep(token, "its session", "chain_1", {}, "rev1")
    assert await other.take(token, "another session") is None
    found = await other.take(token, "its session")
    assert found is not None
    assert (found.chain, found.revision) == ("chain_1", "rev1")
    assert await other.take(token, "its session") is None
