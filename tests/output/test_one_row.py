"""A document of one row is described without parsing all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from gatemini.output.digest import one_row, summarise
from gatemini.output.json import lazy_json as lazy

WIDE = {f"k{n}": None for n in range(61)}
DEEP = {"a": {"b": {"c": {"d": None}, "e": None}}}


@pytest.mark.parametrize("value", [DEEP, {"w": WIDE, "n": None}, {"l": [None], "x": 1.5, "s": "null"}, {}])
def test_one_row_is_described_as_if_it_were_parsed_whole(value: Any) -> None:
    raw = Raw(json.dumps(value, separators=(",", ":")).encode())
    whole, brief = summarise([raw]), summarise([Raw(lazy.written(one_row(raw)))])
    assert (brief.schema(), brief.digest()) == (whole.schema(), whole.digest())


def test_what_holds_no_null_is_not_carried_along() -> None:
    assert lazy.written(one_row(Raw(b'{"a":{"b":{"c":1}},"d":[1,2]}'))) == b'{"a":{},"d":[]}'
