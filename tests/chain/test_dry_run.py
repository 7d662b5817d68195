"""`// @dry-run`: read-only calls are made, other calls are held and listed in order."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.running import answer, running_app
from gatemini.app import App
from gatemini.chain.replay.dry_run import SHOWN_EFFECTS, DryRun
from gatemini.config.model.schema import CompositeTool
from gatemini.model import Tool

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    store = CompositeTool(code="await demo.add({a: 1, b: 1}); return demo.write(args);")
    async with running_app(tmp_path) as running:
        running.set_composite_tools({"store": store})
        yield running


async def writes(app: App) -> int:
    text, failed, _ = await answer(app, "return (await demo.stats({})).writes;")
    assert not failed
    return int(text)


async def test_reads_are_made_writes_are_held_and_listed_in_order(app: App) -> None:
    code = """// @dry-run
const { sum } = await demo.add({ a: 1, b: 2 });
const first = await demo.write({ key: "a", value: sum });
const second = await demo.write({ key: "b", value: first });
return { sum, first, second };"""
    text, failed, meta = await answer(app, code)
    assert not failed
    value, *notes = text.splitlines()
    assert json.loads(value) == {"sum": 3, "first": {"dry_run": True}, "second": {"dry_run": True}}
    assert notes == [
        "dry run: 2 calls were held, in this order:",
        '1. would call demo.write with {"key":"a","value":3}',
        '2. would call demo.write with {"key":"b","value":{"dry_run":true}}',
    ]
    assert [c["tool"] for c in meta["calls"]] == ["demo.add", "demo.write", "demo.write"]
    assert await writes(app) == 0


@pytest.mark.parametrize(
    "code",
    [
        '{"tool": "demo.write", "arguments": {"key": "k", "value": 1}}',
        '[{"tool": "demo.write", "arguments": {"key": "k", "value": 1}}]',
        'await demo.write({ key: "k", value: 1 })',
        'const r = await demo.write.raw({ key: "k", value: 1 }); return [r];',
    ],
)
async def test_every_tier_holds_writes_back_in_a_dry_run(app: App, code: str) -> None:
    text, failed, _ = await answer(app, f"// @dry-run\n{code}")
    assert not failed
    assert '"dry_run":true' in text.splitlines()[0]
    assert '1. would call demo.write with {"key":"k","value":1}' in text
    assert await writes(app) == 0


async def test_effects_before_an_error_are_listed_with_it(app: App) -> None:
    text, failed, _ = await answer(
        app, '// @dry-run\nawait demo.write({key: "k", value: 1}); await demo.fail({message: "no"});'
    )
    assert failed
    assert "would call demo.write with" in text


async def test_a_call_with_wrong_arguments_fails_as_it_would_for_real(app: App) -> None:
    text, failed, _ = await answer(app, "// @dry-run\nreturn await demo.write({ key: 1 });")
    assert failed
    assert "value" in text
    assert "no call was held" in text


async def test_a_composite_tool_is_entered_and_its_own_writes_are_held(app: App) -> None:
    text, failed, _ = await answer(app, '// @dry-run\nreturn await composite.store({ key: "k", value: 2 });')
    assert not failed
    assert '1. would call demo.write with {"key":"k","value":2}' in text
    assert await writes(app) == 0


async def test_a_dry_run_cannot_be_taken_for_a_real_one_later(app: App) -> None:
    session = app.new_session()
    code = "const r = await demo.write({ key: 'k', value: 1 }); return [r];"
    first = await app.call_meta_tool("call_tool_chain", {"code": f"// @dry-run\n{code}"}, session)
    ident = first["_meta"]["gatemini/chain"]["id"]
    again = await app.call_meta_tool("call_tool_chain", {"code": f"// @resume {ident}\n{code}"}, session)
    assert again["isError"]
    assert "dry run" in again["content"][0]["text"]
    assert await writes(app) == 0


def test_a_long_list_is_cut_and_the_rest_counted() -> None:
    run = DryRun()
    for number in range(500):
        run.hold(Tool("demo", "write"), {"key": "k" * 100, "value": number}, ())
    text = run.listing()
    assert len(text) < SHOWN_EFFECTS * 1.1
    shown = sum(line.endswith("}") for line in text.splitlines())
    assert text.endswith(f"… and {500 - shown} more")
