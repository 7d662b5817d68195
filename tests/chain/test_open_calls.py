"""Calls still open when the code ends: its value is kept, and their outcome is reported."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from fixtures.modes import MODES
from fixtures.running import DEMO, answer, running_app
from gatemini.app import App

pytestmark = pytest.mark.anyio

TIMEOUT_MS = 1500
"""Long enough for a loaded machine to get through code that waits for nothing but a timer of 20 ms."""


@pytest.fixture(params=MODES, scope="module")
async def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder = tmp_path_factory.mktemp("open")
    async with running_app(folder, DEMO, sandbox={"isolation": request.param}) as running:
        assert (await answer(running, "return [1];"))[0] == "[1]"  # a worker is there
        yield running


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "note"),
    [
        (
            "demo.sleep({ ms: 60000 }).then((r) => r.tag);\nreturn 'value';",
            "1 call was still open when the code ended: demo.sleep (line 1): no answer in time",
        ),
        (
            "demo.sleep({ ms: 60000 });\nreturn 'value';",
            "1 call was not awaited: demo.sleep (line 1): no answer in time",
        ),
    ],
)
async def test_the_value_of_code_that_ended_in_time_outlives_the_time_of_its_open_calls(
    app: App, code: str, note: str
) -> None:
    text, is_error, _ = await answer(app, code, timeout=TIMEOUT_MS)
    assert (text.splitlines(), is_error) == (["value", note], False)


NEVER = "demo.sleep({ ms: 600000 })"
LOST = "1 call was still open when the code ended: demo.sleep (line 1): cancelled, because it lost a race"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (f"return await Promise.race([{NEVER}, sleep(20).then(() => 'value')]);", ["value", LOST]),
        (
            f"const soon = (p) => Promise.race([p, sleep(20)]); await soon({NEVER});\nreturn 'value';",
            ["value", LOST],
        ),
        (
            f"return await Promise.race([{NEVER}, demo.echo({{}}).then(() => 'value')]);",
            ["value", LOST],
        ),
        (f"return await Promise.any([{NEVER}, sleep(20).then(() => 'value')]);", ["value", LOST]),
        (
            f"return await Promise.race([{NEVER}.then((r) => r.tag), sleep(20).then(() => 'value')]);",
            ["value", LOST],
        ),
        (
            f"const tag = async (call) => (await call()).tag;\nreturn await Promise.any([tag(() => {NEVER}), sleep(20).then(() => 'value')]);",
            ["value", LOST.replace("line 1", "line 2")],
        ),
    ],
)
async def test_a_reading_call_that_lost_a_race_is_cancelled(app: App, code: str, lines: list[str]) -> None:
    with anyio.fail_after(60):
        text, is_error, meta = await answer(app, code, timeout=300_000)
    assert (text.splitlines(), is_error) == (lines, False)
    assert meta["calls"][0]["outcome"] == "cancelled"


@pytest.mark.parametrize(
    "code",
    [
        "const p = demo.sleep({ ms: 300 }); p.then(() => demo.write({ key: 'late', value: 1 })); "
        "await Promise.race([p, sleep(20)]); return 1;",
        "await Promise.race([demo.write({ key: 'late', value: 1 }), sleep(0)]); return 1;",
        "demo.sleep({ ms: 300 }).then(() => demo.write({ key: 'late', value: 1 })); return 1;",
    ],
)
async def test_calls_with_an_effect_or_that_something_waits_for_are_not_cancelled(
    app: App, code: str
) -> None:
    text, is_error, meta = await answer(app, code)
    assert not is_error, text
    assert {call["outcome"] for call in meta["calls"]} == {"ok"}
    assert meta["calls"][-1]["tool"] == "demo.write"


async def test_a_raced_call_that_the_code_awaits_later_is_not_cancelled(app: App) -> None:
    code = "const p = demo.sleep({ ms: 100, tag: 'a' }); await Promise.race([p, sleep(1)]); return (await p).tag;"
    assert (await answer(app, code))[0] == "a"


async def test_calls_made_after_the_code_returned_are_reported_with_their_outcome(app: App) -> None:
    code = """[1, 2].forEach(async (n) => {
  const got = await demo.echo({ n });
  await demo.write({ key: `k${got.n}`, value: n });
  await demo.fail({ message: `no ${n}` });
});
return "returned";"""
    text, is_error, _ = await answer(app, code)
    assert not is_error
    assert text.splitlines()[:2] == [
        "returned",
        "6 calls were still open when the code ended: demo.fail (line 4): it failed: no 1; "
        "demo.fail (line 4): it failed: no 2; 2 times demo.echo (line 2): ok; 2 times demo.write (line 3): ok",
    ]


async def test_each_call_that_was_not_awaited_is_reported_with_its_line(app: App) -> None:
    code = """const r: number = 1;
if (demo.add({ a: r, b: 2 })) demo.fail({ message: "lost" });
const f = () => { demo.fail({ message: "lost" }) };
f();
return 1;"""
    text, _, _ = await answer(app, code)
    assert text.splitlines()[1] == (
        "3 calls were not awaited: demo.fail (line 2): it failed: lost; demo.fail (line 3): it failed: lost; "
        "demo.add (line 2): ok"
    )
