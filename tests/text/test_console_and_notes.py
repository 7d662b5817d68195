"""Notes and console lines, as a model reads them."""

from __future__ import annotations

from gatemini.text.console_and_notes import console_block, notes_text
from gatemini.text.size_limit import SizeLimit


def test_control_and_invisible_characters_are_escaped_in_notes_and_console_lines() -> None:
    assert notes_text(["a\u202eb", "c\x1b[31m"]) == "a\\u202eb\nc\\u001b[31m"
    assert console_block(["a\u202eb"], 0, SizeLimit(200)) == "[console]\na\\u202eb"


def test_a_note_that_comes_again_is_counted() -> None:
    assert notes_text(["x", "y", "x"], "NOTE: ") == "NOTE: x (×2)\nNOTE: y"
