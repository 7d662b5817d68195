"""A call that was admitted and then waited for its server is looked at once more right before it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.gate_server import STATE
from fixtures.running import answer, threaded_app, until
from gatemini.config.model.policy import PolicyConfig
from gatemini.policy.facts import CallFacts
from policy.pins.test_rug_pulls import Server

pytestmark = pytest.mark.anyio

ONE_AT_A_TIME = {
    "gate": {"transport": "python", "module": "fixtures.gate_server:server", "max_concurrent_calls": 1}
}


@pytest.fixture(autouse=True)
def _clear() -> None:
    STATE.clear()


@pytest.mark.parametrize("first", [None, {}])
@pytest.mark.parametrize(
    ("action", "said"), [("deny", "by policy.rules[0]: new"), ("ask", "it must be approved now")]
)
@pytest.mark.parametrize("waiting", ['gate.write({ key: "b" })', 'gate.readResource("x://y")'])
async def test_rules_that_change_while_a_call_waits_for_its_server_hold_for_it(
    tmp_path: Path, first: dict[str, Any] | None, action: str, said: str, waiting: str
) -> None:
    rules = [{"tools": ["gate.write", "gate.readResource"], "action": action, "reason": "new"}]
    code = f"""const [, late] = await Promise.allSettled([gate.read({{ tag: "go" }}), {waiting}]);
return late.reason.name + " " + late.reason.message;"""
    answers: list[str] = []
    top = {} if first is None else {"policy": first}
    async with threaded_app(tmp_path, ONE_AT_A_TIME, **top) as app:

        async def run() -> None:
            answers.append((await answer(app, code))[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await STATE.arrived("go")
            await anyio.wait_all_tasks_blocked()
            app.chain.door = app.new_door(PolicyConfig.model_validate({"rules": rules}), app.chain.door)
            STATE.open("go")
    assert answers[0].startswith("PolicyDenied")
    assert said in answers[0]
    assert STATE.written == []


ALLOWS: dict[str, Any] = {"rules": [{"tools": ["gate.*"], "action": "allow"}]}
ASKS: dict[str, Any] = {"rules": [{"tools": ["gate.write"], "action": "ask"}]}


@pytest.mark.parametrize(("first", "then"), [(ALLOWS, ASKS), ({}, {"default": "ask"})])
async def test_a_rule_that_asks_now_in_the_place_of_one_that_allowed_holds_for_a_waiting_call(
    tmp_path: Path, first: dict[str, Any], then: dict[str, Any]
) -> None:
    code = 'await Promise.allSettled([gate.read({ tag: "go" }), gate.write({ key: "b" })]);'
    async with threaded_app(tmp_path, ONE_AT_A_TIME, policy=first) as app, anyio.create_task_group() as tasks:
        tasks.start_soon(answer, app, code)
        await STATE.arrived("go")
        await anyio.wait_all_tasks_blocked()
        app.chain.door = app.new_door(PolicyConfig.model_validate(then), app.chain.door)
        STATE.open("go")
    assert STATE.written == []


async def test_rules_that_change_while_limits_are_looked_up_elsewhere_hold_for_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store that replicas share takes its time: the policy that decided is that of before."""
    rules = [{"tools": ["gate.write"], "action": "deny", "reason": "new"}]
    async with threaded_app(tmp_path, ONE_AT_A_TIME, policy={}) as app:
        door = app.chain.door
        assert door is not None

        async def slow(_: CallFacts) -> None:
            door.set_policy(PolicyConfig.model_validate({"rules": rules}))

        monkeypatch.setattr(door, "_limit", slow)
        text, failed, _ = await answer(app, 'await gate.write({ key: "b", value: 1 })')
    assert failed
    assert "PolicyDenied: gate.write is denied by policy.rules[0]: new" in text
    assert STATE.written == []


async def test_rules_that_change_and_still_allow_let_a_waiting_call_pass(tmp_path: Path) -> None:
    budget = {"budgets": {"calls_per_session": 2}}
    rules = [{"tools": ["gate.write"], "action": "allow"}]
    async with (
        threaded_app(tmp_path, ONE_AT_A_TIME, policy=budget) as app,
        anyio.create_task_group() as tasks,
    ):
        code = 'await Promise.all([gate.read({ tag: "go" }), gate.write({ key: "b", value: 1 })]);'
        tasks.start_soon(answer, app, code)
        await STATE.arrived("go")
        await anyio.wait_all_tasks_blocked()
        assert app.chain.door is not None
        app.chain.door.set_policy(PolicyConfig.model_validate({**budget, "default": "deny", "rules": rules}))
        STATE.open("go")
    assert STATE.written == [("b", 1)], "its own place in the budget is not taken twice"


def lazy(folder: Path) -> Server:
    """A server that starts at the first call: until then it has the tools of the last run."""
    server = Server(folder)
    server.backends["files"]["lazy"] = True
    return server


HINTS = {"trust_annotations": ["files"], "rules": [{"annotations": {"readOnly": True}, "action": "allow"}]}


async def test_hints_of_the_cache_do_not_admit_a_tool_that_has_others_now(tmp_path: Path) -> None:
    """The server starts at the first call, which is decided about by what the server listed the last time."""
    server = lazy(tmp_path)
    policy = {**HINTS, "default": "deny"}
    async with threaded_app(tmp_path, server.backends, policy=policy) as app:
        text, failed, _ = await answer(app, 'await files.read({ path: "a" })')
        assert not failed, text
    server.said["tools"][0]["annotations"] = {"readOnlyHint": False}
    server.write()
    async with threaded_app(tmp_path, server.backends, policy=policy) as app:
        text, failed, _ = await answer(app, 'await files.read({ path: "b" })')
        assert failed
        assert "PolicyDenied: files.read is denied by policy.default" in text
    assert server.calls == ["tool read"]


async def test_a_tool_that_became_open_world_while_it_waited_makes_the_session_untrusted(
    tmp_path: Path,
) -> None:
    server = lazy(tmp_path)
    server.said["tools"][0]["annotations"] = {"readOnlyHint": True, "openWorldHint": False}
    server.write()
    policy = {"trust_annotations": ["files"], "flow": "deny"}
    async with threaded_app(tmp_path, server.backends, policy=policy) as app:
        await answer(app, 'await files.read({ path: "a" })')
    del server.said["tools"][0]["annotations"]["openWorldHint"]
    server.write()
    async with threaded_app(tmp_path, server.backends, policy=policy) as app:
        session = app.new_session()
        await app.call_meta_tool("call_tool_chain", {"code": 'await files.read({ path: "b" })'}, session)
        assert app.chain.door is not None
        assert app.chain.door.flow.held(session.id).names() == ("untrusted",)


async def test_a_tool_that_became_open_world_while_it_waited_gets_nothing_private(tmp_path: Path) -> None:
    server = lazy(tmp_path)
    server.said["tools"][0]["annotations"] = {"readOnlyHint": True, "openWorldHint": False}
    server.write()
    policy = {"trust_annotations": ["*"], "flow": "deny", "labels": {"private": ["gate.read"]}}
    backends = {**ONE_AT_A_TIME, **server.backends}
    STATE.open("go")
    async with threaded_app(tmp_path, backends, policy=policy) as app:
        await answer(app, 'await files.read({ path: "a" })')
    del server.said["tools"][0]["annotations"]["openWorldHint"]
    server.write()
    policy["override_annotations"] = {"gate.*": {"openWorld": False}}
    async with threaded_app(tmp_path, backends, policy=policy) as app:
        text, failed, _ = await answer(
            app, 'await gate.read({ tag: "go" }); await files.read({ path: "b" });'
        )
    assert failed
    assert "PolicyDenied: files.read is denied by policy.flow: it reaches the open world" in text
    assert server.calls == ["tool read"]


async def test_a_server_that_is_another_one_after_its_start_is_not_read_from(tmp_path: Path) -> None:
    server = lazy(tmp_path)
    async with threaded_app(tmp_path, server.backends, policy={"pins": "warn"}) as app:
        await answer(app, 'await files.read({ path: "a" })')
        await until(lambda: app.pins.lock.backends.get("files") is not None)
        await until(lambda: app.pins.lock.backends["files"].prompts is not None)
    server.said["serverInfo"]["version"] = "2.0.0"
    server.write()
    async with threaded_app(tmp_path, server.backends, policy={"pins": "enforce"}) as app:
        text, failed, _ = await answer(app, 'return await files.readResource("x://y");')
        assert failed
        assert "PolicyDenied" in text
        assert "version" in text
    assert server.calls == ["tool read"]


async def test_a_server_that_was_never_approved_is_not_read_from_as_it_starts(tmp_path: Path) -> None:
    """At its first start nothing is known of it that could be compared until it has listed."""
    server = lazy(tmp_path)
    async with threaded_app(tmp_path, server.backends, policy={"pins": "enforce"}) as app:
        for code in ('return await files.readResource("x://y");', 'return await files.getPrompt("review");'):
            text, failed, _ = await answer(app, code)
            assert failed
            assert "PolicyDenied" in text
            assert "never been approved" in text
    assert server.calls == []


async def test_a_tool_that_its_server_lists_no_more_is_not_called_where_pins_are_enforced(
    tmp_path: Path,
) -> None:
    server = lazy(tmp_path)
    async with threaded_app(tmp_path, server.backends, policy={"pins": "warn"}) as app:
        await answer(app, 'await files.read({ path: "a" })')
        await until(lambda: app.pins.lock.backends.get("files") is not None)
    del server.said["tools"][0]
    server.write()
    async with threaded_app(tmp_path, server.backends, policy={"pins": "enforce"}) as app:
        text, failed, _ = await answer(app, 'await files.read({ path: "b" })')
        assert failed
        assert "its server does not list this tool any more" in text
    assert server.calls == ["tool read"]


BROKEN = {
    "gate": {**ONE_AT_A_TIME["gate"]},
    "broken": {"command": "/nonexistent/program", "fallback_chain": ["gate"]},
}


async def test_a_policy_that_comes_while_a_fallback_is_sought_holds_for_it(tmp_path: Path) -> None:
    rules = [{"tools": ["gate.write"], "action": "deny"}]
    code = 'await Promise.allSettled([gate.read({ tag: "go" }), broken.write({ key: "b" })]);'
    async with threaded_app(tmp_path, BROKEN) as app, anyio.create_task_group() as tasks:
        tasks.start_soon(answer, app, code)
        await STATE.arrived("go")
        await anyio.wait_all_tasks_blocked()
        app.chain.door = app.new_door(PolicyConfig.model_validate({"rules": rules}), None)
        STATE.open("go")
    assert STATE.written == []
