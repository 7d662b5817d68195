"""What a configuration file may do wrong as a whole, and what a good one keeps."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.config.documents.document import read_document
from gatemini.config.documents.jsonc import JsonSyntaxError, parse_jsonc
from gatemini.errors import ConfigError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", "", "the file is empty"),
        ("a.json", " \n\t", "the file is empty"),
        ("a.yaml", "# only a comment\n", "nothing but comments"),
        ("a.yaml", "- one\n- two\n", "holds a list"),
        ("a.yaml", "just words\n", "holds text"),
        ("a.json", "[1]", "holds a list"),
        ("a.yaml", b"\x89PNG\r\n\x1a\n\x00\x00", "is not text"),
        ("a.yaml", b"a: \x00\n", "binary"),
        ("a.yaml", "backends:\n  a: {command: x\n", "is not valid YAML"),
        ("a.yaml", 'backends:\n  a:\n    command: "x\n', "is not valid YAML"),
        ("a.yaml", "backends:\n\ta: 1\n", "is not valid YAML"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "single document"),
        ("a.yaml", "x: *nowhere\n", "undefined alias"),
        ("a.yaml", "[" * 5000, "nested too deeply"),
        ("a.json", "// mine\n", "it holds no value, only comments"),
        ("a.json", '{"a": {"b": 1', "the file ends inside the { opened on line 1"),
        ("a.json", '{"a": 1 "b": 2}', "Expecting ',' delimiter, found '\"'"),
        ("a.json", "{'a': 1}", "Expecting property name enclosed in double quotes"),
        ("a.json", '{"a": "x\n"}', "Invalid control character"),
        ("a.json", '{"a": 1} x', "Extra data, found 'x'"),
        ("a.json", '{"a": "C:\\x.exe"}', "Invalid \\escape"),
        ("a.json", '{"a": /* ', "a comment that is never closed"),
        ("a.json", "[" * 200_000, "nested too deeply"),
        ("a.toml", "a = [1\n", "is not valid TOML"),
    ],
)
def test_an_unusable_file_is_one_error_that_names_file_cause_and_remedy(
    tmp_path: Path, name: str, content: str | bytes, says: str
) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(ConfigError) as caught:
        read_document(path)
    assert str(path) in caught.value.message
    assert says in caught.value.message
    assert caught.value.hint


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml:3: "):
        read_document(write(tmp_path, "a.yaml", "backends:\n  a:\n    args: [x, ]]\n"))
    with pytest.raises(ConfigError, match=r"a\.json:3: "):
        read_document(write(tmp_path, "a.json", '{\n "a": 1\n "b": 2\n}'))


def test_a_half_written_file_says_where_the_open_part_began(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_document(write(tmp_path, "a.yaml", "log_level: info\nbackends: {\n  a: {command: x}\n"))
    assert "line 2" in (caught.value.hint or "")


def test_a_directory_a_missing_and_an_unreadable_file_have_errors_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        read_document(tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        read_document(tmp_path / "none.yaml")
    path = write(tmp_path, "a.yaml", "backends: {}\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(ConfigError, match="permission"):
        read_document(path)


def test_nested_aliases_cannot_grow_without_bound(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError, match="through its aliases"):
        read_document(write(tmp_path, "a.yaml", "\n".join(lines)))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", f"a: &a {'x' * 500_000}\nb: [{', '.join(['*a'] * 20_000)}]\n", "through its aliases"),
        ("a.yaml", 'a: "\\UFFFFFFFF"', "stands for no character"),
        ("a.yaml", 'a: "\\U00110000"', "stands for no character"),
        ("a.yaml", f"a: {'[' * 5_000}{']' * 5_000}", "nested too deeply"),
        ("a.toml", f"a = {'[' * 5_000}{']' * 5_000}", "nested too deeply"),
        ("a.toml", f"a = {'{a=' * 5_000}1{'}' * 5_000}", "nested too deeply"),
        ("a.toml", f"a = {'9' * 5_000}", "thousands of digits"),
        ("a.toml", f"[{'a . ' * 20_000}a]", "deeper than 100 levels"),
        ("a.toml", "'a'." * 20_000 + "a = 1", "deeper than 100 levels"),
    ],
)
def test_a_file_that_would_cost_seconds_or_a_traceback_is_one_error(
    tmp_path: Path, name: str, content: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        read_document(write(tmp_path, name, content))


def test_dots_outside_of_a_key_of_toml_are_no_nesting(tmp_path: Path) -> None:
    text = f'# {"." * 200}\nhint = """\n{"One. " * 200}\n"""\nargs = [\n  {"1.5, " * 200}\n]\n"{"a." * 200}" = 1\n'
    document = read_document(write(tmp_path, "a.toml", text))
    assert list(document.value) == ["hint", "args", "a." * 200]


def test_a_mapping_that_merges_itself_is_a_fault_of_its_place_only(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, "a.yaml", "a: &a\n  <<: *a\n  b: 1\n"))
    assert document.value == {"a": {"b": 1}}
    assert [fault.line for fault in document.faults] == [1]


def test_an_alias_that_contains_itself_is_a_fault_of_its_place_only(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, "a.yaml", "a: &a [*a]\nb: 1\n"))
    assert document.value["b"] == 1
    assert [(fault.path, fault.line) for fault in document.faults] == [(("a", 0), 1)]


def test_yaml_scalars_are_what_a_person_sees(tmp_path: Path) -> None:
    text = "a: no\nb: on\nc: 12:30\nd: 0755\ne: 2026-11-28\nf: true\ng: ~\nh: 1.10\ni: 0x1F\n"
    document = read_document(write(tmp_path, "a.yaml", text))
    assert document.value == {
        "a": "no", "b": "on", "c": "12:30", "d": 755, "e": "2026-11-28", "f": True, "g": None, "h": 1.1, "i": "0x1F",
    }  # fmt: skip
    assert document.texts[("d",)] == "0755"
    assert document.texts[("h",)] == "1.10"


def test_duplicate_keys_are_faults_with_both_lines(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, "a.yaml", "a:\n  x: 1\n  y: 2\n  x: 3\n"))
    assert document.value == {"a": {"x": 1, "y": 2}}
    assert "on lines 2 and 4" in document.faults[0].found
    document = read_document(write(tmp_path, "a.json", '{"a": {\n"x": 1,\n"x": 3}}'))
    assert document.value == {"a": {"x": 1}}
    assert "on lines 2 and 3" in document.faults[0].found


def test_merge_keys_add_values_below_those_of_the_mapping_itself(tmp_path: Path) -> None:
    text = "base: &b {x: 1, y: 2}\na:\n  <<: *b\n  y: 3\n"
    assert read_document(write(tmp_path, "a.yaml", text)).value["a"] == {"x": 1, "y": 3}


def test_a_foreign_tag_is_an_error_of_its_line_only(tmp_path: Path) -> None:
    document = read_document(
        write(tmp_path, "a.yaml", "a: !!python/object/apply:os.system [id]\nb: !secret x\nc: 1\n")
    )
    assert document.value["c"] == 1
    assert [fault.line for fault in document.faults] == [1, 2]
    assert document.value["a"] is None


def test_json_takes_comments_trailing_commas_and_a_bom(tmp_path: Path) -> None:
    text = '\ufeff// head\n{ /* x */ "a": [1, 2,], // tail\n  "b": {"c": "http://x//y",},\n}\n'
    document = read_document(write(tmp_path, "a.json", text))
    assert document.value == {"a": [1, 2], "b": {"c": "http://x//y"}}
    assert document.line(("b", "c")) == 3


def test_files_saved_as_utf_16_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "backends:\n  ä: {}\n".encode("utf-16"))
    assert read_document(path).value == {"backends": {"ä": {}}}


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES, st.sampled_from([None, 1]))
def test_any_json_document_is_read_back_unchanged(value: object, indent: int | None) -> None:
    assert parse_jsonc(json.dumps(value, indent=indent), max_depth=100).value == value


@given(st.text(alphabet='{}[]",:/*\\ \n1eEtfnul-.x'))
def test_any_text_is_json_or_one_named_error(text: str) -> None:
    found: JsonSyntaxError | None = None
    try:
        parse_jsonc(text, max_depth=20)
    except JsonSyntaxError as error:
        found = error
    assert found is None or (found.line >= 1 and found.column >= 1 and found.remedy)


def test_an_emoji_written_as_two_escapes_is_one_character_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text('"\\ud83d\\ude00": "a \\ud83d\\ude00 b"\nhalf: "\\ud83d"\n')
    document = read_document(path)
    assert document.value == {"😀": "a 😀 b", "half": "\ufffd"}
    assert [(fault.path, fault.line, fault.found) for fault in document.faults] == [
        (("half",), 2, "holds a lone surrogate")
    ]
