"""What a chain returns, as text: conversions, cycles, depth, promises inside, and the one note about it all."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.guest import Refused, Runner
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import Call, Done

pytestmark = pytest.mark.anyio


async def test_values_json_cannot_hold_are_converted_and_named_in_one_note(run):
    end = await run(
        """
        const a = { name: "root" }; a.self = a;
        return { u: undefined, b: 10n, d: new Date(0), m: new Map([["k", 1]]), s: new Set([1, 2]), n: NaN, f() {},
                 y: Symbol("q"), e: new RangeError("r"), bytes: new Uint8Array([1, 2]), a };"""
    )
    assert json.loads(end.text) == {
        "b": "10",
        "d": "1970-01-01T00:00:00.000Z",
        "m": {"k": 1},
        "s": [1, 2],
        "n": None,
        "e": {"name": "RangeError", "message": "r"},
        "bytes": [1, 2],
        "a": {"name": "root", "self": "[Circular]"},
    }
    assert len(end.notes) == 1
    for word in ("BigInt", "(b)", "Date", "Map", "Set", "NaN", "function", "symbol", "Error", "(a.self)"):
        assert word in end.notes[0]


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("return undefined", "undefined", "null"),
        ("", "undefined", "null"),
        ("return null", "json", "null"),
        ('return ""', "string", ""),
        ('return "[1]"', "string", "[1]"),
        ("return 0", "json", "0"),
        ("return -0", "json", "0"),
        ("return 1e21", "json", "1e+21"),
        ("return NaN", "json", "null"),
        ("return true", "json", "true"),
        ("return 10n", "json", '"10"'),
        ("return new Date(0)", "json", '"1970-01-01T00:00:00.000Z"'),
        ("return new Date(NaN)", "json", "null"),
        ("return [undefined, () => 1, 2]", "json", "[null,null,2]"),
        ("return Object(5)", "json", "5"),
        ("return Object('x')", "json", '"x"'),
        ("return new Map([[{}, 1]])", "json", "[[{},1]]"),
        ("return new Map()", "json", "{}"),
        ("return new Set()", "json", "[]"),
        ("return /a\\/b/g", "json", '"/a\\\\/b/g"'),
        ("return new Map([[1, 2]]).values()", "json", "[2]"),
        ("return (function* () { yield 1; yield demo.echo({ n: 2 }) })()", "json", '[1,{"n":2}]'),
        ("return (async function* () {})()", "json", '"[AsyncGenerator]"'),
        ("return [Object(1n), Object(Symbol('x'))]", "json", '["1","Symbol(x)"]'),
        ("return new DataView(new ArrayBuffer(3), 1)", "json", "[0,0]"),
        ("return new (class P extends Promise {})((done) => done(4))", "json", "4"),
        ("return Object.create(null)", "json", "{}"),
        ("return Object.create({ inherited: 1 })", "json", "{}"),
        ("return new (class A { x = 1; #y = 2; get z() { return 3 } })", "json", '{"x":1}'),
        ("return new (class A { toJSON() { return { j: 1 } } })", "json", '{"j":1}'),
        ("return { toJSON: () => 5 }", "json", "5"),
        ("return { toJSON: () => undefined, a: 1 }", "undefined", "null"),
        ("return [1, , 3]", "json", "[1,null,3]"),
        ("return () => 5", "json", "5"),
        ("return async () => ({ a: 1 })", "json", '{"a":1}'),
        ("return Symbol('x')", "json", "null"),
        ("return 'half \\ud800'", "string", "half \ufffd"),
        ("return ['half \\ud800']", "json", '["half \ufffd"]'),
        ("return { '\\ud800': 1 }", "json", '{"\ufffd":1}'),
        ("return Promise.resolve(Promise.resolve(3))", "json", "3"),
        ("return [Promise.resolve([Promise.resolve(4)])]", "json", "[[4]]"),
        ("return { rows: demo.echo({ n: 1 }) }", "json", '{"rows":{"n":1}}'),
        ("return new Map([['p', demo.echo({ n: 1 })]])", "json", '{"p":{"n":1}}'),
        ("return new ArrayBuffer(3)", "json", "[0,0,0]"),
        ("return new Float64Array([1.5, NaN])", "json", "[1.5,null]"),
        ("return demo", "json", '"[backend demo]"'),
        ("return { d: demo }", "json", '{"d":"[backend demo]"}'),
        ("return JSON.parse('{\"__proto__\": 1}')", "json", '{"__proto__":1}'),
        ("const x = [1]; return [x, x]", "json", "[[1],[1]]"),
    ],
)
async def test_a_value_becomes_this_text(run, code, kind, text):
    end = await run(code)
    assert isinstance(end, Done), end
    assert (end.kind, end.text) == (kind, text)


async def test_a_property_that_throws_is_replaced_by_a_text_that_says_so(run):
    value = await run.value(
        """
        const revoked = Proxy.revocable({}, {}); revoked.revoke();
        return { a: { get x() { throw new Error("no x") } }, j: { toJSON() { throw "plain" } }, r: revoked.proxy,
                 k: new Proxy({}, { ownKeys() { throw new Error("no keys") } }), ok: 1 };"""
    )
    assert value["a"] == {"x": "[Throws: no x]"}
    assert value["j"] == "[Throws: plain]"
    assert value["r"].startswith("[Throws: ")
    assert value["k"] == "[Throws: no keys]"
    assert value["ok"] == 1


async def test_nesting_beyond_the_limit_is_named_and_the_limit_itself_works(run):
    build = "let x = 1; for (let i = 0; i < {n}; i++) x = [x]; return x"
    end = await run(build.replace("{n}", "1000"))
    assert end.text == "[" * 1000 + "1" + "]" * 1000
    assert end.notes == []
    deeper = await run(build.replace("{n}", "1001"))
    assert deeper.text == "[" * 1000 + '"[Too deep]"' + "]" * 1000
    assert "depth" in deeper.notes[0]


async def test_a_cycle_far_down_is_found_where_it_closes(run):
    value = await run.value(
        "const top = {}; let at = top; for (let i = 0; i < 200; i++) at = at.n = {}; at.n = top; return top"
    )
    for _ in range(200):
        value = value["n"]
    assert value == {"n": "[Circular]"}


@pytest.mark.parametrize(
    ("made", "type_name", "length", "kept"),
    [
        ("new Uint16Array(1001).fill(258)", "Uint16Array", 1001, ["Uint16Array", b"\x02\x01" * 1001]),
        ("new ArrayBuffer(1001)", "ArrayBuffer", 1001, ["Uint8Array", bytes(1001)]),
        ("new DataView(new ArrayBuffer(1005), 4)", "DataView", 1001, ["Uint8Array", bytes(1001)]),
    ],
)
async def test_a_long_typed_array_leaves_as_a_reference_to_its_bytes(run, made, type_name, length, kept):
    told: list[Any] = []

    def keep(call: Call) -> Any:
        assert (call.kind, call.tool) == ("results", "keep")
        told.append([call.arguments[0], base64.b64decode(call.arguments[1])])
        return "res_1"

    end = await run(f"Uint8Array.prototype.toBase64 = null; return {{ a: {made} }}", keep)
    assert json.loads(end.text) == {"a": {"type": type_name, "length": length, "ref": "res_1"}}
    assert (told, end.refs) == ([kept], ["res_1"])
    assert "results.base64(ref)" in end.notes[0]


async def test_a_long_typed_array_that_cannot_be_kept_leaves_as_its_description(run):
    def refuse(call: Call) -> Any:
        raise Refused({"name": "ResultNotKept", "message": "no room"})

    end = await run("return new Uint16Array(1001)", refuse)
    assert json.loads(end.text) == {"type": "Uint16Array", "length": 1001}
    assert "no room" in end.notes[0]
    assert len(await run.value("return new Uint16Array(1000)")) == 1000


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("return { at: new Date(NaN) }", "invalid Date became null (at)"),
        ("return [/a/]", "RegExp became its text ([0])"),
        ("return { w: new WeakMap() }", "class WeakMap has no readable fields and became {} (w)"),
        ("return new (class Box { #x = 1 })", "class Box has no readable fields"),
        ("return (function* () { for (;;) yield 1 })()", "first 10000 items"),
    ],
)
async def test_what_could_not_be_read_is_named_in_a_note(run, code, words):
    assert words in (await run(code)).notes[0]


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (
            "return Promise.any([Promise.reject(new Error('a')), demo.fail({ message: 'b' })])",
            ["Error 1 of 2: Error: a", "Error 2 of 2: ToolError: demo.fail: b"],
        ),
        (
            "throw new Error('o', { cause: new Error('m', { cause: 'deep' }) })",
            ["Caused by: Error: m", "Caused by: deep"],
        ),
        (
            "const e = new Error('no answer from there'); throw new Error('down: ' + e.message, { cause: new Error(e.message, { cause: 'deep' }) })",
            ["Caused by: deep"],
        ),
        ("const e = new Error('e'); e.cause = e; throw e", ["Caused by: Error: e"]),
    ],
)
async def test_causes_and_members_of_an_error_are_listed_line_by_line(run, code, lines):
    assert (await run.error(code)).error.cause.split("\n") == lines


async def test_a_rejected_promise_inside_the_value_fails_the_chain(run):
    end = await run.error('return { a: demo.fail({ message: "boom" }) }')
    assert (end.error.name, end.error.tool) == ("ToolError", "demo.fail")


async def test_refs_in_the_value_are_reported(run):
    end = await run(
        'return [{ type: "image", mimeType: "image/png", bytes: 9, ref: "res_1" }, new Set([{ ref: "res_2" }])]'
    )
    assert end.refs == ["res_1", "res_2"]


@pytest.mark.long
async def test_a_returned_array_of_too_many_holes_is_too_large_and_takes_little_memory(module_cache):
    small = Sandbox(Limits(value_bytes=8_000_000, memory_mb=64), cache_dir=module_cache, isolation="thread")
    small.warm()
    try:
        end = await Runner(small)("return Array(2.4e6);")
        assert end.error.limit == "limit.value"
    finally:
        small.close()


async def test_a_value_over_its_limit_fails_with_the_limit(module_cache):
    small = Sandbox(Limits(value_bytes=1000), cache_dir=module_cache, isolation="thread")
    for code in (
        'return "x".repeat(1001)',
        'return ["x".repeat(1001)]',
        "return [new Map([[1, 'x'.repeat(1001)]])]",
    ):
        end = await Runner(small).error(code)
        assert end.error.limit == "limit.value"
        assert "1000 bytes" in end.error.message
    small.close()


def as_floats(value: Any) -> Any:
    """JavaScript has one kind of number: 6.8e16 is written as a whole number."""
    if isinstance(value, list):
        return [as_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: as_floats(item) for key, item in value.items()}
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4)
    ),
    max_leaves=20,
)


@given(value=json_values)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_json_value_passes_through_the_guest_unchanged(run, value: Any):
    end = await run("return await demo.echo({ v: 1 })", answer=lambda _: [value])
    assert json.loads(end.text, parse_int=float) == [as_floats(value)]
    careful = await run("const v = await demo.echo({}); return new Set(v)", answer=lambda _: [value])
    assert json.loads(careful.text, parse_int=float) == [as_floats(value)]


@pytest.mark.parametrize(
    "value",
    [
        "const a = []; a[4294967294] = 1; return a;",
        "return { a: [new Proxy([], { get: (t, k) => (k === 'length' ? 4294967295 : t[k]) })] };",
        "const a = []; a[4294967294] = 1; await demo.echo({ a });",
    ],
)
async def test_a_list_that_claims_more_items_than_its_text_may_have_is_refused_at_once(run, value):
    end = await run(value)
    assert end.error.limit == ("limit.arguments" if "demo" in value else "limit.value")


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("return { names: undefined, n: undefined, m: 1 }", "left out: names, n"),
        ("return [1, 2, 3].map((i) => ({ i, id: undefined, sub: { x: undefined } }))", "left out: [].id (3 times), [].sub.x (3 times)"),
        ("return { when: new Date(0), rows: [{ a: undefined }] }", "left out: rows[].a"),
        ("const o = {}; for (let i = 0; i < 12; i++) o['k' + i] = undefined; return o", "k8, k9 and more"),
        ("return [1, 2, 3, NaN]", "NaN or Infinity became null ([3])"),
        ("return { rows: [{ n: 1 }, { n: NaN }] }", "NaN or Infinity became null (rows[1].n)"),
    ],
)  # fmt: skip
async def test_a_note_names_members_that_are_undefined_and_indexes_as_such(run, code, note):
    assert note in "; ".join((await run(code)).notes)


@pytest.mark.parametrize("code", ["return { a: null, b: 0, c: '' }", "return [[], {}, [{}]]"])
async def test_a_value_without_undefined_members_has_no_note(run, code):
    assert (await run(code)).notes == []
