"""Calls to real processes: answers, crashes, silence, starts that fail, and what the errors say."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench, odd_config
from gatemini.backends.calls.callers import Caller
from gatemini.backends.status import State
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendNotFound, BackendProtocol, BackendStopped, BackendTimeout

pytestmark = pytest.mark.anyio


async def test_a_call_reaches_the_process_and_its_answer_comes_back(bench: Bench) -> None:
    await bench.odd()
    assert await bench.value("echo", {"a": [1, "ü"]}) == {"a": [1, "ü"]}


async def test_calls_in_parallel_get_their_own_answers(bench: Bench) -> None:
    await bench.odd()
    answers: dict[int, object] = {}

    async def one(number: int) -> None:
        answers[number] = await bench.value("echo", {"n": number})

    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(one, number)
    assert answers == {n: {"n": n} for n in range(200)}


async def test_a_call_waits_for_a_backend_that_is_still_starting(bench: Bench) -> None:
    bench.manager.add(odd_config(options={"delay": 0.3}))
    assert bench.manager.state("odd") == State.STARTING
    assert await bench.value("echo", {"x": 1}) == {"x": 1}


async def test_a_crash_in_a_call_names_backend_exit_code_and_stderr_and_the_next_call_works(
    bench: Bench, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    await bench.odd(options={"journal": str(journal)})
    with pytest.raises(BackendCrashed) as crash:
        await bench.call("die", {"code": 7, "stderr": "disk on fire\n"})
    assert "odd exited with code 7" in crash.value.message
    assert "disk on fire" in crash.value.message
    assert crash.value.sent
    assert (crash.value.hint or "").startswith("the next call starts it again")
    status = bench.manager.status("odd")
    assert (status.state, status.error, status.calls_open) == (State.STOPPED, crash.value.message, 0)
    assert await bench.value("echo", {"again": True}) == {"again": True}
    assert journal.read_text().splitlines().count('die {"code": 7, "stderr": "disk on fire\\n"}') == 1


async def test_a_read_only_call_is_sent_again_after_a_crash_but_not_for_ever(
    bench: Bench, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    await bench.odd(options={"journal": str(journal)}, retry={"max_retries": 2, "initial_delay": "10ms"})
    with pytest.raises((BackendCrashed, BackendStopped)):
        await bench.call("read_die", {"code": 7})
    assert journal.read_text().splitlines().count('read_die {"code": 7}') == 3


async def test_a_call_without_an_answer_ends_at_its_own_limit_and_is_cancelled_there(bench: Bench) -> None:
    await bench.odd()
    with pytest.raises(BackendTimeout) as timeout:
        await bench.call("hang", timeout=0.2)
    assert "odd.hang" in timeout.value.message
    assert len(await bench.value("cancelled")) == 1


async def test_a_caller_that_gives_up_cancels_the_call_at_the_backend_and_no_other(bench: Bench) -> None:
    await bench.odd()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.call, "hang")
        await bench.until_true(lambda: bench.manager.status("odd").calls_open == 1)
        assert await bench.value("echo", {"n": 1}) == {"n": 1}
        assert bench.manager.status("odd").calls_open == 1
        tasks.cancel_scope.cancel()
    assert len(await bench.value("cancelled")) == 1


async def test_a_json_rpc_error_keeps_its_code_its_text_and_what_its_data_adds(bench: Bench) -> None:
    await bench.odd()
    text = '{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such city","data":{"f":1}}}\n'
    with pytest.raises(BackendProtocol) as refused:
        await bench.call("raw", {"text": text})
    assert (refused.value.message, refused.value.rpc_code) == ('no such city: {"f":1}', -32602)
    assert refused.value.rpc_data == {"f": 1}


async def test_a_backend_that_exits_at_start_shows_its_stderr_and_is_not_started_in_a_loop(
    bench: Bench,
) -> None:
    bench.manager.add(odd_config(options={"exit_code": 1, "stderr": "token missing\n"}))
    with pytest.raises(BackendStopped) as stopped:
        await bench.call("echo")
    assert "exited with code 1" in stopped.value.message
    assert "token missing" in stopped.value.message
    status = bench.manager.status("odd")
    assert status.state is State.STOPPED
    assert status.stderr_tail == ["token missing"]
    with pytest.raises(BackendStopped) as blocked:
        await bench.call("echo")
    for error in (stopped.value, blocked.value):  # the first call may start it, too
        assert (error.hint or "").startswith("a call starts it again after ")
        assert (error.hint or "").count("start") == 1


async def test_a_file_that_is_not_executable_and_a_missing_directory_are_named(
    bench: Bench, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    bench.manager.add(BackendConfig(name="plain", command=str(script)))
    bench.manager.add(odd_config("lost", cwd=str(tmp_path / "none")))
    with pytest.raises(BackendStopped, match="not an executable file"):
        await bench.call("echo", name="plain")
    with pytest.raises(BackendStopped, match="does not exist"):
        await bench.call("echo", name="lost")


async def test_a_backend_that_exits_while_idle_starts_again_for_the_next_call(bench: Bench) -> None:
    await bench.odd(options={"exit_when_idle": True})
    await bench.until(lambda: bench.manager.state("odd") == State.STOPPED)
    assert bench.tools["odd"], "its tools stay known while it is stopped"
    await bench.manager.wait_ready("odd", 60)
    assert bench.manager.status("odd").restarts == 1


async def test_an_unknown_backend_names_the_closest(bench: Bench) -> None:
    await bench.odd("weather")
    with pytest.raises(BackendNotFound) as unknown:
        await bench.call("echo", name="wether")
    assert "weather" in (unknown.value.hint or "")


async def test_requests_of_the_backend_are_answered_or_refused_clearly(bench: Bench) -> None:
    await bench.odd()
    assert (await bench.value("ask", {"method": "ping"}))["result"] == {}
    refused = await bench.value("ask", {"method": "sampling/createMessage"})
    assert refused["error"]["code"] == -32601
    assert "sampling/createMessage" in refused["error"]["message"]


async def test_progress_restarts_the_timeout_within_the_time_of_the_chain(bench: Bench) -> None:
    await bench.odd()
    steps = {"steps": 16, "pause": 0.2}
    caller = Caller(time_left=lambda: TEST_SECONDS)
    outcome = await bench.manager.call_tool("odd", "progress", steps, timeout=3.0, caller=caller)
    assert outcome.result["content"][0]["text"] != "null"  # the call carried a token
    for most in (Caller(time_left=lambda: 0.05), Caller()):
        with pytest.raises(BackendTimeout):
            await bench.manager.call_tool("odd", "progress", steps, timeout=0.7, caller=most)


async def test_progress_reaches_the_caller(bench: Bench) -> None:
    await bench.odd()
    seen: list[tuple[float, float | None, str | None]] = []
    await bench.manager.call_tool(
        "odd", "progress", {"steps": 3}, timeout=TEST_SECONDS, on_progress=lambda *step: seen.append(step)
    )
    assert seen == [(1.0, 3.0, None), (2.0, 3.0, None), (3.0, 3.0, None)]


async def test_a_resource_is_read(bench: Bench) -> None:
    await bench.odd()
    result = await bench.read_resource("odd://x")
    assert result["contents"] == [{"uri": "odd://x", "text": "resource text"}]


async def test_a_child_that_does_not_read_blocks_only_its_own_calls(bench: Bench) -> None:
    await bench.odd()
    await bench.odd("other")
    await bench.call("stop_reading")
    big = {"text": "x" * 300_000}
    for _ in range(2):
        with pytest.raises(BackendTimeout):
            await bench.call("echo", big, timeout=0.2)
    assert await bench.value("echo", {"n": 1}, name="other") == {"n": 1}


async def test_a_backend_in_this_process_is_called_like_any_other(bench: Bench) -> None:
    bench.manager.add(BackendConfig(name="clock", module="gatemini.demo.clock:server"))
    outcome = await bench.call("convert_units", {"value": 1, "source": "km", "target": "m"}, name="clock")
    assert "1000" in outcome.result["content"][0]["text"]
    bench.manager.add(BackendConfig(name="none", module="gatemini.demo.clock:nothing"))
    with pytest.raises(BackendStopped, match="cannot be loaded"):
        await bench.call("now", name="none")


async def test_removing_a_backend_ends_its_open_calls(bench: Bench) -> None:
    await bench.odd()
    refused: list[BaseException] = []

    async def call() -> None:
        try:
            await bench.call("hang", timeout=60)
        except BackendStopped as exc:
            refused.append(exc)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await bench.until_true(lambda: bench.manager.status("odd").calls_open > 0)
            await bench.manager.remove("odd")
    assert "while the call was open" in str(refused[0])
