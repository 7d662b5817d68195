"""Calls that wait for a person: through real clients of both eras, and from a console."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from fixtures.direct import run_chain, text_of
from fixtures.running import client_of, threaded_app
from fixtures.webhook import KEY, Received, Reply, webhook
from gatemini.app import App
from gatemini.config.model.approvals import CHANNELS
from gatemini.config.model.policy import PolicyConfig
from gatemini.config.model.schema import CompositeTool
from gatemini.policy.approvals import asking
from gatemini.policy.approvals.grants import Approval, NotDecided, State
from gatemini.policy.approvals.shown import CONTINUED
from gatemini.policy.approvals.webhook import Webhook
from gatemini.policy.decision import Ask
from gatemini.policy.door import door_of
from gatemini.protocol.sessions.client_session import Session

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "auto"]


class Person:
    """The user of a client: answers each question by a function of its parameters."""

    def __init__(self, answer: Callable[[Any], ElicitResult]) -> None:
        self.answer = answer
        self.questions: list[Any] = []

    async def __call__(self, _context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.questions.append(params)
        return self.answer(params)


def accept(params: Any) -> ElicitResult:
    fields = params.requested_schema.get("properties", {})
    return ElicitResult(action="accept", content={name: name.startswith("approve") for name in fields})


def decline(_: Any) -> ElicitResult:
    return ElicitResult(action="decline")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with threaded_app(tmp_path) as running:
        asks(running, Ask(via=CHANNELS))
        yield running


def asks(app: App, ask: Ask, **rule: Any) -> None:
    """Put a policy in force that asks about `demo.write`, or does what else its rule says."""
    how = {"ask": {"remember": ask.remember, "via": ask.via}} if "action" not in rule else {}
    one = {"tools": ["demo.write"], "action": "ask", "reason": "it writes", **how, **rule}
    app.approvals.console = True
    app.chain.door = door_of(PolicyConfig.model_validate({"rules": [one]}), app.chain.door, app.approvals)


async def written(client: Client) -> list[str]:
    result = await run_chain(client, "return await demo.stats({})")
    stats = json.loads(text_of(result))
    assert stats["writes"] == len(stats["written"])
    return list(stats["written"])


def everything(result: CallToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


def call(key: str, value: Any = 1) -> str:
    return json.dumps({"tool": "demo.write", "arguments": {"key": key, "value": value}})


def script(*keys: str) -> str:
    calls = ", ".join(f'demo.write({{ key: "{key}", value: 1 }})' for key in keys)
    return f"const before = await demo.stats({{}});\nreturn await Promise.all([{calls}]);"


async def opened(app: App, count: int = 1) -> list[Approval]:
    """The open approvals, once there are so many."""
    with anyio.fail_after(60):
        while len(found := app.approvals.opened()) < count:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return found


def grant(app: App, approval: Approval) -> None:
    app.approvals.decide(approval.id, approval.subject.digest, "console", granted=True)


# -- the client ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("code", [call("a"), 'await demo.write({ key: "a", value: 1 })', script("a")])
async def test_a_call_leaves_once_the_user_has_agreed(app: App, mode: str, code: str) -> None:
    person = Person(accept)
    async with client_of(app, mode=mode, elicitation_callback=person) as client:
        result = await run_chain(client, code)
        assert not result.is_error, everything(result)
        assert await written(client) == ["a"]
    (question,) = person.questions
    assert 'demo.write with\n  key: "a"\n  value: 1\n' in question.message
    assert "rule: policy.rules[0]" in question.message


@pytest.mark.parametrize("mode", ERAS)
async def test_a_denial_rejects_that_one_promise(app: App, mode: str) -> None:
    person = Person(decline)
    code = """let told = "";
    try { await demo.write({ key: "a", value: 1 }); } catch (e) { told = `${e.name}: ${e.message}`; }
    return [told, (await demo.stats({})).writes];"""
    async with client_of(app, mode=mode, elicitation_callback=person) as client:
        told, writes = json.loads(text_of(await run_chain(client, code)))
    assert told.startswith("ApprovalDenied: demo.write was denied by a person (client, apr_")
    assert writes == 0


@pytest.mark.parametrize("mode", ERAS)
async def test_several_calls_of_one_chain_are_shown_together(app: App, mode: str) -> None:
    def second_only(params: Any) -> ElicitResult:
        content: Any = {"approve_1": False, "approve_2": True, "approve_3": False}
        return ElicitResult(action="accept", content=content)

    person = Person(second_only)
    code = """const all = await Promise.allSettled(["a", "b", "c"].map((key) => demo.write({ key, value: 1 })));
    return all.map((one) => one.status);"""
    async with client_of(app, mode=mode, elicitation_callback=person) as client:
        assert json.loads(text_of(await run_chain(client, code))) == ["rejected", "fulfilled", "rejected"]
        assert await written(client) == ["b"]
    assert len(person.questions) == 1


async def test_the_time_of_the_question_does_not_count(app: App) -> None:
    async def slow(_context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        await anyio.sleep(3.2)
        return accept(params)

    async with client_of(app, mode="legacy", elicitation_callback=slow) as client:
        result = await run_chain(client, script("a"), timeout=3000)
        assert not result.is_error, everything(result)


@pytest.mark.parametrize("before", [0, 60, 65, 70])
async def test_secrets_are_not_shown_to_the_client(app: App, before: int) -> None:
    """Long lines are wrapped: a secret that two of them share is masked all the same."""
    app.chain.redactor.add((("TOKEN", "s3cret-value"), ("PIN", "47110815")))
    person = Person(accept)
    async with client_of(app, elicitation_callback=person) as client:
        for value in (f"{'x' * before} s3cret-value", 47110815):
            assert not (await run_chain(client, call("a", value))).is_error
    text, number = (each.message.replace(CONTINUED, "") for each in person.questions)
    assert "s3cret-value" not in text
    assert 'value: "«secret PIN»"' in number


async def test_arguments_that_nest_too_deeply_to_be_shown_are_denied(app: App) -> None:
    app.chain.redactor.add((("TOKEN", "s3cret-value"),))
    deep = f'{{"tool": "demo.write", "arguments": {{"key": "a", "value": {"[" * 900}1{"]" * 900}}}}}'
    async with client_of(app, elicitation_callback=Person(accept)) as client:
        result = await run_chain(client, deep)
        assert "ApprovalDenied: demo.write" in text_of(result)
        assert "nest too deeply to be shown to a person" in text_of(result)
        assert await written(client) == []


async def test_a_session_grant_is_asked_for_once(app: App) -> None:
    asks(app, Ask("session", CHANNELS))
    person = Person(accept)
    async with client_of(app, elicitation_callback=person) as client:
        for _ in range(2):
            assert not (await run_chain(client, call("a"))).is_error
        assert len(person.questions) == 1
        assert not (await run_chain(client, call("a", 2))).is_error
        assert len(person.questions) == 2
    async with client_of(app, elicitation_callback=person) as another:
        assert not (await run_chain(another, call("a"))).is_error
    assert len(person.questions) == 3


# -- where nothing asks, and the console -----------------------------------------------------------------


async def test_where_nothing_can_ask_the_chain_ends_and_is_resumed_once_granted(app: App) -> None:
    code = script("a", "b")
    async with client_of(app) as client:
        ended = await run_chain(client, code)
        assert ended.is_error
        text = everything(ended)
        assert text.startswith(
            "ApprovalPending: 2 calls wait for approvals: demo.write waits for an approval: apr_"
        )
        ident = text.partition("`// @resume ")[2].partition("`")[0]
        for approval in await opened(app, 2):
            assert approval.id in text
        first, second = app.approvals.opened()
        grant(app, first)
        half = everything(await run_chain(client, f"// @resume {ident}\n{code}"))
        assert half.startswith(f"ApprovalPending: demo.write waits for an approval: {second.id}")
        assert await written(client) == ["a"]
        grant(app, second)
        result = await run_chain(client, f"// @resume {ident}\n{code}")
        assert not result.is_error, everything(result)
        assert await written(client) == ["a", "b"]
        assert app.approvals.opened() == []


async def test_a_json_call_is_sent_again_as_it_was(app: App) -> None:
    async with client_of(app) as client:
        ended = everything(await run_chain(client, call("a")))
        (approval,) = app.approvals.opened()
        assert ended.startswith(f"ApprovalPending: demo.write waits for an approval: {approval.id}")
        assert "@resume" not in ended
        grant(app, approval)
        assert not (await run_chain(client, call("a"))).is_error
        assert await written(client) == ["a"]
        assert "ApprovalPending" in everything(await run_chain(client, call("a")))


async def test_a_batch_names_the_call_that_waits(app: App) -> None:
    code = json.dumps([{"tool": "demo.stats"}, json.loads(call("a"))])
    async with client_of(app) as client:
        first, second = json.loads(text_of(await run_chain(client, code)))
        assert first["ok"]
        assert "send this call alone again" in second["error"]


async def test_other_calls_finish_before_the_chain_ends(app: App) -> None:
    code = """const waits = demo.write({ key: "a", value: 1 });
    const rest = [];
    for (let n = 0; n < 3; n++) rest.push(await demo.echo({ value: n }));
    console.log("done " + rest.length);
    await waits;"""
    async with client_of(app) as client:
        text = everything(await run_chain(client, code))
    assert text.startswith("ApprovalPending")
    assert "done 3" in text


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (
            "return await Promise.race([demo.write({ key: 'a', value: 1 }), sleep(50).then(() => 'slept')])",
            "slept",
        ),
        ("demo.write({ key: 'a', value: 1 }); return 'unawaited'", "unawaited"),
    ],
)
async def test_a_chain_that_does_not_wait_for_the_call_ends_with_its_value(
    app: App, code: str, value: str
) -> None:
    async with client_of(app) as client:
        result = await run_chain(client, code)
        assert text_of(result) == value
        assert "demo.write waits for an approval: apr_" in everything(result)
        assert await written(client) == []


async def test_code_does_not_catch_that_an_approval_is_open(app: App) -> None:
    code = "try { await demo.write({ key: 'a', value: 1 }); } catch { return 'caught'; } finally { console.log('end'); }"
    async with client_of(app) as client:
        text = everything(await run_chain(client, code))
    assert text.startswith("ApprovalPending")
    assert "caught" not in text.partition("HINT")[0]


STORE = """const n = (await demo.stats({})).writes;
await demo.add({ a: n, b: 1 });
await demo.write({ key: args.key, value: n });
return "stored";"""


@pytest.mark.parametrize(
    "code",
    ["return await composite.store({ key: 'a' })", '{"tool": "composite.store", "arguments": {"key": "a"}}'],
)
async def test_a_composite_tool_goes_on_where_it_waited(app: App, code: str) -> None:
    app.set_composite_tools({"store": CompositeTool(code=STORE)})
    async with client_of(app) as client:
        text = everything(await run_chain(client, code))
        assert text.startswith("ApprovalPending: composite.store: demo.write waits for an approval: apr_")
        ident = text.partition("`// @resume ")[2].partition("`")[0]
        (approval,) = app.approvals.opened()
        grant(app, approval)
        result = await run_chain(client, f"// @resume {ident}\n{code}")
        assert text_of(result) == "stored", everything(result)
        stats = json.loads(text_of(await run_chain(client, "return await demo.stats({})")))
        assert list(stats["written"]) == ["a"]
        assert stats["calls"]["add"] == 1


async def test_of_many_open_approvals_some_are_named(app: App) -> None:
    async with client_of(app) as client:
        text = everything(await run_chain(client, script(*"abcdefgh")))
    assert text.startswith("ApprovalPending: 8 calls wait for approvals: ")
    assert " and 3 more\nHINT: ask the user to run `gatemini approve`, then resume the chain" in text
    assert len(app.approvals.opened()) == 8


async def test_a_watching_console_decides_while_the_chain_waits(app: App) -> None:
    results: list[CallToolResult] = []
    async with client_of(app) as client, anyio.create_task_group() as tasks:

        async def run() -> None:
            results.append(await run_chain(client, script("a", "b")))

        app.approvals.watched()
        tasks.start_soon(run)
        first, second = await opened(app, 2)
        grant(app, first)
        app.approvals.decide(second.id, second.subject.digest, "console", granted=False)
    assert everything(results[0]).startswith("ApprovalDenied: demo.write was denied by a person (console, ")


async def test_a_console_is_quicker_than_the_client(app: App) -> None:
    async def never(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
        await anyio.sleep_forever()
        raise AssertionError

    results: list[CallToolResult] = []
    async with client_of(app, mode="legacy", elicitation_callback=never) as client:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                results.append(await run_chain(client, call("a")))

            tasks.start_soon(run)
            (approval,) = await opened(app)
            grant(app, approval)
        assert not results[0].is_error


async def test_a_chain_that_waited_too_long_ends_and_is_granted_later(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_SECONDS", 0.2)
    async with client_of(app) as client:
        app.approvals.watched()
        assert everything(await run_chain(client, call("a"))).startswith("ApprovalPending")
        (approval,) = app.approvals.opened()
        grant(app, approval)
        assert not (await run_chain(client, call("a"))).is_error


async def test_a_rule_without_a_console_denies_at_once_where_its_channels_cannot_ask(app: App) -> None:
    asks(app, Ask(via=("client", "webhook")))
    async with client_of(app) as client:
        text = everything(await run_chain(client, call("a")))
    assert text.startswith(
        "ApprovalDenied: demo.write needs an approval (policy.rules[0]: it writes), and nothing can ask"
    )
    assert app.approvals.opened() == []


async def test_too_many_waiting_chains_end_as_pending(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_CHAINS", 0)
    app.approvals.watched()
    async with client_of(app) as client:
        assert everything(await run_chain(client, call("a"))).startswith("ApprovalPending")


async def test_a_cancelled_call_stays_open_for_the_console(app: App) -> None:
    session = app.new_session()
    async with client_of(app, session) as client:
        app.approvals.watched()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_chain, client, call("a"))
            (approval,) = await opened(app)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(60):
            while approval.waiting:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        grant(app, approval)
        assert not (await run_chain(client, call("a"))).is_error


# -- wrong grants ----------------------------------------------------------------------------------------


async def granted(app: App, client: Client) -> Approval:
    """An approval of `a`, granted and not used."""
    await run_chain(client, call("a"))
    (approval,) = app.approvals.opened()
    grant(app, approval)
    return approval


Attack = Callable[[App, Client], Awaitable[CallToolResult]]


async def changed_argument(app: App, client: Client) -> CallToolResult:
    return await run_chain(client, call("b"))


async def added_argument(app: App, client: Client) -> CallToolResult:
    return await run_chain(client, call("a", [1]))


async def changed_type(app: App, client: Client) -> CallToolResult:
    return await run_chain(client, call("a", "1"))


async def changed_policy(app: App, client: Client) -> CallToolResult:
    asks(app, Ask(via=CHANNELS), reason="it writes more")
    return await run_chain(client, call("a"))


async def other_session(app: App, client: Client) -> CallToolResult:
    async with client_of(app) as another:
        return await run_chain(another, call("a"))


async def used_twice(app: App, client: Client) -> CallToolResult:
    assert not (await run_chain(client, call("a"))).is_error
    return await run_chain(client, call("a"))


async def two_at_once(app: App, client: Client) -> CallToolResult:
    code = json.dumps([json.loads(call("a"))] * 2)
    answers = json.loads(text_of(await run_chain(client, code)))
    assert [answer["ok"] for answer in answers].count(True) == 1
    return await run_chain(client, call("a"))


async def by_composite_code(app: App, client: Client) -> CallToolResult:
    return await run_chain(
        client, 'await Promise.all([demo.write({ key: "a", value: 1, }), demo.write({ key: "c", value: 1 })])'
    )


@pytest.mark.parametrize(
    "attack",
    [
        changed_argument,
        added_argument,
        changed_type,
        changed_policy,
        other_session,
        used_twice,
        two_at_once,
        by_composite_code,
    ],
)
async def test_a_grant_admits_nothing_but_its_call(app: App, attack: Attack) -> None:
    async with client_of(app) as client:
        await granted(app, client)
        assert "ApprovalPending" in everything(await attack(app, client))
        assert set(await written(client)) <= {"a"}


async def asked(client: Client, code: str, **more: Any) -> CallToolResult | InputRequiredResult:
    """One call of a client of 2026-07-28 that answers by itself."""
    return await client.session.call_tool(
        "call_tool_chain", {"code": code}, allow_input_required=True, **more
    )


async def test_an_answer_of_the_client_counts_once_and_for_its_code(app: App) -> None:
    async def unused(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
        raise AssertionError

    async with client_of(app, elicitation_callback=unused) as client:
        first = await asked(client, call("a"))
        assert isinstance(first, InputRequiredResult)
        yes: Any = {key: ElicitResult(action="accept", content={}) for key in first.input_requests or {}}
        state = {"input_responses": yes, "request_state": first.request_state}
        with pytest.raises(MCPError):
            await asked(client, call("b"), **state)
        with pytest.raises(MCPError):
            await asked(client, call("a"), input_responses=yes, request_state="forged")
        done = await asked(client, call("a"), **state)
        assert isinstance(done, CallToolResult)
        assert not done.is_error
        with pytest.raises(MCPError):
            await asked(client, call("a"), **state)
        for answers in ({}, {"q1": ElicitResult(action="accept", content={})}):
            again = await asked(client, call("a"), input_responses=answers)
            assert isinstance(again, InputRequiredResult)
        assert await written_by(app) == ["a"]


async def written_by(app: App) -> list[str]:
    """What a client that takes no questions sees of the same backend."""
    async with client_of(app) as other:
        return await written(other)


async def test_an_answer_of_a_webhook_for_another_call_grants_nothing(app: App) -> None:
    def other_call(request: Received) -> Reply:
        return request.signed(request.decided(id="apr_0000000000000000"))

    def other_arguments(request: Received) -> Reply:
        return request.signed(request.decided(arguments_sha256="0" * 64))

    def unsigned(request: Received) -> Reply:
        return 200, {}, json.dumps(request.decided()).encode()

    asks(app, Ask(via=("webhook", "console")))
    async with client_of(app) as client:
        for wrong in (other_call, other_arguments, unsigned):
            with webhook(wrong) as (url, received):
                app.approvals.webhook = Webhook(url, KEY)
                assert everything(await run_chain(client, call("a"))).startswith("ApprovalPending")
                assert len(received) == 1
        assert await written(client) == []
        with webhook(lambda r: r.signed(r.decided())) as (url, _):
            app.approvals.webhook = Webhook(url, KEY)
            assert not (await run_chain(client, call("a"))).is_error


async def test_a_policy_that_changes_while_a_call_waits_is_asked_about_anew(app: App) -> None:
    results: list[CallToolResult] = []
    async with client_of(app) as client:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                results.append(await run_chain(client, call("a")))

            app.approvals.watched()
            tasks.start_soon(run)
            (approval,) = await opened(app)
            asks(app, Ask(via=CHANNELS), reason="another revision")
            grant(app, approval)
            (anew,) = await opened(app)
            assert anew.id != approval.id
            asks(app, Ask(), action="deny")
            grant(app, anew)
        assert everything(results[0]).startswith("PolicyDenied")
        assert await written(client) == []


@pytest.mark.parametrize("between", [PolicyConfig(), None])
async def test_a_policy_that_comes_back_brings_back_no_grant(app: App, between: PolicyConfig | None) -> None:
    asks(app, Ask("session", CHANNELS))
    assert app.chain.door is not None
    first = app.chain.door.rules.config
    async with client_of(app) as client:
        await granted(app, client)
        await run_chain(client, call("b"))
        for policy in (between, first):
            app.chain.door = app.new_door(policy, app.chain.door)
        assert app.approvals.opened() == []
        assert "ApprovalPending" in everything(await run_chain(client, call("a")))


async def test_what_was_granted_under_another_policy_is_void_when_the_first_comes_back(app: App) -> None:
    """The person sees the question of the first policy while the second is in force, and decides after its end."""
    asks(app, Ask("session", CHANNELS))
    assert app.chain.door is not None
    first = app.chain.door.rules.config
    app.approvals.watched()
    session = app.new_session()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.call_meta_tool, "call_tool_chain", {"code": call("a")}, session)
        (approval,) = await opened(app)
        for policy in (PolicyConfig(), first):
            app.chain.door = app.new_door(policy, app.chain.door)
        app.approvals.watched()
        grant(app, approval)
        (anew,) = await opened(app)
        assert anew.id != approval.id
        app.approvals.decide(anew.id, anew.subject.digest, "console", granted=False)
    assert app.approvals.store.remembered(approval.subject) is None
    assert await written_by(app) == []


async def test_an_approval_dies_with_its_session(app: App) -> None:
    session: Session = app.new_session()
    async with client_of(app, session) as client:
        await run_chain(client, call("a"))
        (approval,) = app.approvals.opened()
    app.end_session(session)
    with pytest.raises(NotDecided):
        grant(app, approval)
    assert approval.state is State.EXPIRED


# -- the flow of data ------------------------------------------------------------------------------------


def asks_and_guards(app: App, *, sends: bool = False) -> None:
    """Ask about `demo.write`, also because of what the session has read: `demo.text` is untrusted, `demo.rows` private.

    `sends`: whether it is open-world.
    """
    one = {"tools": ["demo.write"], "action": "ask", "ask": {"remember": "session"}}
    quiet = {"demo.*": {"openWorld": False, "readOnly": True}}
    policy = {
        "rules": [one],
        "flow": "ask",
        "override_annotations": {"demo.write": {"openWorld": sends, "readOnly": False}, **quiet},
        "labels": {"untrusted": ["demo.text"], "private": ["demo.rows"]},
    }
    app.approvals.console = True
    app.chain.door = door_of(PolicyConfig.model_validate(policy), app.chain.door, app.approvals)


async def test_a_remembered_grant_does_not_answer_for_what_was_read_since(app: App) -> None:
    asks_and_guards(app)
    person = Person(accept)
    async with client_of(app, elicitation_callback=person) as client:
        for _ in range(2):
            assert not (await run_chain(client, call("a"))).is_error
        assert len(person.questions) == 1
        await run_chain(client, "await demo.text({ n: 1 })")
        for _ in range(2):
            assert not (await run_chain(client, call("a"))).is_error
        assert len(person.questions) == 2
    assert "read before" not in person.questions[0].message
    assert "read before: untrusted content: demo.text" in person.questions[1].message


async def test_a_grant_that_was_about_one_label_does_not_answer_for_another(app: App) -> None:
    asks_and_guards(app, sends=True)
    person = Person(accept)
    async with client_of(app, elicitation_callback=person) as client:
        for read in ("text", "rows"):
            await run_chain(client, f"await demo.{read}({{ n: 1 }})")
            for _ in range(2):
                assert not (await run_chain(client, call("a"))).is_error
    assert len(person.questions) == 2
    assert "private data" not in person.questions[0].message
    assert "read before: private data: demo.rows" in person.questions[1].message


@pytest.mark.parametrize(
    ("before", "read", "rule"),
    [((), "text", "policy.rules[0]"), (("text",), "rows", "policy.rules[0], policy.flow")],
)
async def test_what_the_session_reads_while_a_call_waits_is_asked_about_too(
    app: App, before: tuple[str, ...], read: str, rule: str
) -> None:
    asks_and_guards(app, sends=True)
    session = app.new_session()
    for name in before:
        await app.call_meta_tool("call_tool_chain", {"code": f"await demo.{name}({{ n: 1 }})"}, session)
    app.approvals.watched()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app.call_meta_tool, "call_tool_chain", {"code": call("a")}, session)
        (first,) = await opened(app)
        assert first.request.rule == rule
        await app.call_meta_tool("call_tool_chain", {"code": f"await demo.{read}({{ n: 1 }})"}, session)
        app.approvals.watched()
        grant(app, first)
        with anyio.fail_after(60):
            while not (again := [each for each in app.approvals.opened() if each is not first]):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert again[0].request.rule == "policy.rules[0], policy.flow"
        app.approvals.decide(again[0].id, again[0].subject.digest, "console", granted=False)
    result = await app.call_meta_tool("call_tool_chain", {"code": "return await demo.stats({})"}, session)
    assert json.loads(result["content"][0]["text"])["writes"] == 0
