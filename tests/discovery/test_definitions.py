"""The seven definitions and the instructions stay within what clients take."""

from __future__ import annotations

import json

import pytest

from gatemini.server.definitions import MAX_DESCRIPTION, tool_definitions
from gatemini.server.instructions import instructions

MAX_TOKENS = 1_500
"""Tokens (bytes/4) of all seven definitions."""

MANY = [(f"a-rather-long-backend-name-{i}", 1000 - i) for i in range(300)]
WIDE = [("日本語の名前" * 20, 5), ("a\u200bb", 3), ("x" * 500, 1)]
NAMES = ["search_tools", "list_tools_meta", "tool_info", "get_required_keys_for_tool"]
NAMES += ["call_tool_chain", "register_manual", "deregister_manual"]


@pytest.mark.parametrize("inventory", [[], [("exa", 2)], MANY, WIDE * 50])
def test_all_seven_stay_under_their_budget(inventory: list[tuple[str, int]]) -> None:
    definitions = tool_definitions(inventory)
    assert [d["name"] for d in definitions] == NAMES
    size = len(json.dumps(definitions, ensure_ascii=False, separators=(",", ":")).encode())
    assert size / 4 < MAX_TOKENS
    for definition in definitions:
        assert len(definition["description"]) < MAX_DESCRIPTION


def test_schemas_are_flat_objects() -> None:
    for definition in tool_definitions():
        schema = definition["inputSchema"]
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(schema)
        assert set(schema.get("required", ())) <= set(schema["properties"])


def test_the_inventory_is_largest_first_and_counts_what_does_not_fit() -> None:
    description = tool_definitions([("small", 1), ("large", 900), *MANY])[0]["description"]
    assert description.index("a-rather-long-backend-name-0 (1000)") < description.index("-name-1 (999)")
    assert "large (900)" not in description
    shown = description.count(" (")
    assert f", +{302 - shown + 1} more." in description  # one bracket is the word "(tools)"


def test_hidden_characters_in_backend_names_are_escaped() -> None:
    assert "a\\u200bb (3)" in tool_definitions(WIDE)[0]["description"]


def test_annotations_are_truthful() -> None:
    read_only = {d["name"]: d["annotations"]["readOnlyHint"] for d in tool_definitions()}
    assert [name for name, value in read_only.items() if value] == NAMES[:4]
    for definition in tool_definitions()[4:]:
        assert definition["annotations"]["destructiveHint"]
        assert definition["annotations"]["openWorldHint"]


@pytest.mark.parametrize("inventory", [[], [("exa", 2), ("github", 1)], MANY, WIDE])
def test_instructions_fit_and_teach_the_four_steps(inventory: list[tuple[str, int]]) -> None:
    text = instructions(inventory)
    assert len(text) <= 2048
    places = [text.index(step) for step in ("search_tools", "tool_info", 'detail: "full"', "call_tool_chain")]
    assert places == sorted(places)
    assert max(places) < 700  # the important part is in front
    assert "not in your tool list" in text
    assert 'files_eu["get-user"]' in text
    assert "res_1a2b3c4d" in text
    assert "results.load(handle)" in text
    assert "```ts" in text
    assert "\u200b" not in text


def test_what_is_paid_for_at_every_turn_names_each_backend_once() -> None:
    said = "".join(d["description"] for d in tool_definitions([("zebra", 2)])) + instructions([("zebra", 2)])
    assert said.count("zebra") == 1


def test_instructions_are_the_same_for_the_same_facts() -> None:
    assert instructions([("a", 1), ("b", 2)]) == instructions([("b", 2), ("a", 1)])


def test_a_backend_that_has_not_listed_yet_is_named_without_a_count() -> None:
    text = tool_definitions([("exa", 2), ("slow", 0)])[0]["description"]
    assert text.endswith("Backends (tools): exa (2), slow.")
