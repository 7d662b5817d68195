"""Tool lists that come in pages, move, repeat themselves or come from servers without any."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.backend_bench import ODD, Bench, odd_config
from fixtures.running import answer, running_app
from gatemini.backends import mcp_session
from gatemini.backends.conversation.offers import list_offers
from gatemini.backends.conversation.peer import Reply
from gatemini.backends.status import State
from gatemini.config.model.backend import BackendConfig
from gatemini.errors import BackendProtocol, BackendStopped

pytestmark = pytest.mark.anyio


def tool(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **rest}


def names(bench: Bench) -> list[str]:
    return [t.name for t in bench.tools["odd"] or []]


async def test_three_pages_one_of_them_empty_are_merged(bench: Bench) -> None:
    pages = [
        {"tools": [tool("a")], "nextCursor": "p2"},
        {"tools": [], "nextCursor": "p3"},
        {"tools": [tool("b"), tool("a", description="again")]},
    ]
    await bench.odd(options={"pages": pages})
    assert names(bench) == ["a", "b"]
    assert bench.manager.status("odd").repairs == ["a: listed twice, the first one is kept"]


@pytest.mark.parametrize("cursor", [None, False])
async def test_a_list_without_a_cursor_has_one_page(bench: Bench, cursor: object) -> None:
    await bench.odd(options={"pages": [{"tools": [tool("a")], "nextCursor": cursor}]})
    assert bench.manager.status("odd").repairs == []


@pytest.mark.parametrize("end", [None, "", "p3"])
async def test_an_empty_cursor_leads_to_the_next_page(bench: Bench, end: str | None) -> None:
    pages = [{"tools": [tool("a")], "nextCursor": ""}, {"tools": [tool("b")], "nextCursor": end}]
    await bench.odd(options={"pages": [*pages, {"tools": [tool("c")]}] if end == "p3" else pages})
    assert names(bench) == (["a", "b", "c"] if end == "p3" else ["a", "b"])
    assert bench.manager.status("odd").repairs == []


@pytest.mark.parametrize("answer", ["page", "error"])
@pytest.mark.parametrize("first", [[], [{"tools": [tool("a")], "nextCursor": "p2"}]])
async def test_an_empty_cursor_that_means_the_end_adds_nothing(
    bench: Bench, answer: str, first: list[dict[str, Any]]
) -> None:
    pages = [*first, {"tools": [tool("b")], "nextCursor": ""}]
    await bench.odd(options={"pages": pages, "empty_cursor": answer})
    assert names(bench) == (["a", "b"] if first else ["b"])
    assert bench.manager.status("odd").repairs == []


async def test_a_list_that_never_ends_is_ended_with_a_note(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_session, "MAX_PAGES", 3)
    pages = [{"tools": [], "nextCursor": f"p{i}"} for i in range(9)]
    await bench.odd(options={"pages": pages})
    assert bench.manager.status("odd").repairs == ["the tool list was ended after 3 pages"]


async def test_a_change_stream_is_opened_in_the_stateless_revision(bench: Bench) -> None:
    await bench.odd(options={"on_discover": "modern"})
    await bench.value("set_tools", {"tools": [tool("fresh")]})
    await bench.until(lambda: names(bench) == ["fresh"])


@pytest.mark.parametrize("what", ["call", "read"])
async def test_waiting_calls_go_to_the_backend_that_replaces_the_first(bench: Bench, what: str) -> None:
    silent = odd_config(options={"on_discover": "silent", "on_initialize": "silent"})
    await bench.manager.apply({"odd": silent})
    answers: list[Any] = []

    async def ask() -> None:
        if what == "call":
            answers.append(await bench.value("echo", "resource text"))
        else:
            read = await bench.read_resource("odd://x")
            answers.append(read["contents"][0]["text"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await bench.until_true(lambda: bench.manager.status("odd").pid is not None)
        await bench.manager.apply({"odd": odd_config()})
    assert answers == ["resource text"]


async def test_a_read_during_a_configuration_change_gets_an_answer(
    bench: Bench,
) -> None:
    await bench.odd(options={"delay": 0.2})
    read: list[Any] = []

    async def ask() -> None:
        read.append(await bench.read_resource("odd://x"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await bench.until_true(lambda: bench.manager.status("odd").calls_open == 1)
        await bench.manager.apply({"odd": odd_config(options={"on_discover": "silent"})})
        tasks.start_soon(ask)  # finds the new one, which is not there yet
    assert [r["contents"][0]["text"] for r in read] == ["resource text"] * 2


async def test_a_read_is_repeated_after_a_crash(bench: Bench, tmp_path: Path) -> None:
    await bench.odd(options={"mark_of_death": str(tmp_path / "died")})
    uri = "odd://dies-once"
    assert (await bench.read_resource(uri))["contents"][0]["uri"] == uri
    assert bench.manager.status("odd").restarts == 1


async def test_a_new_configuration_touches_only_what_changed(bench: Bench) -> None:
    for name in ("same", "changed", "dropped"):
        await bench.odd(name)
    await bench.manager.add_and_wait(odd_config("dynamic"))
    pids = {s.name: s.pid for s in bench.manager.statuses()}
    configs = [odd_config("same"), odd_config("changed", namespace="other"), odd_config("added")]
    touched = await bench.manager.apply({c.name: c for c in configs})
    assert touched == ["added", "changed", "dropped"]
    assert bench.manager.names() == ["added", "changed", "dynamic", "same"]
    for name in ("added", "changed"):
        await bench.manager.wait_ready(name, 60)
    now = {s.name: s.pid for s in bench.manager.statuses()}
    assert (now["same"], now["dynamic"]) == (pids["same"], pids["dynamic"])
    assert now["changed"] != pids["changed"]
    assert {t.namespace for t in bench.tools["changed"] or []} == {"other"}
    assert bench.tools["dropped"] is None


@pytest.mark.parametrize("how", ["unknown", "answer", "silent"])
async def test_a_backend_without_the_tools_capability_is_healthy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("gatemini.backends.mcp_session.UNDECLARED_LIST_SECONDS", 0.3)
    await bench.odd(options={"capabilities": {}, "on_list": how, "tools": [tool("a")]})
    assert bench.manager.state("odd") is State.HEALTHY
    assert names(bench) == (["a"] if how == "answer" else []), "undeclared tools are taken where they are"


async def test_a_list_that_is_an_error_stops_the_backend_with_that_error(bench: Bench) -> None:
    bench.manager.add(odd_config(options={"on_list": "error"}))
    with pytest.raises(BackendStopped, match="the list is broken"):
        await bench.manager.wait_ready("odd", 60)


async def test_globs_allow_and_deny_tools(bench: Bench) -> None:
    await bench.odd(
        options={"tools": [tool("get_a"), tool("get_b"), tool("drop")]},
        tools={"allow": ("get_*",), "deny": ("*_b",)},
    )
    assert names(bench) == ["get_a"]


async def test_a_tool_that_was_just_announced_is_found_by_the_same_chain(tmp_path: Path) -> None:
    first = {"tools": [{"name": "set_tools", "inputSchema": {"type": "object"}}]}
    odd = {"command": sys.executable, "args": ["-I", "-S", str(ODD), json.dumps(first)]}
    new = [{"name": "echo", "inputSchema": {"type": "object"}}]
    code = f"await odd.set_tools({{ tools: {json.dumps(new)} }});\nreturn await odd.echo({{ value: 5 }});"
    async with running_app(tmp_path, {"odd": odd}) as app:
        text, is_error, _ = await answer(app, code)
    assert not is_error, text


def doc(name: str) -> dict[str, str]:
    return {"uri": f"x://{name}", "name": name}


@pytest.mark.parametrize(
    ("pages", "names"),
    [
        ([(None, ["a"], ""), ("", ["b"], None)], ["a", "b"]),
        ([(None, ["a"], ""), ("", ["b"], "")], ["a", "b"]),
        ([(None, ["a"], ""), ("", ["a"], "")], ["a"]),
        ([(None, ["a"], ""), ("", None, None)], ["a"]),
        ([(None, ["a"], "2"), ("2", ["b"], "3"), ("3", None, None)], ["a", "b"]),
        ([(None, ["a"], "2"), ("2", ["b"], "2")], ["a", "b"]),
        ([(None, ["a"], "2"), ("2", ["b"], "3"), ("3", ["c"], "2")], ["a", "b", "c"]),
        ([(None, ["a", "a"], False)], ["a"]),
        ([(None, [], "2"), ("2", ["b"], None)], ["b"]),
    ],
)
async def test_pages_of_resources_are_read_as_those_of_tools_are(
    pages: list[tuple[str | None, list[str] | None, Any]], names: list[str]
) -> None:
    given = {cursor: (listed, following) for cursor, listed, following in pages}

    async def ask(method: str, params: dict[str, Any]) -> Reply:
        listed, following = given[params.get("cursor")]
        if method != "resources/list" or listed is None:
            raise BackendProtocol("no such page", sent=True)
        return Reply({"resources": [doc(name) for name in listed], "nextCursor": following}, ())

    offers = await list_offers(ask, BackendConfig(name="odd", command="x"), {"resources": {}})
    assert [offer.name for offer in offers] == names
