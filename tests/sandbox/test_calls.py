"""Calls as the code makes them: one exchange per batch, errors with their fields, calls without await."""

from __future__ import annotations

import pytest

from fixtures.guest import Chain
from gatemini_sandbox.messages import Calls, Done, Failed, Reply

pytestmark = pytest.mark.anyio


async def test_parallel_calls_leave_in_one_batch(sandbox):
    session = Chain(sandbox, "return await Promise.all([demo.a({ i: 1 }), demo.b({ i: 2 })])")
    step = await session.start()
    assert isinstance(step, Calls)
    assert [(c.kind, c.backend, c.tool, c.arguments, c.raw) for c in step.calls] == [
        ("tool", "demo", "a", {"i": 1}, False),
        ("tool", "demo", "b", {"i": 2}, False),
    ]
    first, second = step.calls
    step = await session.resume([Reply(second.id, True, b"2")])
    assert step == Calls([], None)
    step = await session.resume([Reply(first.id, True, b"1")])
    assert isinstance(step, Done)
    assert step.text == "[1,2]"


async def test_a_call_tells_where_its_arguments_hold_the_digits_of_a_bigint(sandbox):
    session = Chain(
        sandbox,
        "demo.a({ x: [1n], y: 2n }); demo.b({ x: '1' }); demo.d([{ 'a-b': Object(4n) }], 5n);"
        "demo.e({ m: new Map([['k', [6n]]]), t: new BigInt64Array(1) }); demo.f({ x: Array(2e5).fill(7n) });"
        "await demo.c({ n: Promise.resolve(3n) })",
    )
    step = await session.start()
    assert isinstance(step, Calls)
    many = step.calls.pop(4)
    assert many.digits[:2] == [["x", 0], ["x", 1]]
    assert len(many.digits) < 100_000, "what has no room is not told"
    assert [(c.arguments, c.digits) for c in step.calls] == [
        ({"x": ["1"], "y": "2"}, [["x", 0], ["y"]]),
        ({"x": "1"}, []),
        ([[{"a-b": "4"}], "5"], [[0, 0, "a-b"], [1]]),
        ({"m": {"k": ["6"]}, "t": ["0"]}, [["m", "k", 0], ["t", 0]]),
        ({"n": "3"}, [["n"]]),
    ]
    session.close()


async def test_a_tool_error_carries_its_fields(run):
    caught = "try { await demo.fail({ message: 'no such id' }) } catch (e) { return [e.name, e.message.includes('no such id'), e.tool, e.structured.code, e.code, e instanceof Error, e instanceof ToolError] }"
    assert await run.value(caught) == ["ToolError", True, "demo.fail", 404, 404, True, True]


async def test_an_uncaught_tool_error_ends_the_chain_at_the_line_of_the_call(run):
    end = await run.error('const a = 1;\nawait demo.echo({});\n  await demo.fail({ message: "boom" });')
    error = end.error
    assert (error.name, error.tool, error.backend, error.structured) == (
        "ToolError",
        "demo.fail",
        "demo",
        {"code": 404},
    )
    assert "boom" in error.message
    assert (error.line, error.column) == (3, 14)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("demo.t()", []),
        ("demo.t(undefined)", []),
        ("demo.t({})", {}),
        ("demo.t({ a: undefined, b: 1 })", {"b": 1}),
        ("demo.t(5)", [5]),
        ("demo.t('x')", ["x"]),
        ("demo.t({ a: 1 }, 2)", [{"a": 1}, 2]),
        ("demo.t([1])", [[1]]),
        ("demo.t(null)", [None]),
        ("demo.t('{\"a\": 1}')", {"a": 1}),
        ("demo.t('[1]')", ["[1]"]),
        ("demo.t(new Map([['a', 1]]))", {"a": 1}),
        ("demo.t({ n: 5n, d: new Date(0) })", {"n": "5", "d": "1970-01-01T00:00:00.000Z"}),
        ("demo.t({ p: demo.echo({ q: 1 }) })", {"p": {"q": 1}}),
        ("demo.t({ p: Promise.resolve([Promise.resolve(1)]) })", {"p": [1]}),
        ("demo.t({ b: new Uint8Array(1500) })", {"b": [0] * 1500}),
    ],
)
async def test_arguments_reach_the_host_as_this_json(run, call, arguments):
    await run(f"await {call}")
    assert run.calls[-1].arguments == arguments


NOTES = {
    "await demo.t('{\"a\": 1}')": ["demo.t was given a JSON string; its object was taken"],
    'Promise.reject(new Error("x")); (async () => { throw new TypeError("y") })(); return 2': [
        "a rejected promise was not handled: Error: x",
        "a rejected promise was not handled: TypeError: y",
    ],
    "const p = Promise.reject(1); await null; p.catch(() => {}); return 1": [],
    'demo.write({ key: "k" }); throw new Error("stop")': [
        "not sent, because the code ended first: demo.write"
    ],
    'for (let i = 0; i < 15; i++) demo.write({ i }); demo.echo({}); throw new Error("stop")': [
        "not sent, because the code ended first: demo.write ×15, demo.echo"
    ],
}


@pytest.mark.parametrize("code", NOTES)
async def test_a_note_says_what_became_of_calls_and_promises(run, code):
    assert (await run(code)).notes == NOTES[code]


ERRORS = {
    "demo.x = 1": "is a backend",
    "delete demo.x": "is a backend",
    "Object.freeze(demo)": "is a backend",
    "Object.setPrototypeOf(demo, {})": "is a backend",
    "await new Promise(() => {}); return 1": "nothing left to run",
    "return demo.rows": "`return await demo.rows({…})`",
    "return JSON.stringify(demo.rows({}))": "demo.rows(…) is a promise here",
}


@pytest.mark.parametrize("code", ERRORS)
async def test_an_error_says_what_is_wrong(run, code):
    assert ERRORS[code] in (await run.error(code)).error.message


async def test_a_backend_is_never_thenable_and_ends_quickly_as_text(run):
    value = await run.value(
        "const b = await demo; console.log(demo); return [b === demo, String(demo), JSON.stringify(demo), `${demo}`, typeof demo, !demo.hasOwnProperty('x')]"
    )
    assert value == [True, "[backend demo]", '"[backend demo]"', "[backend demo]", "object", True]
    assert run.calls == []


async def test_raw_calls_resources_and_calls_by_name_become_messages(run):
    await run(
        """
        await demo.t.raw({ a: 1 });
        await demo.readResource("file:///x");
        await demo.readResource({ uri: "tool of that name" });
        await __backends["demo"].call("then", { b: 1 });
        await __backends.demo.call.raw("constructor", {});
        await demo["get-user"]({});
        await demo.call({ c: 1 });"""
    )
    assert [(c.kind, c.tool, c.arguments, c.raw) for c in run.calls] == [
        ("tool", "t", {"a": 1}, True),
        ("resource", "", "file:///x", False),
        ("tool", "readResource", {"uri": "tool of that name"}, False),
        ("tool", "then", {"b": 1}, False),
        ("tool", "constructor", {}, True),
        ("tool", "get-user", {}, False),
        ("tool", "call", {"c": 1}, False),
    ]


async def test_listed_tools_and_backends_are_those_that_exist(run):
    value = await run.value(
        "return ['a' in demo, 'zz' in demo, Object.keys(demo), Object.keys(__backends), [...Object.getOwnPropertyNames(demo)]]",
        catalog={"demo": ["a", "b-c"]},
    )
    assert value == [True, False, ["a", "b-c"], ["demo"], ["a", "b-c"]]


async def test_a_backend_with_an_odd_name_is_there_under_all_its_spellings(run):
    code = "return [files_eu === globalThis['files-eu'], files_eu === __backends['files-eu'], JSON_ === __backends.JSON, typeof JSON.parse]"
    value = await run.value(code, backends=[("files_eu", "files-eu"), ("JSON_", "JSON")])
    assert value == [True, True, True, "function"]


async def test_an_ambiguous_identifier_names_its_owners_when_it_is_used(run):
    end = await run.error("await a_b.t({})", backends=[("a_b", "")], ambiguous={"a_b": ["a-b", "a.b"]})
    assert "a-b, a.b" in end.error.message
    assert '__backends["a-b"]' in end.error.message


async def test_a_call_without_await_is_completed_and_reported(sandbox):
    session = Chain(sandbox, 'demo.write({ key: "k" }); return "ok"')
    step = await session.start()
    assert isinstance(step, Calls)
    assert step.settled
    end = await session.resume([Reply(step.calls[0].id, True, b"{}")])
    assert isinstance(end, Done)
    assert (end.text, end.unawaited) == ("ok", [step.calls[0].id])
    assert end.notes == []


async def test_a_settled_chain_can_be_ended_without_its_open_calls(sandbox):
    session = Chain(sandbox, 'demo.write({ key: "k" }); return "ok"')
    step = await session.start()
    end = await session.outcome()
    assert isinstance(end, Done)
    assert end.unawaited == [step.calls[0].id]


async def test_an_awaited_call_is_not_reported(run):
    end = await run(
        "const p = demo.echo({}); const q = demo.echo({}).then(x => x); await p; await q; await Promise.all([demo.echo({})]); return 1"
    )
    assert end.unawaited == []


async def test_the_limit_of_calls_rejects_the_one_too_many(run_tight):
    end = await run_tight.error("for (let i = 0; i < 30; i++) await demo.echo({ i })")
    assert (end.error.limit, len(run_tight.calls)) == ("limit.calls", 20)
    assert "20 calls" in end.error.message
    assert (
        await run_tight.value(
            "let n = 0; for (let i = 0; i < 30; i++) await demo.echo({ i }).catch(() => n++); return n"
        )
        == 10
    )


async def test_arguments_over_their_limit_reject_that_call_only(run):
    code = 'try { await demo.echo({ s: "x".repeat(5e6) }) } catch (e) { return [e.name, e.code] }'
    assert await run.value(code) == ["LimitError", "limit.arguments"]
    assert run.calls == []


async def test_a_reply_over_its_limit_or_depth_rejects_that_call_only(run):
    deep = b"[" * 1001 + b"]" * 1001
    code = "try { await demo.echo({}) } catch (e) { return [e.name, e.code] }"
    assert await run.value(code, answer=lambda _: deep) == ["LimitError", "limit.depth"]
    assert await run.value(code, answer=lambda _: "x" * (33 << 20)) == ["LimitError", "limit.result"]


async def test_integers_beyond_2_53_keep_their_digits(run):
    end = await run(
        "const r = await demo.echo({}); return [typeof r.id, r.id, typeof r.n, r.s]",
        answer=lambda _: {"id": 2**60 + 1, "n": 2**53 - 1, "s": "12345678901234567890"},
    )
    assert end.text == '["string","1152921504606846977","number","12345678901234567890"]'
    assert end.notes == ["integers beyond 2^53 arrived as strings, to keep their digits"]


async def test_calls_of_results_and_gatemini_become_messages(run):
    await run(
        """
        await results.rows("res_1", { offset: 5, limit: 10 }); await results.save([1], { label: "x" });
        await gatemini.search_tools({ task_description: "t" });"""
    )
    assert [(c.kind, c.tool, c.arguments) for c in run.calls] == [
        ("results", "rows", ["res_1", {"offset": 5, "limit": 10}]),
        ("results", "save", [[1], {"label": "x"}]),
        ("gatemini", "search_tools", {"task_description": "t"}),
    ]


def paged(rows):
    """What answers `results.chunks` for these rows, 10 at a time; row 20 comes in three pieces."""

    def answer(call):
        options = call.arguments[1] if len(call.arguments) > 1 else {}
        at = options.get("offset", 0)
        if at == 20 or isinstance(at, str):
            piece = int(at[3:]) if isinstance(at, str) else 0
            following = f"20:{piece + 1}" if piece < 2 else 21
            return {"rows": [f"piece {piece}"], "piece": piece, "pieces": 3, "next_offset": following}
        end = min(at + 10, len(rows))
        return {"rows": rows[at:end], "next_offset": end if end < len(rows) else None}

    return answer


async def test_chunks_go_on_where_the_host_says_and_tell_that_a_row_goes_on(run):
    value = await run.value(
        """const n = []; for await (const c of results.chunks("r", { rows: 10 })) n.push([c.length, c.continues]);
        return n""",
        paged(list(range(25))),
    )
    assert value == [[10, False], [10, False], [1, True], [1, True], [1, False], [4, False]]
    assert [c.tool for c in run.calls] == ["chunk"] * 6
    assert run.calls[0].arguments == ["r", {"rows": 10}]
    assert run.calls[-1].arguments == ["r", {"offset": 21, "rows": 10}]


async def test_chunks_requested_in_parallel_arrive_in_order(run):
    value = await run.value(
        """const it = results.chunks("r"); const got = await Promise.all([it.next(), it.next(), it.next()]);
        await it.return(); return [...got, await it.next()].map((r) => r.done ? null : r.value[0])""",
        paged(list(range(25))),
    )
    assert value == [0, 10, "piece 0", None]


async def test_an_empty_result_has_no_chunks(run):
    value = await run.value(
        "let n = 0; for await (const c of results.chunks('r')) n++; return n",
        lambda _: {"rows": [], "next_offset": None},
    )
    assert value == 0


async def test_interfaces_are_synchronous(run):
    one = {"name": "demo.a", "description": "d", "input_schema": {}}
    literal = {"demo.a": one, "zz": None}
    assert await run.value(
        "return [__getToolInterface('demo.a').name, __getToolInterface('zz'), __getToolInterface('q')]",
        interfaces=literal,
    ) == ["demo.a", None, None]
    whole = {"demo": {"a": one}}
    code = "return [__getToolInterface('demo.a').name, __getToolInterface('a').name, __interfaces.demo.a.name, __getToolInterface('constructor')]"
    assert await run.value(code, interfaces=whole) == ["demo.a", "demo.a", "demo.a", None]


async def test_args_is_defined_only_when_arguments_are_given(run):
    assert await run.value("return args.x", args={"x": 1}) == 1
    assert await run.value("return typeof args") == "undefined"


async def test_unknown_and_repeated_replies_are_ignored(sandbox):
    session = Chain(sandbox, "const a = await demo.a({}); const b = await demo.b({}); return [a, b]")
    step = await session.start()
    first = step.calls[0].id
    step = await session.resume([Reply(999, True, b"0"), Reply(first, True, b"1"), Reply(first, True, b"2")])
    step = await session.resume([Reply(first, True, b"3")])
    assert step == Calls([], None)
    end = await session.resume([Reply(2, True, b"4")])
    assert isinstance(end, Done)
    assert end.text == "[1,4]"


async def test_each_seed_gives_its_own_randomness_and_the_same_seed_the_same(run):
    code = "return [Math.random(), crypto.randomUUID()]"
    first, again = await run(code), await run(code)
    other = await run(code, seed=bytes(range(1, 33)))
    assert isinstance(first, Done)
    assert first.text == again.text != other.text


async def test_a_thrown_value_of_any_kind_arrives_readable(run):
    cases = {
        'throw "boom"': "boom",
        "throw null": "null",
        "throw undefined": "undefined",
        "throw 5n": "5",
        "throw { a: 1 }": "{ a: 1 }",
        "throw Symbol('s')": "Symbol(s)",
        "throw { get message() { throw 1 } }": "message: [Throws",
        "throw Object.defineProperty(new Error('m'), 'message', { get() { throw 1 } })": "cannot be read",
        "throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 }, ownKeys() { throw 3 } })": "Throws",
        "throw new Error('outer', { cause: new TypeError('inner') })": "outer",
        "throw demo": "[backend demo]",
    }
    for code, text in cases.items():
        end = await run(code)
        assert isinstance(end, Failed)
        assert text in end.error.message, code
    assert (
        await run.error("throw new Error('outer', { cause: new TypeError('inner') })")
    ).error.cause == "Caused by: TypeError: inner"


@pytest.mark.parametrize(
    "name", ["toString", "toJSON", "valueOf", "hasOwnProperty", "constructor", "__proto__"]
)
async def test_a_tool_named_like_an_object_s_own_member_says_how_it_is_reached(run, name):
    error = (await run.error(f"return await demo.{name}({{ a: 1 }})")).error
    assert error.name == "TypeError"
    assert f'__backends["demo"].call("{name}", ' in error.message
    assert await run.value(f'return await __backends["demo"].call("{name}", {{ a: 1 }})') == {"a": 1}
