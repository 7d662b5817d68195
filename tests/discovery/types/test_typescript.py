"""Text of declarations and signatures, checked with a parser and without a compiler."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tree_sitter_typescript
from hypothesis import example, given
from hypothesis import strategies as st
from tree_sitter import Language, Node, Parser

from gatemini.discovery.types.schema_reader import parameters, required_parameters
from gatemini.discovery.types.typescript import (
    BRIEF_TYPE_CHARS,
    SIGNATURE_CHARS,
    argument_types,
    backend_declarations,
    declaration,
    result_type,
    signature,
)
from gatemini.model import Tool

PARSER = Parser(Language(tree_sitter_typescript.language_typescript()))


def arguments_of(schema: dict[str, Any]) -> str:
    """Return the text between `args` and the result in the signature."""
    text = signature(Tool("b", "t", "", schema))
    return text.removeprefix("declare const b: { t(args").removesuffix("): Promise<unknown> }")


def result_of(schema: dict[str, Any]) -> str:
    return signature(Tool("b", "t", "", {}, schema)).partition("Promise<")[2].removesuffix("> }")


def broken_at(text: str) -> str | None:
    """Return the text around the first syntax error, or None."""

    def find(node: Node) -> Node | None:
        if node.is_error or node.is_missing:
            return node
        return (
            next((found for child in node.children if (found := find(child))), None)
            if node.has_error
            else None
        )

    at = find(PARSER.parse(text.encode("utf-8", "replace")).root_node)
    return None if at is None else text[max(0, at.start_byte - 60) : at.end_byte + 60]


def test_required_and_optional_parameters_differ() -> None:
    schema = {
        "type": "object",
        "properties": {"limit": {"type": "integer"}, "query": {"type": "string"}},
        "required": ["query"],
    }
    assert arguments_of(schema) == ": { query: string; limit?: number }"


def test_a_tool_without_required_parameters_may_be_called_without_any() -> None:
    assert arguments_of({"type": "object", "properties": {"a": {"type": "boolean"}}}) == "?: { a?: boolean }"
    assert arguments_of({"type": "object"}) == "?: { [key: string]: unknown }"
    assert arguments_of({"type": "object", "properties": {}}) == "?: {}"
    assert arguments_of({"type": "string"}) == "?: { [key: string]: unknown }"


def test_enums_consts_unions_and_null_become_literal_types() -> None:
    properties = {
        "e": {"enum": ["a", 1, None]},
        "c": {"const": "x"},
        "n": {"type": ["string", "null"]},
        "u": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
        "o": {"type": "string", "nullable": True},
        "b": {"enum": [True, False]},
    }
    assert result_of({"properties": properties}) == (
        '{ e?: "a" | 1 | null; c?: "x"; n?: string | null; u?: string | number[]; o?: string | null; b?: boolean }'
    )


AB = [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "number"}}}]
TUPLE = {"prefixItems": [{"type": "number"}, {"type": "string"}]}
UNKNOWN = [{"type": "date"}, {"$ref": "https://x/y"}, {"not": {"type": "string"}}, {"type": 5}, {"enum": []}]


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({**TUPLE, "items": False}, "[number, string]"),
        ({**TUPLE, "items": {"type": "null"}}, "[number, string, ...null[]]"),
        ({"items": [{"type": "number"}], "additionalItems": True}, "[number, ...unknown[]]"),
        ({"allOf": AB}, "{ a?: string } & { b?: number }"),
        ({"additionalProperties": {"type": "number"}}, "{ [key: string]: number }"),
        ({"type": "object", "additionalProperties": False}, "Record<string, never>"),
        ({**AB[0], "additionalProperties": {"type": "number"}}, "{ a?: string; [key: string]: unknown }"),
        *(({"properties": {"a": schema}}, "{ a?: unknown }") for schema in UNKNOWN),
    ],
)
def test_a_schema_becomes_the_type_of_its_values(schema: dict[str, Any], made: str) -> None:
    assert result_of(schema) == made


def test_names_that_are_no_identifiers_are_quoted() -> None:
    schema = {"properties": {"my-prop": {}, "class": {}, "": {}, "a\u200bb": {}}}
    assert (
        result_of(schema) == r'{ "my-prop"?: unknown; class?: unknown; ""?: unknown; "a\u200bb"?: unknown }'
    )
    assert signature(Tool("files-eu", "get-user")).startswith('declare const files_eu: { "get-user"(args?')
    assert signature(Tool("b", "new")).startswith('declare const b: { "new"(args?')


def test_a_tool_that_is_no_member_is_declared_as_a_call_through_backends() -> None:
    text = signature(Tool("files-eu", "then"))
    assert text.startswith('declare const __backends: { "files-eu": { call(tool: "then", args?: ')


def test_a_recursive_type_gets_a_name() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    text = declaration(
        Tool("b", "t", "", {"properties": {"first": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    )
    assert "type T_Node = {\n  next?: T_Node;\n};" in text
    assert "first?: T_Node;" in text


def test_a_reference_used_once_is_written_in_place() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "string"}}}
    assert "a?: string;" in declaration(Tool("b", "t", "", schema))


def test_an_alias_never_refers_directly_to_itself() -> None:
    definitions = {"A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]}, "B": {"$ref": "#/$defs/A"}}
    schema = {"properties": {n: {"$ref": f"#/$defs/{r}"} for n, r in (("a", "A"), ("b", "B"), ("c", "A"))}}
    text = declaration(Tool("b", "t", "", {**schema, "$defs": definitions}))
    bodies = dict(
        line.removeprefix("type ").rstrip(";").split(" = ") for line in text.splitlines() if " = " in line
    )
    assert bodies == {"T_A": "unknown", "T_B": "unknown"}


def test_comments_cannot_be_ended_from_inside_and_long_ones_are_cut_with_a_note() -> None:
    text = declaration(
        Tool("b", "t", "one */ two\nthree", {"properties": {"a": {"description": "word " * 9999}}})
    )
    assert "/** one *\\/ two three */" in text
    assert "... (49995 characters) */" in text
    assert len(text) < 1000


def test_large_enums_are_cut_with_a_note() -> None:
    text = declaration(Tool("b", "t", "", {"properties": {"e": {"enum": [f"v{i}" for i in range(400)]}}}))
    assert 'e?: string /* one of 400: "v0", "v1",' in text
    assert len(text) < 2_000


def test_defaults_are_in_the_comment() -> None:
    text = declaration(
        Tool("b", "t", "", {"properties": {"n": {"type": "integer", "default": 8, "description": "N"}}})
    )
    assert "/** N (default 8) */\n    n?: number;" in text


def test_results_that_an_sdk_wrapped_are_declared_unwrapped() -> None:
    inner = {"type": "array", "items": {"type": "number"}}
    wrapped = {"type": "object", "properties": {"result": inner}, "x-fastmcp-wrap-result": True}
    assert result_of(wrapped) == "number[]"
    assert result_of({**wrapped, "x-fastmcp-wrap-result": False}) == "{ result?: number[] }"


def test_a_signature_is_one_line_and_gets_shallower_until_it_fits() -> None:
    deep = {
        "properties": {
            f"p{i}": {"properties": {f"q{j}": {"type": "string"} for j in range(9)}} for i in range(9)
        }
    }
    text = signature(Tool("b", "t", "line\nline", {**deep, "required": ["p0"]}))
    assert "\n" not in text
    assert len(text) <= SIGNATURE_CHARS
    assert "p0: { [key: string]: unknown }" in text


def test_required_parameters_come_first_in_the_order_of_required() -> None:
    schema = {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["c", "b"]}
    assert parameters(schema) == {"c": True, "b": True, "a": False}
    assert required_parameters(schema) == ("c", "b")


def test_of_alternatives_at_the_root_the_first_is_what_a_call_shows() -> None:
    schema = {
        "anyOf": [{"required": ["a"], "properties": {"a": {}}}, {"required": ["b"], "properties": {"b": {}}}]
    }
    assert parameters(schema) == {"a": True, "b": False}


def test_a_required_parameter_without_a_schema_is_still_there() -> None:
    assert arguments_of({"properties": {}, "required": ["x"]}) == ": { x: unknown }"


def test_tools_of_one_backend_share_a_declaration_without_name_clashes() -> None:
    node = {
        "properties": {"n": {"$ref": "#/$defs/Node"}, "m": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"items": {}}},
    }
    text = backend_declarations([Tool("b", "get-user", "", node), Tool("b", "get_user", "", node)])
    assert text.count("declare const b:") == 1
    assert "type GetUser_Node =" in text
    assert "type GetUser_Node2 =" in text


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = st.sampled_from(
    [
        "type", "properties", "required", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "allOf", "$ref",
        "nullable", "additionalProperties", "patternProperties", "description", "default", "$defs", "definitions",
    ]
)  # fmt: skip
SCHEMAS = st.recursive(
    JSON_VALUES | st.sampled_from(["object", "array", "string", "#", "#/$defs/A", "#/properties/a"]),
    lambda inner: (
        st.dictionaries(KEYWORDS | st.sampled_from(["a", "A", "*/"]), inner, max_size=4)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=20,
)


@given(
    schema=st.dictionaries(KEYWORDS, SCHEMAS, max_size=5),
    name=st.text(max_size=8),
    description=st.text(max_size=20),
)
def test_any_value_as_a_schema_gives_typescript_that_parses(schema: Any, name: str, description: str) -> None:
    tool = Tool("files-eu", name, description, schema, schema)
    assert broken_at(declaration(tool)) is None
    assert broken_at(signature(tool)) is None
    assert "\n" not in signature(tool)


def test_argument_types_are_said_in_as_few_characters_as_can_be() -> None:
    properties = {
        "mode": {"enum": ["a | b", "x; y", "{ z }"]},
        "note": {"type": ["string", "null"]},
        "at": {"properties": {"x": {"type": "number"}}, "required": ["x"]},
        "any": {"enum": [f"value {n}" for n in range(9)]},
    }
    tool = Tool("b", "t", "", {"properties": properties, "required": ["at"]})
    assert argument_types(tool) == (
        "{at: {x: number}, mode?: 'a | b'|'x; y'|'{ z }', note?: string, "
        "any?: string /* one of 9: 'value 0', 'value 1', 'value 2', 'value 3', ... */}"
    )


def test_argument_types_of_a_tool_with_many_name_what_is_required_and_count_the_rest() -> None:
    many = {f"parameter_{n}": {"type": "string"} for n in range(30)}
    text = argument_types(Tool("b", "t", "", {"properties": many, "required": ["parameter_7"]}))
    assert text.startswith("{parameter_7: string, parameter_0?: string, ")
    assert text.endswith(" optional */}")
    assert len(text) <= BRIEF_TYPE_CHARS
    assert argument_types(Tool("b", "t", "", {"properties": many, "required": list(many)})) == ""
    assert argument_types(Tool("b", "t", "", {"type": "object"})) == ""


def test_the_type_of_a_result_names_its_fields_as_far_as_they_fit() -> None:
    row = {"type": "object", "properties": {"id": {"type": "integer"}, "open": {"type": "object"}}}
    found = {"properties": {"rows": {"type": "array", "items": row}}, "required": ["rows"]}
    assert result_type(Tool("b", "t", "", {}, found)) == "{rows: {id?: number, open?: object}[]}"
    row["properties"] = {f"field_{n}": {"type": "string"} for n in range(30)}
    assert result_type(Tool("b", "t2", "", {}, found)) == "{rows: object[]}"


def test_an_unknown_result_type_is_left_out_of_the_signature() -> None:
    for schema in (None, {}, {"type": "object"}):
        assert result_type(Tool("b", "t", "", {}, schema)) == ""


WORDS = re.compile(r"'[^']*'|\"[^\"]*\"|[A-Za-z_]\w*")
LEVELS = ("open", "shipped", "delivered", "cancelled", "returned", "lost", "found", "held")


@st.composite
def optional_tools(draw: st.DrawFn) -> Tool:
    """Draw tools like FastMCP's: optional arguments that may be null, enums, and a result of rows."""
    simple = st.sampled_from(
        [{"type": "integer"}, {"type": "string"}, {"enum": list(LEVELS), "type": "string"}]
    )
    names = [
        f"{word}_{n}"
        for n, word in enumerate(("customer", "status", "since", "until", "limit", "order", "day"))
    ]
    fields = st.dictionaries(st.sampled_from(names), simple, max_size=7)
    arguments = {
        name: draw(st.sampled_from([rule, {"anyOf": [rule, {"type": "null"}], "default": None}]))
        for name, rule in draw(fields).items()
    }
    row = {"type": "object", "properties": draw(fields)}
    result = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": row}, "total": {"type": "integer"}},
    }
    return Tool(
        "shop", "list", "", {"type": "object", "properties": arguments}, draw(st.sampled_from([None, result]))
    )


def with_optional_levels(count: int, result: bool = False) -> Tool:
    rule = {"anyOf": [{"enum": list(LEVELS), "type": "string"}, {"type": "null"}], "default": None}
    fields = {
        f"{name}_{n}": rule for n, name in enumerate(("status", "day", "since", "until") * 2) if n < count
    }
    schema = {"type": "object", "properties": fields}
    return Tool("shop", "list", "", {} if result else schema, schema if result else None)


@example(with_optional_levels(5))
@example(with_optional_levels(7))
@example(with_optional_levels(6, result=True))
@example(
    Tool("b", "t", "", {"properties": {f"any_{n}": {"type": "object"} for n in range(9)}})
)  # three times as long where it is not terse
@given(optional_tools())
def test_the_brief_signature_says_all_that_a_search_said_of_the_tool(tool: Tool) -> None:
    said = " ".join(re.sub(r"/\*.*?\*/", "", text) for text in (argument_types(tool), result_type(tool)))
    words = {word.strip("'\"") for word in WORDS.findall(said)} - {"object", "unknown", "string", "number"}
    text = signature(tool)
    assert words <= {word.strip("'\"") for word in WORDS.findall(text)}
