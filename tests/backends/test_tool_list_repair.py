"""Repairs: no schema and no result shape costs a tool or an answer."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.backends.result_repair import repair_contents, repair_result
from gatemini.backends.tool_list_repair import Listing, repair_input_schema
from gatemini.model import Tool


def listed(raw: list[Any], *tags: str) -> tuple[list[Tool], list[str]]:
    """The repaired tools of a list, and the notes on them."""
    listing = Listing("odd", tags=tags)
    listing.read(raw)
    return listing.tools(), listing.repairs


RECURSIVE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/N"}},
    "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}},
}

FINE = [
    {"type": "object"},
    {"type": "object", "properties": {"x": True}},
    RECURSIVE,
    {"type": "object", "properties": {"x": {"$ref": "https://example.com/s.json"}}},
    {"type": "object", "properties": {"my-prop": {}, "a b": {}, "class": {}}},
    {"type": "object", "properties": {"e": {"enum": list(range(400))}}},
    {"type": "object", "properties": {"t": {"type": "array", "prefixItems": [{"type": "string"}]}}},
]

ODD: list[tuple[Any, dict[str, Any]]] = [
    (None, {"type": "object"}),
    ({}, {"type": "object"}),
    ([], {"type": "object"}),
    ("object", {"type": "object"}),
    ({"type": "string"}, {"type": "object"}),
    ({"type": ["string", "null"]}, {"type": "object"}),
    ({"type": ["object", "null"], "title": "T"}, {"type": "object", "title": "T"}),
    (
        {"$ref": "#/$defs/X", "$defs": {"X": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "$defs": {"X": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
    ),
    (
        {"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/X"}}},
        {"type": "object", "$defs": {"X": {"$ref": "#/$defs/X"}}},
    ),
    ({"$ref": "https://example.com/x"}, {"type": "object"}),
    (
        {"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object"}]},
        {"type": "object", "anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object"}]},
    ),
    ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
    ({"type": "object", "required": None}, {"type": "object"}),
    ({"type": "object", "required": ["a", 5]}, {"type": "object", "required": ["a"]}),
    ({"type": "object", "properties": None}, {"type": "object"}),
    (
        {"type": "object", "properties": {"a": "string", "b": {}}},
        {"type": "object", "properties": {"a": True, "b": {}}},
    ),
    ({"type": "object", "anyOf": {}}, {"type": "object"}),
    ({"type": "object", "$defs": []}, {"type": "object"}),
]


@pytest.mark.parametrize("schema", FINE)
def test_a_usable_schema_is_not_touched(schema: dict[str, Any]) -> None:
    notes: list[str] = []
    assert repair_input_schema(schema, notes) is schema
    assert notes == []


@pytest.mark.parametrize(("schema", "repaired"), ODD)
def test_an_odd_schema_becomes_an_object_schema_with_a_note(schema: Any, repaired: dict[str, Any]) -> None:
    notes: list[str] = []
    assert repair_input_schema(schema, notes) == repaired
    assert notes


def test_a_schema_nested_without_end_is_opened() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"a": schema}}
    notes: list[str] = []
    assert repair_input_schema(schema, notes) == {"type": "object"}
    assert "deeper" in notes[0]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
schema_keys = st.sampled_from(
    ["type", "properties", "required", "$ref", "$defs", "anyOf", "oneOf", "allOf", "enum"]
)
schema_words = st.sampled_from(["object", "string", "#/$defs/a", "#", "a"]) | anything
schemas = st.recursive(
    st.dictionaries(schema_keys, schema_words, max_size=4) | schema_words,
    lambda inner: (
        st.dictionaries(schema_keys | st.just("a"), inner, max_size=4) | st.lists(inner, max_size=3)
    ),
    max_leaves=10,
)


@given(schemas)
def test_any_input_schema_becomes_an_object_schema(schema: Any) -> None:
    repaired = repair_input_schema(schema, [])
    assert repaired["type"] == "object"
    assert isinstance(repaired.get("properties", {}), dict)
    assert all(isinstance(name, str) for name in repaired.get("required", []))


@given(
    st.lists(
        st.fixed_dictionaries({"name": st.text(min_size=1, max_size=3), "inputSchema": schemas}) | anything
    )
)
def test_every_named_tool_is_kept_once_with_its_exact_name(raw: list[Any]) -> None:
    tools, _ = listed(raw)
    names = [r["name"] for r in raw if isinstance(r, dict) and isinstance(r.get("name"), str) and r["name"]]
    assert [t.name for t in tools] == list(dict.fromkeys(names))


@pytest.mark.parametrize("said", [{"title": "Reads"}, {"annotations": {"title": "Reads"}, "description": ""}])
def test_a_tool_that_has_only_a_title_is_described_by_it(said: dict[str, Any]) -> None:
    (tool,), repairs = listed([{"name": "t", "inputSchema": {"type": "object"}, **said}])
    assert (tool.title, tool.description, repairs) == ("Reads", "Reads", [])


def test_odd_fields_of_a_tool_are_dropped_with_a_note_and_the_tool_stays() -> None:
    raw = {
        "name": "t",
        "description": 5,
        "inputSchema": {"type": "object"},
        "outputSchema": "string",
        "annotations": [],
        "title": None,
    }
    (tool,), repairs = listed([raw, {"description": "nameless"}, None, raw], "x")
    assert (tool.description, tool.output_schema, tool.annotations, tool.tags) == ("", None, {}, ("x",))
    assert len(tool.repairs) == 3
    assert len(repairs) == 6


TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({"content": [TEXT]}, [TEXT]),
        ({"content": []}, []),
        ({"structuredContent": {"a": 1}}, []),
        ({"content": None, "structuredContent": [1]}, []),
        ({}, []),
        ({"content": "hi"}, [TEXT]),
        ({"content": TEXT}, [TEXT]),
        ({"content": ["hi", None, TEXT]}, [TEXT, TEXT]),
        ({"content": [{"text": "hi"}]}, [TEXT]),
        ({"content": [{"type": "text"}]}, [{"type": "text", "text": ""}]),
        ({"content": [{"type": "text", "text": {"a": 1}}]}, [{"type": "text", "text": '{"a":1}'}]),
        ({"content": [{"type": "video", "x": 1}]}, [{"type": "video", "x": 1}]),
        ({"content": [{"x": 1}]}, [{"type": "text", "text": '{"x":1}'}]),
        (None, []),
        ("hi", [TEXT]),
        (5, [{"type": "text", "text": "5"}]),
        ([TEXT], [TEXT]),
        ({"rows": [1]}, []),
    ],
)
def test_every_shape_of_result_gets_a_list_of_typed_blocks(result: Any, content: list[Any]) -> None:
    assert repair_result(result)[0]["content"] == content


def test_structured_content_of_any_type_stays_and_null_is_none() -> None:
    for value in ([1], "x", 5, {}, False):
        assert repair_result({"content": [], "structuredContent": value})[0]["structuredContent"] == value
    assert "structuredContent" not in repair_result({"content": [], "structuredContent": None})[0]
    assert repair_result({"rows": 1, "content": None})[0]["rows"] == 1
    assert repair_result([{"a": 1}])[0]["structuredContent"] == [{"a": 1}]


@pytest.mark.parametrize("failed", [{}, {"isError": True}])
def test_an_object_that_is_no_result_is_the_value_with_a_note(failed: dict[str, Any]) -> None:
    repaired, notes = repair_result(
        {"rows": [1], "total": 1, "_meta": {}, "resultType": "complete", **failed}
    )
    assert repaired["structuredContent"] == {"rows": [1], "total": 1}
    assert repaired.get("isError", False) is bool(failed)
    assert notes == ["the answer was the bare value instead of a result object"]
    assert "structuredContent" not in repair_result({"_meta": {}, "resultType": "complete"})[0]


@pytest.mark.parametrize(
    ("flag", "read"), [(True, True), ("true", True), (1, True), ("false", False), (0, False), (None, False)]
)
def test_is_error_is_always_a_boolean(flag: Any, read: bool) -> None:
    assert repair_result({"content": [], "isError": flag})[0]["isError"] is read


def test_a_well_formed_result_is_left_alone_without_notes() -> None:
    result = {"content": [TEXT, {"type": "image", "data": "", "mimeType": "image/png"}], "isError": False}
    assert repair_result(result) == (result, [])


@given(
    anything
    | st.fixed_dictionaries(
        {}, optional={"content": anything, "isError": anything, "structuredContent": anything}
    )
)
def test_any_result_gets_content_blocks_with_a_type(result: Any) -> None:
    repaired, _ = repair_result(result)
    assert all(isinstance(block["type"], str) for block in repaired["content"])
    assert all(isinstance(block["text"], str) for block in repaired["content"] if block["type"] == "text")


def test_repaired_schemas_are_schemas_to_jsonschema() -> None:
    for _, schema in ODD:
        jsonschema.Draft202012Validator.check_schema(schema)


def test_other_spellings_of_the_keys_are_read() -> None:
    """As of models that were written out under their Python names."""
    schema = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}
    raw = [
        {"name": "a", "input_schema": schema, "output_schema": {"type": "object"}},
        {"name": "c", "inputSchema": schema, "input_schema": {"type": "object"}},
    ]
    tools, repairs = listed(raw)
    assert [tool.input_schema for tool in tools] == [schema] * 2
    assert tools[0].output_schema == {"type": "object"}
    assert repairs == [
        "a: input_schema was read as inputSchema",
        "a: output_schema was read as outputSchema",
    ]
    image = {"type": "image", "data": "AA==", "mime_type": "image/png"}
    fixed, notes = repair_result({"content": [image], "structured_content": {"a": 1}, "is_error": True})
    assert fixed == {
        "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}],
        "structuredContent": {"a": 1},
        "isError": True,
    }
    assert "is_error was read as isError" in notes


@pytest.mark.parametrize("reference", ["#/$defs/X%20Y", "#/$defs/X Y"])
def test_a_root_reference_is_followed_in_every_spelling(reference: str) -> None:
    target = {"type": "object", "properties": {"a": {"type": "integer"}}}
    fixed = repair_input_schema({"$ref": reference, "$defs": {"X Y": target}}, [])
    assert fixed["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize(
    ("result", "contents"),
    [
        ({"contents": [{"uri": "a:", "text": "x"}]}, [{"uri": "a:", "text": "x"}]),
        ({"contents": {"uri": "a:", "text": "x"}}, [{"uri": "a:", "text": "x"}]),
        ({"contents": "x"}, [{"text": "x"}]),
        ({"contents": ["x", None, 5]}, [{"text": "x"}, {"text": "5"}]),
        ({"contents": [{"uri": "a:", "mime_type": "b"}]}, [{"uri": "a:", "mimeType": "b"}]),
        ([{"uri": "a:", "text": "x"}], [{"uri": "a:", "text": "x"}]),
        ("x", [{"text": "x"}]),
        (None, []),
        ({}, []),
        ({"contents": None, "_meta": {}}, []),
        ({"contents": []}, []),
    ],
)
def test_contents_of_a_resource_become_a_list_of_objects(result: Any, contents: list[Any]) -> None:
    assert repair_contents(result) == contents
