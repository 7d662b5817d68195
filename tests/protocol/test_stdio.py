"""After a line with any content, the next lines are served."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from fixtures.running import running_app
from gatemini.app import App
from gatemini.protocol.stdio.descriptors import Wire
from gatemini.protocol.stdio.shortcut import Shortcut
from gatemini.protocol.stdio.stdio_streams import serve_wire

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 60.0
AFTER = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with running_app(tmp_path_factory.mktemp("stdio")) as running:
        yield running


async def answers_to(line: bytes, app: App) -> tuple[list[Any], Any]:
    """Return the immediate answers to a line, and the message passed on for the line after it."""
    theirs_read, write = os.pipe()
    read, theirs_write = os.pipe()
    try:
        shortcut = Shortcut(app.surface(app.new_session()))
        os.write(write, line + b"\n" + json.dumps(AFTER).encode() + b"\n")
        async with serve_wire(Wire(theirs_read, theirs_write), shortcut) as (incoming, _):
            with anyio.fail_after(WAIT_SECONDS):
                following = await incoming.receive()
        os.close(theirs_write)
        theirs_write = -1
        said = os.read(read, 1 << 16).splitlines()
    finally:
        for fd in (theirs_read, write, read, theirs_write):
            if fd >= 0:
                os.close(fd)
    assert not isinstance(following, Exception)
    return [json.loads(text, parse_constant=_no_json) for text in said], following.message


def _no_json(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize(
    ("line", "ident"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"ping"', 7),
        (b'{"jsonrpc":"2.0","id":"a\\"b","method":5}', 'a"b'),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', 7),
        (b'[{"jsonrpc":"2.0","id":7,"method":5}, 5, []]', 7),
    ],
    ids=["cut off", "text", "a number", "in an array"],
)
async def test_a_line_that_is_no_message_is_answered_where_its_id_can_be_read(
    line: bytes, ident: Any, app: App
) -> None:
    said, following = await answers_to(line, app)
    assert [answer["id"] for answer in said] == ([] if ident is None else [ident])
    assert following.id == AFTER["id"]


@pytest.mark.parametrize("written", ["NaN", "null", "[1]", "1" * 5000, "1.5"])
async def test_a_request_with_an_invalid_id_is_refused(written: str, app: App) -> None:
    line = f'{{"jsonrpc":"2.0","id":{written},"method":"ping"}}'.encode()
    said, following = await answers_to(line, app)
    assert [answer.get("id") for answer in said] in ([], [None])
    assert following.id == AFTER["id"]


@pytest.mark.parametrize(
    "answer", ['"result":"x"', '"result":[]', '"error":"no"', '"result":{}', '"error":{"code":"x"}']
)
async def test_an_invalid_answer_ends_the_request_it_is_for(answer: str, app: App) -> None:
    version = "1.0" if answer == '"result":{}' else "2.0"
    said, following = await answers_to(f'{{"jsonrpc":"{version}","id":7,{answer}}}'.encode(), app)
    assert said == []
    assert following.id == 7
    assert "no valid JSON-RPC 2.0 response" in following.error.message


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b" \xef\xbb\xbf\t", b"\r"])
async def test_a_byte_order_mark_in_front_of_a_message_is_passed_over(before: bytes, app: App) -> None:
    said, first = await answers_to(before + b'{"jsonrpc":"2.0","id":1,"method":"ping"}', app)
    assert (said, first.id) == ([], 1)
