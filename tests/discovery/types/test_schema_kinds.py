"""What a schema declares of results, for hints on what code reads of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gatemini.discovery.types.schema_kinds import declared_members

STATE = {"enum": ["open", "closed", None]}


@pytest.mark.parametrize(
    ("declared", "texts"),
    [
        (STATE, {"open", "closed"}),
        ({"const": "open"}, {"open"}),
        ({"anyOf": [STATE, {"const": "new"}, {"type": "null"}]}, {"open", "closed", "new"}),
        ({"$ref": "#/$defs/state"}, {"open", "closed"}),
        ({"oneOf": [STATE, {"type": "string"}]}, None),
        ({"enum": ["open", 1]}, None),
        ({"type": "string"}, None),
        ({"$ref": "#/$defs/none"}, None),
        (True, None),
    ],
)
def test_a_member_is_declared_with_the_texts_it_can_be(declared: Any, texts: set[str] | None) -> None:
    schema = {"items": {"properties": {"state": declared}}, "$defs": {"state": STATE}}
    assert declared_members(schema) == {"state": texts}


def test_members_of_one_name_have_the_texts_of_all() -> None:
    inner = {"properties": {"state": {"const": "new"}}}
    assert declared_members({"properties": {"state": STATE, "of": inner}}) == {
        "state": {"open", "closed", "new"},
        "of": None,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 500}},
            "properties": {"x": {"$ref": "#/$defs/a"}},
        },
        {
            "$defs": {"a": {"enum": [f"v{n}" for n in range(20_000)]}},
            "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(5_000)},
        },
        {"properties": {f"p{n}": {"type": "string"} for n in range(100_000)}},
    ],
    ids=["alternatives that name themselves", "many that share a long list", "too many"],
)
def test_no_schema_takes_longer_than_a_moment(schema: Any) -> None:
    began = time.thread_time()
    declared_members(schema)
    assert time.thread_time() - began < 0.5
