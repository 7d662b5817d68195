"""What is searched and then called is kept for `gatemini eval`: privately, bounded, and only that."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from fixtures.running import running_app
from gatemini.discovery.history import (
    MAX_BYTES,
    NAME_CHARS,
    QUERY_CHARS,
    SearchHistory,
    history_path,
    read_history,
)
from gatemini.discovery.search.evaluate import Event, Query, queries_from_history

CACHE = "cache.json"


@pytest.mark.anyio
async def test_a_search_and_the_calls_after_it_become_a_query(tmp_path: Path) -> None:
    async with running_app(tmp_path, secrets={"redact": []}) as app:
        session = app.new_session()
        await app.call_meta_tool("call_tool_chain", {"code": "return await demo.rows({ n: 1 })"}, session)
        await app.call_meta_tool("search_tools", {"query": "sum of two numbers"}, session)
        code = "await demo.add({ a: 1, b: 2 }); await demo.add({ a: 1, b: 2 }); return 1"
        await app.call_meta_tool("call_tool_chain", {"code": code}, session)
        await app.call_meta_tool(
            "call_tool_chain", {"code": "return await demo.fail({ message: 'no' })"}, session
        )
        await app.call_meta_tool("search_tools", {"query": "nothing follows"}, session)
    path = history_path(tmp_path / CACHE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert queries_from_history(read_history(path)) == [
        Query("sum of two numbers", (("demo.add",),), "history")
    ]
    assert set(json.loads(path.read_text().splitlines()[1])) == {"session", "call"}  # no argument, no result


@pytest.mark.anyio
async def test_nothing_is_kept_where_it_is_switched_off(tmp_path: Path) -> None:
    async with running_app(tmp_path, search={"history": False}) as app:
        await app.call_meta_tool("search_tools", {"query": "add"})
    assert not history_path(tmp_path / CACHE).exists()


def test_only_the_first_calls_after_a_search_count(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "h.jsonl")
    history.called("s", "b.before")
    history.searched("s", "  q  ")
    for name in ("b.one", "b.one", "b." + "x" * NAME_CHARS, "b.two", "b.three", "b.four"):
        history.called("s", name)
    history.called("another", "b.five")
    history.write()
    assert not history.due
    assert read_history(tmp_path / "h.jsonl") == [
        Event("s", "search", "q"),
        Event("s", "call", "b.one"),
        Event("s", "call", "b.two"),
        Event("s", "call", "b.three"),
    ]


def test_the_file_stays_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    history = SearchHistory(path)
    for number in range(4_000):
        history.searched("s", f"{number} " + "x" * 2 * QUERY_CHARS)
        if number % 100 == 99:
            history.write()
    assert path.stat().st_size <= MAX_BYTES
    events = read_history(path)
    assert events[-1].text.startswith("3999 ")
    assert len(events) > 500
    assert all(len(event.text) <= QUERY_CHARS for event in events)


def test_a_damaged_file_loses_only_its_damaged_lines(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(
        b'\xff\xfe\n[1]\n{"session": 1, "search": "x"}\n{"session": "s"}\n' + b"[" * 100_000 + b"\n"
        b'{"session": "s", "search": "read"}\n{"session": "s", "call": "f.read"}\n{"sess'
    )
    assert queries_from_history(read_history(path)) == [Query("read", (("f.read",),), "history")]
    assert read_history(tmp_path / "none") == []


def test_a_write_error_loses_only_the_history(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = SearchHistory(tmp_path / "file" / "h.jsonl")
    history.searched("s", "q")
    history.write()
    assert not history.due
