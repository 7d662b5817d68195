"""The index follows the registry: small changes at once, large ones in steps."""

from __future__ import annotations

import anyio
import pytest

from gatemini.discovery.indexing import Indexing
from gatemini.discovery.search.index import TOOLS_AT_ONCE, SearchIndex
from gatemini.model import Tool

pytestmark = pytest.mark.anyio


def listed(count: int) -> list[Tool]:
    return [Tool("big", f"read_file_{i}", "Read a file.") for i in range(count)]


def test_a_small_backend_is_found_as_soon_as_it_has_listed() -> None:
    index = SearchIndex()
    Indexing(index).follow("big", listed(TOOLS_AT_ONCE))
    assert index.search("read file").total == TOOLS_AT_ONCE


async def test_others_have_their_turn_while_a_large_backend_is_taken_in() -> None:
    index = SearchIndex()
    indexing = Indexing(index)
    steps = 8
    sizes: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(indexing.run)
        indexing.follow("big", listed(steps * TOOLS_AT_ONCE))
        while index.incomplete():
            sizes.append(index.search("read file").total)
            await anyio.lowlevel.checkpoint()
        await indexing.idle()
        assert index.search("read file").total == steps * TOOLS_AT_ONCE
        group.cancel_scope.cancel()
    assert len(set(sizes)) >= steps - 1, "each step is followed by somebody else's turn"


async def test_a_backend_that_goes_while_it_is_taken_in_leaves_nothing() -> None:
    index = SearchIndex()
    indexing = Indexing(index)
    async with anyio.create_task_group() as group:
        group.start_soon(indexing.run)
        indexing.follow("big", listed(8 * TOOLS_AT_ONCE))
        await anyio.lowlevel.checkpoint()
        indexing.follow("big", None)
        assert index.search("read file").total == 0
        await indexing.idle()
        assert len(index) == 0
        indexing.follow("big", listed(3))
        await indexing.idle()
        assert index.search("read file").total == 3
        group.cancel_scope.cancel()
