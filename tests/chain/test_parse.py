"""Tiers 1 and 2 are decided exactly: the cheap forms are known, all else is a script."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gatemini.chain.code.parse import Describe, JsonBatch, JsonCall, Script, SingleCall, parse
from gatemini.errors import CodeError
from gatemini.output.json.javascript_json import dumps


def is_backend(name: str) -> bool:
    return name in ("demo", "files_eu", "日本")


def plan(code: str):
    return parse(code, is_backend)


# --- tier 1 ---------------------------------------------------------------------------------------


def test_a_json_object_with_a_tool_is_a_call():
    assert plan('{"tool": "demo.echo", "arguments": {"n": 1}}') == JsonCall("demo.echo", {"n": 1})


@pytest.mark.parametrize("around", ["{}", "\n\n {} \n", "// as JSON\n{}", "/* a */ {}", "{};"])
def test_a_json_call_may_have_blanks_comments_and_a_semicolon_around_it(around):
    assert plan(around.replace("{}", '{"tool": "echo"}')) == JsonCall("echo", None)


def test_a_json_array_of_calls_is_a_batch_in_order():
    batch = plan('[{"tool": "a"}, {"tool": "b", "arguments": {"x": 1}}]')
    assert batch == JsonBatch((JsonCall("a", None), JsonCall("b", {"x": 1})))


def test_json_integers_keep_their_digits():
    call = plan('{"tool": "t", "arguments": {"id": 12345678901234567890123}}')
    assert call == JsonCall("t", {"id": 12345678901234567890123})


def test_a_call_with_unquoted_keys_and_trailing_commas_is_still_a_call():
    assert plan("{tool: 'demo.echo', arguments: {n: 1,},}") == JsonCall("demo.echo", {"n": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "calls nothing"),
        ('{"name": "demo.echo", "arguments": {}}', 'no string "tool"'),
        ('{"tool": 5}', 'no string "tool"'),
        ('{"tool": "a", "args": {}}', '"args"'),
        ('[{"tool": "a"}, {"x": 1}]', "entry 1"),
        ('[{"tool": "a"}, 5]', "entry 1"),
        ('{"tool": "a", "arguments": {', "not JSON"),
        ('{"tool": "a", "arguments": {"x": NaN}}', "not JSON"),
        ('{"tool": "a"}\n{"tool": "b"}', "not JSON"),
    ],
)
def test_json_that_is_almost_a_call_is_an_error_with_the_reason(text, said):
    with pytest.raises(CodeError, match=said) as caught:
        plan(text)
    assert caught.value.hint


def test_a_synonym_of_arguments_is_named_in_the_hint():
    with pytest.raises(CodeError) as caught:
        plan('{"tool": "a", "params": {}}')
    assert caught.value.hint == 'write "arguments" instead of "params"'


@pytest.mark.parametrize(
    "text", ["[1, 2]", "42", '"text"', "[]", "{ a: 1 }", "{ const x = 1 }", '{tool: "x"}', "[a]"]
)
def test_other_json_and_blocks_are_code(text):
    assert plan(text) == Script(text)


# --- tier 2 ---------------------------------------------------------------------------------------

WRAPPINGS = [
    "demo.echo({n: 1})",
    "demo.echo({n: 1});",
    "await demo.echo({n: 1})",
    "return demo.echo({n: 1})",
    "return await demo.echo({n: 1});;",
    ";await demo.echo({n: 1})",
    "const x = await demo.echo({n: 1}); return x;",
    "let x = await demo.echo({n: 1})\nreturn x",
    "var $y_1 = demo.echo({n: 1});;\n\nreturn await $y_1",
    'return await demo["echo"]({n: 1})',
    "return await demo[ 'echo' ] ( { n : 1 } )",
    "return await demo[`echo`]({n: 1,},)",
    "// first\nreturn /* a */ await /* b\n */ demo // c\n . /* d */ echo ( /* e */ {\n  n /* f */ : 1 // g\n})\n// end",
    "export default async function main() { return await demo.echo({n: 1}); }",
    "export default async function () {\n  const x = await demo.echo({n: 1});\n  return x;\n}\n",
    "export default function main() { return demo.echo({n: 1}) };",
    "return await demo.echo({n: 1})\r\n",
    "\u00a0return await demo.echo({n: 1})",
]


@pytest.mark.parametrize("code", WRAPPINGS)
def test_one_call_in_any_usual_wrapping_is_a_single_call(code):
    found = plan(code)
    assert isinstance(found, SingleCall)
    assert (found.backend, found.tool, found.arguments) == ("demo", "echo", {"n": 1})


@pytest.mark.parametrize(
    "code",
    [
        "demo.echo({n: a})",
        "demo.echo({a})",
        "demo.echo({...a})",
        "demo.echo({[a]: 1})",
        "demo.echo({f() {}})",
        "demo.echo({__proto__: null})",
        'demo.echo({"__proto__": 1})',
        "demo.echo({a: `${1}`})",
        "demo.echo({a: (1)})",
        "demo.echo({a: 1 + 1})",
        "demo.echo({a: [1,,2]})",
        "demo.echo({a: 1n})",
        "demo.echo({a: 017})",
        "demo.echo({a: 1e400})",
        "demo.echo({a: NaN})",
        "demo.echo({a: 0x10})",
        "demo.echo({2: 1})",
        "demo.echo({a: 9007199254740993})",
        "demo.echo({ñ: 1})",
        "日本.echo({a: 1})",
        'demo.echo({a: "\\1"})',
        'demo.echo({a: "\\u{110000}"})',
        'demo.echo({a: "\\ud800"})',
        'demo.echo({a: "x\ny"})',
        "demo.echo({a: /x/})",
        "demo.echo({a: --1})",
        "demo.echo({a: 1} as any)",
        "demo.echo({a: 1}, 2)",
        'demo.echo("text")',
        "demo.echo(undefined)",
        "demo.echo({a: 1}).b",
        "demo.echo({a: 1}) + 1",
        "demo.echo({a: 1})\n(2)",
        "demo.echo({a: 1})\n.then(f)",
        "demo.echo({a: 1}); demo.echo({a: 1})",
        "demo.echo?.({a: 1})",
        "demo.raw.echo({a: 1})",
        "demo.then({a: 1})",
        "demo.readResource({})",
        "demo.echo",
        'demo[""]({})',
        "other.echo({a: 1})",
        "d\\u0065mo.echo({a: 1})",
        "return\ndemo.echo({a: 1})",
        "return /*\n*/ demo.echo({a: 1})",
        "const x = await demo.echo({}) return x",
        "const x = await demo.echo({}); return y",
        "const x = await demo.echo({}); return x.y",
        "const x = await demo.echo({}); return\nx",
        "const x = await demo.echo({});",
        "const x = await demo.echo({}); x",
        "const demo = await demo.echo({}); return demo;",
        "const await = demo.echo({}); return await;",
        "const __x = await demo.echo({}); return __x;",
        "const x: any = await demo.echo({}); return x;",
        "export default async function main() { await demo.echo({}) }",
        "export default function main() { return await demo.echo({}) }",
        "export default async function demo() { return demo.echo({}) }",
        "export default async function main(a) { return demo.echo({}) }",
        "export default async\nfunction main() { return demo.echo({}) }",
        "export default async () => demo.echo({})",
        "export default async function main() { return demo.echo({}) } main()",
        "demo.echo({a: 1}) <!-- x",
        "\u2028demo.echo({})",
        "await await demo.echo({})",
    ],
)
def test_code_beyond_one_literal_call_is_a_script(code):
    assert plan(code) == Script(code)


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("\r\n// a\r\nreturn await demo.echo({})", (3, 19)),
        ("/* 😀 */ demo . echo ({})", (1, 16)),
        ('return demo[ "echo" ]({})', (1, 14)),
        ("demo\n  .echo({\n})", (2, 4)),
    ],
)
def test_the_place_of_the_call_is_that_of_the_tools_name_in_the_submitted_text(code, place):
    found = plan(code)
    assert isinstance(found, SingleCall)
    assert (found.line, found.column) == place


def test_a_call_without_arguments_passes_none():
    found = plan("await demo.rows()")
    assert isinstance(found, SingleCall)
    assert found.arguments == {}


def test_literals_are_read_as_javascript_reads_them():
    found = plan(
        """demo.echo({b: -1.5e3, "2": 'x\\n\\'\\u00e9', "1": [undefined, null, true], a: undefined, c: `\\`$1`, b: 4})"""
    )
    assert isinstance(found, SingleCall)
    assert dumps(found.arguments) == '{"1":[null,null,true],"2":"x\\n\'é","b":4,"c":"`$1"}'


def test_too_deeply_nested_literals_go_to_the_sandbox():
    code = "demo.echo({a: " + "[" * 5_000 + "]" * 5_000 + "})"
    assert plan(code) == Script(code)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("__interfaces", Describe("interfaces")),
        ("return __interfaces;", Describe("interfaces")),
        ('__getToolInterface("demo.echo")', Describe("interface", "demo.echo")),
        ("const t = __getToolInterface('echo'); return t;", Describe("interface", "echo")),
        ("__interfaces.demo", Script("__interfaces.demo")),
        ("__getToolInterface(x)", Script("__getToolInterface(x)")),
        ('__getToolInterface("a").name', Script('__getToolInterface("a").name')),
    ],
)
def test_the_introspection_forms_are_known(code, expected):
    assert plan(code) == expected


WRITTEN = (
    "await |return |const |x|=|;|demo|.|echo|(|)|{|}|[|]|,|:|'|\"|`|\\|//|/*|*/|1|0x|1e|-|undefined|export |default |function "
    '|...|${|\n|\r|\u2028|<!--|tool|"tool"|é|\\u{|\\x|__interfaces|__getToolInterface|'
)
PIECES = st.sampled_from(WRITTEN.split("|"))


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
@example('{"tool":"a","arguments":' + "[" * 100_000)
@example("[" * 100_000)
@example("demo.echo({" + "a:{" * 50_000)
@example("/*" + "*" * 100_000)
@example('demo.echo({a: "' + "\\" * 99_999)
@example("demo.echo({a: `" + "$" * 99_999)
def test_any_text_can_be_parsed(code):
    try:
        found = plan(code)
    except CodeError:
        return
    assert found.tier in (1, 2, 3)
