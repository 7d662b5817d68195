"""Text of backends, escaped and shortened for a model."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.text.escape import js_string, one_line, visible
from gatemini.text.shorten import BRIEF_CHARS, elapsed, first_sentence, shorten


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("bidi\u202eoverride", "bidi\\u202eoverride"),
        ("tag\U000e0041", "tag\\u{e0041}"),
        ("bell\x07", "bell\\u0007"),
        ("line\nbreak", "line\\u000abreak"),
        ("filler\u3164", "filler\\u3164"),
        ("soft\u00adhyphen", "soft\\u00adhyphen"),
        ("smuggled\ufe00\ufe01", "smuggled\\ufe00\\ufe01"),
        ("lone\ud800", "lone\\ud800"),
        ("日本 é ñ", "日本 é ñ"),
        ("gear \u2699\ufe0f", "gear \u2699\ufe0f"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),
        ("no\u00a0break", "no\u00a0break"),
    ],
)
def test_hidden_characters_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_descriptions_keep_their_lines_and_tabs() -> None:
    assert visible("a\r\nb\tc\x00", lines=True) == "a\nb\tc\\u0000"


@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    shown = visible(text)
    for char in shown:
        assert unicodedata.category(char) not in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
        assert char not in "\u200b\u200e\u202e\u2060\ufeff"


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_a_javascript_string_holds_exactly_the_text(text: str) -> None:
    literal = js_string(text)
    # JSON has no \u{…}; all else of the literal is JSON.
    assert literal.count("\\u{") or json.loads(literal) == text
    assert "\n" not in literal


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Search the web. Returns pages.", "Search the web."),
        ("First line.\nSecond.", "First line."),
        ("No period at all", "No period at all"),
        ("Ends with a period.", "Ends with a period."),
        ("Use e.g. this one. Not that.", "Use e.g. this one."),
        ("Use i.e. this one. Not that.", "Use i.e. this one."),
        ("Needs v1.2.3 of it. Really.", "Needs v1.2.3 of it."),
        ("See https://a.b/c.d for more. Ok.", "See https://a.b/c.d for more."),
        ("Reads config.yaml and so on. Ok.", "Reads config.yaml and so on."),
        ("Data of the U.S. market. More.", "Data of the U.S. market."),
        ("Lists files, dirs, etc. in a folder. More.", "Lists files, dirs, etc. in a folder."),
        ("Lists files, etc. Returns names.", "Lists files, etc."),
        ("1. Read it. 2. Write it.", "1. Read it."),
        ("Compares a vs. b quickly. More.", "Compares a vs. b quickly."),
        ("  spaced   out.  Next", "spaced out."),
        ("", ""),
        (".", "."),
    ],
)
def test_the_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


def test_a_long_first_sentence_is_cut_with_dots_and_never_longer() -> None:
    for text in ("x" * 500, "x" * 500 + ".", "x" * 198 + "...", "word " * 100 + ". Next"):
        cut = first_sentence(text)
        assert len(cut) <= BRIEF_CHARS
        assert cut.endswith("...")
    assert len(first_sentence("y" * 500, 120)) == 120


@pytest.mark.parametrize(
    "sign",
    ["e\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd"],
)
def test_a_cut_never_falls_inside_a_character(sign: str) -> None:
    for limit in range(4, 40):
        cut = shorten(sign * 20, limit)
        assert len(cut) <= limit
        body = cut.removesuffix("...")
        assert body == sign * (len(body) // len(sign))


@given(st.text(max_size=400), st.integers(min_value=0, max_value=60))
def test_nothing_is_ever_longer_than_its_limit(text: str, limit: int) -> None:
    assert len(shorten(text, limit)) <= limit
    assert len(first_sentence(text, limit)) <= limit


def test_one_line_has_no_line_breaks_and_nothing_hidden() -> None:
    assert one_line(" a\n\n b\u200b\tc ") == "a b\\u200b c"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min"),
        (75, "1 min 15 s"),
        (3600, "1 h"),
        (7505, "2 h 5 min"),
        (90_061, "1 d 1 h"),
    ],
)
def test_a_time_is_told_in_its_two_largest_units(seconds: float, shown: str) -> None:
    assert elapsed(seconds) == shown
