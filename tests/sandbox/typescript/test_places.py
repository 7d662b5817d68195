"""Where errors stand: the engine's coarse positions made exact, and the way back to the submitted text."""

from __future__ import annotations

import pytest

from fixtures.guest import Runner
from gatemini_sandbox.messages import Failed

pytestmark = pytest.mark.anyio

# Code with the failing place marked by «.
MARKED = [
    "«nope",
    "const a = 1;\nconst b = «nope + 1;",
    "const a = null;\nconst b = a.«x;",
    "const a = null;\nreturn a.«x();",
    "const a = { b: null };\nconst c = a.b;\nconst d = c.«e;",
    "const a = null;\nif (a.«x) { return 1 }",
    "const a = null;\nfor (const x of «a) {}",
    "const a = null;\nconst «{ b } = a;",
    "const a = null;\nconst { «b } = a.b ?? a;".replace("«b } = a.b", "b } = a.«b"),
    "const a = null;\nlet q;\nq = `${a.«b}`;",
    "const a = null;\na?.b.c.d; const q = a.«b;",
    "const a = null;\nreturn [1, a[«0]];",
    "const a = null;\nreturn [...«a];",
    "const a = null;\na.«b = 1;",
    "const a = 1;\n«a = 2;",
    "«q; let q = 1;",
    "const f = (p) => {\n  const z = 1;\n  return p.q.«r;\n};\nf({});",
    "[1].map(v => v.a.«b)",
    "function g() {\n  throw «new Error('x');\n}\nawait 1;\ng();",
    "const s = 'äö😀'; throw «new TypeError('x')",
    "\tconst s = '😀'; s.«missing()",
    "await demo.echo({});\nconst r = await demo.echo({ a: null });\nreturn r.a.«b;",
    "demo.echo({});\nawait demo.«fail({ message: 'm' })",
    "async function h() { await null; return null.«x }\nawait h()",
    "class A { go() { return this.v.«w } }\nnew A().go()",
    "const r = await Promise.all([1, 2].map(async (n) => { await null; return n.x.«y }));",
    "JSON.«parse('{')",
    "const a = 1;\nconst m = await «import('fs');",
    "const a = /b(?<n>c)/;\nreturn 'x'.match(«/(/);",
    "throw «new Error('x', { cause: new TypeError('why') });",
    "const f = () => 'q';\nthrow «new Error('x' + f(), { cause: f() });",
    "throw «Error('x' + JSON.stringify({ a: 1 }));",
    "const w = { a: new Error('out', { cause: «new Error('deep') }) };\nthrow w.a.cause;",
    "const w = { a: «new Error('out', { cause: new Error('deep') }) };\nthrow w.a;",
    "throw new Map([[new «Date(NaN).toISOString(), 1]]);".replace("new «Date(NaN).", "new Date(NaN).«"),
    "class A extends Error {}\nthrow «new A('m', { cause: new Error('in') });",
    "class B extends Error {}\nclass A extends B {\n  constructor(m) { super(m); this.name = 'Q' }\n}\nthrow «new A('m');",
    "const a = {};\nconst y = null;\nreturn [a.x, y.«x];",
    "let a;\nconst b = { id: 2 };\nconsole.log(b.id, a.«id);",
    "const r = await demo.echo({ v: null });\nreturn [Math.x, 'a'.x, r.v.«x];",
    "return 1n + «1",
    "const x = 1;\n  const h = crypto.«subtle.digest('SHA-256', new Uint8Array(1));",
    "x: for (;;) { const y = undefined;\n y.«z; }",
    "const a = [1];\nreturn a.«mpa(x => x);",
    "const a = [1], f = x => x;\nreturn f(a.«mpa(f(1)), 1);",
    "const a = [1], b = [2];\nreturn a.«mpa(b.map(x => x));",
    "const a = [1];\nreturn a.map(x => x)\n  .«fliter(y => y)\n  .map(z => z);",
    "const a = [1];\nreturn a.map(x => x.«foo(y => y));",
    "const a = [1], b = [2];\nfor (const x of a) b.«psuh(x);",
    "const r = (await demo.echo({ a: 1 })).a.«map(x => x);",
    "const n = null;\nreturn «n(x => x);",
    "return [3, 1].«sort('id');",
    "const a = [1];\nreturn a.find(x => x === 9).«name;",
    "const a = [1];\nreturn a.at(0).b.«c(x => x);",
    "const a = await demo.echo({ a: 1 });\nfor (const x of «a) console.log(x);",
    "const a = await demo.echo({ a: 1 });\nfor (const x of [1]) console.log(x);\nconst «[b] = a;",
    "const a = await demo.echo({ a: 1 });\nconst c = { ...a };\nreturn [...«c];",
    "export default async function main(c) {\n  const r = c.«demo;\n  return r;\n}",
    "const r = demo.«echo({ a: 1 });\nconsole.log('x');\nreturn r.a;",
    "const { a } = demo.«echo({ a: 1 });\nreturn a;",
    "const a = 1;\nif (a) {\n  «throw 'text';\n}",
    "const a = { n: null };\nawait demo . «fail ( { message: 'm' } );",
    "await demo[«'fail']({ message: 'm' });",
    "const a = await demo.«fail({ message: JSON.stringify(1), n: String(2) });",
    "const rows = [1];\nreturn rows.map((r) => {\n  const x = r.meta;\n  return x.«tags;\n});",
    "const rows = [1];\nreturn rows.filter((r) => r).map((r) => {\n  const x = r.meta;\n  return x.«tags?.a ?? x.tags;\n});",
]


def unmarked(marked: str) -> tuple[str, int, int]:
    before = marked[: marked.index("«")]
    return marked.replace("«", ""), before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


@pytest.mark.parametrize("marked", MARKED)
async def test_an_error_points_at_the_node_that_failed(sandbox, marked):
    code, line, column = unmarked(marked)
    end = await end_of(sandbox, code)
    assert (end.error.line, end.error.column) == (line, column), end.error


@pytest.mark.parametrize(
    "before", ["const seen = new Set();", "const p9 = new (class P9 {})(1), d9 = new Date(0);"]
)
async def test_what_was_made_before_an_error_is_not_blamed(sandbox, before):
    for marked in MARKED:
        if marked.startswith("export"):
            continue
        code, line, column = unmarked(f"{before}\n{marked}")
        end = await end_of(sandbox, code)
        assert (end.error.line, end.error.column) == (line, column), (code, end.error)


@pytest.mark.parametrize(
    "before",
    [
        "interface Row { id: string; n?: number }\n",
        "enum Level { Low, High = 5 }\n",
        "type A<T> = T | null;\nconst u = 1 as number satisfies number;\n",
        "// comment ü\r\n/* two\r\nlines */\r\n",
        "function first<T>(xs: readonly T[]): T | null {\n  return xs[0] ?? null;\n}\n",
        "const long = `a\nb\n${1}\n`;\n",
    ],
)
@pytest.mark.parametrize(
    "marked",
    ["const x: string | null = null as any;\n  return x!.«length;", "\tthrow «new Error('at the end');"],
)
async def test_a_position_is_that_of_the_submitted_typescript(sandbox, before, marked):
    code, line, column = unmarked(before + marked)
    end = await end_of(sandbox, code)
    assert (end.error.line, end.error.column) == (line, column), end.error


async def end_of(sandbox, code: str) -> Failed:
    runner = Runner(sandbox)
    end = await runner(code)
    assert isinstance(end, Failed), end
    return end


async def test_the_frames_of_the_program_are_listed_innermost_first(run):
    end = await run.error(
        "\nfunction inner() { throw new Error('x') }\nfunction outer() {\n inner() }\nouter()"
    )
    assert [(name, line) for name, line, _ in end.error.stack] == [
        ("inner", 2),
        ("outer", 4),
        ("<anonymous>", 5),
    ]
