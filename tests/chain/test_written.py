"""Structured content too large to be held: what the code gets, and what is said of its output schema."""

from __future__ import annotations

from typing import Any

import pytest

from gatemini.backends.wire import LARGE_BYTES, Frame, decode, encode
from gatemini.chain.jsvalue import dumps
from gatemini.chain.large import ON_THE_LOOP
from gatemini.chain.outputs import mismatch
from gatemini.chain.values import Value, to_value
from gatemini.model import Json, Tool
from gatemini.piecewise.reading import Written

ROWS = [{"id": n, "name": f"row {n}", "ok": n % 2 == 0} for n in range(12_000)]


def received(result: Json) -> Json:
    """The result as it comes off a wire."""
    line = encode({"jsonrpc": "2.0", "id": 1, "result": result})
    assert len(line) > LARGE_BYTES
    [piece] = decode(line)
    assert isinstance(piece, Frame)
    made: Json = piece.message["result"]
    return made


def tool(schema: Json | None = None) -> Tool:
    return Tool(
        backend="demo", name="rows", description="", input_schema={"type": "object"}, output_schema=schema
    )


def value_of(result: Json, schema: Json | None = None) -> Value:
    return to_value(result, tool(schema), save_blob=lambda data, kind: "res_00000000")


@pytest.mark.parametrize("wrapped", [ROWS, {"rows": ROWS, "total": 1}, "é\n" * LARGE_BYTES])
def test_a_large_value_that_an_sdk_wrapped_is_unwrapped(wrapped: Any) -> None:
    marked = {"type": "object", "x-fastmcp-wrap-result": True}
    result = received({"content": [], "structuredContent": {"result": wrapped}})
    assert isinstance(result["structuredContent"], Written)
    made = value_of(result, marked)
    assert (made.text if made.written else dumps(made.value)) == dumps(wrapped)
    assert value_of(result).text == dumps({"result": wrapped}), "without a mark nothing is unwrapped"


def test_a_large_text_that_is_json_becomes_the_text_javascript_writes() -> None:
    spaced = (
        "[" + " , ".join('{ "b" : 1.0, "2" : 12345678901234567890, "1": 1e-7 }' for _ in range(9_000)) + "]"
    )
    assert len(spaced) > ON_THE_LOOP
    made = value_of({"content": [{"type": "text", "text": spaced}]})
    each = '{"1":1e-7,"2":"12345678901234567890","b":1}'
    assert made.written
    assert made.text == f"[{','.join([each] * 9_000)}]"
    assert made.notes == ["9000 integers beyond 2^53 came as strings, so that no digit is lost"]


def test_an_integer_deep_in_a_large_text_is_counted_once() -> None:
    """A batch of many brackets, inside another container, is also read for how deep it nests."""
    inner = ",".join('{"a":{"n":12345678901234567890}}' for _ in range(9_000))
    made = value_of({"content": [{"type": "text", "text": f'{{"rows":[{inner}]}}'}]})
    assert made.written
    assert made.notes == ["9000 integers beyond 2^53 came as strings, so that no digit is lost"]


def test_a_large_text_that_is_nearly_json_stays_a_text() -> None:
    text = dumps(ROWS)[:-1] + ",]"
    made = value_of({"content": [{"type": "text", "text": text}]})
    assert (made.value, made.written) == (text, False)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"properties": {"rows": {"items": {"properties": {"id": {"type": "string"}}}}}}, "id"),
        ({"required": ["rows", "total"]}, "total"),
        ({"properties": {"rows": {"type": "object"}}}, "rows"),
        ({"properties": {"rows": {"maxItems": 5}}}, None),
        ({"properties": {"rows": {"minItems": 12_000}}}, None),
        ({"properties": {"rows": {"anyOf": [{"minItems": 12_000}, {"type": "null"}]}}}, None),
        ({"properties": {"rows": {"items": {"properties": {"id": {"type": "integer"}}}}}}, None),
    ],
)
def test_of_a_large_result_only_what_was_looked_at_is_said_to_break_its_schema(
    declared: Json, said: str | None
) -> None:
    result = received({"content": [], "structuredContent": {"rows": ROWS, "few": []}})
    assert isinstance(result["structuredContent"], Written)
    found = mismatch(tool({"type": "object", **declared}), result)
    assert (found is None) == (said is None)
    assert said is None or (found is not None and said in found)
