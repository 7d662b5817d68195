"""Each kind of mistake gets the one sentence that mends it; what nobody knows about gets none."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.chain import places
from gatemini.chain.foreign import syntax_hint
from gatemini.chain.hints import (
    BackendState,
    ErrorFacts,
    HintContext,
    ProgramFacts,
    hint,
    nothing_returned,
)

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
        **more,
    )


def said(
    name: str, message: str, source: str = "", line: int | None = 1, ctx: HintContext | None = None, **facts
) -> str:
    return hint(ErrorFacts(name, message, line, 1, source, **facts), ctx or context()) or ""


# --- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    ["exa is not initialized", "'exa' is not initialized", "Cannot access 'exa' before initialization"],
)
def test_a_backend_hidden_by_its_own_variable_is_told_to_rename_it(message):
    facts = ProgramFacts(shadowed={"exa": (3, 7)})
    found = said("ReferenceError", message, "const exa = await exa.search()", ctx=context(program=facts))
    assert "line 3" in found
    assert "const exaResult = await exa.…" in found


@pytest.mark.parametrize("name", ["gone_one", "gone-one", "off"])
def test_a_backend_that_the_configuration_leaves_out_is_told_why(name):
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


def test_any_other_name_used_too_early_is_told_to_move_up():
    assert "move the declaration up" in said(
        "ReferenceError", "rows is not initialized", "use(rows); let rows = 1"
    )


@pytest.mark.parametrize(
    ("message", "source", "part"),
    [
        (
            "web_search_exa is not defined",
            "web_search_exa({})",
            "tool of backend exa: write `await exa.web_search_exa({…})`",
        ),
        ("read is not defined", "read({})", "write one of files_eu.read, demo.read"),
        ("filesEu is not defined", "filesEu.read({})", "`await files_eu.tool({…})`"),
        ("files is not defined", "return await files-eu.read({})", "is called files_eu in code"),
        ("dmeo is not defined", "dmeo.echo({})", "did you mean demo?"),
        (
            "github is not defined",
            "await github.list({})",
            "there is no backend github; backends available: demo, exa, files_eu",
        ),
        ("totl is not defined", "const total = 1; return totl", "did you mean total?"),
        ("qqq is not defined", "return qqq", "declare qqq first"),
        ("None is not defined", "return None", "null"),
        ("Intl is not defined", "Intl.x", "there is no Intl"),
        ("process is not defined", "process.env.X", "secrets belong in the backend's config"),
        ("require is not defined", "require('fs')", "search_tools('read file')"),
        ("axios is not defined", "axios.get('x')", "search_tools('fetch url')"),
        ("AbortController is not defined", "new AbortController()", "`timeout`"),
        ("Worker is not defined", "new Worker('x')", "no threads"),
        ("navigator is not defined", "navigator.x", "no browser"),
        ("ecko is not defined", "ecko({})", "did you mean demo.echo?"),
    ],
)
def test_an_unknown_name_is_led_to_the_known_one(message, source, part):
    assert part in said("ReferenceError", message, source)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("sleep.wait({})", "called sleep_ in code: write `await sleep_.wait({…})`"),
        ("JSON['get-it']({})", 'write `await JSON_["get-it"]({…})`'),
        ("await demo.then({})", "`await demo.tool({…})`"),
        ("await odd.then({})", '`await __backends["odd"].call("then", {…})`'),
        ("gatemini.register_manual({})", "not from inside a chain"),
        ("results.fetch('x')", "results has rows"),
        ("globalThis.fetch('x')", "search_tools('fetch url')"),
    ],
)
def test_a_member_of_the_wrong_thing_is_led_to_the_right_one(source, part):
    names = {"demo": "demo", "odd": "odd", "sleep_": "sleep", "JSON_": "JSON"}
    ctx = replace(context(), backends=names, tools=lambda name: ["then"] if name == "odd" else [])
    error = ErrorFacts("TypeError", "not a function", 1, 1, source)
    assert part in (hint(error, ctx) or "")


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("return await default.run({});", "the backend default is called default_ in code"),
        ("return await import['run']({});", "write `await import_.run({…})`"),
        ("return await sleep.run({);", None),
    ],
)
def test_a_backend_called_like_a_reserved_word_is_led_to_its_name_in_code(source, part):
    names = {"default_": "default", "import_": "import", "sleep_": "sleep"}
    error = ErrorFacts("SyntaxError", "unexpected token", 1, 14, source)
    told = hint(error, replace(context(), backends=names)) or ""
    assert part in told if part else "in code" not in told


def test_a_value_without_the_function_called_on_it_is_named():
    error = ErrorFacts("TypeError", "not a function", 1, 13, "return x.id.toFixed(2);")
    assert hint(error, context()) == "x.id has no function toFixed: return x.id to see what it is"


def test_without_backends_the_hint_says_so():
    assert "no backend is available" in (
        hint(ErrorFacts("ReferenceError", "x1 is not defined"), HintContext()) or ""
    )


@pytest.mark.parametrize(
    ("tool", "part"),
    [
        ("demo.ecko", "did you mean echo?"),
        ("demo.web_search_exa", "is a tool of exa"),
        ("demo.zzzzzz", "tools of demo: echo, rows, read"),
    ],
)
def test_an_unknown_tool_is_led_to_the_closest_or_to_its_backend(tool, part):
    assert part in said("ToolNotFound", "no such tool", code="tool.not_found", tool=tool, backend="demo")


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
def test_a_backend_in_trouble_is_described_with_its_last_words(code, part):
    ctx = context(state=lambda name: BackendState("stopped", "exit code 1", ["first", "ENOENT: no config"]))
    found = said("BackendStopped", "exa is not running", code=code, backend="exa", ctx=ctx)
    assert part in found
    assert "exa is stopped (exit code 1)" in found
    assert "its last stderr line: ENOENT: no config" in found


def test_a_backend_that_is_well_or_whose_trouble_the_message_tells_is_not_described_again():
    healthy = context(state=lambda name: BackendState("healthy", None, ["ENOENT: no config"]))
    found = said("BackendBusy", "exa is busy", code="backend.busy", backend="exa", ctx=healthy)
    assert "healthy" not in found
    text = "exa exited with code 1; its last stderr lines:\n  ENOENT: no config"
    stopped = context(state=lambda name: BackendState("stopped", text, ["ENOENT: no config"]))
    found = said("BackendCrashed", text, code="backend.crashed", backend="exa", ctx=stopped)
    assert found == (
        "the next call starts it again; look whether this one took effect before you repeat it; "
        "more in gatemini://health"
    )


def test_a_remedy_that_came_with_a_backends_error_is_the_only_one():
    found = said("BackendBusy", "exa is busy", code="backend.busy", backend="exa", given="wait 3 s")
    assert found == "wait 3 s; more in gatemini://health"


def test_refused_parameters_show_the_signature():
    assert "rows(args: { n: number })" in said(
        "ToolError", "invalid params", code=-32602, tool="demo.rows", backend="demo"
    )


def test_a_missing_key_names_the_tool_that_tells_which():
    found = said("ToolError", "HTTP 401: missing API key", tool="exa.web_search_exa", backend="exa")
    assert "get_required_keys_for_tool exa.web_search_exa" in found


def test_a_hint_that_came_with_the_tools_error_is_kept():
    assert said("ToolError", "x", tool="demo.echo", given="required: n") == "required: n"


@pytest.mark.parametrize(
    "limit", ["time", "cpu", "memory", "stack", "code", "calls", "arguments", "result", "value", "depth"]
)
def test_every_limit_says_what_to_do_instead(limit):
    assert len(said("LimitError", "…", limit=f"limit.{limit}")) > 20


# --- promises and values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "source", "part"),
    [
        ("not a function", "const x = await demo.rows({n: 1}).map(f);", "(await demo.rows({n: 1})).map(f)"),
        ("not a function", "const x = demo.rows({n: f(1)}).map(g)", "(await demo.rows({n: f(1)}))"),
        ("value is not iterable", "for (const [a] of await demo.rows({}).x) {}", "(await demo.rows({})).x"),
        ("cannot read property 'id' of undefined", 'return files_eu["read"]({p: 1}).a.id', "gives a promise"),
    ],
)
def test_a_forgotten_await_shows_where_it_belongs(message, source, part):
    assert part in said("TypeError", message, source)


def test_a_promise_kept_in_a_variable_is_found_by_the_parse():
    ctx = context(program=ProgramFacts(unawaited=[(2, 11, "demo.rows({n: 3})"), (9, 1, "demo.echo({})")]))
    found = said("TypeError", "not a function", "\nconst r = demo.rows({n: 3});\nr.map(f)", line=3, ctx=ctx)
    assert found.startswith("demo.rows({n: 3}) on line 2 gives a promise")


@pytest.mark.parametrize(
    ("name", "message", "source", "part"),
    [
        ("SyntaxError", "unexpected token: 'object'", "const d = JSON.parse(r.data);", "use r.data directly"),
        ("SyntaxError", "unexpected token: 'undefined'", "JSON.parse(r.text)", "r.text is undefined"),
        ("SyntaxError", "unexpected token: 'hello'", "JSON.parse(text)", "no JSON"),
        ("TypeError", "cannot read property 'b' of undefined", "return r.a.b;", "return Object.keys(r)"),
        ("TypeError", "cannot read property 'b' of null", "return r.b;", "r is null here"),
        ("TypeError", "Cannot read properties of undefined (reading 'b')", "x.y.b", "x.y is undefined"),
        (
            "TypeError",
            "cannot read property 'Symbol.iterator' of undefined",
            "const [a] = r.x;",
            "taken apart",
        ),
        ("TypeError", "cannot read property 'b' of undefined", "nothing here", ".b is undefined"),
        ("TypeError", "'n' is read-only", "n = 1", "let instead of const"),
        ("TypeError", "value is not iterable", "for (const x of r) {}", "Object.entries"),
        ("TypeError", "cannot convert BigInt to number", "1n + 1", "Number(x)"),
        ("RangeError", "BigInt is too large to allocate", "9n ** 9999999n", "out of range"),
        ("TypeError", "circular reference", "JSON.stringify(a)", "[Circular]"),
        ("DeadlockError", "nothing left to run", "await p", "needs its resolve called"),
    ],
)
def test_values_that_are_not_what_they_seem_are_explained(name, message, source, part):
    assert part in said(name, message, source)


@pytest.mark.parametrize(
    ("source", "column", "part"),
    [
        ("retrun 5", 8, "did you mean `return` where `retrun` stands?"),
        ("awiat demo.echo({})", 7, "did you mean `await`"),
        ("const s = 'it's';", 15, "an apostrophe ends the string"),
        ("const a = \u201chello\u201d", 11, 'write " instead (LEFT DOUBLE QUOTATION MARK is not code)'),
        ("const a = 1 b", 13, ""),
        ("demo.echo {}", 11, ""),
        ("return a &amp;&amp; b;", 14, "came HTML-escaped"),
    ],
)
def test_slips_of_the_pen_are_told_by_what_was_meant(source, column, part):
    found = hint(ErrorFacts("SyntaxError", "Unexpected token", 1, column, source), context()) or ""
    assert part in found if part else found == ""


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("return await tools.exa.search({})", "write `await exa.tool({…})`, without tools in front"),
        ("return await shop.rows({})", "rows is a tool of another: write `await demo.rows({…})`"),
        ("return await shop.read({})", "read is a tool of others: write one of files_eu.read, demo.read"),
        ("return await shop.nope({})", "there is no backend shop; backends available"),
        ("return await shop;", "declare shop first"),
    ],
)
def test_a_name_that_is_no_backend_is_answered_with_the_call_that_was_meant(source, part):
    name = "tools" if "tools" in source else "shop"
    assert part in said("ReferenceError", f"{name} is not defined", source)


def test_a_backend_that_is_not_there_by_name_is_told_from_the_others():
    source = "await __backends['github'].list({})"
    error = ErrorFacts("TypeError", "cannot read property 'list' of undefined", 1, 28, source)
    assert (hint(error, context()) or "").startswith("there is no backend github; backends available: demo")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("export default async ({ demo }) => demo.echo({});", 1),
        ("export default async function main(ctx: any) {\n  return ctx.demo.echo({});\n}", 2),
    ],
)
def test_a_main_function_with_parameters_is_told_that_nobody_gives_them(source, line):
    error = ErrorFacts("TypeError", "cannot read property 'demo' of undefined", line, 1, source)
    assert "called without arguments" in (hint(error, context()) or "")


@pytest.mark.parametrize(
    ("source", "at", "part"),
    [
        ("r.rows.filter(f)", "filter", "r.rows is no array"),
        ("return (await demo.echo({})).a.map(x => x)", "map", "the value in front of .map is no array"),
        ("return xs.map(f).fliter(g)", "fliter", "has no function fliter: did you mean filter"),
        ("for (const x of a) b.psuh(x)", "psuh", "b has no function psuh: did you mean push?"),
        ("return a.map(f) + b.readInt8(1)", "readInt8", "b has no function readInt8: return b"),
        ("return xs.sort('name')", "sort", "what .sort is given is no function"),
        ("f(n(1))", "n", "n is no function here"),
        ("return demo(1)", "demo", "demo is a backend"),
        ("return this.c.fetch()", "fetch", "this.c has no function fetch: return this.c to see"),
    ],
)
def test_what_was_called_and_is_no_function_is_named(source, at, part):
    error = ErrorFacts("TypeError", "not a function", 1, source.index(at) + 1, source)
    assert part in (hint(error, context()) or "")


@pytest.mark.parametrize(
    ("program", "logged", "part"),
    [
        (ProgramFacts(declared_never_called="run"), False, "run is declared but never called"),
        (ProgramFacts(), True, "only console output"),
        (ProgramFacts(), False, "return"),
    ],
)
def test_a_chain_without_a_value_is_told_how_to_give_one(program, logged, part):
    assert part in nothing_returned(program, logged=logged)


# --- text that is no TypeScript -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line", "part"),
    [
        (
            "const a = “x”;",
            1,
            '“ (LEFT DOUBLE QUOTATION MARK U+201C at line 1, column 11) is not code: write "',
        ),
        ("let a = 1;\nlet b = a – 1;", 2, "EN DASH U+2013 at line 2, column 11"),
        ("let a\u200b = 1", 1, "invisible character (ZERO WIDTH SPACE U+200B at line 1, column 6)"),
        ("f（1）", 1, "write ("),
        ("def f(x):\n    return x", 1, "Python"),
        ("import os\nprint('x')", 1, "Python"),
        ("for r in rows:\n  use(r)", 1, "Python"),
        ("#!/bin/bash\nls", 1, "shell"),
        ("curl -s http://x", 1, "shell"),
        ("SELECT a FROM b", 1, "SQL"),
        ("<html><body>", 1, "HTML"),
        ("<invoke name='x'>", 1, "return await backend.tool"),
        ("{tool: demo.echo, arguments: {}}", 1, "JSON call"),
        ("tool: demo.echo\narguments: {}", 1, "as JSON"),
        ("Please list all the open issues.", 1, "prose"),
        ("if x > 1 { f() }", 1, "parentheses"),
        ("f(1;\n", 1, "the `(` at line 1, column 2 is never closed"),
        (
            "f(']', /[)]/, `}`, {a: 1)",
            1,
            "the `{` at line 1, column 20 is not closed before the `)` at line 1, column 25",
        ),
        ("f(1))", 1, "the `)` at line 1, column 5 closes nothing"),
        ("return 15;\n\nThis returns fifteen.", 3, "line 3 is prose"),
        ("I'll call demo.add:\nreturn 1;", 1, "line 1 is prose"),
        ("- Please add 1 and 2 with demo.", 1, "line 1 is prose"),
        ("> return 1;", 1, "quotes the lines"),
        ("const a = 1 if true else 2;", 1, "condition ? a : b"),
    ],
)
def test_what_is_no_typescript_is_named(source, line, part):
    assert part in said("SyntaxError", "unexpected token", source, line=line)


@pytest.mark.parametrize(
    "source",
    [
        "const s = 'it’s – fine';\nlet y = ;",
        "const a = 1; // “note”\nconst b = ;",
        "let größe = ;",
        "/* 👩\u200d👩 “note” */ let y = ;",
        "const t = `‘a’\nb “b” ${x}\u200b`; let y = ;",
        "const x = a / b / c; let y = ;",
    ],
)
def test_good_lines_are_not_blamed(source):
    assert said("SyntaxError", "unexpected token", source, line=source.count("\n") + 1) == ""


@pytest.mark.parametrize(
    ("marked", "part"),
    [
        ("const f = () => «{ a: 1, b: 2 };", "=> ({ … })"),
        ("return a «?? b || c;", "(a || b) ?? c"),
        ('const a = «\\"x\\";', "the quotes came with a backslash"),
        ('const a = \\«"x";', "the quotes came with a backslash"),
    ],
)
def test_a_slip_is_told_by_what_stands_at_its_place(marked, part):
    column = marked.index("«") + 1
    facts = ErrorFacts("SyntaxError", "expecting ';'", 1, column, marked.replace("«", ""))
    assert part in (hint(facts, context()) or "")


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
    ["(" * 200_000, "demo.rows(" * 20_000, "a." * 100_000, "“" * 100_000, "if " * 60_000, "/" * 100_000],
)
def test_a_hostile_line_costs_no_time(source):
    for name, message in (
        ("TypeError", "not a function"),
        ("SyntaxError", "x"),
        ("TypeError", "cannot read property 'a' of undefined"),
    ):
        hint(ErrorFacts(name, message, 1, 100_000, source), context())


def test_then_of_a_call_is_no_forgotten_await():
    source = "return demo.echo({}).then((r) => r.foo.bar);"
    error = ErrorFacts(
        "TypeError", "cannot read property 'bar' of undefined", 1, source.index("bar") + 1, source
    )
    assert (hint(error, context()) or "").startswith("r.foo is undefined here")


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("process.exit(1)", "`return` ends the code"),
        ("process.stdout.write('x')", "write console.log(…)"),
        ("process.env.HOME", "secrets belong in the backend's config"),
        ("process?.nextTick(f)", "write queueMicrotask(f)"),
        ("process", "secrets belong in the backend's config"),
    ],
)
def test_a_member_of_process_is_told_what_stands_for_it(line, part):
    told = said("ReferenceError", "process is not defined", line)
    assert told.count(part) == 1
    assert told.count("there is no process here") == 1


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("fs", "search_tools('read file')"),
        ("node:fs/promises", "search_tools('read file')"),
        ("axios", "search_tools('fetch url')"),
        ("child_process", "search_tools('run command')"),
        ("node:crypto", "crypto.randomUUID()"),
        ("timers/promises", "await sleep(ms)"),
        ("zod", "plain code"),
    ],
)
def test_a_module_is_told_what_stands_for_it(module, part):
    assert part in said("ReferenceError", "require is not defined", f"const m = require('{module}');")
    assert part in said("ReferenceError", f"could not load module '{module}'", given="there is none")
    told = said("SyntaxError", f'cannot import "{module}": there is none', given="`import type` is allowed.")
    assert told.startswith("`import type` is allowed; ")
    assert part in told


def test_a_module_nobody_knows_is_not_guessed_at():
    assert "search_tools" not in said("ReferenceError", "require is not defined", "require('some-lib')")
    assert said("SyntaxError", 'cannot import "some-lib": there is none', given="nothing.") == "nothing."


def test_a_callback_of_then_is_not_taken_for_a_member_of_the_promise():
    line = "return await demo.echo({}).then(r => r.nope.x).then(x => x);"
    told = said("TypeError", "cannot read property 'x' of undefined", line)
    assert "reaches only" not in told
    assert "r.nope" in told


def test_what_stands_in_texts_and_comments_is_no_odd_character():
    held = "let t = `a\n“b` + '“', /* “\n “ */ u = “x”; // “"
    assert "line 3, column 11" in (syntax_hint(held, 3, 1) or "")
    assert "“" not in (syntax_hint(held, 2, 1) or "")


def test_the_texts_before_an_odd_character_are_not_counted_through_for_each_of_them():
    def steps(lines: int) -> int:
        counted = 0

        def line(_frame, event, _arg):
            nonlocal counted
            counted += event == "line"
            return line

        def call(frame, _event, _arg):
            return line if frame.f_code.co_filename == places.__file__ else None

        before = sys.gettrace()
        sys.settrace(call)
        try:
            syntax_hint('f("a", "b");\n' * lines + "const é = [1 2];", lines + 1, 14)
        finally:
            sys.settrace(before)
        return counted

    assert steps(400) < 8 * steps(100)


def test_a_tool_called_map_is_no_array_that_is_awaited():
    assert "(await demo.map({q: 1})).rows" in said(
        "TypeError",
        "cannot read property 'x' of undefined",
        "const r = await demo.map({q: 1}).rows.x;",
    )
    told = said("TypeError", "not a function", "const r = (await rows.all.map(f)).filter(g);")
    assert "await Promise.all(" in told


def test_a_name_is_not_proposed_in_its_own_place():
    assert "did you mean" not in said(
        "ReferenceError", "Foo is not defined", "declare class Foo {}; new Foo()"
    )


def test_a_frozen_object_is_not_told_to_be_declared_with_let():
    line = "o.a = 2;"
    assert "frozen" in said("TypeError", "'a' is read-only", line)
    assert "let instead of const" in said("TypeError", "'o' is read-only", "o = 2;")


def test_a_backend_is_not_made_with_new():
    told = hint(ErrorFacts("TypeError", "not a constructor", 1, 11, "const c = new exa();"), context()) or ""
    assert "exa is a backend and there already" in told


@pytest.mark.parametrize("list_", ["[1, 2]", "rows", "page.rows"])
def test_an_array_of_promises_is_awaited_with_promise_all(list_):
    line = f"const xs = await {list_}.map((n) => exa.search({{ n }}));"
    assert "Promise.all" in said("TypeError", "exa.search(…) is a promise here and was read as .sum", line)
