"""Arguments are checked before a call is sent; the error says how to write it right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gatemini.chain.arguments import schemas
from gatemini.chain.arguments.schemas import MAX_STEPS, faults
from gatemini.chain.arguments.validate import check
from gatemini.discovery.types.typescript import signature
from gatemini.errors import ArgumentsInvalid
from gatemini.model import Tool

ADD = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "label": {"type": "string"}},
    "required": ["a", "b"],
}


def tool(schema: dict) -> Tool:
    return Tool("demo", "add", input_schema=schema)


def checked(schema: dict, arguments):
    return check(tool(schema), arguments, signature)


def refusal(schema: dict, arguments) -> ArgumentsInvalid:
    with pytest.raises(ArgumentsInvalid) as caught:
        checked(schema, arguments)
    return caught.value


def test_valid_arguments_are_unchanged():
    arguments = {"a": 1, "b": 2.5, "label": "x"}
    assert checked(ADD, arguments) == (arguments, ()) == checked(ADD, [arguments])


LOG = {
    "type": "object",
    "properties": {
        "repo_path": {"type": "string"},
        "max_count": {"type": "integer"},
        "start": {"type": "string"},
        "filter": {"$ref": "#/$defs/Filter"},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
    },
    "required": ["repo_path"],
    "$defs": {"Filter": {"type": "object", "properties": {"author": {"type": "string"}, "merged": {}}}},
}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"limit": 300}, '"limit" (declared: max_count, filter, start, rows)'),
        ({"maxCount": 300}, '"maxCount" (did you mean "max_count"?)'),
        ({"filter": {"autor": "x"}}, '"filter.autor" (did you mean "author"?)'),
        ({"rows": [{"id": 1}, {"id": 2, "name": {}}]}, '"rows[1].name" (declared: id)'),
    ],
)
def test_an_undeclared_argument_is_sent_with_a_note_that_offers_declared_names(more, said):
    arguments, notes = checked(LOG, {"repo_path": ".", **more})
    assert arguments == {"repo_path": ".", **more}
    assert len(notes) == 1
    assert notes[0].startswith(f"demo.add does not declare, and may have ignored: {said}")


def test_arguments_of_a_tool_that_takes_none_are_sent_with_a_note():
    """The schema that the Python SDK makes of a function without parameters."""
    schema = {"properties": {}, "title": "nowArguments", "type": "object"}
    arguments, notes = checked(schema, {"n": 1})
    assert arguments == {"n": 1}
    assert notes == ('demo.add does not declare, and may have ignored: "n" (it declares no arguments)',)
    assert checked(schema, {}) == ({}, ())


def test_many_undeclared_arguments_make_one_note():
    [note] = checked(LOG, {"repo_path": ".", **{f"x{n}": n for n in range(30)}})[1]
    assert note.endswith("; and 26 more")
    assert len(note) < 600


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {}, "additionalProperties": True},
        {"properties": {}, "additionalProperties": {}},
        {"properties": {"n": {"type": "integer"}, "o": {"type": "object", "properties": {}}}},
        {"additionalProperties": True, "properties": {"a": {}}},
        {"additionalProperties": {"type": "integer"}, "properties": {"a": {}}},
        {"unevaluatedProperties": True, "properties": {"a": {}}},
        {"patternProperties": {"^n": {}}, "properties": {"a": {}}},
        {"patternProperties": {"^(?=n)": {}}, "properties": {"a": {}}},
        {"anyOf": [{"properties": {"n": {}}}, {"properties": {"a": {}}}]},
        {
            "allOf": [{"$ref": "#/$defs/N"}],
            "properties": {"a": {}},
            "$defs": {"N": {"properties": {"n": {}}}},
        },
        {"allOf": [{"$ref": "https://example.invalid/n"}], "properties": {"a": {}}},
        {"if": {"properties": {"a": {}}}, "then": {"properties": {"n": {}}}},
    ],
)
def test_an_argument_that_the_schema_takes_in_any_way_is_not_called_undeclared(schema):
    assert checked({"type": "object", **schema}, {"n": 1}) == ({"n": 1}, ())


def test_a_schema_that_refers_to_itself_is_read_within_bounds():
    schema = {"properties": {"a": {"$ref": "#"}}, "allOf": [{"$ref": "#"}]}
    assert checked(schema, {"a": {"a": {}}}) == ({"a": {"a": {}}}, ())


NULLABLE = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "due": {"type": "string", "nullable": True, "enum": ["a"]},
        "kind": {"allOf": [{"type": "string"}], "nullable": True},
        "list": {"type": "array", "items": {"type": "integer", "nullable": True}},
        "not": {"type": "string", "nullable": False},
        "deep": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}},
            "required": ["m"],
        },
    },
    "required": ["id"],
}


def test_null_is_taken_where_the_schema_is_nullable_as_in_openapi():
    arguments = {"id": "x", "due": None, "kind": None, "list": [1, None]}
    assert checked(NULLABLE, arguments) == (arguments, ())


def test_null_for_an_optional_argument_without_null_is_left_out_with_a_note():
    given_ = {"id": "x", "not": None, "deep": {"n": None, "m": 1}, "due": None}
    arguments, notes = checked(NULLABLE, given_)
    assert arguments == {"id": "x", "deep": {"m": 1}, "due": None}
    assert notes == ("demo.add: left out, because null is not allowed there: deep.n, not",)
    assert given_["not"] is None
    assert given_["deep"] == {"n": None, "m": 1}


def test_all_optional_arguments_may_be_null_at_once():
    schema = {"properties": {f"p{n}": {"type": "integer"} for n in range(60)}, "type": "object"}
    assert checked(schema, {f"p{n}": None for n in range(60)})[0] == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"id": None, "not": None}, '"id" must be string, got null'),
        ({"id": "x", "deep": {"n": None, "m": None}}, '"deep.m" must be integer, got null'),
    ],
)
def test_null_for_a_required_argument_is_refused(arguments, said):
    assert said in refusal(NULLABLE, arguments).message


IDS = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"type": ["number", "null"]}},
        "text": {"type": "string"},
        "either": {"type": ["integer", "string"]},
        "any": {},
    },
}


def test_digits_beyond_what_a_number_holds_leave_as_the_integer_where_one_is_wanted():
    given_ = {"id": "9007199254740993", "maybe": "-9007199254740995", "list": [1, "9223372036854775807"]}
    arguments, notes = checked(IDS, given_)
    assert arguments == {"id": 9007199254740993, "maybe": -9007199254740995, "list": [1, 9223372036854775807]}
    assert notes == ("demo.add: sent as the integer its digits are: id, maybe, list[1]",)
    assert given_["id"] == "9007199254740993"  # the code's own object is unchanged


def test_digits_stay_text_where_text_is_taken():
    arguments = {"text": "9007199254740993", "either": "9007199254740993", "any": "9007199254740993"}
    assert checked(IDS, arguments) == (arguments, ())


@pytest.mark.parametrize("digits", ["9223372036854775808", "-18446744073709551616", "1" + "0" * 3999])
def test_digits_of_any_length_leave_as_the_integer(digits):
    assert checked(IDS, {"id": digits})[0] == {"id": int(digits)}
    assert check(tool(IDS), {"id": digits, "any": digits}, str, [["id"], ["any"]]) == (
        {"id": int(digits), "any": int(digits)},
        (),
    )


@pytest.mark.parametrize(
    "digits", ["12", "9007199254740991", "1" + "0" * 4000, "0x20000000000001", "9007199254740993.5"]
)
def test_other_text_where_a_number_is_wanted_is_refused(digits):
    assert '"id" must be integer' in refusal(IDS, {"id": digits}).message


def test_a_bigint_leaves_as_an_integer_except_where_only_text_is_taken():
    given_ = {"id": "1", "maybe": "-7", "list": ["0"], "text": "5", "either": "6", "any": "8"}
    paths = [["id"], ["maybe"], ["list", 0], ["text"], ["either"], ["any"]]
    arguments, notes = check(tool(IDS), given_, str, paths)
    assert arguments == {"id": 1, "maybe": -7, "list": [0], "text": "5", "either": 6, "any": 8}
    assert notes == ("arguments of demo.add: BigInt became a decimal string (text)",)
    assert check(tool(IDS), [given_], str, [[0, *path] for path in paths]) == (arguments, notes)


def test_text_beside_a_bigint_stays_text():
    with pytest.raises(ArgumentsInvalid, match='"maybe" must be'):
        check(tool(IDS), {"id": "5", "maybe": "12"}, str, [["id"]])


@pytest.mark.parametrize("nothing", [None, {}, [], [None], [{}]])
def test_no_arguments_are_an_empty_object(nothing):
    assert checked({"type": "object"}, nothing) == ({}, ())


@pytest.mark.parametrize("given_", ['{"a": 1, "b": 2}', ['  {"a": 1, "b": 2}']])
def test_a_json_string_of_an_object_is_taken_with_a_note(given_):
    arguments, notes = checked(ADD, given_)
    assert arguments == {"a": 1, "b": 2}
    assert "JSON string" in notes[0]


@pytest.mark.parametrize(
    ("given_", "said", "example"),
    [
        ([1, 2], "2 positional (number, number)", "({ a: 1, b: 2 })"),
        (["x"], "not string", '({ a: "x", b: … })'),
        ("hello", "not string", '({ a: "hello", b: … })'),
        (["[1]"], "not string", '({ a: "[1]", b: … })'),
        (5, "not number", "({ a: 5, b: … })"),
        ([{"a": 1}, {"b": 2}], "2 positional (object, object)", '({ a: {"a":1}, b: {"b":2} })'),
        ([1, 2, 3, 4], "4 positional", "({ name: value })"),
    ],
)
def test_positional_arguments_are_an_error_that_shows_the_right_call(given_, said, example):
    error = refusal(ADD, given_)
    assert said in error.message
    assert example in (error.hint or "")
    assert signature(tool(ADD)) in (error.hint or "")


@pytest.mark.parametrize(
    ("schema", "arguments", "said"),
    [
        (ADD, {"a": 1}, 'required "b" is missing'),
        (ADD, {"a": 1, "bb": 2}, 'required "b" is missing (there is "bb")'),
        (ADD, {"a": "1", "b": 2}, '"a" must be number, got string "1"'),
        (ADD, {"a": None, "b": 2}, '"a" must be number, got null'),
        (
            ADD | {"additionalProperties": False},
            {"a": 1, "b": 2, "lable": "x"},
            'unknown "lable" (did you mean "label"?)',
        ),
        (
            {"properties": {"u": {"enum": ["open", "closed"]}}},
            {"u": "opn"},
            'one of "open", "closed", got "opn" (did you mean "open"?)',
        ),
        ({"properties": {"u": {"const": 3}}}, {"u": 4}, "must be 3, got 4"),
        ({"properties": {"n": {"type": "integer", "minimum": 1}}}, {"n": 0}, '"n" must be at least 1, got 0'),
        ({"properties": {"s": {"maxLength": 2}}}, {"s": "abc"}, '"s" must have at most 2 characters, has 3'),
        ({"properties": {"s": {"pattern": "^a+$"}}}, {"s": "b"}, "must match the pattern ^a+$"),
        (
            {"properties": {"rows": {"type": "array", "items": {"type": "object", "required": ["id"]}}}},
            {"rows": [{"id": 1}, {}]},
            '"rows[1]" lacks the required "id"',
        ),
        (
            {
                "properties": {
                    "x": {
                        "anyOf": [
                            {"type": "string"},
                            {"type": "object", "properties": {"k": {"type": "number"}}},
                        ]
                    }
                }
            },
            {"x": {"k": "v"}},
            '"x.k" must be number, got string "v"',
        ),
        (
            {"properties": {"x": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            {"x": 1},
            '"x" must be string or null, got number 1',
        ),
        (
            {
                "properties": {
                    "x": {"anyOf": [{"type": "string", "enum": ["open", "held"]}, {"type": "null"}]}
                }
            },
            {"x": "opened"},
            '"x" must be one of "open", "held", got "opened" (did you mean "open"?)',
        ),
        (
            {"properties": {"n": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]}}},
            {"n": 0},
            '"n" must be at least 1, got 0',
        ),
        (
            {"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
            {"n": "5"},
            '"n" must be integer or null, got string "5" (pass the number 5)',
        ),
        (
            {
                "properties": {
                    "x": {"anyOf": [{"type": "string", "minLength": 3}, {"type": "string", "pattern": "^z"}]}
                }
            },
            {"x": "a"},
            '"x" fits none of the allowed forms, got string "a" (allowed: string)',
        ),
        ({"properties": {"x": {"uniqueItems": True}}}, {"x": [{"a": 1}, {"a": 1}]}, "same item twice"),
        ({"properties": {"x": {"additionalProperties": False}}}, {"x": {"y": 1}}, '"x" has unknown y'),
        (
            {"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "string"}}},
            {"x": 1},
            '"x" must be string',
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}},
            },
            {"n": 1},
            '"n" must be more than 1, got 1',
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "properties": {"n": {"items": [{"type": "string"}]}},
            },
            {"n": [1]},
            '"n[0]" must be string',
        ),
        (
            {"properties": {"n": {"type": "object"}}},
            {"n": '{"a": 1}'},
            "(pass the value itself, not its JSON text)",
        ),
        (
            {"properties": {"n": {"type": "array"}}},
            {"n": "bug"},
            'must be array, got string "bug" (write ["bug"])',
        ),
        ({"properties": {"n": {"multipleOf": 5}}}, {"n": 7}, '"n" must be a multiple of 5, got 7'),
        (
            {"oneOf": [{"required": ["url"]}, {"required": ["path", "mode"]}]},
            {"n": 1},
            "the object of arguments fits none of the allowed forms, got object (allowed: {url} | {path, mode})",
        ),
        (
            {"oneOf": [{"required": ["url"]}, {"required": ["path"]}]},
            {"url": 1, "path": 2},
            "fits more than one of the allowed forms, got object (allowed: {url} | {path})",
        ),
    ],
)
def test_the_error_names_the_field_and_what_it_must_be(schema, arguments, said):
    error = refusal({"type": "object"} | schema, arguments)
    assert error.message.startswith("demo.add was not called: ")
    assert said in error.message


def test_the_hint_lists_what_is_required_and_shows_the_signature():
    error = refusal(ADD, {"label": "x"})
    assert error.hint == f"required: a, b. Signature: {signature(tool(ADD))}"
    assert error.details == {"tool": "demo.add", "fields": ["a", "b"], "required": ["a", "b"]}


def test_arguments_in_a_wrapper_are_refused_with_the_remedy():
    error = refusal(ADD, {"arguments": {"a": 1, "b": 2}})
    assert 'without "arguments" around them' in (error.hint or "")


def test_arguments_required_by_subschemas_are_listed_when_missing():
    schema = {"type": "object", "required": ["a", "a"], "allOf": [{"required": ["b"]}, {"required": ["c"]}]}
    with pytest.raises(ArgumentsInvalid) as refused:
        check(tool(schema), {"c": 1}, lambda _: "(…)")
    assert 'required "a" is missing; the object of arguments lacks the required "b"' in refused.value.message
    assert refused.value.hint.startswith("required: a, b, c. ")


@pytest.mark.parametrize("draft", ["03", "04", "06", "07"])
def test_required_beside_a_property_as_draft_3_writes_it_never_blocks_a_call(draft):
    schema = {"type": "object", "properties": {"a": {"type": "string", "required": True}}}
    declared = {"$schema": f"http://json-schema.org/draft-{draft}/schema#"}
    assert check(tool(schema | declared), {}, lambda _: "(…)") == ({}, ())


def test_many_invalid_arguments_are_counted_and_not_listed():
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(30)}}
    error = refusal(schema, {f"p{i}": i for i in range(30)})
    assert len(error.message) < 500
    assert "more" in error.message
    assert len(refusal(ADD, {"a": "x" * 10_000, "b": 1}).text()) < 800, "long values are cut"


# --- what must never block or hang a call -----------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "strin"}}},
        {"properties": {"a": "string"}},
        {"properties": {"a": {"required": "xyz"}}},
        {"properties": {"a": {"enum": "abc"}}},
        {"properties": {"a": {"minimum": "5"}}},
        {"properties": {"a": {"multipleOf": 0}}},
        {"properties": {"a": {"maxLength": "9"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"anyOf": []}}},
        {"properties": {"a": {"type": []}}},
        {"properties": {"n": {"exclusiveMinimum": True}}},
        {"properties": {"a": {"$ref": "https://example.invalid/schema.json"}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$dynamicRef": "#nothing"}}},
        {"properties": []},
        {"properties": None, "required": None},
        {"required": "name"},
        {"$schema": "https://example.invalid/draft", "properties": {"a": True}},
        {"$schema": ["x"]},
        {"$id": 5, "properties": {"a": {"$ref": "other"}}},
        {"allOf": "x", "not": 5, "if": [], "dependentRequired": [1], "patternProperties": {"(": {}}},
        {"patternProperties": {"^(b+)+$": False}, "unevaluatedProperties": False},
    ],
)
def test_a_schema_that_cannot_be_used_never_blocks_a_call(schema):
    arguments = {"a": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "n": 1}
    assert checked({"type": "object"} | schema, arguments)[0] == arguments


def test_the_usable_part_of_a_broken_schema_is_checked():
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "https://example.invalid/x"}, "y": {"type": "number"}},
    }
    assert '"y" must be number' in refusal(schema, {"x": 1, "y": "2"}).message


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(a+)+$",
        r"^(a|a)*$",
        r"^(\w+\s?)*$",
        r"^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(.*a){25}",
        "a" * 5_000,
        r"^(?=(a+))\1$",
    ],
)
def test_a_catastrophic_pattern_is_linear_or_not_tried(pattern):
    hostile = "a" * 5_000 + "!"
    for schema in (
        {"properties": {"s": {"pattern": pattern}}},
        {"patternProperties": {pattern: {"type": "string"}}},
    ):
        faults({"type": "object"} | schema, {"s": hostile, hostile: 1})


def test_a_schema_bomb_ends_at_the_step_budget():
    levels = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}
    schema = {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/d0"}],
        "$defs": levels | {"d60": {"type": "object"}},
    }
    assert checked(schema, {"x": 1}) == ({"x": 1}, ())


def test_required_arguments_are_checked_whatever_the_budget():
    items = {"type": "array", "items": {"type": "number"}}
    schema = {"type": "object", "properties": {"x": items, "y": {}}, "required": ["x", "y"]}
    assert 'required "y"' in refusal(schema, {"x": list(range(3 * MAX_STEPS))}).message


def test_a_recursive_schema_checks_nested_arguments():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}, "v": {"type": "number"}}}
    schema = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}
    assert '"next.next.v" must be number' in refusal(schema, {"next": {"next": {"v": "x"}}}).message
    deep: dict = {}
    for _ in range(900):
        deep = {"next": deep}
    assert checked(schema, deep)[0] is deep


def test_lone_surrogates_are_replaced_because_no_backend_could_read_them():
    arguments, notes = checked({"type": "object"}, {"a\ud800": ["x\udfff\\ud800", {"n": 2**70}]})
    assert arguments == {"a\ufffd": ["x\ufffd\\ud800", {"n": 2**70}]}
    assert "surrogates" in notes[0]


def test_the_validator_of_a_schema_is_kept_and_never_mixed_up():
    first, second = {"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}
    for _ in range(3):
        assert '"a"' in refusal(first, {}).message
        assert '"b"' in refusal(second, {}).message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = (
    "type required properties items enum const pattern minimum allOf anyOf oneOf not $ref $defs additionalProperties "
    "patternProperties uniqueItems maxLength minItems if then else contains propertyNames dependentRequired $schema $id "
    "unevaluatedProperties prefixItems multipleOf $dynamicRef $anchor format"
)
KEYWORDS = st.sampled_from(NAMES.split())
SCHEMAS = st.recursive(
    JSON,
    lambda inner: st.dictionaries(
        KEYWORDS, inner | st.dictionaries(st.sampled_from("abc"), inner, max_size=2), max_size=4
    ),
    max_leaves=15,
)


DRAFTS = ["draft-03/schema#", "draft-04/schema#", "draft-06/schema#", "draft-07/schema#"]
DECLARED = st.sampled_from([{}, *({"$schema": f"http://json-schema.org/{draft}"} for draft in DRAFTS)])


@given(
    st.dictionaries(KEYWORDS, SCHEMAS, max_size=5),
    DECLARED,
    JSON | st.dictionaries(st.sampled_from("abc"), JSON),
)
def test_any_arguments_can_be_checked_against_any_schema(schema, declared, arguments):
    try:
        found, _ = check(tool({"type": "object"} | schema | declared), arguments, lambda _: "(…)")
    except ArgumentsInvalid:
        return
    assert isinstance(found, dict)


@pytest.mark.parametrize("more", [[{"timeout": 1000}], [0, [{"a": 1, "b": 2}]], [None]])
def test_an_object_followed_by_other_arguments_gets_a_hint(more):
    hint = refusal(ADD, [{"a": 1, "b": 2}, *more]).hint or ""
    assert "leave out the arguments after the object" in hint
    assert "`(x) => demo.add(x)`" in hint


RULES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["string", "integer", "number", "boolean", "null", "array", ["string", "null"], 5]
        )
    },
    optional={"title": st.just("T"), "minimum": st.just(3), "enum": st.just(["a"])},
)
FLAT_SCHEMAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["object", "string"])},
    optional={
        "properties": st.dictionaries(st.sampled_from("abc"), st.one_of(RULES, st.booleans()), max_size=3),
        "required": st.one_of(st.lists(st.sampled_from("abd"), max_size=2), st.just("a")),
        "additionalProperties": st.one_of(st.booleans(), RULES),
    },
)
FLAT_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)
)


@given(FLAT_SCHEMAS, st.dictionaries(st.sampled_from("abcd"), FLAT_VALUES, max_size=4))
def test_what_plainly_fits_a_flat_schema_is_valid_by_jsonschema_too(schema, instance) -> None:
    flat = schemas._flat(schema)
    if flat is not None and schemas._fits(flat, instance):
        assert Draft202012Validator(schema).is_valid(instance)


def test_a_flat_object_with_the_declared_types_needs_no_validator() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    flat = schemas._flat(schema)
    assert flat is not None
    assert schemas._fits(flat, {"n": 1, "more": []})
    assert not schemas._fits(flat, {"n": True})
