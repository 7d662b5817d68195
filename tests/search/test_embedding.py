"""The task that supplies vectors: search is ready once every tool known has one, and never before."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from gatemini.cache import Cache
from gatemini.embedding import Embedding
from gatemini.indexing import Indexing
from gatemini.model import Tool
from gatemini.search.embeddings import BUNDLED, load_embedder
from gatemini.search.index import SearchIndex

pytestmark = [pytest.mark.anyio]
READY_SECONDS = 60
"""Bounds loading the model."""


@pytest.fixture(scope="module")
def _extra() -> None:
    pytest.importorskip("numpy")
    try:
        load_embedder(BUNDLED)
    except Exception as exc:  # noqa: BLE001 - whatever keeps the extra's model from loading
        pytest.skip(f"the semantic extra is not installed: {exc}")


@pytest.mark.usefixtures("_extra")
async def test_ready_waits_for_tools_that_came_after_the_model(tmp_path: Path) -> None:
    index = SearchIndex()
    embedding = Embedding(index, Indexing(index), Cache(tmp_path / "cache.json"), BUNDLED)
    async with anyio.create_task_group() as group:
        group.start_soon(embedding.run)
        with anyio.fail_after(READY_SECONDS):
            await embedding.ready()
            for count in (1, 40, 3):
                index.replace("b", [Tool("b", f"tool_{i}_of_{count}", "Read a file") for i in range(count)])
                embedding.tools_changed()
                await embedding.ready()
                assert index.pending() == {}
            vector = await embedding.query_vector("read a file " * 5_000)
            assert vector is not None
            hits = index.search("peruse a document", query_vector=vector).hits
            assert "meaning" in hits[0].why
        group.cancel_scope.cancel()


async def test_without_a_model_ready_returns_and_a_query_has_no_vector(tmp_path: Path) -> None:
    index = SearchIndex()
    embedding = Embedding(index, Indexing(index), Cache(tmp_path / "cache.json"), "none")
    async with anyio.create_task_group() as group:
        group.start_soon(embedding.run)
        with anyio.fail_after(READY_SECONDS):
            await embedding.ready()
        assert await embedding.query_vector("x") is None
