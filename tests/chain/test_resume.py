"""`// @resume`: finished calls are not made again, and an unknown outcome refuses the resumption with its reason."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from fixtures.gate_server import STATE
from fixtures.running import running_app
from gatemini.app import App
from gatemini.config.model.schema import CompositeTool
from gatemini.protocol.sessions.client_session import Session

pytestmark = pytest.mark.anyio

GATE = {"gate": {"transport": "python", "module": "fixtures.gate_server:server"}}
TWO_WRITES = """const a = await gate.write({ key: "a", value: 1 });
const seen = await gate.read({ tag: "go" });
const b = await gate.write({ key: "b", value: seen.tag });
return [a.n, b.n];"""
NO_TIME = 2_500
"""Milliseconds of a chain that times out: enough to reach the gate on a busy machine."""


@dataclass
class Run:
    """One session of the gateway, and its chains."""

    app: App
    session: Session

    async def __call__(self, code: str, session: Session | None = None, **more: Any) -> str:
        """Return all text of the answer; it starts with the error if the chain failed."""
        arguments = {"code": code, **more}
        result = await self.app.call_meta_tool("call_tool_chain", arguments, session or self.session)
        return "\n".join(block["text"] for block in result["content"])

    async def value(self, code: str) -> Any:
        return json.loads((await self(code)).splitlines()[0])

    async def cancelled(self, code: str, *gates: str, session: Session | None = None) -> str:
        """Run the code until calls wait at these gates, then cancel it; return the chain's id."""
        owner = session or self.session
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self, code, owner)
            for gate in gates:
                await STATE.arrived(gate)
            tasks.cancel_scope.cancel()
        STATE.arrivals.clear()
        return next(reversed(owner.journals.kept))


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    async with running_app(tmp_path_factory.mktemp("resume"), GATE) as running:
        yield running


@pytest.fixture
async def run(app: App) -> Run:
    STATE.clear()
    app.set_composite_tools({})
    return Run(app, app.new_session())


# -- what interrupts -------------------------------------------------------------------------------------


async def test_a_timeout_names_the_id_and_the_rest_is_made_without_repeating_a_write(run: Run) -> None:
    text = await run(TWO_WRITES, timeout=NO_TIME)
    ident = next(iter(run.session.journals.kept))
    assert f"send the same code with `// @resume {ident}` as its first line" in text
    assert "1 call that finished is answered from its journal, not made again" in text
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{TWO_WRITES}") == [1, 2]
    assert STATE.written == [("a", 1), ("b", "go")]
    assert STATE.calls == ["write", "read", "read", "write"]


async def test_a_cancelled_chain_is_named_once_by_the_next_answer(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    text = await run("return 1;")
    assert (
        f"an earlier chain was cancelled: to go on where it stopped, send the same code with `// @resume {ident}`"
        in text
    )
    assert "@resume" not in await run("return 2;")
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{TWO_WRITES}") == [1, 2]
    assert STATE.written == [("a", 1), ("b", "go")]


@pytest.mark.parametrize(
    "end", ["const deep = (n) => deep(n + 1) + 1;\nreturn deep(0);", 'throw new Error("my own");']
)
async def test_an_error_that_the_same_code_would_meet_again_is_no_interruption(run: Run, end: str) -> None:
    text = await run(f'await gate.write({{ key: "a" }});\n{end}')
    assert "Error" in text
    assert "@resume" not in text


# -- what is given again -----------------------------------------------------------------------------------


async def test_the_journal_is_used_only_on_request(run: Run) -> None:
    await run.cancelled(TWO_WRITES, "go")
    STATE.open("go")
    assert await run.value(TWO_WRITES) == [2, 3]


async def test_a_chain_can_be_resumed_again_after_a_second_interruption(run: Run) -> None:
    code = """for (const key of ["a", "b", "c"]) {
  await gate.write({ key });
  await gate.read({ tag: key });
}
return ["end"];"""
    ident = await run.cancelled(code, "a")
    for now, following in (("a", "b"), ("b", "c")):
        STATE.open(now)
        assert await run.cancelled(f"// @resume {ident}\n{code}", following) == ident
    STATE.open("c")
    assert await run.value(f"// @resume {ident}\n{code}") == ["end"]
    assert [key for key, _ in STATE.written] == ["a", "b", "c"]


async def test_a_finished_chain_gives_its_answer_again_without_a_call(run: Run) -> None:
    code = 'const r = await gate.write({ key: "a" });\nreturn [r.n, Math.random(), crypto.randomUUID()];'
    first = await run.value(code)
    ident = next(iter(run.session.journals.kept))
    assert await run.value(f"// @resume {ident}\n{code}") == first
    assert STATE.calls == ["write"]


async def test_a_resumed_chain_draws_the_same_random_numbers(run: Run) -> None:
    code = """const id = crypto.randomUUID();
await gate.write({ key: id, value: Math.random() });
await gate.read({ tag: "go" });
await gate.write({ key: id, value: Math.random() });
return [id];"""
    ident = await run.cancelled(code, "go")
    STATE.open("go")
    (name,) = await run.value(f"// @resume {ident}\n{code}")
    assert [key for key, _ in STATE.written] == [name, name]


async def test_a_resumed_chain_reads_the_same_times(run: Run) -> None:
    code = """const start = Date.now();
await gate.write({ key: new Date(start).toISOString(), value: performance.now() });
await gate.read({ tag: "go" });
await gate.write({ key: "later", value: Date.now() >= start });
return [start];"""
    ident = await run.cancelled(code, "go")
    (first,) = STATE.written
    STATE.open("go")
    (start,) = await run.value(f"// @resume {ident}\n{code}")
    assert STATE.written == [first, ("later", True)]
    assert first[0].startswith(datetime.fromtimestamp(start / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S"))


async def test_timers_fire_in_the_same_order_in_a_resumed_chain(run: Run) -> None:
    code = """const seen = [];
const late = sleep(60).then(() => { seen.push("timer"); return gate.write({ key: "timer", value: Date.now() }); });
await Promise.race([gate.read({ tag: "never" }), late]);
await gate.write({ key: "after", value: seen.length });
await sleep(5);
await gate.read({ tag: "go" });
return seen;"""
    ident = await run.cancelled(code, "go")
    STATE.open("go", "never")
    assert await run.value(f"// @resume {ident}\n{code}") == ["timer"]
    assert [key for key, _ in STATE.written] == ["timer", "after"]


async def test_a_refused_resume_leaves_the_journal_unchanged(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    trace = run.session.journals.kept[ident].trace
    trace.issue(9, "tool", "gate", "write", b'{"key":"z"}', raw=False)
    for _ in range(2):
        await refused(run, ident, TWO_WRITES, 'gate.write({"key":"z"}) was called and now is not')
    del trace.entries[9]
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{TWO_WRITES}") == [1, 2]


async def test_concurrent_calls_come_back_in_the_order_in_which_they_had_finished(run: Run) -> None:
    code = """const order = [];
const work = async (tag) => {
  await gate.read({ tag });
  order.push(tag);
  await gate.write({ key: tag, value: order.length });
};
await Promise.all([work("slow"), work("fast"), work("middle")]);
await gate.read({ tag: "end" });
return order;"""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, code)
        for count, gate in enumerate(("fast", "middle", "slow"), 1):
            await STATE.arrived(gate)
            STATE.open(gate)
            with anyio.fail_after(60):
                while len(STATE.written) < count:  # noqa: ASYNC110 - nothing says so
                    await anyio.sleep(0.005)
        await STATE.arrived("end")
        tasks.cancel_scope.cancel()
    ident = next(iter(run.session.journals.kept))
    STATE.open("end")
    assert await run.value(f"// @resume {ident}\n{code}") == ["fast", "middle", "slow"]
    assert STATE.written == [("fast", 1), ("middle", 2), ("slow", 3)]


async def test_a_recorded_answer_is_reused_even_if_the_code_never_read_it(run: Run) -> None:
    # Both calls are answered; the code is interrupted before it continues.
    code = """const [a, b] = await Promise.all([gate.write({ key: "a" }), gate.write({ key: "b" })]);
await gate.read({ tag: "go" });
return [a.n + b.n];"""
    ident = await run.cancelled(code, "go")
    trace = run.session.journals.kept[ident].trace
    trace.steps.clear()  # as if the chain had been interrupted with the answers in flight
    for entry in trace.entries.values():
        entry.step = 0
    del trace.entries[3]
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{code}") == [3]
    assert STATE.calls.count("write") == 2


async def test_a_call_that_failed_and_was_caught_stays_failed(run: Run) -> None:
    code = """let said = "";
try { await gate.fail({}); } catch (e) { said = e.message; }
await gate.write({ key: "k", value: said });
await gate.read({ tag: "go" });
return [said];"""
    ident = await run.cancelled(code, "go")
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{code}") == ["no such row"]
    assert STATE.calls == ["fail", "write", "read", "read"]


async def test_results_saved_before_keep_their_handle(run: Run) -> None:
    code = """const saved = await results.save([1, 2, 3]);
await gate.write({ key: "handle", value: saved.handle });
await gate.read({ tag: "go" });
return [(await results.load(saved.handle)).length];"""
    ident = await run.cancelled(code, "go")
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{code}") == [3]
    assert len(STATE.written) == 1
    assert len(run.session.results.list()) == 1


async def test_a_large_result_read_again_is_not_kept_twice(run: Run) -> None:
    code = """const saved = await results.save(Array.from({ length: 40000 }, (_, i) => i));
const all = await results.load(saved.handle);
await gate.write({ key: "n", value: all.length });
await gate.read({ tag: "go" });
return [all.length];"""
    ident = await run.cancelled(code, "go")
    assert run.session.journals.kept[ident].size < 100_000
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{code}") == [40000]
    assert STATE.written == [("n", 40000)]


async def test_a_chain_that_read_a_result_which_is_gone_is_not_resumed(run: Run) -> None:
    handle = run.session.results.save(list(range(40_000)))
    code = f"""const all = await results.load("{handle}").catch(() => []);
await gate.read({{ tag: "go" }});
await gate.write({{ key: "n", value: all.length }});"""
    ident = await run.cancelled(code, "go")
    run.session.results.drop(handle)
    STATE.open("go")
    assert "read a result that is gone" in await run(f"// @resume {ident}\n{code}")
    assert STATE.written == []


@pytest.mark.parametrize(
    "code", ['{"tool": "gate.put", "arguments": {"tag": "go"}}', 'await gate.put({ tag: "go" })']
)
async def test_a_single_call_is_resumed_in_the_cheap_tiers_too(run: Run, code: str) -> None:
    ident = await run.cancelled(code, "go")
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{code}") == {"tag": "go"}
    assert await run.value(f"// @resume {ident}\n{code}") == {"tag": "go"}
    assert STATE.calls == ["put", "put"]


async def test_a_resumed_batch_sends_only_calls_without_an_answer(run: Run) -> None:
    calls = [
        {"tool": "gate.write", "arguments": {"key": "a"}},
        {"tool": "gate.read", "arguments": {"tag": "go"}},
    ]
    code = json.dumps(calls)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, code)
        await STATE.arrived("go")
        with anyio.fail_after(60):
            while not next(iter(run.session.journals.running.values())).trace.entries[1].answered:  # noqa: ASYNC110 - nothing says so
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
    ident = next(iter(run.session.journals.kept))
    STATE.open("go")
    answers = await run.value(f"// @resume {ident}\n{code}")
    assert [entry["ok"] for entry in answers] == [True, True]
    assert STATE.calls == ["write", "read", "read"]


async def test_calls_from_the_journal_are_marked(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    STATE.open("go")
    result = await run.app.call_meta_tool(
        "call_tool_chain", {"code": f"// @resume {ident}\n{TWO_WRITES}"}, run.session
    )
    meta = result["_meta"]["gatemini/chain"]
    assert meta["id"] == ident
    assert [c["outcome"] for c in meta["calls"]] == ["ok (from the journal)", "ok", "ok"]


# -- composite tools ---------------------------------------------------------------------------------------

INNER = """const first = await gate.write({ key: "inner", value: args.n });
await gate.read({ tag: "go" });
await gate.write({ key: "late" });
return first.n;"""


async def test_a_composite_tool_is_resumed_in_its_middle(run: Run) -> None:
    run.app.set_composite_tools({"twice": CompositeTool(code=INNER)})
    code = 'await gate.write({ key: "outer" });\nreturn [await composite.twice({ n: 5 })];'
    ident = await run.cancelled(code, "go")
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{code}") == [2]
    assert [key for key, _ in STATE.written] == ["outer", "inner", "late"]


async def test_a_composite_tool_is_not_resumed_after_its_code_changed(run: Run) -> None:
    run.app.set_composite_tools({"twice": CompositeTool(code=INNER)})
    code = "return [await composite.twice({ n: 5 })];"
    ident = await run.cancelled(code, "go")
    run.app.set_composite_tools({"twice": CompositeTool(code=INNER + " // changed")})
    STATE.open("go")
    await refused(run, ident, code, "the code of composite.twice has changed")


async def test_an_unanswered_write_of_a_composite_tool_is_not_repeated(run: Run) -> None:
    run.app.set_composite_tools({"once": CompositeTool(code='return gate.act({ tag: "go" });')})
    code = "return [await composite.once({})];"
    ident = await run.cancelled(code, "go")
    await refused(run, ident, code, 'gate.act({"tag":"go"}) was sent and never answered')


# -- refusals ----------------------------------------------------------------------------------------------


async def refused(run: Run, ident: str, code: str, why: str, session: Session | None = None) -> None:
    """Check that resuming is refused with this reason and makes no call."""
    before = len(STATE.calls)
    text = await run(f"// @resume {ident}\n{code}", session)
    assert text.startswith("ResumeRefused"), text
    assert why in text
    assert len(STATE.calls) == before


async def test_resuming_with_other_code_is_refused(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    await refused(run, ident, TWO_WRITES + "\n// one more line", "this is not the code it ran")


async def test_arguments_that_no_longer_match_are_refused_before_anything_is_made(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    STATE.open("go")
    entry = run.session.journals.kept[ident].trace.entries[1]
    kept, entry.digest = entry.digest, b"of other arguments"
    await refused(
        run, ident, TWO_WRITES, 'call 1 was gate.write({"key":"a","value":1}) and is now gate.write('
    )
    entry.digest = kept  # a refusal changes nothing
    assert await run.value(f"// @resume {ident}\n{TWO_WRITES}") == [1, 2]


async def test_resuming_with_a_call_at_another_point_is_refused(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    del run.session.journals.kept[ident].trace.entries[2]
    trace = run.session.journals.kept[ident].trace
    trace.steps.append(())
    await refused(run, ident, TWO_WRITES, 'gate.read({"tag":"go"}) was not called at this point')


async def test_resuming_from_another_session_is_refused(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    await refused(run, ident, TWO_WRITES, "belongs to another session", run.app.new_session())


async def test_an_unknown_id_is_refused_and_says_what_may_have_happened(run: Run) -> None:
    await refused(run, "chain_00000000", TWO_WRITES, "the gateway was restarted since")


@pytest.mark.parametrize(
    "code", ['{"tool": "gate.act", "arguments": {"tag": "go"}}', 'await gate.act({ tag: "go" })']
)
async def test_a_single_write_without_an_answer_is_not_repeated(run: Run, code: str) -> None:
    ident = await run.cancelled(code, "go")
    STATE.open("go")
    await refused(run, ident, code, "neither read-only nor idempotent")


async def test_a_write_in_a_script_without_an_answer_is_not_repeated(run: Run) -> None:
    code = 'await gate.write({ key: "a" });\nawait gate.act({ tag: "go" });\nreturn 1;'
    text = await run(code, timeout=NO_TIME)
    ident = next(iter(run.session.journals.kept))
    assert f"chain {ident} cannot be resumed: gate.act" in text
    assert "find out whether it happened" in text
    STATE.open("go")
    await refused(run, ident, code, 'gate.act({"tag":"go"}) was sent and never answered')


async def test_a_write_without_await_is_not_sent_again(run: Run) -> None:
    code = 'gate.act({ tag: "go" });\nreturn 1;'
    text = await run(code, timeout=NO_TIME)
    assert (
        text
        == "1\n1 call was not awaited: gate.act (line 1): no answer in time; whether it took effect is not known"
    )
    STATE.open("go")
    ident = next(iter(run.session.journals.kept))
    await refused(run, ident, code, 'gate.act({"tag":"go"}) was sent and never answered')
    assert STATE.calls == ["act"]


async def test_finished_calls_of_composite_tools_are_counted(run: Run) -> None:
    run.app.set_composite_tools({"pair": CompositeTool(code='await gate.write({ key: "a" });\nreturn 1;')})
    code = 'await composite.pair({});\nawait gate.read({ tag: "go" });\nreturn 2;'
    text = await run(code, timeout=NO_TIME)
    assert "(1 call that finished is answered from its journal, not made again)" in text


async def test_an_idempotent_call_without_an_answer_is_repeated(run: Run) -> None:
    code = 'await gate.write({ key: "a" });\nreturn [(await gate.put({ tag: "go" })).tag];'
    ident = await run.cancelled(code, "go")
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{code}") == ["go"]
    assert STATE.calls == ["write", "put", "put"]


async def test_a_running_chain_cannot_be_resumed_beside_itself(run: Run) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, TWO_WRITES)
        await STATE.arrived("go")
        await refused(run, next(iter(run.session.journals.running)), TWO_WRITES, "it is still running")
        tasks.cancel_scope.cancel()


# -- and a changed configuration ------------------------------------------------------------------------------


async def test_a_reload_does_not_change_the_journal(run: Run) -> None:
    ident = await run.cancelled(TWO_WRITES, "go")
    loaded = run.app.loaded
    sandbox = loaded.config.sandbox.model_copy(update={"memory_mb": loaded.config.sandbox.memory_mb * 2})
    await run.app.reconfigure(replace(loaded, config=loaded.config.model_copy(update={"sandbox": sandbox})))
    STATE.open("go")
    assert await run.value(f"// @resume {ident}\n{TWO_WRITES}") == [1, 2]
    assert STATE.calls == ["write", "read", "read", "write"]


async def test_resuming_after_a_backend_was_removed_sends_nothing_and_keeps_its_earlier_answers(
    run: Run,
) -> None:
    code = 'const a = await gate.write({ key: "a" });\nconst r = await gate.read({ tag: "go" });\nreturn [a.n, r];'
    ident = await run.cancelled(code, "go")
    loaded = run.app.loaded
    await run.app.reconfigure(replace(loaded, config=loaded.config.model_copy(update={"backends": {}})))
    try:
        text = await run(f"// @resume {ident}\n{code}")
        assert "gate" in text.splitlines()[0]
        assert "1. gate.write: ok (from the journal)" in text
    finally:
        await run.app.reconfigure(loaded)
        assert await run.app.settled(60)
    assert STATE.calls == ["write", "read"]
