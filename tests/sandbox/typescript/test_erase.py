"""TypeScript erased: every written program gives its value in the real guest, and what is erased leaves its place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.guest import Runner
from gatemini_sandbox.messages import Done
from gatemini_sandbox.typescript.prepare import Program, prepare
from gatemini_sandbox.typescript.syntax_error import SandboxSyntaxError

CASES = Path(__file__).parent / "cases"
HEAD, TAIL = "(async function(){'use strict';", "\n})"


def cases() -> dict[str, tuple[str, str]]:
    """Name -> code and the JSON of its value, which the TypeScript compiler's output gives too (folder tsc)."""
    found = {}
    for path in sorted(CASES.glob("*.ts")):
        parts = re.split(r"^//# (.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            code, value = re.split(r"^//= ", body, flags=re.MULTILINE)
            found[f"{path.stem}: {name}"] = code, value.strip()
    return found


PROGRAMS = cases()


@pytest.mark.anyio
async def test_each_program_gives_the_value_that_the_compilers_output_gives(sandbox, subtests):
    for name, (code, value) in PROGRAMS.items():
        with subtests.test(name):
            end = await Runner(sandbox)(code)
            assert isinstance(end, Done), end
            got = end.text if end.kind == "string" else json.loads(end.text)
            assert got == json.loads(value)


def test_erasing_types_keeps_the_lines_and_the_positions_of_words(subtests):
    for name, (code, _) in PROGRAMS.items():
        program = prepare(code)
        if program.exact:
            with subtests.test(name):
                assert program.js.count("\n") == program.source.count("\n") + 1
                words_lead_back_to_themselves(program)


def words_lead_back_to_themselves(program: Program) -> None:
    lines = program.source.split("\n")
    wrong = []
    for number, line in enumerate(program.js.split("\n"), 1):
        begin = len(HEAD) if number == 1 else 0
        for match in re.compile(r"(?<![\w$.\"'`{])[A-Za-z_]\w*").finditer(line, begin):
            at = program.position(number, len(line[: match.start()].encode()) + 1)
            here = lines[at[0] - 1][at[1] - 1 :] if at[0] <= len(lines) else ""
            if at[0] == number and match[0] in lines[number - 1] and not here.startswith(match[0]):
                wrong.append((match[0], number, at, here[:20]))
    assert not wrong


@pytest.mark.parametrize(
    "code",
    [
        "const a = 1;\nreturn a < 2 && 3 > a;",
        "const f = async (x) => { for await (const y of x) { await y?.z?.[0]; } };\nreturn f([]);",
        "label: for (;;) { break label }\nreturn `as any ${1} : number`;",
        "class A { #p = 1; static { this.q = 2 } get x() { return this.#p } *g() {} async *h() {} }\nreturn new A().x;",
        "const r = /as \\/ <T>(x: y)/gu, d = 4 / 2 / 1;\nreturn r.test('') || d;",
        "const { a = 1, ...b } = {}, [c, , ...d] = [];\nreturn { a, b, c, d, e() {}, get f() { return 1 } };",
        "const type = 1, of = 2, as = 3; return type + of + as;",
        "if (1) { } else { }\ntry { } catch { } finally { }\nreturn void 0;",
    ],
)
def test_plain_javascript_is_not_touched(code):
    assert prepare(code).js == HEAD + code + TAIL


@pytest.mark.parametrize(
    ("code", "message", "place"),
    [
        ("let a = 1;\n@sealed class X {}", "decorators are not supported (@sealed)", (2, 1)),
        ("class X {\n  @log() m() {}\n}", "decorators are not supported (@log)", (2, 3)),
        ("class X {\n  accessor y = 1;\n}", "`accessor` fields are not supported", (2, 3)),
        ("class X { static accessor y = 1 }", "`accessor` fields are not supported", (1, 18)),
        ("if (x) {\n  using y = z;\n}", "`using` declarations are not supported", (2, 3)),
        (
            "const n = 1;\nnamespace N { export let a = n; }",
            "a namespace cannot export a variable (`export let`)",
            (2, 22),
        ),
        (
            "namespace N { export const a = 1 }\nnamespace N.M { export const b = 1 }",
            "the namespace N is declared in several blocks",
            (2, 1),
        ),
        (
            "const q: import('a').B = 1;\nclass X { @dec y = 1 }",
            "decorators are not supported (@dec)",
            (2, 11),
        ),
    ],
)
def test_what_is_not_supported_is_named_with_its_place(code, message, place):
    with pytest.raises(SandboxSyntaxError) as caught:
        prepare(code)
    assert caught.value.message == message
    assert (caught.value.line, caught.value.column) == place
    assert caught.value.kind == "unsupported"
    assert caught.value.hint


@pytest.mark.parametrize(
    "code",
    [
        "const t = tag<string>`x`;\nreturn t;\nfunction tag(s: any) { return s[0] }",
        "const v: import('./x').Y<string> = 'x';\nreturn v;",
        "const o: any = 'x';\nlet\n  v: string = o;\nreturn v;",
        "class A<in out T> { v!: T }\nreturn 'x';",
        "const a: number = 1, b = 2, c = 3;\nreturn [a < b, c > -1].every(Boolean) ? 'x' : 'y';",
        "export type * from './z';\nreturn 'x';",
    ],
)
@pytest.mark.anyio
async def test_code_that_the_first_parser_refuses_runs_if_the_second_accepts_it(sandbox, code):
    program = prepare(code)
    assert not program.exact
    end = await Runner(sandbox)(code)
    assert isinstance(end, Done), end
    assert end.text == "x"


TOKENS = st.sampled_from(
    [
        "a",
        "b",
        "1",
        "'x'",
        "`t${a}`",
        "+",
        "-",
        "<",
        ">",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        ":",
        "?",
        "!",
        ".",
        "=>",
        "=",
        "as",
        "any",
        "number",
        "satisfies",
        "enum",
        "namespace",
        "class",
        "extends",
        "interface",
        "type",
        "declare",
        "const",
        "let",
        "function",
        "async",
        "await",
        "return",
        "export",
        "default",
        "import",
        "from",
        "private",
        "readonly",
        "abstract",
        "@d",
        "\n",
        "//",
        "/*",
        "*/",
        "/x/",
        "...",
        "?.",
        "<T>",
        "\u2028",
        "\ufeff",
        "“",
        "é",
        "😀",
        "#p",
        "\r\n",
    ]
)


def outcome(code: str) -> Program | SandboxSyntaxError:
    try:
        return prepare(code, ["demo"])
    except SandboxSyntaxError as error:
        return error


@given(
    st.one_of(
        st.text(), st.lists(TOKENS, max_size=25).map(" ".join), st.lists(TOKENS, max_size=25).map("".join)
    )
)
def test_any_text_gives_a_program_or_an_error_with_a_place_in_the_text(code):
    result = outcome(code)
    lines = re.split("\r\n|[\n\r\u2028\u2029]", code.removeprefix("\ufeff"))
    if isinstance(result, Program):
        places = [result.position(1, 1), result.position(10**6, 10**6), result.position(2, 3)]
    else:
        places = [(result.line, result.column)]
    for line, column in places:
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


@given(st.sampled_from(sorted(PROGRAMS)), st.data())
def test_a_program_with_a_piece_cut_out_runs_or_gets_a_readable_error(name, data):
    code = PROGRAMS[name][0]
    start = data.draw(st.integers(0, len(code)))
    end = data.draw(st.integers(start, min(len(code), start + 40)))
    result = outcome(code[:start] + code[end:])
    assert isinstance(result, Program) or result.message


@pytest.mark.parametrize(
    "code",
    [
        "return " + "[" * 20_000 + "]" * 20_000,
        "return x" + " as any" * 20_000,
        "return 1" + "+1" * 50_000,
        "{" * 10_000 + "await 1;" * 50 + "}" * 10_000,
        "a as T\n(b)\n" * 5_000,
        "let " + "/**/" * 20_000 + "x = 1; x!" + "/**/" * 20_000,
        "let a = b as T" + "\n" * 50_000 + "c",
        "<a>" * 20_000,
    ],
    ids=["arrays", "casts", "sums", "blocks", "breaks", "comments", "line feeds", "tags"],
)
def test_deep_or_repetitive_code_takes_no_more_than_linear_work(code):
    # Each of these once took minutes; what matters here is that it ends.
    assert outcome(code) is not None
