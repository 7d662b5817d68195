"""Positions of the submitted text: syntax errors found before anything runs, and run-time errors of the real guest."""

from __future__ import annotations

import pytest

from fixtures.guest import Runner
from gatemini_sandbox.messages import Failed
from gatemini_sandbox.typescript.prepare import prepare
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

# Code before, around and after the error; all of it moves, grows or shrinks when it is erased.
SURROUNDINGS = {
    "enums": "enum Level { Low, High = 5, Next }\nconst enum Mode { Fast = 'fast', Slow = 'slow' }\n",
    "interfaces": "interface Row<T> {\n  id: T;\n  n?: number\n}\ntype A = { a: 1 } | null;\n",
    "crlf": "const a: number = 1;\r\n/* two\r\nlines */\r\nconst t = `x\r\ny`;\r\n",
    "tabs": "\tconst a: number = 1;\n\t\tconst b = a as number;\n",
    "astral characters": "const 日本: string = '😀😀' as string; // 👩‍👩‍👧\nconst s = `é𝒳`;\n",
    "namespaces": "namespace N { export const a: number = 1; export function f(): number { return a } }\n",
    "parameter properties": "class P { constructor(private readonly a: number, public b = 2) {} }\nnew P(1);\n",
    "line separators": "const q = 1;\u2028const r: number = 2;\u2029const u = '\u2028';\n",
    "old line ends": "const a: number = 1;\rconst b = a!;\r",
    "imports and exports": "import type { A } from './a';\nexport const k: number = 1;\nexport type B = number;\n",
    "a byte order mark": "\ufeffconst a = 1;\n",
    "nothing": "",
}
LINES = {
    "first": "{error} // first\n{around}const z = 1;\nreturn z;",
    "middle": "{around}const v: number = 1; {error} const w = 2;\n{around_again}return w;",
    "last": "{around}const v: any = '😀' as any; const w = v!; \t{error}",
}


def placed(surroundings: str, line: str, error: str) -> tuple[str, int, int]:
    """The code without the mark, and the line and column of the mark."""
    around = SURROUNDINGS[surroundings]
    again = around if surroundings in ("crlf", "tabs") and line == "x" else ""
    marked = LINES[line].format(around=around, around_again=again, error=error)
    if marked.startswith("\ufeff") is False and "\ufeff" in marked:
        marked = "\ufeff" + marked.replace("\ufeff", "")
    before = marked[: marked.index("«")].removeprefix("\ufeff")
    for ending in ("\r\n", "\r", "\u2028", "\u2029"):
        before = before.replace(ending, "\n")
    return marked.replace("«", ""), before.count("\n") + 1, len(before) - before.rfind("\n")


@pytest.mark.anyio
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
async def test_a_run_time_error_has_its_place_in_the_submitted_text(sandbox, surroundings, line):
    code, *place = placed(surroundings, line, "if (1 as any) throw «new Error('😀');")
    end = await Runner(sandbox)(code)
    assert isinstance(end, Failed), end
    assert [end.error.line, end.error.column] == place


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_a_syntax_error_has_its_place_in_the_submitted_text(surroundings, line):
    code, *place = placed(surroundings, line, "const bad = (1 + «;")
    with pytest.raises(SandboxSyntaxError) as caught:
        prepare(code)
    assert [caught.value.line, caught.value.column] == place


@pytest.mark.anyio
@pytest.mark.parametrize("line", LINES)
async def test_a_position_survives_being_printed_anew(sandbox, line):
    # `import("…")` in a type is what the first parser does not take.
    error = "const t: import('./x').Y<string> = 'x'; if (t) throw «new Error('x');"
    code, *place = placed("interfaces", line, error)
    program = prepare(code)
    assert not program.exact
    end = await Runner(sandbox)(code)
    assert isinstance(end, Failed), end
    assert [end.error.line, end.error.column] == place


# Code with the offending token marked, what is said, and the hint.
SYNTAX = [
    ("let x = 5 «5;", "Unexpected token `5`", None),
    ("foo(1, 2\n«const x = 3;", "Expected `,` or `)` but found `const`", None),
    ("return fo(1)«)", "Unexpected token `)`", "no bracket is open here"),
    ("return {\n  a: 1\n  «b: 2\n}", "Expected `,` or `}` but found `b`", None),
    ('await demo.echo({ "a": 1 «"b": 2 })', 'Expected `,` or `}` but found `"b"`', None),
    ("const o = { a: 1, }«}", "Unexpected token `}`", "no bracket is open here"),
    ("if (x) {\n  foo()«", "Unexpected end of the code", "the `{` of line 1, column 8 is never closed"),
    (
        "return JSON.stringify({ a: [1, { b: 2 }«",
        "Unexpected end of the code",
        "the `[` of line 1, column 28 is never closed",
    ),
    (
        "return 1;\nconst t = «`a${1`",
        "Unterminated template literal",
        "close it with a backtick; each `${…}` in it holds one whole expression",
    ),
    ("return `a${f(«", "Unexpected end of the code", "the template of line 1, column 8 is never closed"),
    (
        "const s = «'abc\nreturn s",
        "Unterminated string",
        "close it on its own line; text over several lines goes between backticks",
    ),
    ("return `abc ${1 + «}`;", "Unexpected token `}`", None),
    ("return [1 «2]", "Expected `,` or `]` but found `2`", None),
    ("return 1_000«_\n", "Invalid Character at the end of the line", None),
    ("const s = 'it'«s';", "Unexpected token `s`", None),
    ("return 1;\n«/* never closed", "Unterminated multiline comment", None),
    ("enum A { B = «, C }", "Unexpected token `,`", None),
    ("const x: number[ «= 1;", "Expected `]` but found `=`", None),
    ("const y = «“hello”;", "Unexpected character “ (U+201C)", 'write " instead'),
    ("const y = a «– b;", "Unexpected character – (U+2013)", "write - instead"),
    ("return «☃", "Unexpected character ☃ (U+2603)", "put it inside a string"),
]


@pytest.mark.parametrize(("marked", "message", "hint"), SYNTAX)
def test_a_syntax_error_names_the_offending_token_and_what_helps(marked, message, hint):
    before = marked[: marked.index("«")]
    with pytest.raises(SandboxSyntaxError) as caught:
        prepare(marked.replace("«", ""))
    error = caught.value
    assert (error.message, error.hint) == (message, hint)
    assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


@pytest.mark.parametrize(
    "marked",
    [
        "const r = xs.map((x) => «await demo.echo(x));",
        "function f() {\n  return «await demo.echo({});\n}\nreturn f();",
        "class A { m() { «await 1 } }",
    ],
)
def test_await_outside_an_async_function_has_its_own_message(marked):
    before = marked[: marked.index("«")]
    with pytest.raises(SandboxSyntaxError, match="`await` is only valid in an async function") as caught:
        prepare(marked.replace("«", ""))
    assert (caught.value.line, caught.value.column) == (
        before.count("\n") + 1,
        len(before) - before.rfind("\n"),
    )
    assert "async" in (caught.value.hint or "")
