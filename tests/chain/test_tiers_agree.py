"""Tiers 2 and 3 give the same answer for the same code: the sandbox is the reference."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.running import DEMO, answer, running_app
from gatemini.app import App
from gatemini.output.json.javascript_json import dumps

pytestmark = pytest.mark.anyio

FORMS = [
    "{call}",
    "await {call}",
    "return await {call};",
    "return {call}",
    "const x = await {call}; return x;",
    "// why\nlet r = await {call}\nreturn r",
    "export default async function main() {{ return await {call}; }}",
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    verbatim = {"verbatim": {"transport": "python", "module": "fixtures.text_server:server"}}
    async with running_app(tmp_path_factory.mktemp("tiers"), DEMO | verbatim) as running:
        yield running


async def both(app: App, call: str, form: str) -> tuple[list[Any], list[Any], int]:
    cheap = await app.call_meta_tool("call_tool_chain", {"code": form.format(call=call)})
    wrapped = f"const forced = await (async () => {{ return await {call}; }})();\nreturn forced;"
    full = await app.call_meta_tool("call_tool_chain", {"code": wrapped})
    assert full["_meta"]["gatemini/chain"]["tier"] == 3
    return cheap["content"], full["content"], cheap["_meta"]["gatemini/chain"]["tier"]


@pytest.mark.parametrize("form", FORMS)
async def test_every_wrapping_of_one_call_answers_as_the_sandbox_does(app: App, form: str) -> None:
    call = """demo.echo({a: 1.0, 'b': [16, -2.5e-7, 1e21], "2": null, "1": `t`, c: {d: true,},})"""
    cheap, full, tier = await both(app, call, form)
    assert tier == 2
    assert cheap == full
    assert cheap[0]["text"].startswith('{"1":"t","2":null,"a":1,')


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), json_values, max_size=4)
)
async def test_any_json_argument_comes_back_the_same_from_both_tiers(app: App, value: dict[str, Any]) -> None:
    if "__proto__" in dumps(value):
        return  # a literal `__proto__` sets the prototype: only the sandbox knows
    cheap, full, _ = await both(app, f"demo.echo({dumps(value)})", "return await {call};")
    # Compared as parsed: QuickJS-NG writes some subnormal-adjacent doubles (2**-24) with 17 digits where
    # the shortest form has 16; both texts are the same number.
    assert json.loads(cheap[0]["text"]) == json.loads(full[0]["text"])
    assert list(json.loads(cheap[0]["text"])) == list(json.loads(full[0]["text"]))
    assert cheap[1:] == full[1:]


@pytest.mark.parametrize(
    "call",
    [
        "demo.fail({message: 'no such id'})",
        'demo["fail"]({message: "no such id"})',
        "demo\n  .fail({\n    message: 'no such id',\n  })",
        "demo . fail ( {message: 'no such id'} )",
        'demo[ "fail" ]({message: "no such id"})',
        "demo.add({a: 1})",
        "demo.nope({})",
        "demo.add(1, 2)",
        "demo.add({a: 'x', b: 2})",
    ],
)
@pytest.mark.parametrize("form", ["return await {call};", "/* é😀 */ const x = await {call}; return x;"])
async def test_failures_have_the_same_cause_place_and_hint_in_both_tiers(
    app: App, call: str, form: str
) -> None:
    code = form.format(call=call)
    cheap, _, meta = await answer(app, code)
    full, _, sandboxed = await answer(app, f"{code} [].length")
    assert (meta["tier"], sandboxed["tier"]) == (3 if "(1, 2)" in call else 2, 3)

    def told(text: str) -> list[str]:
        lines = [line.replace(" [].length", "") for line in text.splitlines()]
        return lines[: lines.index("Calls made before the error:")] if "Calls" in text else lines

    assert told(cheap) == told(full)
    assert "(line " in told(cheap)[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', '{"a":1}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"a":1.0,"b":[1.0, 2, 1e2, -0]}', '{"a":1,"b":[1,2,100,0]}'),
        ('{"b":1,"2":2,"1":3}', '{"1":3,"2":2,"b":1}'),
        ('{"a":"\\u00e9\\/"}', '{"a":"é/"}'),
    ],
)
async def test_json_that_a_tool_sent_as_text_is_written_alike_by_both_tiers(
    app: App, text: str, value: str
) -> None:
    call = f"verbatim.say({{ text: {dumps(text)} }})"
    cheap, full, tier = await both(app, call, "return await {call};")
    assert tier == 2
    assert cheap[0]["text"] == full[0]["text"] == value


@pytest.mark.parametrize(
    "code",
    ["(" * 60_000, "[" * 250_000, "{" * 250_000, "let a: " + "Array<" * 6000 + "1" + ">" * 6000 + " = 1"],
)
async def test_thousands_of_open_brackets_are_refused_before_a_parser_sees_them(app: App, code: str) -> None:
    result = await app.call_meta_tool("call_tool_chain", {"code": code})
    assert result["isError"]
    assert result["content"][0]["text"].startswith("CodeError")


@pytest.mark.long
async def test_a_hundred_thousand_keys_are_reduced_without_looking_at_each_pair(app: App) -> None:
    """The outline of so many small children was quadratic: it would take minutes."""
    code = "return Object.fromEntries(Array.from({ length: 300000 }, (_, i) => ['k' + i, i]));"
    result = await app.call_meta_tool("call_tool_chain", {"code": code})
    assert not result["isError"]
    assert json.loads(result["content"][0]["text"])
