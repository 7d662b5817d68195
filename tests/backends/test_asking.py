"""Backends that ask the client something in the middle of a call, in both eras; and what they log."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench
from fixtures.odd_http import OddHttp, Request, serving
from gatemini.backends.calls.callers import Caller, RpcError
from gatemini.backends.conversation.backend_requests import MOST_QUESTIONS
from gatemini.backends.status import State
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendProtocol, BackendStopped, BackendTimeout

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


async def call(
    bench: Bench,
    tool: str,
    arguments: Json,
    timeout: float = TEST_SECONDS,
    *,
    name: str = "odd",
    **caller: Any,
) -> Any:
    whose = Caller(**caller)
    outcome = await bench.manager.call_tool(name, tool, arguments, timeout=timeout, caller=whose)
    return json.loads(outcome.result["content"][0]["text"])


async def accept(_method: str, _params: Json) -> Json:
    return {"action": "accept"}


async def misplaced(_method: str, _params: Json) -> Json:
    raise AssertionError("the question may be about the call of another client")


@pytest.mark.parametrize(
    ("tool", "discover", "message"), [("ask", "error", {}), ("confirm", "modern", {"message": "sure?"})]
)
async def test_a_question_reaches_the_client_and_its_answer_the_backend(
    bench: Bench, tool: str, discover: str, message: Json
) -> None:
    """In the handshake era as a request, in the stateless one by a result after which the call is repeated."""
    await bench.odd(options={"on_discover": discover})
    asked: list[tuple[str, Json]] = []

    async def answer(method: str, params: Json) -> Json:
        asked.append((method, params))
        return {"action": "accept"}

    arguments = {"method": "elicitation/create"}
    reply = await call(bench, tool, arguments, ask=answer)
    if tool == "ask":
        assert reply["result"] == {"action": "accept"}
    else:
        assert reply == [{"q": {"action": "accept"}}, "s1", arguments]
    assert asked == [("elicitation/create", message)]


@pytest.mark.parametrize(("tool", "discover"), [("ask", "error"), ("confirm", "modern")])
async def test_removing_a_backend_ends_its_open_questions(bench: Bench, tool: str, discover: str) -> None:
    await bench.odd(options={"on_discover": discover})
    given_up = anyio.Event()

    async def removed_meanwhile(_method: str, _params: Json) -> Json:
        try:
            await bench.manager.remove("odd")
            await anyio.sleep_forever()
        finally:
            given_up.set()
        raise AssertionError("never comes here")

    with anyio.fail_after(TEST_SECONDS), pytest.raises(BackendStopped) as caught:
        await call(bench, tool, {"method": "elicitation/create"}, ask=removed_meanwhile)
    assert caught.value.sent
    assert given_up.is_set()


async def test_an_answer_reaches_a_backend_that_was_restarted_meanwhile(bench: Bench, tmp_path: Path) -> None:
    """A stateless question survives a restart of the process, and reaches the client only once."""
    journal = tmp_path / "journal"
    await bench.odd(options={"on_discover": "modern", "journal": str(journal)})
    asked: list[Json] = []

    async def dies_meanwhile(_method: str, params: Json) -> Json:
        asked.append(params)
        pid = bench.manager.status("odd").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await bench.until(lambda: bench.manager.state("odd") is State.STOPPED)
        return {"action": "accept"}

    reply = await call(bench, "confirm", {"k": 1}, ask=dies_meanwhile)
    assert reply == [{"q": {"action": "accept"}}, "s1", {"k": 1}]
    assert len(asked) == 1
    assert len(journal.read_text().splitlines()) == 2


@pytest.mark.parametrize(("tool", "discover"), [("ask", "error"), ("confirm", "modern")])
async def test_the_timeout_of_a_call_pauses_during_a_question(bench: Bench, tool: str, discover: str) -> None:
    await bench.odd(options={"on_discover": discover})

    async def slow(_method: str, _params: Json) -> Json:
        """As long as the time of another call takes that began later."""
        with pytest.raises(BackendTimeout):
            await call(bench, "hang", {}, timeout=0.4)
        return {}

    assert await call(bench, tool, {"method": "elicitation/create"}, timeout=0.4, ask=slow)


@pytest.mark.parametrize(("tool", "discover"), [("ask", "error"), ("confirm", "modern")])
async def test_a_refusal_reaches_the_backend_or_names_the_question(
    bench: Bench, tool: str, discover: str
) -> None:
    await bench.odd(options={"on_discover": discover})

    async def refuse(_method: str, _params: Json) -> Json:
        raise RpcError(-32601, "this client has no eyes")

    if tool == "ask":
        reply = await call(bench, tool, {"method": "elicitation/create"}, ask=refuse)
        assert reply["error"] == {"code": -32601, "message": "this client has no eyes"}
    else:
        with pytest.raises(BackendProtocol, match="no eyes"):
            await call(bench, tool, {}, ask=refuse)


async def test_a_question_without_a_client_fails_at_once(bench: Bench) -> None:
    await bench.odd(options={"on_discover": "modern"})
    with pytest.raises(BackendProtocol, match="asks for input"):
        await call(bench, "confirm", {})


@pytest.mark.parametrize(
    ("first", "second", "answered"),
    [
        ({"ask": misplaced}, {"ask": misplaced}, False),
        ({"session": "able", "ask": misplaced}, {"session": "unable"}, False),
        ({"session": "s", "ask": accept}, {"session": "s", "ask": accept}, True),
    ],
    ids=["two clients", "one of two can be asked", "two chains of one client"],
)
async def test_a_question_is_refused_while_calls_of_several_clients_are_open(
    bench: Bench, first: Json, second: Json, answered: bool
) -> None:
    await bench.odd()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: call(bench, "hang", {}, **first))
        await bench.until_true(lambda: bench.manager.status("odd").calls_open == 1)
        reply = await call(bench, "ask", {"method": "elicitation/create"}, **second)
        if answered:
            assert reply["result"] == {"action": "accept"}
        else:
            assert "several clients" in reply["error"]["message"]
        tasks.cancel_scope.cancel()


async def test_a_late_question_of_a_cancelled_call_does_not_reach_another_client(bench: Bench) -> None:
    await bench.odd()

    with pytest.raises(BackendTimeout):
        await call(bench, "hang", {}, timeout=0.2, session="first", ask=misplaced)
    reply = await call(bench, "ask", {"method": "elicitation/create"}, session="second", ask=misplaced)
    assert "several clients" in reply["error"]["message"]
    reply = await call(bench, "ask", {"method": "elicitation/create"}, session="first", ask=accept)
    assert reply["result"] == {"action": "accept"}


async def test_a_question_ends_with_the_call_it_was_for(bench: Bench) -> None:
    await bench.odd()
    ended = anyio.Event()

    async def never(_method: str, _params: Json) -> Json:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return {}

    with anyio.move_on_after(0.3):
        await call(bench, "ask", {"method": "elicitation/create"}, ask=never)
    with anyio.fail_after(60):
        await ended.wait()


async def test_a_backend_has_so_many_questions_open_and_no_more(bench: Bench) -> None:
    await bench.odd()
    asked: list[str] = []

    async def never(method: str, _params: Json) -> Json:
        asked.append(method)
        await anyio.sleep_forever()
        raise AssertionError("never comes here")

    lines = "".join(
        json.dumps({"jsonrpc": "2.0", "id": f"q{n}", "method": "elicitation/create", "params": {}}) + "\n"
        for n in range(MOST_QUESTIONS + 10)
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(call, bench, "raw", {"text": lines}, ask=never))
        await bench.until_true(lambda: bool(asked))
        await bench.call("echo")  # its answer comes after all of them
        assert len(asked) == MOST_QUESTIONS
        tasks.cancel_scope.cancel()


async def test_a_question_that_arrives_with_the_answer_of_its_call_is_dropped(bench: Bench) -> None:
    """Nothing would come of it, and it would stay with the user."""
    await bench.odd()
    question = {"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {}}
    answer = '{"jsonrpc":"2.0","id":ID,"result":{"content":"5"}}'
    asked: list[str] = []

    async def noted(method: str, _params: Json) -> Json:
        asked.append(method)
        return {}

    text = f"{json.dumps(question)}\n{answer}\n"
    assert await call(bench, "raw", {"text": text}, ask=noted) == 5
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
    assert asked == []


def asking(questions: int) -> Json:
    """The result of a stateless tool that wants to know so much at once."""
    one = {"method": "elicitation/create", "params": {"message": "sure?"}}
    return {"resultType": "input_required", "inputRequests": {f"q{n}": one for n in range(questions)}}


async def test_all_questions_of_a_result_are_sent_in_parallel(bench: Bench) -> None:
    await bench.odd(options={"on_discover": "modern"})
    both = anyio.Event()
    open_now: list[Json] = []

    async def together(_method: str, params: Json) -> Json:
        open_now.append(params)
        if len(open_now) == 2:
            both.set()
        await both.wait()
        raise RpcError(-1, "enough")

    with anyio.fail_after(TEST_SECONDS), pytest.raises(BackendProtocol, match="got none: enough"):
        await call(bench, "result", {"result": asking(2)}, ask=together)


async def test_a_result_with_too_many_questions_is_refused(bench: Bench) -> None:
    await bench.odd(options={"on_discover": "modern"})
    asked: list[str] = []

    async def noted(method: str, _params: Json) -> Json:
        asked.append(method)
        return {}

    with pytest.raises(BackendProtocol, match="33 questions at once, more than 32"):
        await call(bench, "result", {"result": asking(MOST_QUESTIONS + 1)}, ask=noted)
    assert asked == []


@pytest.mark.parametrize("level", ["warning", "loud" * 1000, {"of": "no kind"}, None])
async def test_log_messages_of_a_backend_are_forwarded_with_a_valid_level(bench: Bench, level: Any) -> None:
    told: list[tuple[str, str, Json]] = []
    await bench.odd()
    logged = {"method": "notifications/message", "params": {"level": level, "data": {"x": 1}}}
    await call(bench, "notify", logged, tell=lambda *entry: told.append(entry))
    expected = {"level": level if level == "warning" else "info", "data": {"x": 1}}
    assert told == [("odd", "notifications/message", expected)]


async def test_a_question_on_an_http_response_goes_to_the_caller_of_that_request(bench: Bench) -> None:
    """Several clients have calls open; the question comes in the response to one of them."""
    given: dict[Any, Json] = {}
    answered = anyio.Event()

    async def asks(request: Request) -> None:
        await request.begin_events()
        name = request.message["params"]["arguments"]["name"]
        question = {"jsonrpc": "2.0", "id": f"q-{name}", "method": "elicitation/create", "params": {}}
        await request.event(question)
        with anyio.fail_after(60):
            while f"q-{name}" not in given:
                await answered.wait()
        await request.event(
            request.reply({"content": [{"type": "text", "text": json.dumps(given[f"q-{name}"])}]})
        )

    async def take(request: Request) -> None:
        nonlocal answered
        await request.answer(202)
        given[request.message["id"]] = request.message["result"]
        before, answered = answered, anyio.Event()
        before.set()

    async def answer_as(name: str) -> None:
        async def answer(_method: str, _params: Json) -> Json:
            return {"i am": name}

        assert await call(bench, "echo", {"name": name}, session=name, ask=answer) == {"i am": name}

    async with serving(OddHttp({"echo": asks, "reply": take})) as server:
        bench.manager.add(BackendConfig.model_validate({"name": "odd", "url": server.url}))
        await bench.manager.wait_ready("odd", 60)
        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(answer_as, name)
