"""What was sent becomes code on its own lines: fences, prose, byte order marks and pragmas go."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gatemini.chain.code.fences import clean
from gatemini.errors import CodeError
from gatemini.explain.source_lines import line_at, place

CODE = "const md = 'x';\nreturn md.length;\n"


@pytest.mark.parametrize(
    ("text", "first_line"),
    [
        (CODE, 1),
        ("\ufeff" + CODE, 1),
        ("```ts\n" + CODE + "```", 2),
        ("```\n" + CODE + "```\n\n", 2),
        ("```typescript title=x\n" + CODE + "```", 2),
        ("```ts {1,3}\n" + CODE + "```", 2),
        ("``` ts\n" + CODE + "```", 2),
        ("````ts\n" + CODE + "````", 2),
        ("~~~\n" + CODE + "~~~", 2),
        ("~~~ts\n" + CODE + "~~~~", 2),
        ("```ts\u00a0\n" + CODE + "\u00a0```\u00a0\u3000", 2),
        ("```ts\n" + CODE, 2),
        (CODE + "```\n", 1),
        ("Here is the script:\n\n```ts\n" + CODE + "```\nThis returns a length.", 4),
        ("I've used `demo.echo` (isn't it nice?):\n```ts\n" + CODE + "```\nDon't forget: it's async.", 3),
        ("An unpaired ` in prose\n```ts\n" + CODE + "```", 3),
        ("All of src/*.ts:\n```ts\n" + CODE + "/** end */\n```\n*/", 3),
        ("1. Do this\n   ```ts\n" + CODE + "   ```\n", 3),
        ("\ufeffNote\n\n```js\n" + CODE + "```", 4),
    ],
)
def test_one_fence_with_prose_around_is_taken_away_and_the_lines_stay(text, first_line):
    cleaned = clean(text).code
    assert cleaned.strip().removesuffix("/** end */").strip() == CODE.strip()
    assert line_at(cleaned, first_line) == "const md = 'x';"


def test_line_ends_of_windows_stay_in_place():
    cleaned = clean("Text:\r\n```ts\r\nlet a = 1;\r\nreturn a;\r\n```\r\n").code
    assert cleaned == "\r\n\r\nlet a = 1;\r\nreturn a;\r\n"


def test_a_fence_on_one_line_keeps_its_column():
    assert clean("```ts return 1```").code == "      return 1"


@pytest.mark.parametrize(
    "code",
    [
        "const md = `\n~~~\ncode\n~~~\n`;\nreturn md;",
        "/*\n```ts\nexample\n```\n*/\nreturn 1;",
        'const md = "use \\`\\`\\` fences";\nreturn md.length;',
        "const md = `\n\\`\\`\\`ts\nx\n\\`\\`\\`\n`;\nreturn md;",
        'const md = ["```ts", "x", "```"].join("\\n");\nreturn md;',
        "const md = 'a\\\n~~~\\\nb';\nreturn md;",
        "return 1 // ``` not a fence",
        "/* ~~~\n~~~ */ return 1",
    ],
)
def test_fences_inside_strings_templates_and_comments_are_code(code):
    assert clean(code).code == code
    assert clean(f"Prose:\n```ts\n{code}\n```\nmore").code.strip() == code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```ts\nreturn 1\n```\n```ts\nreturn 2\n```", "more than one fenced block"),
        ("a\n```ts\nreturn 1\n```\nb\n~~~\nreturn 2\n~~~\nc\n```\nx\n```", "more than one fenced block"),
        ("const a = 1;\n```ts\nreturn a;\n```", "line 1"),
        ("```ts\nconst a = 1;\n```\nreturn await demo.echo({a});", "line 4"),
        ("const md = `\n```js\nx\n```\n`;\nreturn md;", "line 1"),
    ],
)
def test_fences_that_would_lose_code_are_refused(text, said):
    with pytest.raises(CodeError, match=said) as caught:
        clean(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\ufeff", "```ts\n```", "```", "~~~\n\n~~~", "// @dry-run\n", "\ufeff\n"]
)
def test_no_code_is_an_error_that_says_so(text):
    with pytest.raises(CodeError, match="no code to run"):
        clean(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("return 1\n  \x00", r"U\+0000 \(line 2, column 3\)"),
        ("\x89PNG\r\n\x1a\n", r"U\+001A \(line 2, column 1\)"),
        ("c\x00o\x00n\x00", r"U\+0000 \(line 1, column 2\)"),
        ("return '\ud800'", r"U\+D800 \(line 1, column 9\)"),
    ],
)
def test_binary_data_is_named_with_its_place(text, said):
    with pytest.raises(CodeError, match=said):
        clean(text)


def test_two_halves_of_a_character_are_joined():
    assert clean("return '\ud83d\ude00'").code == "return '😀'"


# --- pragmas --------------------------------------------------------------------------------------


def test_pragmas_at_the_top_are_taken_and_leave_their_lines():
    cleaned = clean("// a comment\n\n//@resume chain_1a2b\nreturn 1;")
    assert cleaned.pragmas == {"resume": "chain_1a2b"}
    assert line_at(cleaned.code, 4) == "return 1;"
    assert "@" not in cleaned.code


def test_the_same_code_is_the_same_with_and_without_a_pragma():
    assert clean("// @resume c1\nreturn 1;").identity == clean("```ts\nreturn 1;\n```").identity


@pytest.mark.parametrize("text", ["// @dry-run\n```ts\nreturn 1\n```", "```ts\n// @dry-run\nreturn 1\n```"])
def test_a_pragma_counts_inside_the_fence_and_in_front_of_it(text):
    assert clean(text).pragmas == {"dry-run": ""}


@pytest.mark.parametrize(
    "head",
    [
        "/* @dry-run */",
        "/* @dry-run */\n",
        "/**\n * @dry-run\n */\n",
        "/* note */ // @dry-run\n",
        "/// @dry-run\n",
        "//! @dry-run\n",
        "// @dry-run\u2028",
        "const a = 1; // @dry-run\n",
        "/* @resume chain_1a2b */\n",
    ],
)
def test_a_pragma_in_a_comment_that_steers_nothing_is_an_error(head):
    with pytest.raises(CodeError, match="steers nothing as it is written") as caught:
        clean(head + "await demo.write({ key: 'k' })")
    assert "on a line of its own at the top" in caught.value.hint


@pytest.mark.parametrize(
    "code",
    [
        "return '/* @dry-run */'",
        "return `\n// @dry-run\n`",
        "// as @dry-run does\nreturn 1",
        "/* no @resume */ 1",
    ],
)
def test_words_of_a_pragma_in_a_string_or_a_sentence_are_only_words(code):
    assert clean(code).code == code


def test_pragmas_steer_json_calls_too():
    cleaned = clean('// @dry-run\n{"tool": "demo.write"}')
    assert (cleaned.pragmas, cleaned.code.strip()) == ({"dry-run": ""}, '{"tool": "demo.write"}')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("// @dryrun\nreturn 1", "// @dry-run"),
        ("// @dry_run\nreturn 1", "// @dry-run"),
        ("// @Resume x\nreturn 1", "// @resume <chain id>"),
        ("// @retry 3\nreturn 1", "@resume"),
        ("// @resume\nreturn 1", "needs the id"),
        ("// @resume a b\nreturn 1", "'a b'"),
        ("// @dry-run please\nreturn 1", "please"),
        ("// @resume a\n// @resume b\nreturn 1", "two different"),
        ("// @resume a\n// @dry-run\nreturn 1", "a dry run cannot resume a chain"),
        ("return 1;\n// @dry-run", "line 2"),
    ],
)
def test_a_pragma_that_would_do_nothing_is_an_error(text, said):
    with pytest.raises(CodeError) as caught:
        clean(text)
    assert said in caught.value.text()


@pytest.mark.parametrize(
    "code",
    [
        "// @ts-nocheck\nreturn 1",
        "// mail a@b.c\nreturn 1",
        "const s = `\n// @dry-run\n`;\nreturn s",
        "/*\n// @dry-run\n*/\nreturn 1",
        "return 1 // @later",
        "return 1\n// @todo tidy up",
    ],
)
def test_other_comments_with_an_at_sign_are_left_alone(code):
    cleaned = clean(code)
    assert (cleaned.pragmas, cleaned.code) == ({}, code)


# --- totality -------------------------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from(
        [
            "```ts",
            "```",
            "~~~",
            "````",
            "`",
            "/*",
            "*/",
            "'",
            "// @dry-run",
            "// @resume a",
            "const a = `",
            "x",
            "",
            "\r",
        ]
    )
)


@given(st.one_of(st.text(), LINES.map("\n".join), LINES.map("\r\n".join)))
@example("`" * 50_000)
@example("`\n~~~\n" * 5_000)
@example("```\n" * 2_000)
@example("/*\n" * 20_000 + "```")
def test_cleaning_any_text_keeps_line_numbers(text):
    try:
        cleaned = clean(text)
    except CodeError:
        return
    assert cleaned.code.strip()
    for number in range(1, 6):
        line = line_at(cleaned.code, number)
        if (
            line
            and line.strip()
            and "\ufeff" not in text
            and not any("\ud800" <= c <= "\udfff" for c in text)
        ):
            assert line.strip() in (line_at(text, number) or "")


@given(st.text(alphabet="aß😀\n\r\u2028\u2029"), st.integers(0, 50))
def test_a_place_names_the_line_that_holds_it(text, offset):
    offset = min(offset, len(text))
    if text[offset - 1 : offset + 1] == "\r\n":  # between the two there is no place
        return
    line, column = place(text, offset)
    found = line_at(text, line)
    assert found is not None
    assert column <= len(found) + 1
    assert text[offset:].startswith(found[column - 1 :])
