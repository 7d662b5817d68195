"""Arguments of the meta-tools that differ slightly from the schema are accepted with a note."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fixtures.running import answer, running_app
from gatemini.app import App
from gatemini.errors import InvalidRequest
from gatemini.protocol.tool_arguments import read_arguments

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("written", ["full", "Full", "FULL", " full "])
def test_an_option_is_accepted_in_any_case(written: str) -> None:
    asked, _ = read_arguments("tool_info", {"tool_name": "demo.echo", "detail": written})
    assert asked["detail"] == "full"


@pytest.mark.parametrize("code", [["return 1", "return 2"], [], 5, None])
def test_code_that_is_neither_text_nor_a_call_is_refused(code: Any) -> None:
    with pytest.raises(InvalidRequest, match="'code' must be a string"):
        read_arguments("call_tool_chain", {"code": code})


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with running_app(tmp_path_factory.mktemp("arguments")) as running:
        yield running


async def test_an_output_size_that_is_named_is_one_also_where_it_is_the_default(app: App) -> None:
    code = "return 'line\\n'.repeat(10000);"
    short, _, _ = await answer(app, code)
    whole, _, _ = await answer(app, code, max_output_size=200_000)
    assert len(short) < 20_000 < len(whole)


def test_an_unknown_option_is_answered_with_the_closest() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_arguments("tool_info", {"tool_name": "demo.echo", "detail": "ful"})
    assert refused.value.message.endswith("must be 'brief' or 'full', got 'ful'; did you mean 'full'?")


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ({"timeout": 0}, "timeout 0 is below 1; 1 was used"),
        ({"timeout": 9_000_000}, "timeout 9000000 is above 600000; 600000 was used"),
        ({"max_output_size": -5}, "max_output_size -5 is below 100; 100 was used"),
    ],
)
async def test_a_number_out_of_its_bounds_is_moved_and_the_answer_says_so(
    app: App, given: dict[str, Any], note: str
) -> None:
    for code in ("return 1 + 1;", "throw new Error('no');", json.dumps({"tool": "demo.stats"})):
        text, _, _ = await answer(app, code, **given)
        assert note in text, code
    text, _, _ = await answer(app, "return 1 + 1;", timeout=600_000)
    assert text == "2", "nothing is said of what is within"
