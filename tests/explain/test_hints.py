"""Each kind of mistake gets one sentence that says what to change; an unknown one gets none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemini.explain.error_facts import BackendState, ErrorFacts, HintContext, ProgramFacts
from gatemini.explain.hints import hint

TOOLS = {
    "exa": ["web_search_exa", "find-similar"],
    "files-eu": ["read", "write"],
    "demo": ["echo", "rows", "read"],
}


def context(**more) -> HintContext:
    def owners(name: str) -> list[str]:
        return [f"{backend}.{tool}" for backend, tools in TOOLS.items() for tool in tools if tool == name]

    return HintContext(
        backends={"demo": "demo", "exa": "exa", "files_eu": "files-eu"},
        tools=lambda backend: TOOLS.get(backend, []),
        owners=owners,
        signature=lambda backend, tool: f"{tool}(args: {{ n: number }})",
        arguments=lambda backend, tool: "{n: number}" if tool == "rows" else "",
        **more,
    )


def said(
    name: str, message: str, source: str = "", line: int | None = 1, ctx: HintContext | None = None, **facts
) -> str:
    return hint(ErrorFacts(name, message, line, 1, source, **facts), ctx or context()) or ""


def said_at(name: str, message: str, marked: str) -> str:
    """The hint for an error at the place marked by « in the first line."""
    error = ErrorFacts(name, message, 1, marked.index("«") + 1, marked.replace("«", ""))
    return hint(error, context()) or ""


# --- names ------------------------------------------------------------------------------------------


def test_a_backend_hidden_by_a_variable_of_its_name_is_to_be_renamed():
    facts = ProgramFacts(shadowed={"exa": (3, 7)})
    for message in ("exa is not initialized", "'exa' is not initialized"):
        found = said("ReferenceError", message, "const exa = await exa.search()", ctx=context(program=facts))
        assert "line 3" in found
        assert "const exaResult = await exa.…" in found
    assert "move the declaration up" in said(
        "ReferenceError", "rows is not initialized", "use(rows); let rows"
    )


@pytest.mark.parametrize("name", ["gone_one", "gone-one", "off"])
def test_a_backend_that_does_not_run_is_named_with_the_reason(name):
    """Even where its tool is one that another backend has too."""
    reason = "TOKEN is not set (backends.gone-one.env.TOKEN). Set TOKEN in the environment or a .env file"
    ctx = context(disabled={"gone-one": reason, "off": "disabled: true in the configuration"})
    if "-" in name:
        code = f'await __backends["{name}"].call("echo", {{}})'
        found = said("TypeError", "cannot read property 'call' of undefined", code, ctx=ctx)
    else:
        found = said("ReferenceError", f"{name} is not defined", f"await {name}.echo({{}})", ctx=ctx)
    known = "off" if name == "off" else "gone-one"
    assert found == f"the backend {known} is not running: {ctx.disabled[known]}"


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("web_search_exa({})", "tool of backend exa: write `await exa.web_search_exa({…})`"),
        ("read({})", "write one of files_eu.read, demo.read"),
        ("filesEu.read({})", "`await files_eu.tool({…})`"),
        ("files; return await files-eu.read({})", "is called files_eu in code"),
        ("mcp__gateway__demo_echo({})", "write `await demo.echo({…})`"),
        ("dmeo.echo({})", "did you mean demo?"),
        ("github.list({})", "there is no backend github; backends available: demo, exa, files_eu"),
        ("totl; const total = 1", "did you mean total?"),
        ("qqq", "declare qqq first"),
        ("ecko({})", "did you mean demo.echo?"),
        ("tools.exa.search({})", "write `await exa.tool({…})`, without tools in front"),
        ("shop.rows({})", "rows is a tool of backend demo: write `await demo.rows({…})`"),
        ("shop.read({})", "read is a tool of several backends: write one of files_eu.read, demo.read"),
        ("shop.nope({})", "there is no backend shop; backends available"),
        ("None", "null"),
        ("Intl.x", "there is no Intl"),
        ("AbortController", "`timeout`"),
        ("axios.get('x')", "search_tools('fetch url')"),
        ("require('node:fs/promises')", "search_tools('read file')"),
        ("require('node:crypto')", "crypto.randomUUID()"),
        ("require('timers/promises')", "await sleep(ms)"),
        ("process.env.HOME", "secrets belong in the backend's config"),
        ("process.exit(1)", "`return` ends the code"),
        ("process.stdout.write('x')", "write console.log(…)"),
    ],
)
def test_an_unknown_name_leads_to_a_known_one(source, part):
    name = source.split(".")[0].split("(")[0].split(";")[0]
    assert part in said("ReferenceError", f"{name} is not defined", f"return await {source}")


def test_a_hint_never_proposes_the_same_name_or_a_module():
    assert "did you mean" not in said(
        "ReferenceError", "Foo is not defined", "declare class Foo {}; new Foo()"
    )
    assert "search_tools" not in said("ReferenceError", "require is not defined", "require('some-lib')")
    assert "no backend is available" in (
        hint(ErrorFacts("ReferenceError", "x1 is not defined"), HintContext()) or ""
    )


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("fs", "search_tools('read file')"),
        ("child_process", "search_tools('run command')"),
        ("zod", "plain code"),
    ],
)
def test_an_import_says_what_to_use_instead_of_the_module(module, part):
    found = said("SyntaxError", f'cannot import "{module}": there is none', given="`import type` is allowed.")
    assert found.startswith("`import type` is allowed; ")
    assert part in found
    assert said("SyntaxError", 'cannot import "some-lib": there is none', given="nothing.") == "nothing."


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("sleep.wait({})", "called sleep_ in code: write `await sleep_.wait({…})`"),
        ("JSON['get-it']({})", 'write `await JSON_["get-it"]({…})`'),
        ("await demo.then({})", "`await demo.tool({…})`"),
        ("await odd.then({})", '`await __backends["odd"].call("then", {…})`'),
        ("gatemini.register_manual({})", "not from inside a chain"),
        ("results.fetch('x')", "results has rows"),
    ],
)
def test_a_member_of_the_wrong_object_leads_to_the_right_one(source, part):
    names = {"demo": "demo", "odd": "odd", "sleep_": "sleep", "JSON_": "JSON"}
    ctx = replace(context(), backends=names, tools=lambda name: ["then"] if name == "odd" else [])
    assert part in said("TypeError", "not a function", source, ctx=ctx)


@pytest.mark.parametrize("declaration", ["const { results }", "const results", "let [a, results]"])
def test_a_variable_called_like_a_global_is_not_taken_for_it(declaration):
    source = f"{declaration} = await demo.rows({{}});\nreturn results.fetch('x');"
    assert "results has" not in said("TypeError", "not a function", source, line=2)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("return await default.run({});", "the backend default is called default_ in code"),
        ("return await import['run']({});", "write `await import_.run({…})`"),
        ("return await sleep.run({);", None),
    ],
)
def test_a_backend_called_like_a_reserved_word_leads_to_its_name_in_code(source, part):
    names = {"default_": "default", "import_": "import", "sleep_": "sleep"}
    found = said("SyntaxError", "unexpected token", source, ctx=replace(context(), backends=names))
    assert part in found if part else "in code" not in found


def test_a_tool_with_a_hyphen_is_written_in_brackets():
    source = "const similar = await exa.find-similar({ id: 1 });"
    for name, message in (("ReferenceError", "similar is not initialized"), ("TypeError", "not a function")):
        assert 'write `await exa["find-similar"]({…})`' in said(name, message, source)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("export default async ({ demo }) => demo.echo({});", 1),
        ("export default async function main(ctx: any) {\n  return ctx.demo.echo({});\n}", 2),
    ],
)
def test_a_main_function_is_called_without_arguments(source, line):
    found = said("TypeError", "cannot read property 'demo' of undefined", source, line)
    assert "called without arguments" in found


@pytest.mark.parametrize(
    ("tool", "part"),
    [
        ("demo.ecko", "did you mean echo?"),
        ("demo.row", "did you mean rows({n: number})?"),
        ("demo.web_search_exa", "is a tool of exa"),
        ("demo.zzzzzz", "tools of demo: echo, rows, read"),
        ("demo.callTool", "tools are members of the backend: write `await demo.rows({…})`"),
    ],
)
def test_an_unknown_tool_leads_to_the_closest_one_or_to_its_backend(tool, part):
    source = "return await demo.callTool('rows', { n: 1 })"
    assert part in said(
        "ToolNotFound", "no such tool", source, code="tool.not_found", tool=tool, backend="demo"
    )


# --- backends, tools, limits ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("backend.starting", "again in a moment"),
        ("backend.stopped", "gatemini://health"),
        ("backend.timeout", "not known"),
        ("backend.busy", "nothing was sent"),
    ],
)
def test_a_backend_in_trouble_is_described_with_its_last_stderr_line(code, part):
    ctx = context(state=lambda name: BackendState("stopped", "exit code 1", ["first", "ENOENT: no config"]))
    found = said("BackendStopped", "exa is not running", code=code, backend="exa", ctx=ctx)
    assert part in found
    assert "exa is stopped (exit code 1)" in found
    assert "its last stderr line: ENOENT: no config" in found


def test_a_healthy_backend_and_trouble_that_the_message_names_are_not_described_again():
    healthy = context(state=lambda name: BackendState("healthy", None, ["ENOENT: no config"]))
    found = said(
        "BackendBusy", "exa is busy", code="backend.busy", backend="exa", given="wait 3 s", ctx=healthy
    )
    assert found.startswith("wait 3 s; ")
    assert "healthy" not in found
    text = "exa exited with code 1; its last stderr lines:\n  ENOENT: no config"
    stopped = context(state=lambda name: BackendState("stopped", text, ["ENOENT: no config"]))
    assert said("BackendCrashed", text, code="backend.crashed", backend="exa", ctx=stopped) == (
        "the next call starts it again; look whether this one took effect before you repeat it; "
        "more in gatemini://health"
    )


@pytest.mark.parametrize(
    ("message", "facts", "part"),
    [
        ("invalid params", {"code": -32602}, "rows(args: { n: number })"),
        ("HTTP 401: missing API key", {}, "get_required_keys_for_tool demo.rows"),
        ("x", {"given": "required: n"}, "required: n"),
    ],
)
def test_an_error_of_a_tool_says_what_it_takes(message, facts, part):
    assert part in said("ToolError", message, tool="demo.rows", backend="demo", **facts)


@pytest.mark.parametrize(
    "limit", ["time", "cpu", "memory", "stack", "code", "calls", "arguments", "result", "value", "depth"]
)
def test_every_limit_says_what_to_do_instead(limit):
    assert len(said("LimitError", "…", limit=f"limit.{limit}")) > 20


# --- promises and values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("const x = await demo.rows({n: 1}).map(f);", "(await demo.rows({n: 1})).map(f)"),
        ("for (const [a] of await demo.rows({}).x) {}", "(await demo.rows({})).x"),
        ("const r = await demo.map({q: 1}).rows.x;", "(await demo.map({q: 1})).rows.x"),
        ("const xs = await [1, 2].map((n) => exa.search({ n }));", "await Promise.all("),
        ("const xs = await page.rows.map((n) => exa.search({ n }));", "await Promise.all("),
        (
            "const a = Promise.all(xs); return a.map(f);",
            "a is a promise: write `const a = await Promise.all(…)`",
        ),
        ("const a = xs.map(async (x) => x); return a.filter(f);", "a is an array of promises"),
    ],
)
def test_a_forgotten_await_is_shown_in_its_place(source, part):
    assert part in said("TypeError", "not a function", source)


def test_a_callback_of_then_is_no_forgotten_await():
    found = said_at(
        "TypeError",
        "cannot read property 'bar' of undefined",
        "return demo.echo({}).then((r) => r.foo.«bar);",
    )
    assert found.startswith("r.foo is undefined here")


@pytest.mark.parametrize(
    ("name", "message", "source", "part"),
    [
        ("SyntaxError", "unexpected token: 'object'", "const d = JSON.parse(r.data);", "use r.data directly"),
        ("SyntaxError", "unexpected token: 'undefined'", "JSON.parse(r.text)", "r.text is undefined"),
        ("SyntaxError", "unexpected token: 'hello'", "JSON.parse(text)", "no JSON"),
        ("TypeError", "cannot read property 'b' of undefined", "return r.a.b;", "return Object.keys(r)"),
        ("TypeError", "cannot read property 'b' of null", "return r.b;", "r is null here"),
        (
            "TypeError",
            "cannot read property 'Symbol.iterator' of undefined",
            "const [a] = r.x;",
            "taken apart",
        ),
        ("TypeError", "cannot read property 'b' of undefined", "nothing here", ".b is undefined"),
        ("TypeError", "'n' is read-only", "n = 1", "let instead of const"),
        ("TypeError", "'a' is read-only", "o.a = 2;", "frozen"),
        ("TypeError", "value is not iterable", "for (const x of r) {}", "Object.entries"),
        ("TypeError", "cannot convert BigInt to number", "1n + 1", "Number(x)"),
        ("TypeError", "circular reference", "JSON.stringify(a)", "[Circular]"),
        ("DeadlockError", "nothing left to run", "await p", "needs its resolve called"),
        (
            "SyntaxError",
            "break must be inside loop or switch",
            "xs.forEach(() => { break })",
            "for (const x of list)",
        ),
    ],
)
def test_a_value_of_another_kind_is_explained(name, message, source, part):
    assert part in said(name, message, source)


def test_a_backend_reached_by_an_unknown_name_leads_to_the_known_ones():
    source = "await __backends['github'].«list({})"
    found = said_at("TypeError", "cannot read property 'list' of undefined", source)
    assert found.startswith("there is no backend github; backends available: demo")


@pytest.mark.parametrize(
    ("marked", "part"),
    [
        ("r.rows.«filter(f)", "r.rows is no array"),
        ("return (await demo.echo({})).a.«map(x => x)", "the value in front of .map is no array"),
        ("return xs.map(f).«fliter(g)", "has no function fliter: did you mean filter"),
        ("for (const x of a) b.«psuh(x)", "b has no function psuh: did you mean push?"),
        ("return a.map(f) + b.«readInt8(1)", "b has no function readInt8: return b"),
        ("return xs.«sort('name')", "what .sort is given is no function"),
        ("f(«n(1))", "n is no function here"),
        ("return «demo(1)", "demo is a backend"),
        ("return x.id.«toFixed(2);", "x.id has no function toFixed: return x.id to see what it is"),
    ],
)
def test_a_call_of_no_function_names_what_was_called(marked, part):
    assert part in said_at("TypeError", "not a function", marked)


# --- text that is no TypeScript -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marked", "part"),
    [
        ("retrun «5", "did you mean `return` in place of `retrun`?"),
        ("awiat «demo.echo({})", "did you mean `await`"),
        ("const s = 'it'«s';", "an apostrophe ends the string"),
        ("return a &amp;«&amp; b;", "came HTML-escaped"),
        ("const f = () => «{ a: 1, b: 2 };", "=> ({ … })"),
        ("return a «?? b || c;", "(a || b) ?? c"),
        ('const a = «\\"x\\";', "the quotes came with a backslash"),
        ('const a = \\«"x";', "the quotes came with a backslash"),
        ("const a = 1 «b", ""),
        ("demo.echo «{}", ""),
        ("def «f(x):\n    return x", "Python"),
        ("import os\nprint('x')«", "Python"),
        ("for «r in rows:\n  use(r)", "Python"),
        ("curl «-s http://x", "shell"),
        ("SELECT «a FROM b", "SQL"),
        ("<«invoke name='x'>", "return await backend.tool"),
        ("{tool«: demo.echo, arguments: {}}", "JSON call"),
        ("tool: demo.echo«\narguments: {}", "JSON call"),
        ("Please «list all the open issues.", "prose"),
        ("I'll «call demo.add:\nreturn 1;", "prose"),
        ("if «x > 1 { f() }", "parentheses"),
        ("> «return 1;", "quotes the lines"),
        ("const a = 1 «if true else 2;", "condition ? a : b"),
        ("return a «and b;", "&& instead of and"),
        ("const r = await demo.list(limit«: 3);", "write `({ name: value })`"),
        ("const f = (limit: number) => «;", ""),
    ],
)
def test_text_that_is_no_typescript_says_what_to_write(marked, part):
    found = said_at("SyntaxError", "unexpected token", marked)
    assert part in found if part else found == ""


@settings(deadline=None)
@given(
    st.sampled_from(["TypeError", "SyntaxError", "ReferenceError", "ToolError", "Error"]),
    st.one_of(
        st.text(),
        st.text().map(lambda t: f"{t} is not defined"),
        st.text().map(lambda t: f"cannot read property '{t}' of undefined"),
        st.just("not a function"),
    ),
    st.one_of(st.text(), st.text(alphabet="demo.rows({})await [1]/'\"`\n ")),
    st.none() | st.integers(-2, 5),
    st.none() | st.integers(-2, 90),
)
def test_looking_for_a_hint_never_fails(name, message, source, line, column):
    found = hint(ErrorFacts(name, message, line, column, source), context())
    assert found is None or found


@pytest.mark.parametrize(
    "source",
    ["(" * 200_000, "demo.rows(" * 20_000, "a." * 100_000, "“" * 100_000, "if " * 60_000, "`${/*" * 40_000],
)
def test_a_hostile_line_takes_no_time(source):
    for name, message in (
        ("TypeError", "not a function"),
        ("SyntaxError", "x"),
        ("TypeError", "cannot read property 'a' of undefined"),
    ):
        hint(ErrorFacts(name, message, 1, 100_000, source), context())


def test_code_that_looks_for_is_error_is_told_that_calls_throw_unless_it_asks_for_raw_results() -> None:
    code = "const r = await demo.echo({});\nif (r.isError) return 0;"
    assert "its result has no isError" in said("ToolError", "no", code, tool="demo.echo")
    assert said("ToolError", "no", code.replace("echo(", "echo.raw("), tool="demo.echo") == ""
