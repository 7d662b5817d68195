"""Files edited in place: what was there keeps its bytes, and what was added leaves nothing behind."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.config.documents.json_edit import copy_member, remove_member, set_member
from gatemini.config.documents.jsonc import MAX_DEPTH, parse_jsonc
from gatemini.config.documents.text_edit import EditRefused
from gatemini.config.documents.toml_edit import copy_table, remove_table, set_table

PATH = ("servers", "ours")
ENTRY = {"command": "/x/y", "args": ["-a", "b c"]}
BLANKS = st.text(alphabet=" \t\n", max_size=4)
GAPS = st.lists(st.one_of(BLANKS, st.just("/* , } */"), st.just('// { "\n')), max_size=3).map("".join)
VALUES = st.recursive(
    st.one_of(st.integers(-9, 9), st.booleans(), st.none(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """JSON with comments and blanks at every place, a mapping `servers` with at least one member in it."""

    def mapping(members: list[tuple[str, str]]) -> str:
        parts = [
            f"{draw(GAPS)}{json.dumps(key)}{draw(GAPS)}:{draw(GAPS)}{value}{draw(GAPS)}"
            for key, value in members
        ]
        comma = "," if members and draw(st.booleans()) else ""
        return "{" + ",".join(parts) + comma + draw(GAPS) + "}"

    names = draw(
        st.lists(st.text(alphabet='abc"/*é', min_size=1, max_size=4), min_size=1, max_size=3, unique=True)
    )
    servers = mapping([(name, json.dumps(draw(VALUES))) for name in names])
    around = draw(st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3))
    members = [(key, json.dumps(value)) for key, value in around.items()]
    members.insert(draw(st.integers(0, len(members))), ("servers", servers))
    return draw(GAPS) + mapping(members) + draw(GAPS)


def value(text: str) -> Any:
    return parse_jsonc(text, max_depth=MAX_DEPTH).value


@given(documents())
def test_a_member_that_is_added_and_removed_leaves_every_byte(text: str) -> None:
    made = set_member(text, PATH, ENTRY)
    before = value(text)
    assert value(made) == {**before, "servers": {**before["servers"], "ours": ENTRY}}
    assert set_member(made, PATH, ENTRY) == made
    assert remove_member(made, PATH) == text


@given(documents())
def test_a_member_that_is_removed_can_be_copied_back(text: str) -> None:
    name = next(iter(value(text)["servers"]))
    without = remove_member(text, ("servers", name))
    assert name not in value(without)["servers"]
    assert value(copy_member(without, text, ("servers", name))) == value(text)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"servers": null}',
        '{"servers": [1]}',
        '{"servers": {}, "servers": {}}',
        '{"servers": {"ours": 1, "ours": 2}}',
    ],
)
def test_what_cannot_be_edited_surely_is_refused(text: str) -> None:
    with pytest.raises(EditRefused):
        set_member(text, PATH, ENTRY)


def test_a_new_member_takes_indentation_and_line_ends_of_its_file() -> None:
    text = '{\r\n\t"servers": { // c\r\n\t\t"a": 1\r\n\t}\r\n}\r\n'
    made = set_member(text, PATH, {"command": "x"})
    ours = '\r\n\t\t"ours": {\r\n\t\t\t"command": "x"\r\n\t\t},'
    assert made == text.replace("// c", f"// c{ours}")
    assert set_member('{"servers":{"a":1}}', PATH, {"b": 1}) == '{"servers":{"ours": {"b": 1}, "a":1}}'


TOML = """# top
[servers.a] # first
command = "x"
args = [
  ["[servers.c]"],
]
[servers.a.env]
K = \"\"\"
[servers.b]
\"\"\"

# about ours
[[list]]
x = 1
"""


def test_a_table_that_is_added_and_removed_leaves_every_byte() -> None:
    crlf = TOML.replace("\n", "\r\n")
    for text in (TOML, crlf, "", TOML.rstrip(), crlf.rstrip(), "x = 1 # no end", "x = 1\n\n  "):
        made = set_table(text, PATH, {**ENTRY, "env": {"A B": 'q"'}})
        before = tomllib.loads(text)
        wanted = {**before.get("servers", {}), "ours": {**ENTRY, "env": {"A B": 'q"'}}}
        assert tomllib.loads(made) == {**before, "servers": wanted}
        assert made.startswith(text)
        assert remove_table(made, PATH) == text


def test_a_table_leaves_with_those_below_it_and_comes_back_as_it_was() -> None:
    without = remove_table(TOML, ("servers", "a"))
    assert without == "# top\n\n# about ours\n[[list]]\nx = 1\n"
    back = copy_table(without, TOML, ("servers", "a"))
    assert tomllib.loads(back) == tomllib.loads(TOML)
    assert "# first" in back


@pytest.mark.parametrize(
    "text", ["servers = {ours = {a = 1}}", 'servers.ours.command = "x"', "servers = {}", "x = ["]
)
def test_tables_that_are_written_in_another_way_are_refused(text: str) -> None:
    with pytest.raises(EditRefused):
        set_table(text, PATH, ENTRY)
