"""Answers of the discovery tools: what a row has, what is said once, what was learnt from calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.types.seen import SeenResults, widened
from gatemini.discovery.types.typescript import signature
from gatemini.model import Offer, Tool
from gatemini.protocol.answers.backend_facts import Facts
from gatemini.protocol.answers.discovery import search_tools, tool_info
from gatemini.registry import Registry

SEND = Tool(
    "mail",
    "send_message",
    "Send an email. Each message is queued, although delivery may take a while. See the manual for limits.",
    {
        "type": "object",
        "properties": {
            "to": {"type": "array", "items": {"type": "string"}, "description": "RFC 5322 addresses."},
            "subject": {"type": "string", "description": "The subject of the message"},
            "priority": {"type": "integer", "description": "1 (lowest) to 5"},
        },
        "required": ["to", "subject"],
    },
    {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    tags=("mail",),
)
OTHERS = [Tool("mail", f"message-{n}", f"Read message {n}, although each one is long.") for n in range(5)]


def known(*tools: Tool) -> tuple[Registry, SearchIndex]:
    registry, index = Registry(), SearchIndex()
    registry.listen(index.follow)
    for backend in dict.fromkeys(tool.backend for tool in tools):
        registry.replace(backend, [tool for tool in tools if tool.backend == backend])
    return registry, index


def searched(text: str = "send message", *, facts: Facts | None = None, brief: bool = True) -> Any:
    registry, index = known(SEND, *OTHERS)
    return search_tools(registry, index, {"query": text, "brief": brief}, facts=facts or Facts())


def test_a_full_search_row_is_the_brief_one_with_the_whole_description_and_tags() -> None:
    brief, full = searched(), searched(brief=False)
    for short, whole in zip(brief["results"], full["results"], strict=True):
        assert whole.keys() - short.keys() == {"tags"}
        assert {k: v for k, v in short.items() if k != "description"}.items() <= whole.items()
        assert len(whole["description"]) >= len(short["description"])
    assert len(json.dumps(brief)) < len(json.dumps(full))


def test_the_call_is_on_the_first_row_and_where_code_spells_the_name_differently() -> None:
    registry, index = known(SEND, Tool("mail", "send_note", "Send a note"), *OTHERS[:1])
    rows = search_tools(registry, index, {"query": "send message note"})["results"]
    calls = {row["name"]: row.get("call") for row in rows}
    assert rows[0]["call"]
    assert calls["mail.message-0"] == 'await mail["message-0"]({})'
    assert [name for name, call in calls.items() if call is None] == [rows[1]["name"]]
    assert "backend" not in rows[0]


def test_terms_to_try_are_no_function_words_and_come_for_a_few_backends_only() -> None:
    tried = searched()["try_also"]
    assert not {"each", "although", "while"} & {word for words in tried.values() for word in words}
    registry, index = known(*(Tool(f"b{n}", "send", f"Sends with carrier{'abcdefgh'[n]}") for n in range(8)))
    assert len(search_tools(registry, index, {"query": "send"})["try_also"]) == 3


def test_nested_lists_of_a_search_row_keep_the_type_of_their_items() -> None:
    many = {f"option_number_{n}": {"type": "array", "items": {"type": "string"}} for n in range(3)}
    deep = {"type": "object", "properties": {"filter": {"type": "object", "properties": many}, **many}}
    registry, index = known(Tool("b", "list_things", "List things", deep))
    (row,) = search_tools(registry, index, {"query": "list things"})["results"]
    assert "option_number_0?: string[]" in row["args"]
    assert "unknown[]" not in row["args"]


def test_full_tool_info_says_each_description_once() -> None:
    registry, _ = known(SEND)
    answer = json.dumps(tool_info(registry, {"name": "mail.send_message", "detail": "full"}))
    assert answer.count("RFC 5322") == 1
    assert answer.count("queued") == 1
    assert "to: string[]" in answer


def test_brief_tool_info_describes_the_parameters_whose_names_do_not_say_enough() -> None:
    registry, _ = known(SEND)
    answer = tool_info(registry, {"name": "mail.send_message"})
    assert answer["parameter_descriptions"] == {"to": "RFC 5322 addresses.", "priority": "1 (lowest) to 5"}


def test_instructions_of_a_backend_come_once_with_its_first_row_and_whole_in_full_tool_info() -> None:
    facts = Facts(instructions={"mail": "Ask before you send. Never at night."}.__getitem__)
    rows = searched(facts=facts)["results"]
    assert [row.get("instructions") for row in rows] == ["Ask before you send.", *[None] * (len(rows) - 1)]
    titled = Facts(instructions={"mail": "# Mail\n\nAsk before you send."}.__getitem__)
    assert searched(facts=titled)["results"][0]["instructions"] == "Ask before you send."
    registry, _ = known(SEND)
    full = tool_info(registry, {"name": "mail.send_message", "detail": "full"}, facts=facts)
    assert full["instructions"] == "Ask before you send. Never at night."


def test_a_resource_and_a_prompt_are_found_with_the_code_that_uses_them() -> None:
    registry, index = known(SEND)
    guide = Offer("mail", "style guide", "How we write letters", kind="resource", uri="docs://style")
    reply = Offer(
        "mail",
        "reply",
        "Write a polite answer",
        {"type": "object", "properties": {"tone": {"type": "string"}}},
        kind="prompt",
    )
    index.follow("mail: resources and prompts", [guide, reply])
    found = search_tools(registry, index, {"query": "style guide letters"})["results"][0]
    assert found["kind"] == "resource"
    assert found["call"] == 'await mail.readResource("docs://style")'
    prompt = search_tools(registry, index, {"query": "polite answer"})["results"][0]
    assert (prompt["kind"], prompt["call"]) == ("prompt", 'await mail.getPrompt("reply", {tone})')
    assert len(registry) == 1


# ---- types of results, learnt ------------------------------------------------------------------------


LIST = Tool("shop", "list_orders", "List orders")


def test_the_type_of_results_is_learnt_from_calls_and_marked_as_seen() -> None:
    seen = SeenResults({})
    seen.learn(LIST, {"orders": [{"id": 1, "note": None}, {"id": 2, "note": "x"}], "total": 2})
    registry, index = known(LIST)
    facts = Facts(typed=seen.typed)
    (row,) = search_tools(registry, index, {"query": "list orders"}, facts=facts)["results"]
    assert row["returns (seen)"] == "{orders: {id: number, note: string|null}[], total: number}"
    said = tool_info(registry, {"name": "shop.list_orders"}, facts=facts)["signature"]
    assert "total: number } /* seen */>" in said
    assert "output_schema" not in tool_info(registry, {"name": "list_orders", "detail": "full"}, facts=facts)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["a text"], "string"),
        ([{"a": 1, "b": 2}, {"a": 1}], "{ a: number; b?: number }"),
        ([[], [{"a": 1}]], "{ a: number }[]"),
        ([{"a": 1}, "none"], "{ a: number } | string"),
        ([{"a@b.example": {"n": 1}, "c@d.example": {"n": 2}}], "{ [key: string]: { n: number } }"),
        ([{f"k{n}": n for n in range(50)}], "{ [key: string]: number }"),
    ],
)
def test_a_learnt_type_is_widened_by_results_that_differ(values: list[Any], type_: str) -> None:
    seen = SeenResults({})
    for value in values:
        seen.learn(LIST, value)
    assert f"Promise<{type_} /* seen */>" in signature(seen.typed(LIST))


def test_a_learnt_type_outlives_the_run_but_not_a_change_of_the_schema() -> None:
    seen = SeenResults({})
    seen.learn(LIST, {"total": 2})
    again = SeenResults(json.loads(json.dumps(seen.shapes())))
    assert "total: number" in signature(again.typed(LIST))
    changed = Tool("shop", "list_orders", "List orders", {"type": "object", "properties": {"page": {}}})
    assert again.typed(changed) is changed


def test_nothing_is_learnt_where_the_tool_declares_its_result_and_no_value_is_kept() -> None:
    seen = SeenResults({})
    seen.learn(SEND, {"id": "secret-1", "more": 1})
    seen.learn(LIST, {"name": "secret-2", "rows": ["secret-3"], "secret 4": 1})
    assert seen.typed(SEND) is SEND
    assert "secret" not in json.dumps(seen.shapes())


@pytest.mark.parametrize(
    "shape", [{"anyOf": 1}, {"type": 3}, {"type": "array"}, {"properties": {"a": 1}}, {"items": 1}]
)
def test_a_kept_shape_of_another_form_is_ignored(shape: dict[str, Any]) -> None:
    seen = SeenResults({})
    seen.learn(LIST, [1])
    key = next(iter(seen.shapes()))
    assert SeenResults({key: shape}).typed(LIST) is LIST


def test_widening_is_commutative_up_to_the_order_of_members() -> None:
    one, other = {"type": "string"}, {"type": "array", "items": {"type": "null"}}
    assert widened(one, other) == widened(other, one)
