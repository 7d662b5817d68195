"""Answers of the four discovery tools, and their errors for wrong arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.catalog import EXA, catalog, schema
from gatemini.config.schema import BackendConfig
from gatemini.errors import GateminiError, InvalidRequest, ToolNotFound
from gatemini.model import Tool
from gatemini.registry import Registry
from gatemini.search.index import SearchIndex
from gatemini.server.discovery import (
    definition_bytes,
    get_required_keys_for_tool,
    keys_of,
    list_tools_meta,
    search_tools,
    tool_info,
)
from gatemini.server.discovery_tools import Catalog
from gatemini.tracker import Tracker


def search(arguments: Any, **more: Any) -> dict[str, Any]:
    registry, index = catalog()
    return search_tools(registry, index, arguments, **more)


def info(name: str, **more: str) -> dict[str, Any]:
    return tool_info(catalog()[0], {"tool_name": name, **more})


def test_a_brief_result_has_name_backend_first_sentence_call_and_the_types_of_its_arguments() -> None:
    first = search({"task_description": "search the web"})["results"][0]
    assert first == {
        "name": "exa.web_search_exa",
        "backend": "exa",
        "description": "Search the web.",
        "call": "await exa.web_search_exa({query})",
        "args": "{query: string, limit?: number}",
    }


def test_only_the_best_results_carry_types_and_those_without_arguments_carry_none() -> None:
    registry, index = catalog()
    registry.replace("many", [Tool("many", f"zebra_{n}", "Feed.", schema("hay")) for n in range(5)])
    rows = search_tools(registry, index, {"task_description": "zebra"})["results"]
    assert [row.get("args") for row in rows] == ["{hay: string}"] * 3 + [None] * 2
    assert "args" not in search({"task_description": "then"})["results"][0]


def test_types_on_a_result_spare_a_look_at_the_tool() -> None:
    registry, index = catalog()
    orders = schema(status="string", limit="integer")
    orders["properties"]["status"] |= {"type": ["string", "null"], "enum": ["open", "it's", None]}
    found = {"properties": {"orders": {"items": {"type": "string"}}}, "required": ["orders"]}
    registry.replace("shop", [Tool("shop", "list_orders", "List orders.", orders, found)])
    (row,) = search_tools(registry, index, {"task_description": "list_orders", "limit": 1})["results"]
    assert row["call"] == "await shop.list_orders({})"
    assert row["args"] == """{status?: 'open'|"it's", limit?: number}"""
    assert row["returns"] == "{orders: string[]}"


def test_a_full_result_has_the_whole_description_and_tags_instead() -> None:
    first = search({"task_description": "crawl", "brief": False})["results"][0]
    assert first["description"] == "Read the text of a page, e.g. an article. Slow."
    assert first["tags"] == ["web", "slow"]


def test_the_envelope_has_total_and_distinctive_terms_once_per_backend() -> None:
    answer = search({"task_description": "read a page"})
    assert answer["total"] >= 1
    assert set(answer["try_also"]) == {r["backend"] for r in answer["results"]}
    assert "did_you_mean" not in answer


def test_the_total_counts_more_than_is_shown() -> None:
    answer = search({"task_description": "get user", "limit": 1})
    assert len(answer["results"]) == 1
    assert answer["total"] == 2
    assert "note" not in answer


def test_calls_are_spelled_so_that_they_reach_the_very_tool() -> None:
    calls = {r["name"]: r["call"] for r in search({"task_description": "user next hidden name"})["results"]}
    assert calls["files-eu.get-user"] == 'await files_eu["get-user"]({id})'
    assert calls["files-eu.get_user"] == "await files_eu.get_user({id})"


def test_hidden_characters_are_escaped_wherever_they_come_from() -> None:
    everything = [search({"task_description": "hidden name", "brief": brief}) for brief in (True, False)] + [
        info("files-eu.hidden\u200bname", detail=detail) for detail in ("brief", "full")
    ]
    for answer in [*everything, list_tools_meta(catalog()[0], {})]:
        text = json.dumps(answer, ensure_ascii=False)
        assert "hidden\\\\u200bname" in text
        assert "\u200b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "crawl"},
        {"task_description": "crawl", "limit": "3", "brief": "true", "tag": None},
        {"task_description": "crawl", "limit": 3.0, "tag": ""},
        '{"task_description": "crawl"}',
    ],
)
def test_arguments_are_taken_as_clients_really_send_them(arguments: Any) -> None:
    assert search(arguments)["results"][0]["name"] == "exa.crawl"


@pytest.mark.parametrize(("limit", "shown"), [(0, 1), (-1, 1), (10**9, 50), (51, 50)])
def test_a_limit_out_of_range_is_moved_to_its_bound_with_a_note(limit: int, shown: int) -> None:
    answer = search({"task_description": "get user", "limit": limit})
    assert f"limit {limit} is {'below' if limit < 1 else 'above'} {shown}; {shown} was used" in answer["note"]
    assert 1 <= len(answer["results"]) <= shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "needs 'task_description'"),
        ({"task_description": "  "}, "is empty"),
        ({"task_description": 5}, "must be a string, got 5"),
        ({"taskDescription": "x"}, "did you mean 'task_description'"),
        ({"arguments": {"query": "x"}}, "no parameter 'arguments'; send what is in 'arguments' itself"),
        ({"query": "x", "_meta": {}}, "no parameter '_meta'\n"),
        ({"task_description": "x", "limitt": 3}, "did you mean 'limit'"),
        ({"task_description": "x", "limit": "many"}, "must be a whole number"),
        ({"task_description": "x", "brief": "perhaps"}, "must be a boolean"),
        ({"task_description": "x", "query": "y"}, "are the same parameter"),
        ({"task_description": "x", "tag": "nope"}, "no tool has the tag 'nope'\nHINT: Tags: slow, web."),
        ([], "takes an object"),
        ("nonsense", "takes an object"),
    ],
)
def test_wrong_arguments_are_refused_with_what_would_be_right(arguments: Any, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        search(arguments)
    assert says in caught.value.text()


def test_nothing_found_says_what_to_do() -> None:
    answer = search({"task_description": "zzzzqqqq"})
    assert (answer["results"], answer["total"]) == ([], 0)
    assert "list_tools_meta" in answer["note"]
    tagged = search({"task_description": "next", "tag": "slow"})
    assert tagged["note"].startswith("nothing with this tag matches; leave tag out")


@given(st.text(max_size=40))
def test_any_query_is_answered_and_an_empty_one_refused(text: str) -> None:
    if text.strip():
        assert "results" in search({"task_description": text})
    else:
        with pytest.raises(InvalidRequest, match="is empty"):
            search({"task_description": text})


def test_brief_info_has_parameters_signature_and_call() -> None:
    assert info("exa.web_search_exa") == {
        "name": "exa.web_search_exa",
        "backend": "exa",
        "description": "Search the web.",
        "parameters": ["query", "limit"],
        "signature": (
            "declare const exa: { web_search_exa(args: { query: string; limit?: number }): Promise<unknown> }"
        ),
        "call": "await exa.web_search_exa({query})",
    }


def test_full_info_has_schemas_annotations_and_declaration_and_its_bytes_are_counted() -> None:
    registry, _ = catalog()
    tool = Tool("b", "t", "Two. Sentences.", schema("a"), {"type": "object"}, {"readOnlyHint": True})
    registry.replace("b", [tool])
    full = tool_info(registry, {"tool_name": "t", "detail": "full"})
    entry = {"description": tool.description, "annotations": tool.annotations}
    schemas = {"input_schema": tool.input_schema, "output_schema": tool.output_schema}
    assert full.items() >= (entry | schemas).items()
    assert "/** The a */" in full["declaration"]
    listed = {**entry, "name": "t", "inputSchema": tool.input_schema, "outputSchema": tool.output_schema}
    assert definition_bytes(tool) == len(json.dumps(listed, separators=(",", ":")))


def test_info_notes_a_changed_schema_and_a_backend_still_starting() -> None:
    registry, _ = catalog()
    registry.replace("exa", [Tool("exa", "crawl", "", schema("uri")), EXA[0]])
    assert "its schema changed at " in tool_info(registry, {"tool_name": "exa.crawl"})["note"]
    registry.replace("exa", EXA, live=False)
    assert "still starting" in tool_info(registry, {"tool_name": "exa.crawl"})["note"]


@pytest.mark.parametrize("ask", [lambda: info("crwl"), lambda: info("exa.crwl")])
def test_an_unknown_tool_answers_with_close_names(ask: Any) -> None:
    with pytest.raises(ToolNotFound) as caught:
        ask()
    assert "exa.crawl" in (caught.value.hint or "")


def pages(registry: Registry, size: int) -> list[str]:
    names: list[str] = []
    cursor = None
    while True:
        answer = list_tools_meta(registry, {"cursor": cursor, "page_size": size})
        names += answer["tools"]
        cursor = answer["next_cursor"]
        if cursor is None:
            return names


@pytest.mark.parametrize("size", [1, 2, 3, 500])
def test_pages_hold_every_name_once_in_order(size: int) -> None:
    registry, _ = catalog()
    names = pages(registry, size)
    assert names == sorted(names)
    assert len(names) == len(registry) == 6


def test_pages_stay_right_while_tools_come_and_go() -> None:
    registry = Registry()
    registry.replace("b", [Tool("b", n) for n in ("a", "c", "e", "g")])
    first = list_tools_meta(registry, {"page_size": 2})
    registry.replace("b", [Tool("b", n) for n in ("b", "d", "e", "g")])  # both that were shown are gone
    second = list_tools_meta(registry, {"page_size": 2, "cursor": first["next_cursor"]})
    third = list_tools_meta(registry, {"page_size": 2, "cursor": second["next_cursor"]})
    assert first["tools"] == ["b.a", "b.c"]
    assert second["tools"] + third["tools"] == ["b.d", "b.e", "b.g"]


def test_a_foreign_cursor_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="cursor is not one"):
        list_tools_meta(Registry(), {"cursor": "\u2603"})


def test_a_cursor_survives_odd_names() -> None:
    registry = Registry()
    registry.replace("b", [Tool("b", n) for n in ("\ud800", "日本", "\n", "x")])
    assert len(pages(registry, 1)) == 4


def test_required_keys_are_names_and_never_values() -> None:
    env = {"MODE": "secret-value", "EMPTY": ""}
    config = BackendConfig(name="exa", command="srv", env=env, required_keys=("LICENSE", "SET_ONE"))
    keys = keys_of(config, {"SET_ONE": "another-secret"})
    answer = get_required_keys_for_tool(catalog()[0], {"tool_name": "crawl"}, keys=lambda _: keys)
    names = {"keys": ["MODE", "EMPTY", "LICENSE", "SET_ONE"], "missing": ["EMPTY", "LICENSE"]}
    assert answer == {"tool": "exa.crawl", "backend": "exa", **names}


def test_a_name_with_blanks_around_it_is_taken_but_an_exact_one_comes_first() -> None:
    assert info(" exa.crawl\n")["name"] == "exa.crawl"
    registry = Registry()
    registry.replace("b", [Tool("b", "t"), Tool("b", "t ")])
    assert tool_info(registry, {"tool_name": "b.t "})["name"] == "b.t "


def odd_catalog() -> tuple[Registry, SearchIndex]:
    """Return tools with extreme names, descriptions, parameters and tags."""
    registry, index = Registry(), SearchIndex()
    registry.listen(index.follow)
    many = {f"parameter_{j}": {"type": "string"} for j in range(3_000)}
    registry.replace(
        "odd",
        [
            Tool("odd", "n" * 10_000, "many words"),
            Tool("odd", "n" * 9_999 + "m", "many words"),
            Tool("odd", "\u200b" * 300, "many words"),
            Tool("odd", "all", 'many "words" \n' * 5_000, {"properties": many, "required": list(many)}),
            Tool("odd", "long", "many words", {"properties": {"p" * 10_000: {}}, "required": ["p" * 10_000]}),
            Tool(
                "odd", "noted", "many", {}, many, many, tags=tuple(f"tag {i} " + "x" * 500 for i in range(90))
            ),
            *(Tool("odd", f"{i}" + "日本" * 120, "many words " * 900) for i in range(60)),
        ],
    )
    return registry, index


@pytest.mark.parametrize("room", [2_000, 8_191, 24_999, 39_999, 99_999])
def test_every_answer_fits_its_client_whatever_the_tools_are(room: int) -> None:
    registry, index = odd_catalog()
    for brief in (True, False):
        asked = {"query": "many words", "limit": 50, "brief": brief}
        answer = search_tools(registry, index, asked, room=room)
        assert len(orjson.dumps(answer)) <= room
        assert answer["results"]
        if len(answer["results"]) < 50:
            assert "fit in one answer" in answer["note"]
    for tool in registry.tools():
        for detail in ("brief", "full"):
            info = tool_info(registry, {"tool_name": tool.qualified, "detail": detail}, room=room)
            assert len(orjson.dumps(info)) <= room
    names: list[str] = []
    cursor = None
    while True:
        page = list_tools_meta(registry, {"cursor": cursor, "page_size": 500}, room=room)
        assert len(orjson.dumps(page)) <= room
        names += page["tools"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(names) == len(set(names)) == len(registry)


def test_a_name_shown_short_is_taken_back_and_reaches_the_same_tool() -> None:
    registry, _ = odd_catalog()
    for tool in registry.tools():
        shown = tool_info(registry, {"tool_name": tool.qualified}, room=8_000)
        assert len(shown["name"]) <= 256
        assert registry.resolve(shown["name"]) is tool
        member = re.fullmatch(r'await odd(?:\.(\w+)|\["(.*)"\])\(.*\)', shown["call"])
        assert member is not None, shown["call"]
        assert registry.find("odd", json.loads(f'"{member[1] or member[2]}"')) is tool


@pytest.mark.anyio
async def test_a_chain_gets_what_an_answer_had_to_leave_out() -> None:
    registry, index = odd_catalog()
    catalog = Catalog(registry, index, Tracker(), lambda backend: ((), ()), registry.backends)
    cut = catalog.call("tool_info", {"tool_name": "odd.all", "detail": "full"}, 8_000)
    assert "input_schema" not in cut
    assert "input_schema" in cut["note"]
    assert "whole in a chain: return await gatemini.tool_info(" in cut["note"]
    whole = await catalog.call_inside("tool_info", {"tool_name": "odd.all", "detail": "full"})
    assert len(whole["input_schema"]["properties"]) == 3_000
    assert len(whole["description"]) > 60_000
    assert "note" not in whole or "cut" not in whole["note"]


def test_errors_name_a_long_name_by_its_beginning() -> None:
    registry, index = odd_catalog()
    asks: list[Callable[[], object]] = [
        lambda: tool_info(registry, {"tool_name": "x" * 10_000}),
        lambda: tool_info(registry, {"tool_name": "odd." + "n" * 5_000}),
        lambda: search_tools(registry, index, {"query": "x", "tag": "t" * 10_000}),
        lambda: search_tools(registry, index, {"k" * 10_000: 1}),
        lambda: search_tools(registry, index, {"query": "x", "limit": "l" * 10_000}),
    ]
    for ask in asks:
        with pytest.raises(GateminiError) as caught:
            ask()
        assert len(caught.value.text()) < 3_000


def test_any_json_writer_takes_an_answer() -> None:
    registry = Registry()
    odd = {"properties": {"a\ud800": {"const": 10**30, "description": "\udfff"}}, "required": ["a\ud800"]}
    registry.replace("b", [Tool("b", "t\ud800", "lone \ud800", odd, odd)])
    for detail in ("brief", "full"):
        orjson.dumps(tool_info(registry, {"tool_name": "b.t\ud800", "detail": detail}))


class Semantics:
    """A model process whose vectors are not there yet."""

    under_way = True

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def meaning(self, text: str) -> None:
        self.queries.append(text)


@pytest.mark.anyio
@pytest.mark.parametrize("inside", [False, True])
async def test_a_search_looks_for_meaning_and_says_when_embeddings_are_under_way(inside: bool) -> None:
    registry, index = odd_catalog()
    model = Semantics()
    catalog = Catalog(registry, index, Tracker(), lambda backend: ((), ()), registry.backends, model)
    search = catalog.call_inside if inside else catalog.answer
    answer = await search("search_tools", {"task_description": "read a file"})
    assert model.queries == ["read a file"]
    assert "embeddings are under way" in answer["note"]
    model.under_way = False
    answer = await search("search_tools", {"task_description": "read a file"})
    assert "embeddings" not in answer.get("note", "")
