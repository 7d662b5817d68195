"""How a difference between two definitions is said."""

from __future__ import annotations

from typing import Any

import pytest

from gatemini.policy.pins.words import MOST_CHANGES, changes_of


def schema(**properties: Any) -> dict[str, Any]:
    return {"inputSchema": {"type": "object", "properties": properties}}


CASES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"title": "a"}, {"title": "a"}, []),
    ({"description": "one"}, {"description": "two"}, ["description was “one”, is “two”"]),
    ({}, {"title": "T"}, ["title is new: “T”"]),
    ({"title": "T"}, {}, ["title is gone, was “T”"]),
    (
        schema(limit={"default": 10}),
        schema(limit={"default": 1000}),
        ["parameter limit: default was 10, is 1000"],
    ),
    (schema(), schema(to={"type": "string"}), ['parameter to is new: {"type":"string"}']),
    (
        schema(o={"properties": {"x": {"type": "string"}}}),
        schema(o={"properties": {"x": {"type": "number"}}}),
        ["parameter x of parameter o: type was “string”, is “number”"],
    ),
    (
        {"outputSchema": {"properties": {"x": {"type": "string"}}}},
        {"outputSchema": {"properties": {"x": {"type": "null"}}}},
        ["parameter x of result: type was “string”, is “null”"],
    ),
    (
        {"inputSchema": {"required": ["a"]}},
        {"inputSchema": {"required": ["b"]}},
        ["required no longer has “a”", "required has “b” as well"],
    ),
    ({"annotations": {"h": True}}, {"annotations": {"h": 1}}, ["annotations: h was true, is 1"]),
]


@pytest.mark.parametrize(("old", "new", "said"), CASES)
def test_a_change_is_said_with_its_place_and_both_values(
    old: dict[str, Any], new: dict[str, Any], said: list[str]
) -> None:
    assert changes_of(old, new) == said


def test_a_long_text_is_shown_from_where_it_differs_and_with_nothing_hidden() -> None:
    long = "word " * 200
    (said,) = changes_of({"description": long + "end"}, {"description": long + "\u202eother"})
    assert "end”" in said
    assert "\\u202eother”" in said
    assert len(said) < 200


def test_many_changes_are_counted() -> None:
    said = changes_of(schema(**{f"p{n}": {} for n in range(30)}), schema())
    assert len(said) == MOST_CHANGES + 1
    assert said[-1] == "and 18 more"
