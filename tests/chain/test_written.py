"""Structured content too large to be held: what the code gets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gatemini.backends.calls.large_messages import JsonText, Written, in_full, read_large
from gatemini.backends.wire import Frame, Piece, decode, encode
from gatemini.chain.values.tool_values import Value, to_value
from gatemini.model import Json, Tool
from gatemini.output.json.javascript_json import dumps
from gatemini.processes.workers.compute_process import LARGE_BYTES, compute_process

ROWS = [{"id": n, "name": f"row {n}", "ok": n % 2 == 0} for n in range(32_000)]


pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("process")]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def process() -> AsyncIterator[None]:
    async with compute_process():
        yield


async def received(result: Json) -> Json:
    """The result as it comes off a wire."""
    line = encode({"jsonrpc": "2.0", "id": 1, "result": result})
    assert len(line) > LARGE_BYTES
    [piece] = await read_large([line[:1000], line[1000:]])
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
async def test_a_large_value_that_an_sdk_wrapped_is_unwrapped(wrapped: Any) -> None:
    marked = {"type": "object", "x-fastmcp-wrap-result": True}
    result = await received({"content": [], "structuredContent": {"result": wrapped}})
    assert isinstance(result["structuredContent"], Written)
    made = value_of(result, marked)
    assert (made.text if made.written else dumps(made.value)) == dumps(wrapped)
    assert value_of(result).text == dumps({"result": wrapped}), "without a mark nothing is unwrapped"


@pytest.mark.parametrize(
    "each",
    [
        '{"b":1.0,"2":"12345678901234567890","1":1e-7,"é":"\\u00e9, 9007199254740993 \\\\"}',
        '{"2":"12345678901234567890","b":1,"half":"\\ud800"}',
    ],
    ids=["lazily", "carefully"],
)
async def test_a_large_text_that_is_json_keeps_its_spelling_but_for_spaces_and_long_integers(
    each: str,
) -> None:
    spaced = each.replace('"12345678901234567890"', " 12345678901234567890").replace(":", " : ")
    text = "[" + " , ".join([spaced] * 40_000) + "]"
    made = value_of(await received({"content": [{"type": "text", "text": text}]}))
    assert made.written
    assert made.text == f"[{','.join([each] * 40_000)}]"
    assert made.notes == ["40000 integers beyond 2^53 came as strings, so that no digit is lost"]


async def test_an_integer_deep_in_a_large_text_is_counted_once() -> None:
    inner = ",".join('{"a":{"n":12345678901234567890}}' for _ in range(40_000))
    made = value_of(await received({"content": [{"type": "text", "text": f'{{"rows":[{inner}]}}'}]}))
    assert made.written
    assert made.notes == ["40000 integers beyond 2^53 came as strings, so that no digit is lost"]


async def test_a_large_text_that_is_nearly_json_stays_a_text() -> None:
    text = dumps(ROWS)[:-1] + ",]"
    made = value_of(await received({"content": [{"type": "text", "text": text}]}))
    assert (made.value, made.written) == (text, False)


async def test_large_parts_of_a_message_are_what_reading_it_at_once_gives() -> None:
    text = "é" * 400_000
    tools = [{"name": f"tool {n}", "description": "word " * 40, "n": n} for n in range(5_000)]
    blocks = [
        {"type": "text", "text": text},
        {"type": "image", "data": "A" * 200_000, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a:b", "blob": "B" * 200_000}},
    ]
    for result in (
        {"content": blocks, "isError": False},
        {"tools": tools, "nextCursor": "x"},
        {"other": ROWS},
    ):
        assert await received(result) == result


@pytest.mark.parametrize(
    "line",
    [
        b'[{"jsonrpc":"2.0","id":1,"result":{"a":"%b"}},{"jsonrpc":"2.0","id":2,"result":{}}]'
        % (b"x" * 90_000),
        b'log: {"jsonrpc":"2.0","id":1,"result":{"a":"%b"}}' % (b"x" * 90_000),
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b\\ud800"}]}}'
        % (b"x" * 90_000),
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%b\xff"}]}}' % (b"x" * 90_000),
        b'{"jsonrpc":"2.0","id":1,"result":{"n":NaN,"m":12345678901234567890,"a":"%b"}}' % (b"x" * 90_000),
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"%b"' % (b"x" * 90_000),
        b'{"jsonrpc":"2.0","id":1,"result":{"a":%b}}' % (b"[" * 50_000 + b"]" * 50_000),
        b'{"no":"message","a":"%b"}' % (b"x" * 90_000),
    ],
    ids=["batch", "prefix", "half pair", "bytes", "constants", "cut", "deep", "junk"],
)
async def test_a_large_message_is_repaired_like_a_small_one(line: bytes) -> None:
    assert plain(await read_large([line])) == plain(decode(line))


def plain(pieces: list[Piece]) -> list[Any]:
    return [(piece.message, piece.notes) if isinstance(piece, Frame) else piece for piece in pieces]


async def test_a_large_text_keeps_its_own_spelling_beside_the_json_it_is() -> None:
    text = json.dumps(ROWS)
    result = await received({"content": [{"type": "text", "text": text}]})
    read = result["content"][0]["text"]
    assert isinstance(read, JsonText)
    assert (read.whole(), read.written) == (text, dumps(ROWS))
    assert in_full(result) == {"content": [{"type": "text", "text": text}]}
