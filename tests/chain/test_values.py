"""MCP results of any shape become the values that the code sees."""

from __future__ import annotations

import base64

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.chain.values.beside import notes_of
from gatemini.chain.values.tool_values import Value, to_value, tool_error
from gatemini.model import Tool

TOOL = Tool("demo", "echo")
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(60))).decode()


class Blobs:
    """Keeps what is saved, as the result store does."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, str]] = {}

    def save(self, data: str, mime: str) -> str:
        ref = f"res_{len(self.kept):08x}"
        self.kept[ref] = (data, mime)
        return ref


def value_of(result: dict, tool: Tool = TOOL, blobs: Blobs | None = None) -> Value:
    return to_value(result, tool, save_blob=(blobs or Blobs()).save)


def text(*texts: str) -> list[dict]:
    return [{"type": "text", "text": t} for t in texts]


# --- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (text("hello"), "hello"),
        (text(""), ""),
        (text("42"), "42"),
        (text("true"), "true"),
        (text('"quoted"'), '"quoted"'),
        (text('{"a": 1}'), {"a": 1}),
        (text(' \n[1, {"b": null}]\n'), [1, {"b": None}]),
        (text("{not json}"), "{not json}"),
        (text("NaN"), "NaN"),
        (text("[1] [2]"), "[1] [2]"),
        (text("Error: not really"), "Error: not really"),
        (text('{"a": "\\ud800"}'), {"a": "\ud800"}),
    ],
)
def test_text_is_a_string_unless_it_is_a_json_object_or_array(content, value):
    found = value_of({"content": content})
    assert (found.value, found.notes) == (value, [])


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("""[{'id': 1, 'name': "O'Brien", 'email': None, 'ok': True}]""", [{"id": 1, "name": "O'Brien", "email": None, "ok": True}]),
        ("[('NL', 232)]", [["NL", 232]]),
        ("[('only',), ()]", [["only"], []]),
        ("('x', [], {'a': -1.5})", ["x", [], {"a": -1.5}]),
        ("[\n {'id': 1,\n  'name': 'x'},\n]", [{"id": 1, "name": "x"}]),
        ("[(1, nan), (-inf, 2.5)]", [[1, None], [None, 2.5]]),
        ("{1: 'a', None: 2}", {"1": "a", "None": 2}),
        (r"""['None (True)', 'a\tb \\ "q"', '\xe9']""", ["None (True)", 'a\tb \\ "q"', "é"]),
    ],
)  # fmt: skip
def test_text_that_is_a_python_literal_is_the_value_it_stands_for_with_a_note(literal, value):
    found = value_of({"content": text(literal)})
    assert found.value == value
    assert "demo.echo sent text (a Python literal, no JSON): code gets the value it stands for" in found.notes


@pytest.mark.parametrize(
    "prose",
    ["(see below)", "(1)", "[b'x']", "[Decimal('1')]", "{1, 2}", "['a' 'b']", "[x for x in y]", "[null, 'a']", "['a\nb']", "[('a')]"],
)  # fmt: skip
def test_other_text_in_brackets_stays_text(prose):
    found = value_of({"content": text(prose)})
    assert (found.value, found.notes) == (prose, [])


def test_a_python_literal_too_long_to_be_read_stays_text_with_a_note():
    rows = str([{"id": n, "name": "x"} for n in range(15_000)])
    found = value_of({"content": text(rows)})
    assert (found.value, found.notes) == (
        rows,
        ["demo.echo sent more than 256 KB of a Python literal, no JSON: it stays text"],
    )


def test_integers_beyond_a_double_arrive_as_strings_with_one_note():
    found = value_of(
        {"content": text('{"id": 1234567890123456789, "n": 5, "more": [99999999999999999999999]}')}
    )
    assert found.value == {"id": "1234567890123456789", "n": 5, "more": ["99999999999999999999999"]}
    assert found.notes == ["2 integers beyond 2^53 came as strings, so that no digit is lost"]


def test_integers_of_structured_content_keep_their_digits_and_the_result_is_not_changed():
    result = {"content": [], "structuredContent": {"rows": [{"id": 2**60}, {"id": -(2**53)}, {"id": True}]}}
    found = value_of(result)
    assert found.value == {"rows": [{"id": str(2**60)}, {"id": str(-(2**53))}, {"id": True}]}
    assert len(found.notes) == 1
    assert result["structuredContent"]["rows"][0]["id"] == 2**60


def test_json_text_is_passed_on_as_it_is_where_nothing_changed():
    assert value_of({"content": text(' {"a": 1.0}')}).json() == '{"a": 1.0}'
    assert value_of({"content": text('{"a": 1234567890123456789}')}).json() == '{"a":"1234567890123456789"}'


# --- structuredContent: the forms of case 21 --------------------------------------------------------

WRAPPED = Tool("demo", "list", output_schema={"type": "object", "x-fastmcp-wrap-result": True})
SDK_WRAPPED = Tool(
    "demo",
    "list",
    output_schema={
        "type": "object",
        "title": "listOutput",
        "properties": {"result": {"title": "Result", "type": "array"}},
        "required": ["result"],
    },
)
OWN_RESULT = Tool(
    "demo",
    "list",
    output_schema={"type": "object", "title": "Found", "properties": {"result": {"type": "array"}}},
)
DECLARED = Tool("demo", "list", output_schema={"type": "object", "properties": {"a": {"type": "number"}}})


@pytest.mark.parametrize(
    ("result", "tool", "value"),
    [
        ({"content": text('{"a":1}'), "structuredContent": {"a": 1}}, TOOL, {"a": 1}),
        (
            {"content": text('{"b": 1.0, "a": [1]}'), "structuredContent": {"a": [1], "b": 1}},
            TOOL,
            {"a": [1], "b": 1},
        ),
        ({"content": text("all"), "structuredContent": {"content": "all"}}, TOOL, {"content": "all"}),
        ({"content": text("all"), "structuredContent": {"result": "all"}}, WRAPPED, "all"),
        (
            {"content": text('{"a": 1}', "x"), "structuredContent": {"result": [{"a": 1}, "x"]}},
            WRAPPED,
            [{"a": 1}, "x"],
        ),
        ({"content": text("1", "2"), "structuredContent": {"result": [1, 2]}}, WRAPPED, [1, 2]),
        ({"content": text("1", "2"), "structuredContent": {"result": [1, 2]}}, SDK_WRAPPED, [1, 2]),
        ({"content": [], "structuredContent": {"result": None}}, WRAPPED, None),
        ({"content": [], "structuredContent": {"result": [1, 2]}}, TOOL, {"result": [1, 2]}),
        ({"content": [], "structuredContent": {"result": [1, 2]}}, OWN_RESULT, {"result": [1, 2]}),
        ({"content": [], "structuredContent": {"result": 1, "more": 2}}, WRAPPED, {"result": 1, "more": 2}),
        (
            {"content": [], "structuredContent": {"result": 1}, "_meta": {"fastmcp": {"wrap_result": True}}},
            TOOL,
            1,
        ),
        ({"structuredContent": {"a": 1}}, TOOL, {"a": 1}),
        ({"content": None, "structuredContent": {"a": 1}}, TOOL, {"a": 1}),
        ({"content": [], "structuredContent": [1, 2]}, TOOL, [1, 2]),
        ({"content": [], "structuredContent": {}}, TOOL, {}),
        ({"content": text(" "), "structuredContent": {}}, TOOL, {}),
        ({"content": [], "structuredContent": 0}, TOOL, 0),
        ({"content": text("x"), "structuredContent": None}, TOOL, "x"),
        ({"content": text("{}"), "structuredContent": {}}, TOOL, {}),
    ],
)
def test_structured_content_is_the_value_in_every_form_it_comes_in(result, tool, value):
    found = value_of(result, tool)
    assert (found.value, found.notes) == (value, [])


def test_empty_structured_content_beside_a_text_gives_the_text_and_a_note():
    found = value_of({"content": text("all of it"), "structuredContent": {}})
    assert found.value == "all of it"
    assert "structuredContent was {}" in found.notes[0]


def test_a_declared_output_schema_without_structured_content_is_one_warning_not_an_error():
    found = value_of({"content": text("plain", "more")}, DECLARED)
    assert found.value == ["plain", "more"]
    assert found.notes[:1] == ["demo.list declares an output schema but sent no structuredContent"]
    assert len(found.notes) == 2


def test_content_that_structured_content_leaves_out_is_kept():
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "a://b", "name": "b"}
    page = {"type": "resource", "resource": {"uri": "a://c", "text": "whole page"}}
    blobs, texts = Blobs(), list[str]()

    def save(kept: str) -> str:
        texts.append(kept)
        return f"res_1111111{len(texts)}"

    found = to_value(
        {"content": [*text("2 rows found", '{"a": 1}'), image, link, page], "structuredContent": {"a": 1}},
        TOOL,
        save_blob=blobs.save,
        save_text=save,
    )
    assert (found.value, found.notes) == ({"a": 1}, [])
    assert texts == ["2 rows found", '{"type":"resource_link","uri":"a://b","name":"b"}', "whole page"]
    assert blobs.kept == {"res_00000000": (PNG, "image/png")}
    assert notes_of(found.beside) == [
        "beside its structured content demo.echo sent text (12 characters) as res_11111111, image (image/png, 68 "
        "bytes) as res_00000000, resource_link (49 characters) as res_11111112, resource (10 characters) as "
        'res_11111113: await results.load("res_11111111") gives it'
    ]


def test_the_lines_of_a_text_are_nothing_beside_the_list_of_them():
    kept: list[str] = []
    result = {"content": text("a\r\nb"), "structuredContent": ["a", "b"]}
    assert to_value(
        result, TOOL, save_blob=Blobs().save, save_text=lambda t: kept.append(t) or "res_1"
    ).value == ["a", "b"]
    assert kept == []


def test_many_results_with_content_beside_them_make_one_note_a_tool():
    kept = [{"tool": "demo.echo", "type": "text", "chars": 5, "ref": f"res_{n:08x}"} for n in range(100)]
    [note] = notes_of(kept)
    assert "and 95 more" in note
    assert len(note) < 500


def test_json_text_with_numbers_that_json_has_not_is_read_with_null_and_a_note():
    found = value_of({"content": text('[NaN, -Infinity, 1e400, 1.5, 9007199254740993, "NaN"]')})
    assert found.value == [None, None, None, 1.5, "9007199254740993", "NaN"]
    assert "in the text of demo.echo 3 numbers are NaN, Infinity or beyond 1.8e308" in found.notes[1]
    assert found.text is None


LIST = Tool("demo", "list", output_schema={"type": "array"})


@pytest.mark.parametrize("tool", [LIST, SDK_WRAPPED])
@pytest.mark.parametrize(
    ("content", "value"),
    [([], []), (text('{"a": 1}'), [{"a": 1}]), (text("[1]"), [1]), (text("a", "b"), ["a", "b"])],
)
def test_a_tool_that_declares_a_list_gives_an_array_for_any_number_of_blocks(tool, content, value):
    assert value_of({"content": content}, tool).value == value


def test_a_tool_that_has_answered_with_several_blocks_gives_arrays_from_then_on():
    lists: set[str] = set()

    def found(*texts: str) -> tuple[object, int]:
        value = to_value({"content": text(*texts)}, TOOL, save_blob=Blobs().save, lists=lists)
        return value.value, len(value.notes)

    assert found('{"a": 1}') == ({"a": 1}, 0)
    assert found() == (None, 1)
    assert found("a", '{"b": 2}', "3") == (["a", {"b": 2}, "3"], 1)
    assert found("a", "b") == (["a", "b"], 0)
    assert found('{"a": 1}') == ([{"a": 1}], 0)
    assert found() == ([], 0)


# --- blocks of case 23 ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "mime"), [("image", "image/png"), ("audio", "audio/wav")])
def test_images_and_audio_are_small_descriptors_and_their_data_stays_outside(kind, mime):
    blobs = Blobs()
    found = value_of({"content": [{"type": kind, "data": PNG, "mimeType": mime}]}, blobs=blobs)
    assert found.value == {"type": kind, "mimeType": mime, "bytes": 68, "ref": "res_00000000"}
    assert blobs.kept == {"res_00000000": (PNG, mime)}


def test_text_and_image_come_in_order():
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    found = value_of({"content": [*text("before"), image, *text("[1]")]})
    assert [found.value[0], found.value[1]["type"], found.value[2]] == ["before", "image", [1]]


def test_a_resource_link_is_an_object():
    link = {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "_meta": {}}
    assert value_of({"content": [link]}).value == {
        "type": "resource_link",
        "uri": "file:///a",
        "name": "a",
        "mimeType": "text/plain",
    }


def test_embedded_resources_are_objects_and_their_bytes_stay_outside():
    blobs = Blobs()
    content = [
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "hi"}},
        {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "application/zip", "blob": PNG}},
    ]
    found = value_of({"content": content}, blobs=blobs)
    assert found.value == [
        {"type": "resource", "uri": "file:///a", "mimeType": "text/plain", "text": "hi"},
        {
            "type": "resource",
            "uri": "file:///b",
            "mimeType": "application/zip",
            "bytes": 68,
            "ref": "res_00000000",
        },
    ]


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG[:40] + "\n" + PNG[40:], 68),
        (PNG.rstrip("="), 68),
        (PNG.replace("+", "-").replace("/", "_"), 68),
        ("data:image/png;base64," + PNG, 68),
        ("DATA:image/png;BASE64," + PNG, 68),
    ],
)
def test_base64_in_other_spellings_is_decoded(data, size):
    blobs = Blobs()
    found = value_of({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}, blobs=blobs)
    assert (found.value["bytes"], found.notes) == (size, [])
    assert blobs.kept[found.value["ref"]][0] == PNG


@pytest.mark.parametrize("data", ["!!!", "a", "", "ä"])
def test_what_is_no_base64_is_a_descriptor_and_a_warning_not_a_failed_call(data):
    found = value_of({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})
    assert found.value["type"] == "image"
    assert "ref" not in found.value
    assert "no valid base64" in found.notes[0]


def base64_of(start: bytes) -> str:
    return base64.b64encode(start + bytes(20)).decode()


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
    ],
)
@pytest.mark.parametrize("told", [None, "", "png", "image/jpg", "image/x-none", "application/octet-stream"])
def test_an_image_gets_the_media_type_of_its_bytes(start, kind, told):
    found = value_of({"content": [{"type": "image", "data": base64_of(start), "mimeType": told}]})
    assert found.value["mimeType"] == kind
    assert bool(found.notes) == bool(told)


@pytest.mark.parametrize("told", ["image/svg+xml", "image/png"])
def test_data_of_unknown_format_keeps_its_declared_media_type(told):
    found = value_of({"content": [{"type": "image", "data": base64_of(b"RIFF    AVI "), "mimeType": told}]})
    assert (found.value["mimeType"], found.notes) == (told, [])


@pytest.mark.parametrize(
    ("block", "value"),
    [
        (
            {"type": "image", "url": "https://x/y.png", "alt": "y"},
            {"type": "image", "url": "https://x/y.png", "alt": "y"},
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "image", "mimeType": "image/png", "bytes": 68, "ref": "res_00000000"},
        ),
        ({"type": "json", "json": {"rows": [1, 2]}}, {"type": "json", "json": {"rows": [1, 2]}}),
        ({"type": "json", "data": {"rows": [1, 2]}}, {"type": "json", "data": {"rows": [1, 2]}}),
        ({"type": "markdown", "text": "# x" * 900}, {"type": "markdown", "text": "# x" * 900}),
        ({"type": "note", "data": "plain words"}, {"type": "note", "data": "plain words"}),
        ({"type": "resource", "why": "none"}, {"type": "resource", "why": "none"}),
    ],
)
def test_a_block_of_an_unknown_form_keeps_its_fields_and_its_data_is_kept_under_a_handle(block, value):
    blobs = Blobs()
    found = value_of({"content": [block]}, blobs=blobs)
    assert found.value == value
    assert len(found.notes) == 1
    assert [data for data, _ in blobs.kept.values()] == ([PNG] if "ref" in value else [])


def test_empty_structured_content_beside_an_image_gives_the_image():
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    assert value_of({"content": [image], "structuredContent": {}}).value["type"] == "image"


def test_json_text_with_a_byte_order_mark_is_read_as_json():
    assert value_of({"content": text('\ufeff{"a": 1}')}).value == {"a": 1}


def test_an_unknown_block_is_a_descriptor_and_a_warning():
    found = value_of({"content": [{"type": "video", "data": PNG, "mimeType": "video/mp4", "seconds": 3}]})
    assert found.value == {
        "type": "video",
        "seconds": 3,
        "mimeType": "video/mp4",
        "bytes": 68,
        "ref": "res_00000000",
    }
    assert "unknown type 'video'" in found.notes[0]


@pytest.mark.parametrize(
    "block", [{}, {"type": None}, "text", 5, None, {"type": "text"}, {"type": "resource", "resource": "x"}]
)
def test_a_broken_block_never_fails_the_call(block):
    assert value_of({"content": [block]}).notes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
BLOCKS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "video"])},
        optional={
            "text": JSON,
            "data": JSON | st.just(PNG),
            "mimeType": JSON,
            "resource": JSON,
            "uri": st.text(),
        },
    ),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={"content": JSON | st.lists(BLOCKS, max_size=4), "structuredContent": JSON, "_meta": JSON},
    ),
    st.none() | st.dictionaries(st.text(max_size=5), JSON, max_size=3),
)
def test_any_result_has_a_value_that_json_holds_and_never_a_wide_integer(result, schema):
    tool = Tool("demo", "echo", output_schema=schema)
    found = value_of(result, tool)
    orjson.loads(found.json().encode("utf-8", "replace"))
    assert not _wide(found.value)
    error = tool_error(result, tool)
    assert error["name"] == "ToolError"
    assert error["message"]


def _wide(value) -> bool:
    if isinstance(value, dict):
        return any(map(_wide, value.values()))
    if isinstance(value, list):
        return any(map(_wide, value))
    return isinstance(value, int) and abs(value) >= 2**53


# --- errors of case 20 ------------------------------------------------------------------------------


def test_a_failed_call_carries_message_tool_and_backend():
    assert tool_error({"content": text("no such id"), "isError": True}, Tool("demo", "fail")) == {
        "name": "ToolError",
        "message": "no such id",
        "tool": "demo.fail",
        "backend": "demo",
    }


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"content": []}, "said nothing"),
        ({}, "said nothing"),
        ({"content": text("a", " ", "b")}, "a\nb"),
        ({"content": [], "structuredContent": {"message": "gone"}}, "gone"),
        ({"content": [], "structuredContent": {"error": "gone"}}, "gone"),
        ({"content": [], "structuredContent": {"x": 1}}, '{"x":1}'),
        ({"content": [{"type": "resource", "resource": {"text": "log"}}]}, "log"),
        ({"content": [], "structuredContent": {"error": {"code": "E1", "message": "gone"}}}, "gone"),
        ({"content": [], "structuredContent": {"detail": "gone"}}, "gone"),
        ({"content": [], "structuredContent": ["a", "b"]}, '["a","b"]'),
        ({"content": [], "structuredContent": "gone"}, "gone"),
        ({"content": [{"type": "image", "data": PNG}]}, "sent only image content: .raw("),
        ({"content": text('{"error": "gone"}')}, '{"error": "gone"}'),
    ],
)
def test_the_message_is_what_the_tool_said(result, message):
    assert message in tool_error(result, TOOL)["message"]


def test_structured_errors_keep_their_code_and_content():
    error = tool_error({"content": text("x"), "structuredContent": {"code": 404, "id": "q"}}, TOOL)
    assert (error["code"], error["structured"]) == (404, {"code": 404, "id": "q"})


@pytest.mark.parametrize(
    "result",
    [
        {"content": text('{"code": "E1", "error": "gone"}')},
        {"content": [], "structuredContent": {"error": {"code": "E1", "message": "gone"}}},
    ],
)
def test_the_code_of_an_error_is_read_from_json_text_and_from_an_error_object_too(result):
    error = tool_error(result, TOOL)
    assert error["code"] == "E1"
    assert "error" in error["structured"]


def test_a_very_long_error_is_cut_in_the_middle():
    message = tool_error({"content": text("start" + "x" * 100_000 + "end")}, TOOL)["message"]
    assert len(message) < 8_100
    assert message.startswith("start")
    assert message.endswith("end")
