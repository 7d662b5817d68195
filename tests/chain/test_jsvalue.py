"""JSON is written and read as JavaScript does; a QuickJS-NG outside the sandbox is the oracle."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from quickjs_rs import Runtime

from gatemini.chain.code.parse import Script, SingleCall, parse
from gatemini.output.json.javascript_json import NotJson, dumps, loads, loads_exact, number_text, ordered_keys


@functools.cache
def engine() -> Any:
    """Compiled for a second, in the process that runs these tests only."""
    return Runtime().new_context()


def stringify(text: str) -> str:
    """`JSON.stringify(JSON.parse(text))`; what the engine says comes back escaped, so that nothing is lost."""
    quoted = json.dumps(text)
    return json.loads(engine().eval(f"JSON.stringify(JSON.stringify(JSON.parse({quoted})))"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        ([1.0, 2.5, -3.0], "[1,2.5,-3]"),
        ({"a": 1.0}, '{"a":1}'),
        (["1.0", "x 2.0, y", "-0.0]"], '["1.0","x 2.0, y","-0.0]"]'),
        (["2.0,", 2.0, 'q".0]'], '["2.0,",2,"q\\".0]"]'),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (math.nan, "null"),
        ([math.inf, -math.inf], "[null,null]"),
        ({"b": 1, "10": 2, "2": 3, "01": 4, "-1": 5}, '{"2":3,"10":2,"b":1,"01":4,"-1":5}'),
        ({"4294967294": 1, "4294967295": 2, "0": 3}, '{"0":3,"4294967294":1,"4294967295":2}'),
        ("\ud800", '"\\ud800"'),
        ("a\u2028\x7f/é😀", '"a\u2028\x7f/é😀"'),
        ('\x00\x1f\b\f\n\r\t"\\', '"\\u0000\\u001f\\b\\f\\n\\r\\t\\"\\\\"'),
        ((1, (2,)), "[1,[2]]"),
        ({1: "a", None: "b"}, '{"1":"a","null":"b"}'),
        (2**70, str(2**70)),
        (None, "null"),
        ({}, "{}"),
        ([[], {}], "[[],{}]"),
    ],
)
def test_dumps_writes_what_json_stringify_writes(value, text):
    assert dumps(value) == text


def test_values_nested_beyond_any_recursion_are_written():
    value: list = []
    for _ in range(50_000):
        value = [value]
    assert dumps(value) == "[" * 50_001 + "]" * 50_001


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 2**33).map(str), inner),
    max_leaves=20,
)


@given(VALUES)
@example({"__proto__": 1, "constructor": {"1": -0.0}})
@example(5.960464477539063e-08)
def test_dumps_agrees_with_the_engine(value):
    ours = dumps(value)
    theirs = stringify(ours)
    # The engine does not always write the shortest digits (2**-24): then both texts are the same value.
    assert theirs == ours or json.loads(theirs) == json.loads(ours)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(1.7976931348623157e308)
@example(999999999999999900000.0)
@example(0.000001)
@example(123e-20)
def test_numbers_are_written_as_the_engine_writes_them(value):
    ours, theirs = number_text(value), engine().eval(f"String({value!r})")
    assert ours == theirs or (
        float(ours) == float(theirs) and len(ours) < len(theirs)
    )  # it may write 17 digits


@given(VALUES)
def test_values_survive_repeated_writing_and_reading(value):
    assert dumps(loads_exact(dumps(value))) == dumps(value)


@pytest.mark.parametrize(
    ("text", "value", "kept"),
    [
        ("[9007199254740991, -9007199254740991]", [9007199254740991, -9007199254740991], 0),
        ("[9007199254740992, 1]", ["9007199254740992", 1], 1),
        (
            '{"id": 12345678901234567890123, "n": -99999999999999999}',
            {"id": "12345678901234567890123", "n": "-99999999999999999"},
            2,
        ),
        ('["12345678901234567890"]', ["12345678901234567890"], 0),
        ("[0.12345678901234567890, 1e22]", [0.12345678901234567890, 1e22], 0),
        ("12345678901234567890", "12345678901234567890", 1),
        ('["\\ud800", 1]', ["\ud800", 1], 0),
        ("[1e400]", [math.inf], 0),
    ],
)
def test_loads_keeps_every_digit(text, value, kept):
    assert loads(text) == (value, kept)


@pytest.mark.parametrize(
    "text", ["", "{", "[NaN]", "[Infinity]", "{'a': 1}", "[1,]", "[" * 100_000, "[01]", "\x00"]
)
def test_text_that_is_no_json_is_a_named_error(text):
    with pytest.raises(NotJson):
        loads(text)


def test_exact_integers_stay_integers():
    assert loads_exact('{"id": 123456789012345678901234}') == {"id": 123456789012345678901234}


@given(VALUES)
def test_loads_reads_what_the_standard_library_reads(value):
    text = json.dumps(value, allow_nan=False) if _is_finite(value) else "1"
    assert dumps(loads(text)[0]) == dumps(json.loads(text))


def _is_finite(value) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, dict) or all(map(_is_finite, value.values()))


@given(st.dictionaries(st.text() | st.integers(0, 2**40).map(str), st.integers()))
def test_ordering_keys_loses_none(members):
    assert ordered_keys(members) == members


# --- literals of tier 2 against the engine ----------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "$c", "_d", "class", "async", "get", "ñ", "toString", "constructor"])
NUMBERS = st.one_of(
    st.integers(0, 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False, min_value=0).map(repr),
    st.sampled_from(
        [".5", "5.", "1_000", "0X1f", "1E3", "1e-7", "0.1e+2", "9007199254740993", "0", "00", "08", "1e400"]
    ),
)
CHARACTERS = st.one_of(
    st.characters(exclude_characters="\\\"'`$\n\r\0", exclude_categories=["Cs"]),
    st.sampled_from(
        [*[r"\n", r"\t", r"\v", r"\x41", r"\u0041", r"\'", r"\"", r"\`", r"\\", r"\$", r"$", r"\/"], "a"]
    ),
    st.sampled_from(["\\0", "\\u{1F600}", "\\ud83d\\ude00", "\\\n", "\\q"]),
)
STRINGS = st.tuples(st.sampled_from("\"'"), st.lists(CHARACTERS).map("".join)).map(
    lambda p: p[0] + p[1] + p[0]
)
TEMPLATES = st.lists(CHARACTERS | st.sampled_from(["\n", "\r\n", "\r", '"', "'"])).map(
    lambda p: "`" + "".join(p) + "`"
)
BLANK = st.sampled_from(["", " ", "\n", "/* , } */", "// x ]\n", "\t\u00a0"])
SCALARS = st.one_of(
    NUMBERS,
    NUMBERS.map(lambda n: "-" + n),
    STRINGS,
    TEMPLATES,
    st.sampled_from(["null", "true", "false", "undefined"]),
)
KEYS = st.one_of(NAMES, STRINGS, NUMBERS)


def _array(parts: list[tuple[str, str]], trailing: bool) -> str:
    return (
        "["
        + ",".join(blank + item + blank for blank, item in parts)
        + ("," if trailing and parts else "")
        + "]"
    )


def _object(parts: list[tuple[str, str, str]], trailing: bool) -> str:
    inside = ",".join(f"{blank}{key}{blank}:{blank}{item}" for blank, key, item in parts)
    return "{" + inside + ("," if trailing and parts else "") + "}"


def _objects(items):
    return st.builds(_object, st.lists(st.tuples(BLANK, KEYS, items), max_size=5), st.booleans())


LITERALS = st.recursive(
    SCALARS,
    lambda inner: (
        st.builds(_array, st.lists(st.tuples(BLANK, inner), max_size=4), st.booleans()) | _objects(inner)
    ),
    max_leaves=12,
)


@given(_objects(LITERALS))
@example("{'2': 1, '1': 2, a: undefined, a: 3, \"1\": 4, '1000': 5 , b: 7, '4294967294': 8, '4294967295': 9}")
@example("{a: 9007199254740993, b: -0, c: 1_000, d: 123456789012345680000, e: 1e21}")
def test_a_tier_2_literal_has_the_value_the_engine_gives_it(literal):
    plan = parse(f"return await demo.echo({literal});", lambda name: name == "demo")
    if isinstance(plan, Script):
        return
    assert isinstance(plan, SingleCall)
    expected = engine().eval(f"'use strict'; JSON.stringify({literal})")
    assert _in_order(dumps(plan.arguments)) == _in_order(expected)


@given(st.text(alphabet="{}[]:,'\"`\\$ab01._xeun-+/*\n \u2028", max_size=30))
def test_where_the_engine_refuses_a_literal_tier_2_does_too(inside):
    plan = parse(f"demo.echo({{{inside}}})", lambda name: name == "demo")
    if isinstance(plan, SingleCall):
        expected = engine().eval(f"'use strict'; JSON.stringify({{{inside}}})")
        assert _in_order(dumps(plan.arguments)) == _in_order(expected)


def _in_order(text: str):
    """A JSON value with its members as a list of pairs and its numbers as doubles."""
    return json.loads(text, object_pairs_hook=list, parse_int=float)
