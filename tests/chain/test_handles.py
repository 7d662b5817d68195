"""`results.*` and media descriptors as a chain really passes them: wrong ones are named, none loses the answer."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.backend_bench import ODD
from fixtures.running import answer, running_app
from gatemini.app import App

TOOLS = {"tools": [{"name": "result", "inputSchema": {"type": "object"}}]}
ODD_BACKEND = {"odd": {"command": sys.executable, "args": ["-I", "-S", str(ODD), json.dumps(TOOLS)]}}
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder: Path = tmp_path_factory.mktemp("handles")
    async with running_app(folder) as app:
        yield app


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("rows(h, { offset: NaN })", "offset must be a whole number from 0, not null"),
        ("rows(h, { offset: -1 })", "offset must be a whole number from 0, not -1"),
        ("rows(h, { limit: '5' })", 'limit must be a whole number from 1, not "5"'),
        ("rows(h, { offest: 5 })", 'results.rows has no option "offest"; it has: offset, limit'),
        ("rows(h, 5)", "results.rows takes its options as an object, not 5"),
        ("save([1], 'label')", 'results.save takes its options as an object, not "label"'),
        ("save()", "results.save takes a value first"),
        ("compact([{ a: 1 }], { budget: 5 })", 'results.compact has no option "budget"'),
        ("rows('')", "results.rows takes a handle first"),
        ("load(NaN)", "results.load takes a handle first"),
        ("info('res_' + 'x'.repeat(100000))", "... does not exist in this session"),
        ("rows(h, { offset: 1.5 })", "offset must be a whole number from 0, not 1.5"),
        ("rows(h, { offset: 1e300 })", "offset must be a whole number from 0 to 2^53, not 1e+300"),
        ("rows(h, { offset: Infinity })", "not null (NaN and Infinity arrive as null)"),
        ("rows(h, { offset: '5' })", 'or as "7:1" what next_offset gave, not "5"'),
        ("rows(h, { offset: '0:7' })", 'there is no "0:7" in this result'),
        ("rows(h, { limit: -3 })", "limit must be a whole number from 1, not -3"),
        ("rows(h, { limit: [] })", "limit must be a whole number from 1, not []"),
        ("rows(h, { offset: true })", "offset must be a whole number from 0, not true"),
        ("rows(h, { Ofset: 1 })", "did you mean offset?"),
        ("rows(h, 0, 10)", "results.rows takes a handle and one object: 10 is too many"),
        ("rows({ handle: 5 })", 'results.rows takes a handle first, not {"handle":5}'),
        ("rows([h])", "results.rows takes a handle first, not ["),
        ("chunks(h, '5').next()", 'results.chunks takes its options as an object, not "5"'),
        (
            "chunks(h, { row: 5 }).next()",
            'results.chunks has no option "row"; it has: rows, offset; did you mean rows?',
        ),
        ("rows(h, { limit: 0 })", "limit must be a whole number from 1, not 0"),
        ("chunks(h, { rows: 0 }).next()", "rows must be a whole number from 1, not 0"),
        ("chunks(h, { rows: NaN }).next()", "rows must be a whole number from 1, not null"),
        ("chunks(h, { rows: 1.5 }).next()", "rows must be a whole number from 1, not 1.5"),
        ("chunks(h, { offset: -1 }).next()", "offset must be a whole number from 0, not -1"),
        ("chunks().next()", "results.chunks takes a handle first"),
        ("load(h, 'x')", 'results.load takes only a handle: "x" is too many'),
        ("load({ a: 1 })", 'results.load takes a handle first, not {"a":1}'),
        ("list(5)", "results.list takes no arguments: 5 is too many"),
        ("save(1, { label: 5 })", "label must be text, not 5"),
        ("save(1, { lable: 'x' })", "did you mean label?"),
        ("compact([{ a: 1 }], { fields: [null] })", "fields must be an array of field names, not [null]"),
        ("compact([{ a: 1 }], { fields: null })", "fields must be an array of field names, not null"),
        (
            "compact([{ a: 1 }], { budget_tokens: NaN })",
            "budget_tokens must be a whole number from 1, not null",
        ),
        (
            "compact([{ a: 1 }], { budget_tokens: 1.5 })",
            "budget_tokens must be a whole number from 1, not 1.5",
        ),
        ("compact([{ a: 1 }], 5)", "results.compact takes its options as an object, not 5"),
        ("compact({ a: 1 })", 'results.compact takes an array of rows first, not {"a":1}'),
    ],
)
async def test_a_wrong_argument_is_an_error_and_never_ignored(app: App, call: str, said: str) -> None:
    code = f"""const {{ handle: h }} = await results.save(Array.from({{ length: 100 }}, (_, id) => ({{ id }})));
        try {{ return await results.{call}; }} catch (e) {{ return [e.name, e.message]; }}"""
    text, failed, _ = await answer(app, code)
    assert not failed
    name, message = json.loads(text.split("\n")[0])
    assert name == "ToolError"
    assert said in message
    assert len(message) < 300


@pytest.mark.parametrize(
    "call",
    [
        "rows(h, null)",
        "rows(h, undefined)",
        "rows({ handle: h }, { offset: undefined })",
        "rows({ ref: h }, {}, undefined)",
        "rows(`gatemini://result/${h}`)",
        "rows(`gatemini://result/${h}/1`)",
    ],
)
async def test_omitted_options_may_be_written_as_null_or_undefined(app: App, call: str) -> None:
    code = f"const {{ handle: h }} = await results.save([1, 2]); return (await results.{call}).rows;"
    assert (await answer(app, code))[:2] == ("[1,2]", False)


@pytest.mark.parametrize(
    ("value", "comes_back", "told"),
    [
        ("[2 ** 60, -(2 ** 53), 2 ** 70, 1e21, 5e-324]", "[1152921504606847000,-9007199254740992,1.1805916207174113e+21,1e+21,5e-324]", ""),
        ("'[1]'", '"[1]"', ""),
        ("''", '""', ""),
        ("null", "null", ""),
        ("{ 2: 1, a: '\\u0000', __proto__: null, ['__proto__']: 1 }", '{"2":1,"a":"\\u0000","__proto__":1}', ""),
        ("[NaN]", "[null]", "NaN or Infinity became null"),
        ("{ n: -0 }", '{"n":0}', "-0 became 0 ([0].n)"),
        ("{ a: undefined, b: 1 }", '{"b":1}', "a field that is undefined was left out ([0].a)"),
        ("[undefined]", "[null]", "undefined in an array became null"),
        ("undefined", "null", "undefined in an array became null"),
        ("10n", '"10"', "BigInt became a decimal string"),
        ("new Date(0)", '"1970-01-01T00:00:00.000Z"', "Date became an ISO string"),
        ("new Map([[1, 2]])", "[[1,2]]", "Map became an object or a list of entries"),
        ("new Set([1])", "[1]", "Set became an array"),
        ("new Uint8Array(3000)", f"[{','.join('0' * 3000)}]", "typed array became an array"),
        ("{ '\\ud800': 1, '\\ud801': 2 }", '{"\ufffd":1,"\ufffd (2)":2}', "half a surrogate pair in a key became U+FFFD"),
    ],
)  # fmt: skip
async def test_a_saved_value_comes_back_unchanged_or_with_a_note(
    app: App, value: str, comes_back: str, told: str
) -> None:
    code = f"const {{ handle }} = await results.save({value}); return JSON.stringify(await results.load(handle));"
    text, failed, _ = await answer(app, code)
    assert not failed
    back, _, notes = text.partition("\n")
    assert back == comes_back
    assert told in notes
    assert bool(told) == bool(notes)


async def test_a_note_names_what_a_typed_array_loses_on_the_way_back(app: App) -> None:
    session = app.new_session()
    chain = {"code": "return new Float64Array(1500).fill(NaN);"}
    kept = await app.call_meta_tool("call_tool_chain", chain, session)
    ref = json.loads(kept["content"][0]["text"])["ref"]
    chain = {"code": f"return (await results.load('{ref}')).slice(0, 2);"}
    loaded = await app.call_meta_tool("call_tool_chain", chain, session)
    app.end_session(session)
    value, note = (block["text"] for block in loaded["content"])
    assert (value, note) == ("[null,null]", "NaN or Infinity of a typed array became null")


async def test_an_error_of_chunks_is_named_after_it(app: App) -> None:
    text, failed, _ = await answer(
        app, "for await (const rows of results.chunks('res_00000000')) {} return 1;"
    )
    assert failed
    assert text.startswith("ToolError: results.chunks: res_00000000 does not exist")


async def test_rows_of_what_is_no_array_say_so(app: App) -> None:
    text, is_error, _ = await answer(
        app,
        "const h = await results.save({ a: 1, b: [1, 2] });\nreturn await results.rows(h, { offset: 0 });",
    )
    assert not is_error
    page = json.loads(text)
    assert (page["rows"], page["total_rows"]) == ([{"a": 1, "b": [1, 2]}], 1)
    assert page["note"].startswith("this is an object, not an array: it counts as one row")


async def test_chunks_used_without_await_get_a_hint(app: App) -> None:
    text, failed, _ = await answer(app, "for (const rows of results.chunks('res_00000000')) {} return 1;")
    assert failed
    assert (
        "HINT: its pages come one after the other: for await (const rows of results.chunks(handle))" in text
    )
    text, failed, _ = await answer(app, "return results.chunks('res_00000000');")
    assert not failed
    assert text.startswith('"[results.chunks]"\n')
    assert text.endswith("collect what it gives with `for await`")


async def test_the_address_of_a_stored_result_is_accepted_as_its_handle(app: App) -> None:
    text, failed, _ = await answer(
        app,
        """const { handle } = await results.save([1, 2]);
        return [await results.load(`gatemini://result/${handle}`), await results.load(` ${handle}\\n`)];""",
    )
    assert (text, failed) == ("[[1,2],[1,2]]", False)


@pytest.mark.parametrize("levels", [249, 260, 990])
async def test_a_saved_value_may_nest_as_deep_as_arguments_may(app: App, levels: int) -> None:
    code = f"""let v = 1; for (let i = 0; i < {levels}; i++) v = [v];
        const {{ handle }} = await results.save([5, v, 6]); const [five, deep, six] = await results.load(handle);
        const rows = []; for await (const some of results.chunks(handle)) rows.push(...some);
        return [five, six, JSON.stringify(deep) === JSON.stringify(v), rows.flat(2000)];"""
    text, failed, _ = await answer(app, code)
    assert (json.loads(text.split("\n")[0]), failed) == ([5, 6, True, [5, 1, 6]], False)


async def test_keys_with_half_surrogate_pairs_stay_distinct_and_are_noted(app: App) -> None:
    code = (
        "return { '\\ud800': 1, '\\ud801': 2, '\\ufffd': 3, ok: new Map([['\\udc00', 4], ['\\udc01', 5]]) };"
    )
    value, _, notes = (await answer(app, code))[0].partition("\n")
    assert json.loads(value) == {
        "\ufffd (2)": 1, "\ufffd (3)": 2, "\ufffd": 3, "ok": {"\ufffd": 4, "\ufffd (2)": 5},
    }  # fmt: skip
    assert "half a surrogate pair in a key became U+FFFD, with a number where two keys became one" in notes


HUGE = {
    "text of one line": ('"line " + "é😀x".repeat(120000)', "rows.join('')"),
    "text of long and short lines": (
        '["a", "b".repeat(400000), "", "c\\u0000".repeat(100000), "d"].join("\\n")',
        "rows.join(rows.continues ? '' : '\\n') + (rows.continues ? '' : '\\n')",
    ),
}


@pytest.mark.parametrize("kind", list(HUGE))
async def test_text_of_any_line_length_is_walked_to_its_last_character(tmp_path: Path, kind: str) -> None:
    made, joined = HUGE[kind]
    code = f"""const text = {made}; const {{ handle }} = await results.save(text); let got = "", pages = 0;
        for await (const rows of results.chunks(handle)) {{ got += {joined}; pages++; }}
        return [got === text || got === text + "\\n", pages > 3];"""
    async with running_app(tmp_path, sandbox={"max_result_bytes": 100_000}) as app:
        text, failed, _ = await answer(app, code)
    value, _, notes = text.partition("\n")
    assert (json.loads(value), failed) == ([True, True], False)
    assert "is too large to be given whole: it comes in" in notes


async def test_rows_too_large_for_code_are_walked_in_stretches_of_their_json(tmp_path: Path) -> None:
    code = """const value = Array.from({ length: 9 }, (_, id) => ({ id, body: ("é\\"" + id).repeat(id % 3 ? 10 : 50000) }));
        const { handle } = await results.save({ rows: value, total: 9 }); const back = []; let part = "";
        for await (const rows of results.chunks(handle)) for (const row of rows) {
            part += row.part ?? "";
            if (row.part === undefined) back.push(row);
            else if (!rows.continues) { back.push(JSON.parse(part)); part = ""; }
        }
        const { rows } = await results.rows(handle, { offset: 7, limit: 1 });
        return [JSON.stringify(back) === JSON.stringify(value), rows[0].id];"""
    async with running_app(tmp_path, sandbox={"max_result_bytes": 100_000}) as app:
        text, failed, _ = await answer(app, code)
    assert (json.loads(text.split("\n")[0]), failed) == ([True, 7], False)


async def test_binary_data_larger_than_code_takes_is_walked_in_base64(tmp_path: Path) -> None:
    code = """const block = { type: "image", data: "QUJD".repeat(100000), mimeType: "image/png" };
        const image = await odd.result({ result: { content: [block] } });
        let got = ""; for await (const rows of results.chunks(image.ref)) got += rows.join("");
        return [got === block.data, image.bytes];"""
    async with running_app(tmp_path, ODD_BACKEND, sandbox={"max_result_bytes": 100_000}) as app:
        text, failed, _ = await answer(app, code)
    assert (json.loads(text.split("\n")[0]), failed) == ([True, 300_000], False)


async def test_chunks_go_on_from_an_offset(app: App) -> None:
    code = """const { handle } = await results.save(Array.from({ length: 100 }, (_, id) => id)); const seen = [];
        for await (const rows of results.chunks(handle, { rows: 30, offset: 35 })) seen.push([rows[0], rows.length]);
        return seen;"""
    text, failed, _ = await answer(app, code)
    assert not failed
    assert json.loads(text) == [[35, 30], [65, 30], [95, 5]]


@pytest.mark.parametrize(
    "value",
    [
        '{ type: "image", ref: "figure-7", bytes: "many" }',
        '{ type: "image", ref: "res_00000000", bytes: "x" }',
        '{ type: "image", ref: (await results.save([1, 2])).handle, bytes: -5, mimeType: 7 }',
        '{ type: "audio", ref: (await demo.image({})).ref }',
        '[{ type: "image", ref: "res_zzzzzzzz", bytes: 1e999 }]',
    ],
)
async def test_data_that_only_looks_like_an_image_stays_data(app: App, value: str) -> None:
    text, failed, _ = await answer(app, f"const found = {value}; return {{ found, n: 1 }};")
    assert not failed
    assert json.loads(text.split("\n")[0])["n"] == 1
    assert "<image>" not in text
    assert "<audio>" not in text
    # A `ref` of another program is left alone; a handle of ours without an image gets a note.
    assert ("is kept under this ref" in text) == ("figure-7" not in value and "zzz" not in value)


async def test_an_image_goes_out_with_its_own_size_and_type_whatever_the_code_says_of_it(app: App) -> None:
    code = "const image = await demo.image({}); return { ...image, bytes: 1e12, mimeType: 'image/fake' };"
    result = await app.call_meta_tool("call_tool_chain", {"code": code})
    (block,) = result["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")


async def test_an_image_of_an_odd_type_goes_out_all_the_same(tmp_path: Path) -> None:
    async with running_app(tmp_path, ODD_BACKEND) as app:
        for mime in ("image/PNG", "Image/png", "png", None):
            block = {"type": "image", "data": "iVBORw0KGgo=", **({"mimeType": mime} if mime else {})}
            code = f"return await odd.result({{ result: {json.dumps({'content': [block]})} }});"
            result = await app.call_meta_tool("call_tool_chain", {"code": code})
            assert result["content"][0]["type"] == "image", mime
            assert result["content"][0]["data"] == block["data"], mime
