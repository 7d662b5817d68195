"""The shape of submitted code: what gives the value, decided from the parse, with the value the real guest gives."""

from __future__ import annotations

import json

import pytest

from fixtures.guest import Runner
from gatemini_sandbox.messages import Done, Failed
from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

ECHO = "const x = await demo.echo({ n: 3 })"

# Shape, code, JSON of the value.
SHAPES = [
    ("statements", "return 7", "7"),
    ("statements", "if (1) { return 'a' }\nconst later = 1;", '"a"'),
    ("statements", "export const x = 1; return x", "1"),
    (
        "statements",
        '// export default\nconst note = "export default is only text here";\nreturn note.length;',
        "32",
    ),
    (
        "statements",
        "/* module.exports = 1 */ const s = `export default function main() {}`; return s.length",
        "33",
    ),
    (
        "module",
        "export default async function main(): Promise<number> { const { a } = await demo.echo({ a: 20 }); return a + 22; }",
        "42",
    ),
    ("module", "export default function () { return 7 }", "7"),
    ("module", "export default () => 7", "7"),
    ("module", "export default async () => 7\n// done", "7"),
    ("module", "export default <T,>(x?: T): T | number => x ?? 7;", "7"),
    ("module", "async function main() { return 7 }\nexport default main;", "7"),
    ("module", "async function main() { return 7 }\nexport { main as default }", "7"),
    ("module", "const handler = () => 7;\nexport = handler;", "7"),
    ("module", "export default { ok: true }", '{"ok":true}'),
    ("module", "export default 1 + 1", "2"),
    ("module", "export default await demo.echo({ a: 1 });", '{"a":1}'),
    ("module", "const k = 5;\nexport default async function () { return k }\nfunction helper() {}", "5"),
    (
        "module",
        "interface A { a: number }\nexport type B = A;\nexport interface C {}\nexport default async function main() { return 7 }",
        "7",
    ),
    ("commonjs", "module.exports = async () => 7", "7"),
    ("commonjs", "exports.main = async () => 7;", "7"),
    ("commonjs", "module.exports = { rows: [1] };", '{"rows":[1]}'),
    ("commonjs", "const run = () => 7;\nmodule.exports = exports = run;", "7"),
    ("commonjs", "async function main() { return 7 }\nmodule.exports = { main };", "7"),
    ("expression", f"{ECHO};\nx.n * 2", "6"),
    ("expression", f"{ECHO}\nx.n * 2 // twice", "6"),
    ("expression", f"{ECHO}\n(x.n * 2)", "6"),
    ("expression", f"{ECHO}\n[x.n, 1]", "[3,1]"),
    ("expression", f"{ECHO}\n`n is ${{x.n}}`", '"n is 3"'),
    ("expression", f'{ECHO}\nconst y = x.n\n/3/.test("3")', "true"),
    ("expression", f"{ECHO}\nconst y = x.n\n-y + 1", "-2"),
    ("expression", f"{ECHO}\nconst y = x.n\n+y", "3"),
    ("expression", "const f = (x) => x // (\n// [\n[1, 2].map((x) => x * 2)", "[2,4]"),
    ("expression", "const a = 1\n[a].map((x) => x)\n(2)", "2"),
    ("expression", "(() => 4)\n()", "4"),
    ("statements", "const s = 'a'\n+ 'b'\nreturn s", '"ab"'),
    ("statements", "const o = {\na: [1]\n[0]\n}\nreturn o.a", "1"),
    ("expression", f"{ECHO}\n({{ n: x.n }})", '{"n":3}'),
    ("expression", f"{ECHO}\n(await demo.echo({{ a: x.n }})).a", "3"),
    ("expression", f"{ECHO}\n(async () => x.n)()", "3"),
    ("expression", "let a = 1\nlet b: number = a as number\n[a, b].map((v) => v + 1)", "[2,2]"),
    ("expression", "let a: number\n(a = 5)", "5"),
    ("expression", "type T = number\n({ ok: true })", '{"ok":true}'),
    ("expression", "({ ok: true })", '{"ok":true}'),
    ("expression", "{ ok: true }", '{"ok":true}'),
    ("expression", "{ a: 1, b: [2] }", '{"a":1,"b":[2]}'),
    ("expression", "'just text'", '"just text"'),
    ("expression", "await demo.echo({ a: 1 })", '{"a":1}'),
    ("expression", "const a = 1;\na;\n\n// the end\n", "1"),
    ("expression", "const r = await main();\nr\nasync function main() { return 4 }", "4"),
    ("expression", "async function main() { return 4 }\nmain()", "4"),
    ("expression", "async function main() { return 4 }\nawait main();", "4"),
    ("expression", "export default async function main() { return 4 }\nawait main();", "4"),
    ("expression", "4 as number", "4"),
    ("expression", "<number>4", "4"),
    ("expression", "<any>{ a: 4 }", '{"a":4}'),
    ("expression", "`a${1}`", '"a1"'),
    ("expression", "const xs = [1, 2]\nxs\n  .map((x) => x * 2)\n  .filter(Boolean)", "[2,4]"),
    ("expression", "(async () => {\n  const r = await demo.echo({ a: 2 });\n  return r.a;\n})()", "2"),
    ("expression", "enum E { A = 4 }\nE.A", "4"),
    ("function", "async () => 5", "5"),
    ("function", "(async () => { return 5 })", "5"),
    ("function", "function () { return 5 }", "5"),
    ("function", "async function () { return 5 }", "5"),
    ("function", "<T,>(): number => 5", "5"),
    ("function", "() => ({ a: 5 }) // object", '{"a":5}'),
    ("main", "async function run() { return 7 }", "7"),
    ("main", "async function whatever() { return 7 }", "7"),
    ("main", "const main = async (): Promise<number> => 7;", "7"),
    ("main", "export async function main() { return 7 }", "7"),
    ("main", "export const handler = async () => 7", "7"),
    ("main", "function helper(n: number) { return n + 1 }\nasync function main() { return helper(6) }", "7"),
    ("main", "function helper(n: number) { return n + 1 }\nasync function go() { return helper(6) }", "7"),
    (
        "main",
        "interface A { a: 1 }\nconst k = 6;\nasync function main(n = 1) { return n > 1 ? main(0) : k + n }",
        "7",
    ),
    ("main", "console.log('start');\nasync function main() { return 7 }", "7"),
    ("empty", "", "null"),
    ("empty", "// nothing\ninterface A { a: 1 }\n;", "null"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("shape", "code", "value"), SHAPES)
async def test_the_value_comes_from_where_the_shape_says(sandbox, shape, code, value):
    program = prepare(code, ["demo"])
    assert program.shape == shape
    end = await Runner(sandbox)(code)
    assert isinstance(end, Done), end
    got = None if end.kind == "undefined" else end.text if end.kind == "string" else json.loads(end.text)
    assert got == json.loads(value)


@pytest.mark.anyio
async def test_an_error_thrown_in_main_is_the_error_of_the_chain(sandbox):
    end = await Runner(sandbox)("export default async function main() {\n  throw new RangeError('boom');\n}")
    assert isinstance(end, Failed)
    assert (end.error.name, end.error.message, end.error.line) == ("RangeError", "boom", 2)


def test_a_default_export_that_is_also_called_runs_once():
    program = prepare("export default async function main() { await demo.write({}) }\nmain();", ["demo"])
    assert program.js.count("main()") == 2  # its declaration and the call that was there


def test_a_function_that_needs_arguments_is_not_called_but_named():
    program = prepare("async function main(input: string) { return input }")
    assert program.shape == "statements"
    assert program.declared_never_called == "main"


def test_none_of_several_functions_is_called_if_none_is_main():
    program = prepare("function a() { return 1 }\nfunction b() { return 2 }")
    assert program.shape == "statements"
    assert program.declared_never_called == "b"


def test_a_value_dropped_by_a_block_is_reported_for_the_hint():
    program = prepare('const x = { n: 3 };\nif (x.n > 1) {\n  "yes"\n}')
    assert program.shape == "statements"
    assert program.lost_value == (3, 3, '"yes"')
    assert prepare("if (a) { f() }").lost_value is None
    assert prepare("for (const i of [1]) { await demo.echo({ i }) }").lost_value is None
    assert prepare("const n = 1;\nconst total = n + 2;").lost_value == (2, 7, "total")


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ('import fs from "node:fs";\nreturn fs;', (1, 1)),
        ('const a = 1;\nimport { x } from "./y";\nreturn x + a;', (2, 1)),
        ('import { unused } from "./y";\nreturn 1;', (1, 1)),
        ('import "side-effect";', (1, 1)),
        ('import * as path from "path";\nreturn path.join("a");', (1, 1)),
        ('return 1;\nexport { a } from "./b";', (2, 1)),
        ('export * from "./b";', (1, 1)),
    ],
)
def test_an_import_of_a_value_says_what_this_sandbox_is(code, place):
    with pytest.raises(SandboxSyntaxError, match="no module system") as caught:
        prepare(code, ["demo", "github"])
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.kind == "module"
    assert "demo, github" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "line",
    [
        'import type { Config } from "./types";',
        'import type Config from "./types"',
        'import { type Config } from "./types";',
        'import { Config } from "./types";',
        'import Config, { type Other } from "./types";',
        'import * as Config from "./types";',
        'export type { Config } from "./types";',
        'import type Config = require("./types");',
    ],
)
def test_an_import_of_types_is_erased(line):
    program = prepare(f"{line}\nconst c = null as Config | Config.Inner | null;\nreturn c;")
    assert "import" not in program.js
    assert "types" not in program.js


def test_text_that_closes_the_function_around_it_is_refused():
    with pytest.raises(SandboxSyntaxError, match="Unexpected token") as caught:
        prepare("let a = 1;\n})(); (function(){")
    assert (caught.value.line, caught.value.column) == (2, 1)


def test_the_same_text_and_backends_give_the_same_program():
    assert prepare("return 1 + 1", ["a", "b"]) is prepare("return 1 + 1", ["b", "a"])
    assert prepare("return 1 + 1", ["a"]) is not prepare("return 1 + 1", ["b", "a"])


# --- facts


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("await demo.echo({})", False),
        ("await demo['echo']({ in: 1 })", False),
        ("await demo.echo.raw({})", False),
        ("await __backends['demo'].call('x', {})", False),
        ("await globalThis['demo'].echo({})", False),
        ("globalThis.counter = 1", False),
        ("return 'Object.keys(demo)' // Object.keys(demo)", False),
        ("return 'echo' in demo", True),
        ("return Object.keys(demo)", True),
        ("return Object.keys(__backends)", True),
        ("for (const k in demo) {}", True),
        ("const d = demo; return Reflect.ownKeys(d)", True),
        ("return Object.keys(globalThis['demo'])", True),
        ("return Object.keys(__backends.demo)", True),
        ("return { demo }", True),
    ],
)
def test_the_catalog_is_requested_only_where_names_may_be_listed(code, needed):
    assert prepare(code, ["demo"]).needs_catalog is needed


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("return fetch('x')", {"fetch"}),
        ("enum E { A }\nreturn { fetch, a: E.A }", {"fetch"}),
        ("type F = typeof fetch; const x: process = 1; return demo.fetch({ fetch: 1 })", set()),
        ("return typeof fetch === 'function' ? fetch('x') : process.env", {"process"}),
        ("return (fetch: string) => fetch", set()),
        ("const process = 1; return process", set()),
        ("return globalThis.fetch ?? fetch('x')", set()),
        ("return eval('typeof fetch') + fetch('x')", set()),
        ("return 'fetch' // fetch", set()),
    ],
)
def test_names_of_other_hosts_count_as_read_where_nothing_asks_whether_they_exist(code, read):
    assert prepare(code, ["demo"], frozenset(["fetch", "process"])).read == read


@pytest.mark.parametrize(
    ("code", "rounded"),
    [
        ("return 9007199254740993", [(1, 8, "9007199254740993")]),
        ("\nreturn [-9_007_199_254_740_993]", [(2, 10, "9_007_199_254_740_993")]),
        ("enum E { A }\nreturn 0xfffffffffffffff", [(2, 8, "0xfffffffffffffff")]),
        ("return [9007199254740992, 100000000000000000000, 9007199254740993n, 1234567890123456.5]", []),
        ("type T = 9007199254740993; return '9007199254740993' // 9007199254740993", []),
    ],
)
def test_whole_numbers_that_javascript_rounds_are_known(code, rounded):
    assert list(prepare(code).rounded) == rounded


@pytest.mark.parametrize("code", ["export default class { run() {} }", "export default class Runner {}"])
def test_an_exported_class_is_not_called_and_needs_no_hint(code):
    assert prepare(code).declared_never_called is None


def test_interfaces_by_literal_name_bring_in_only_those():
    program = prepare("return [__getToolInterface('demo.echo'), __getToolInterface(`add`)]")
    assert program.interface_literals == {"demo.echo", "add"}
    assert not program.needs_interfaces
    assert prepare("return __getToolInterface(name)").needs_interfaces
    assert prepare("const g = __getToolInterface; return g('a')").needs_interfaces
    assert prepare("return __interfaces.demo").needs_interfaces
    assert not prepare("return '__interfaces' // __interfaces").needs_interfaces


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("const exa = await exa.search({});", (1, 7)),
        ("let a = 1, exa: number = 2;", (1, 12)),
        ("const { exa } = x;", (1, 9)),
        ("const { a: [exa] } = x;", (1, 13)),
        ("function f(\n  exa: string) {}", (2, 3)),
        ("xs.map(exa => 1)", (1, 8)),
        ("function exa() {}", (1, 10)),
        ("try {} catch (exa) {}", (1, 15)),
    ],
)
def test_a_variable_named_like_a_backend_is_reported_for_the_hint(code, place):
    assert prepare(code, ["exa", "demo"]).shadowed == {"exa": place}


def test_a_property_named_like_a_backend_shadows_nothing():
    assert not prepare(
        "const o = { exa: 1 }; o.exa = 2; type exa = 1; const { exa: e } = o;", ["exa"]
    ).shadowed
