"""What the console writes, how much of it is kept, and that nothing it is given ends the chain."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


async def test_console_lines_come_back_in_order_and_the_value_is_undefined(run):
    end = await run(
        'console.log("rows", { n: 2 }); console.warn(undefined, 10n, new Map([["k", 1]])); console.table([{ a: 1 }]);'
    )
    assert end.kind == "undefined"
    assert end.console.lines == ["rows { n: 2 }", 'undefined 10n Map(1) { "k" => 1 }', "[ { a: 1 } ]"]
    assert end.console.dropped == 0


async def test_a_flood_of_lines_is_counted_not_kept(run):
    end = await run('for (let i = 0; i < 100000; i++) console.log("line", i)')
    assert end.console.lines[0] == "line 0"
    assert len(end.console.lines) + end.console.dropped == 100000
    assert sum(len(line) + 1 for line in end.console.lines) <= 65536


async def test_a_long_line_is_cut_and_a_newline_stays_one_line(run):
    end = await run('console.log("x".repeat(5000)); console.log("a\\nb"); console.log("ü😀\\ud800")')
    assert [len(line) for line in end.console.lines] == [2001, 3, 3]
    assert end.console.lines[1:] == ["a\nb", "ü😀\ufffd"]


async def test_the_log_survives_a_throw_and_a_trap(run, run_tight):
    thrown = await run.error('console.log("before"); throw new Error("x")')
    assert thrown.console.lines == ["before"]
    for code in ('console.log("before"); for (;;) {}', 'console.log("before"); const f = () => f() + 1; f()'):
        trapped = await run_tight.error(code)
        assert trapped.console.lines == ["before"]


@pytest.mark.parametrize(
    ("logged", "line"),
    [
        ("'s'", "s"),
        ("['s']", '[ "s" ]'),
        ("null", "null"),
        ("-0", "0"),
        ("[]", "[]"),
        ("({})", "{}"),
        ("() => 1", "[Function anonymous]"),
        ("function f() {}", "[Function f]"),
        ("Symbol('x')", "Symbol(x)"),
        ("new Set([1])", "Set(1) { 1 }"),
        ("new Error('m')", "Error: m"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("new (class Box { v = 1 })", "Box { v: 1 }"),
        ("{ a: { b: { c: { d: { e: 1 } } } } }", "{ a: { b: { c: { d: [Object] } } } }"),
        ("{ get x() { throw new Error('no') } }", "{ x: [Throws: no] }"),
        ("new Uint8Array(3)", "Uint8Array(3) [ 0, 0, 0 ]"),
        ("Array.from({ length: 102 }, () => 1)", "[ " + "1, " * 100 + "… 2 more ]"),
        ("Promise.resolve(1)", "Promise {}"),
        ("demo.rows({})", "Promise {demo.rows(…): put `await` in front}"),
        ("demo", "[backend demo]"),
        ("(() => { const o = {}; o.o = o; return o })()", "{ o: [Circular] }"),
        ('"%s is %d", "a", 5, { a: 1 }', "a is 5 { a: 1 }"),
        ('"%d%% of %i", "12.5", "7px"', "12.5% of 7"),
        ('"%f %d %d", "1.5kg", {}, 10n', "1.5 NaN 10n"),
        ('"%o %O %j", { a: 1 }, [1], "x"', "{ a: 1 } [ 1 ] x"),
        ('"%cred%c", "color: red", ""', "red"),
        ('"%s %s %s", "a", null', "a null %s"),
        ('"%z stays, %s goes", 1', "%z stays, 1 goes"),
        ('"100%"', "100%"),
        ('"50%", 3', "50% 3"),
        ('"%s"', "%s"),
        ('"a", "%s", 1', "a %s 1"),
        ('{ a: "%s" }, 1', '{ a: "%s" } 1'),
        ('"%s", { toString() { throw new Error("no") } }', "{ toString: [Function toString] }"),
        ('Object.assign(new Error("x"), { name: { a: 1 } })', "{ a: 1 }: x"),
        ('(() => { const e = new Error("x"); return e.name = e })()', "[Circular]: x"),
        ('Object.assign(new Error("x"), { message: { a: 1 } })', "Error: { a: 1 }"),
        ('Object.assign(new Error("x"), { name: undefined })', ": x"),
        (
            'Object.assign(new Error("x"), { name: new Proxy({}, { ownKeys() { throw 2 } }) })',
            "[Throws: 2]: x",
        ),
    ],
)
async def test_console_shows(run, logged, line):
    end = await run(f"console.log({logged}); return 1")
    assert (end.console.lines, end.text) == ([line], "1")


async def test_a_long_text_of_placeholders_is_cut_like_any_other(run):
    end = await run('console.log("%s".repeat(1e5), ...Array(1e4).fill("yy")); return 1')
    assert len(end.console.lines[0]) == 2001
