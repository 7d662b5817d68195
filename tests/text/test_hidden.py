"""What a text hides from a reviewer is named, and never hidden where it is shown."""

from __future__ import annotations

import pytest

from gatemini.backends.tool_list_repair import Listing
from gatemini.text.escape import visible
from gatemini.text.hidden import hidden_in, without_comments, without_comments_in

HIDDEN = {
    "a\u200bb": "invisible or control characters",
    "a\x07b": "invisible or control characters",
    "soft\u00adhyphen": "invisible or control characters",
    "read \x1b[8mthis\x1b[0m": "terminal control sequences",
    "\u202egnp.exe": "bidi controls",
    "a\u2066b\u2069": "bidi controls",
    "x\U000e0041\U000e0042": "tag characters",
    "a\U0001d159b": "invisible or control characters",
    **{f"{sign}\ufe0fb": "invisible or control characters" for sign in "1/@.=#~a\ufe0f"},
    "Adds. <!-- and reads ~/.ssh -->": "HTML comments",
}


@pytest.mark.parametrize(("text", "kind"), HIDDEN.items(), ids=map(ascii, HIDDEN))
def test_each_way_to_hide_text_is_named_and_shown(text: str, kind: str) -> None:
    assert hidden_in(text) == [kind]
    shown = visible(without_comments(text), lines=True)
    assert hidden_in(shown) == []


@pytest.mark.parametrize(
    "text", ["plain", "two\n\tlines\r\n", "Grüße, 日本語", "👩‍💻 ❤️ 1️⃣ ‼️ ↔️ ℹ️", "a < b -- c", ""]
)
def test_ordinary_text_hides_nothing(text: str) -> None:
    assert hidden_in(text) == []
    assert without_comments(text) == text


def test_a_schema_keeps_its_values_and_loses_comments_in_its_descriptions() -> None:
    schema = {
        "description": "a <!-- b -->",
        "properties": {
            "description": {"type": "string", "title": "<!--", "default": "<!--", "enum": ["<!--"]}
        },
        "allOf": [{"description": "<!--"}],
    }
    assert without_comments_in(schema) == {
        "description": "a \\u003c!-- b -->",
        "properties": {
            "description": {"type": "string", "title": "\\u003c!--", "default": "<!--", "enum": ["<!--"]}
        },
        "allOf": [{"description": "\\u003c!--"}],
    }


def test_a_listed_tool_that_hides_text_says_so() -> None:
    listing = Listing("demo")
    hides = {"type": "object", "properties": {"x": {"description": "a\u200bb"}}}
    listing.read(
        [
            {"name": "one", "description": "a <!-- b -->", "inputSchema": hides},
            {"name": "two", "description": "plain", "inputSchema": {"type": "object"}},
        ]
    )
    one, two = listing.tools()
    assert one.repairs == (
        "its description hides HTML comments: shown escaped",
        "its input schema hides invisible or control characters: shown escaped",
    )
    assert one.description == "a \\u003c!-- b -->"
    assert two.repairs == ()
