"""Resources, templates, completion and prompts as functions of a view."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from fixtures.catalog import catalog
from gatemini.backends.status import BackendStatus, State
from gatemini.errors import ResourceNotFound, ResultGone
from gatemini.model import Tool
from gatemini.output.room import Room
from gatemini.registry import Registry
from gatemini.search.index import SearchIndex
from gatemini.server.guides import GUIDES
from gatemini.server.listing import tool_index
from gatemini.server.prompts import get_prompt
from gatemini.server.resources import (
    complete,
    list_resources,
    list_templates,
    read_resource,
)
from gatemini.server.view import View
from gatemini.tracker import Tracker


def status(name: str, state: State = State.HEALTHY, **more: Any) -> BackendStatus:
    return BackendStatus(name, state, "stdio", peak_rss=2000, **more)


class Stored:
    """A result store with one result."""

    def read(
        self,
        handle: str,
        offset: int | str | None = None,
        shown: Callable[[str], str] | None = None,
        room: object = None,
    ) -> tuple[str, str]:
        if handle != "res_1a2b3c4d":
            raise ResultGone(f"{handle} does not exist in this session")
        return "application/json", json.dumps({"offset": offset})

    def handles(self) -> Iterable[str]:
        return ["res_1a2b3c4d"]


def view_of(registry: Registry, *statuses: BackendStatus) -> View:
    tracker = Tracker()
    tracker.record_call("exa.crawl", "exa", 12.0, True, 100)
    return View(registry, statuses, tracker, Stored(), ["backends.x: no command"], 100_000)


@pytest.fixture
def view() -> View:
    broken = status(
        "broken",
        State.STOPPED,
        error="exit 1\u200b",
        remedy="set it\u200b",
        stderr_tail=["no key"],
        repairs=["r"],
    )
    return view_of(catalog()[0], status("exa"), status("files-eu"), broken)


def read_json(view: View, path: str) -> Any:
    mime, text = read_resource(view, f"gatemini://{path}")
    assert mime == "application/json"
    return json.loads(text)


def test_every_static_resource_is_listed_and_reads_with_its_mime_type(view: View) -> None:
    listed = list_resources(view)
    assert {r["uri"].removeprefix("gatemini://") for r in listed} == {
        "overview", "backends", "tools", "recent", "stats", "health", "llms", "llms-full", "call_tool_chain",
    }  # fmt: skip
    for resource in listed:
        mime, text = read_resource(view, resource["uri"])
        assert mime == resource["mimeType"]
        assert text
        assert "\u200b" not in text


@pytest.mark.parametrize(
    "path",
    [
        "tool/exa.crawl", "tool/crawl", "backend/exa", "backend/exa/tools", "backend/broken", "recent/5",
        "guide/results", "guide/discovery", "guide/call_tool_chain", "result/res_1a2b3c4d", "result/res_1a2b3c4d/80",
        "types/files-eu", "tool/files-eu.hidden%E2%80%8Bname",
    ],
)  # fmt: skip
def test_every_template_reads(view: View, path: str) -> None:
    kinds = {t["uriTemplate"].removeprefix("gatemini://").split("/")[0] for t in list_templates(view)}
    assert path.split("/")[0] in kinds
    assert read_resource(view, f"gatemini://{path}")[1]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nothing", "gatemini://overview"),
        ("guide/nothing", "call_tool_chain, discovery, results"),
        ("tool/exa.crwl", "exa.crawl"),
        ("backend/exo", "exa"),
        ("backend/exa/nothing", "backend/exa/tools"),
        ("types/nobody", "exa, files-eu"),
        ("recent/many", "from 1 to 500"),
        ("recent/0", "from 1 to 500"),
        ("result/res_1a2b3c4d/x", "row number"),
        ("tool/", "gatemini://tool/{tool_name}"),
        ("", "gatemini://overview"),
    ],
)
def test_an_unknown_address_answers_with_what_exists(view: View, path: str, says: str) -> None:
    with pytest.raises(ResourceNotFound) as caught:
        read_resource(view, f"gatemini://{path}")
    assert says in caught.value.text()


def test_a_result_is_read_from_a_row_on(view: View) -> None:
    assert read_json(view, "result/res_1a2b3c4d/80") == {"offset": 80}
    assert read_json(view, "result/res_1a2b3c4d/7:1") == {"offset": "7:1"}


def test_backends_show_state_latency_and_what_is_wrong(view: View) -> None:
    rows = {row["name"]: row for row in read_json(view, "backends")["backends"]}
    assert rows["exa"]["available"]
    assert rows["exa"]["calls"] == 1
    assert rows["exa"]["tools"] == 2
    assert not rows["broken"]["available"]
    assert rows["broken"]["error"] == "exit 1\\u200b"
    assert rows["broken"]["remedy"] == "set it\\u200b"
    assert "remedy" not in rows["exa"]


def test_health_shows_processes_repairs_stderr_and_config_problems(view: View) -> None:
    health = read_json(view, "health")
    assert health["config_problems"] == ["backends.x: no command"]
    assert health["backends"]["exa"]["peak_rss_bytes"] == 2000
    assert health["backends"]["broken"]["stderr"] == ["no key"]
    assert health["backends"]["broken"]["repairs"] == ["r"] == read_json(view, "backend/broken")["repairs"]
    assert "repairs" not in read_json(view, "backend/exa")


def test_the_index_is_grouped_by_backend_with_one_line_each(view: View) -> None:
    tools = read_json(view, "tools")["tools"]
    assert tools["exa"]["exa.crawl"] == "Read the text of a page, e.g. an article."
    assert set(tools) == {"exa", "files-eu"}


def test_the_index_of_a_large_catalog_is_shortened_evenly_to_its_share() -> None:
    tools = [
        Tool("b", f"tool_{i}", "word " * 60, {"properties": {f"p{j}": {} for j in range(40)}})
        for i in range(900)
    ]
    full = 900 * 1_000
    index = tool_index(tools, full)
    assert len(json.dumps(index, separators=(",", ":"))) <= full / 10
    lengths = {len(line) for line in index["tools"]["b"].values()}
    assert max(lengths) - min(lengths) <= 5
    assert max(lengths) <= 120


def large_catalog(backends: int, tools: int) -> Registry:
    registry = Registry()
    schema = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(9)}}
    for number in range(backends):
        name = f"backend_{number}"
        count = tools if number % 2 else 2
        registry.replace(
            name,
            [Tool(name, f"tool_{n}_of_many", "Does one of many things. " * 9, schema) for n in range(count)],
        )
    return registry


LISTINGS_OF_TOOLS = [
    "tools",
    "llms",
    "llms-full",
    "types/backend_1",
    "backend/backend_1",
    "backend/backend_1/tools",
]


@pytest.mark.parametrize(("backends", "tools"), [(2, 1_200), (100, 100)])
@pytest.mark.parametrize(
    "path", [*LISTINGS_OF_TOOLS, "overview", "backends", "health", "stats", "recent/500"]
)
def test_no_resource_is_longer_than_its_client_takes_and_what_is_cut_says_how_to_read_on(
    path: str, backends: int, tools: int
) -> None:
    registry = large_catalog(backends, tools)
    lines = [f"line {n} of what it said" for n in range(20)]
    statuses = [status(name, stderr_tail=lines, repairs=lines) for name in registry.backends()]
    view = replace(view_of(registry, *statuses), catalog_bytes=10_000_000)
    for n in range(600):
        view.numbers.record_call("backend_1.tool_1_of_many", "backend_1", 1.0, True, n)  # type: ignore[attr-defined]
        view.numbers.record_answer("call_tool_chain", 10, 10)  # type: ignore[attr-defined]
    whole = read_resource(replace(view, room=Room(bytes=100_000_000)), f"gatemini://{path}")[1]
    for room in (8_191, 40_000, 100_000):
        mime, text = read_resource(replace(view, room=Room(bytes=room)), f"gatemini://{path}")
        assert len(text.encode()) <= room
        if mime == "application/json":
            json.loads(text)
        if path in LISTINGS_OF_TOOLS and whole.count("tool_") > text.count("tool_"):
            assert any(
                way in text
                for way in ("list_tools_meta", "gatemini://types/", "tool_info", "gatemini://backends")
            )
        if path.startswith(("recent", "stats", "health")) and len(whole) > room:
            way = {"recent": "`gatemini recent --limit 500`", "stats": "`gatemini stats --json`"}
            assert way.get(path.split("/")[0], "`gatemini doctor`") in text


def test_many_problems_of_the_configuration_leave_room_for_the_backends() -> None:
    problems = [f"backends.b{n}: {'long ' * 60}" for n in range(100)]
    view = replace(view_of(large_catalog(2, 10)), problems=problems, room=Room(bytes=8_191))
    _, text = read_resource(view, "gatemini://health")
    health = json.loads(text)
    assert len(text.encode()) <= 8_191
    shown = len(health["config_problems"])
    assert 5 < shown < 100
    assert health["note"] == f"{shown} of 100 config_problems: `gatemini config check` has all"


def test_a_cut_of_the_catalog_counts_truly_what_it_left_out() -> None:
    view = replace(view_of(large_catalog(2, 1_200)), catalog_bytes=10_000_000, room=Room(bytes=20_000))
    total = len(view.registry)
    index = read_json(view, "tools")
    assert index["note"].startswith(f"{sum(map(len, index['tools'].values()))} of {total} tools named")
    assert set(index["tools"]) == {"backend_0", "backend_1"}
    rows = read_json(view, "backend/backend_1/tools")
    assert rows["note"].startswith(f"first {len(rows['tools'])} of 1200 tools")
    declared = read_resource(view, "gatemini://types/backend_1")[1]
    assert f"// {1200 - declared.count('(args')} of 1200 tools left out" in declared
    guide = read_resource(view, "gatemini://llms-full")[1]
    assert "tool_1_of_many(" in guide.split("## backend_1")[0]  # a small section is whole
    (more,) = re.findall(r" and (\d+) more", guide)
    assert guide.count("(args") + len(re.findall(r"tool_\d+_of_many[,\s]", guide)) + int(more) == total


def test_the_guide_names_all_tools_before_it_describes_any() -> None:
    view = replace(view_of(large_catalog(2, 300)), room=Room(bytes=8_191))
    guide = read_resource(view, "gatemini://llms")[1]
    assert guide.count("- tool_") == 302
    assert "Does" not in guide


def test_a_giant_declaration_keeps_no_other_out() -> None:
    giant = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(500)}}
    registry = Registry()
    registry.replace("b", [Tool("b", "a_giant", "", giant), Tool("b", "small", "", {"type": "object"})])
    text = read_resource(replace(view_of(registry), room=Room(bytes=8_191)), "gatemini://types/b")[1]
    assert "small(" in text
    assert "// 1 of 2 tools left out" in text


def test_completion_begins_with_what_begins_so(view: View) -> None:
    assert complete(view, "tool_name", "exa.c") == (["exa.crawl"], 1)
    assert complete(view, "tool_name", "user") == (["files-eu.get-user", "files-eu.get_user"], 2)
    assert complete(view, "backend_name", "b") == (["broken"], 1)
    assert complete(view, "topic", "") == (list(GUIDES), len(GUIDES))
    assert complete(view, "handle", "res") == (["res_1a2b3c4d"], 1)
    assert complete(view, "nothing", "") == ([], 0)


def test_completion_gives_at_most_a_hundred_and_says_how_many_there_are() -> None:
    registry = Registry()
    registry.replace("b", [Tool("b", f"t{i}") for i in range(300)])
    values, total = complete(view_of(registry), "tool_name", "T29")
    assert (values[0], total) == ("b.t29", 11)
    values, total = complete(view_of(registry), "tool_name", "")
    assert (len(values), total) == (100, 300)


def test_the_lists_of_resources_and_templates_tell_what_is_there_now(view: View) -> None:
    before = {r["name"]: r["description"] for r in list_resources(view)}
    assert before["tools"].endswith(": 6 tools of 3 backends")
    view.registry.replace("fresh", [Tool("fresh", "a"), Tool("fresh", "b")])
    after = {r["name"]: r["description"] for r in list_resources(view)}
    assert after["tools"].endswith(": 8 tools of 4 backends")
    templates = {t["name"]: t["description"] for t in list_templates(view)}
    assert templates["tool/{tool_name}"].endswith("(of 8)")
    assert "broken, exa, files-eu, fresh" in templates["types/{backend_name}"]


def prompt(view: View, name: str, **arguments: str) -> str:
    index = SearchIndex()
    for backend in view.registry.backends():
        index.replace(backend, view.registry.backend_tools(backend))
    answer = get_prompt(view, index, name, arguments)
    return str(answer["messages"][0]["content"]["text"])


def test_discover_walks_through_with_this_registrys_counts(view: View) -> None:
    text = prompt(view, "discover")
    assert "6 tools of 2 backends" in text
    for step in ("search_tools", "tool_info", "call_tool_chain"):
        assert step in text
    assert "await " in text


def test_find_tool_shows_matches_the_declaration_and_an_example(view: View) -> None:
    text = prompt(view, "find_tool", task="search the web")
    assert "| 1 | exa.web_search_exa | Search the web. |" in text
    assert "declare const exa: {" in text
    assert '```json\n{"type":"object","properties":{"query":{"type":"string"' in text
    assert 'const query = "...";\nconst answer = await exa.web_search_exa({query});\nreturn answer;' in text


def test_backend_status_is_a_table(view: View) -> None:
    text = prompt(view, "backend_status")
    assert "| exa | healthy | yes | 2 | 12.0 | 12.0 | 1 |" in text
    assert "| broken | stopped | no | 0 | - | - | 0 |" in text


@pytest.mark.parametrize("name", ["discover", "find_tool", "backend_status"])
def test_prompts_work_with_no_tool_at_all(name: str) -> None:
    assert prompt(view_of(Registry()), name, task="anything")


def test_find_tool_takes_the_oddest_schema() -> None:
    many = {f"p{i}": {"type": "string", "description": "x" * 50} for i in range(2_000)}
    odd = Tool("odd", "t\ud800", "lone", {"properties": {"\ud800": {"enum": [10**30]}, "b": True, **many}})
    odd.input_schema["required"] = ["\ud800", "b", "c"]
    registry = Registry()
    registry.replace("odd", [odd])
    text = prompt(view_of(registry), "find_tool", task="lone")
    assert "too long to show here; see gatemini://tool/odd.t" in text
    assert "const b = null;" in text
    assert len(text.encode()) < 30_000
