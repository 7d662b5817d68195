"""A changed policy applies to the next call: of running chains, of resumed ones, and of calls that wait their turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.gate_server import STATE
from fixtures.running import answer, threaded_app
from gatemini.app import App
from gatemini.config.model.policy import PolicyConfig
from gatemini.policy.door import door_of

pytestmark = pytest.mark.anyio

GATE = {"gate": {"transport": "python", "module": "fixtures.gate_server:server"}}
CODE = """await gate.write({ key: "a", value: 1 });
await gate.read({ tag: "go" });
await gate.write({ key: "b", value: 2 });"""
LOOSE = PolicyConfig()
STRICT = PolicyConfig.model_validate(
    {"rules": [{"tools": ["gate.write"], "action": "deny", "reason": "new"}]}
)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    STATE.clear()
    async with threaded_app(tmp_path, GATE, policy={}) as running:
        yield running


async def interrupted(app: App, session: Any) -> str:
    """Run the code until it waits at the gate, then cancel it; return the id of the chain."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.call_meta_tool, "call_tool_chain", {"code": CODE}, session)
        await STATE.arrived("go")
        tasks.cancel_scope.cancel()
    STATE.arrivals.clear()
    return str(next(reversed(session.journals.kept)))


async def test_a_running_chain_is_judged_by_the_rules_of_now(app: App) -> None:
    answers: list[str] = []

    async def run() -> None:
        answers.append((await answer(app, CODE))[0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await STATE.arrived("go")
        assert app.chain.door is not None
        app.chain.door.set_policy(STRICT)
        STATE.open("go")
    assert "PolicyDenied: gate.write is denied by policy.rules[0]: new" in answers[0]
    assert STATE.written == [("a", 1)]


@pytest.mark.parametrize("first", [None, LOOSE])
async def test_a_policy_that_comes_while_a_chain_runs_holds_for_its_next_call(
    app: App, first: PolicyConfig | None
) -> None:
    app.chain.door = door_of(first, None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer, app, CODE)
        await STATE.arrived("go")
        app.chain.door = door_of(STRICT, app.chain.door)
        STATE.open("go")
    assert STATE.written == [("a", 1)]


async def test_a_resumed_chain_is_judged_by_the_rules_of_now(app: App) -> None:
    session = app.new_session()
    ident = await interrupted(app, session)
    app.chain.door = door_of(STRICT, app.chain.door)
    STATE.open("go")
    again = {"code": f"// @resume {ident}\n{CODE}"}
    result = await app.call_meta_tool("call_tool_chain", again, session)
    assert result["isError"]
    assert "gate.write is denied by policy.rules[0]: new" in result["content"][0]["text"]
    assert STATE.written == [("a", 1)]


async def test_a_resumed_chain_goes_on_where_the_rules_still_allow_it(app: App) -> None:
    session = app.new_session()
    ident = await interrupted(app, session)
    STATE.open("go")
    await app.call_meta_tool("call_tool_chain", {"code": f"// @resume {ident}\n{CODE}"}, session)
    assert STATE.written == [("a", 1), ("b", 2)]


async def test_a_file_that_changes_changes_the_rules_of_a_running_gateway(app: App) -> None:
    assert app.loaded.source is not None
    path = anyio.Path(app.loaded.source)
    plain = json.loads(await path.read_text())
    plain["policy"] = {"default": "deny"}
    await path.write_text(json.dumps(plain))
    with anyio.fail_after(60):
        while app.chain.door is None or app.chain.door.rules.config.default == "allow":  # noqa: ASYNC110 - when the file is seen
            await anyio.sleep(0.01)
    text, failed, _ = await answer(app, "await gate.write({ key: 'x', value: 0 })")
    assert failed
    assert "policy.default" in text
    plain["policy"] = {"default": "denied"}
    await path.write_text(json.dumps(plain))
    with anyio.fail_after(60):
        while app.reload_problem is None:  # noqa: ASYNC110 - when the file is seen
            await anyio.sleep(0.01)
    _, failed, _ = await answer(app, "await gate.write({ key: 'x', value: 0 })")
    assert failed, "a policy that cannot be read leaves the one before in force"
    assert STATE.written == []


async def test_a_reading_that_waited_its_turn_is_judged_again_when_the_rules_changed(tmp_path: Path) -> None:
    STATE.clear()
    code = """const [, read] = await Promise.allSettled([gate.read({ tag: "go" }), gate.readResource("x://y")]);
return read.reason.name;"""
    no_reading = {"rules": [{"tools": ["gate.readResource"], "action": "deny"}]}
    answers: list[str] = []
    async with threaded_app(tmp_path, GATE, policy={}, sandbox={"max_calls_in_flight": 1}) as app:

        async def run() -> None:
            answers.append((await answer(app, code))[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await STATE.arrived("go")
            await anyio.wait_all_tasks_blocked()
            assert app.chain.door is not None
            app.chain.door.set_policy(PolicyConfig.model_validate(no_reading))
            STATE.open("go")
    assert [text.splitlines()[0] for text in answers] == ["PolicyDenied"]


async def test_a_call_that_waited_its_turn_is_judged_again_when_the_rules_changed(tmp_path: Path) -> None:
    STATE.clear()
    code = 'await Promise.allSettled([gate.read({ tag: "go" }), gate.write({ key: "b", value: 2 })]);'
    async with (
        threaded_app(tmp_path, GATE, policy={}, sandbox={"max_calls_in_flight": 1}) as app,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(answer, app, code)
        await STATE.arrived("go")
        await anyio.wait_all_tasks_blocked()
        assert app.chain.door is not None
        app.chain.door.set_policy(STRICT)
        STATE.open("go")
    assert STATE.written == []
