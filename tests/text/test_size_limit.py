"""How much text fits where characters, bytes or both are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.text.size_limit import BOUNDLESS, SizeLimit, weight
from gatemini.text.utf8 import encode

any_text = st.text(st.characters(codec=None), max_size=60)
rooms = st.builds(
    SizeLimit, st.integers(0, 80) | st.just(BOUNDLESS), st.integers(0, 200) | st.just(BOUNDLESS)
)


@given(any_text, rooms)
def test_the_beginning_and_the_end_that_fit_are_the_longest_ones(text: str, room: SizeLimit) -> None:
    first, last = room.first(text), room.last(text)
    assert room.holds(text[:first])
    assert first == len(text) or not room.holds(text[: first + 1])
    assert room.holds(text[len(text) - last :])
    assert last == len(text) or not room.holds(text[len(text) - last - 1 :])


@given(st.lists(any_text, max_size=4), rooms)
def test_a_text_fits_the_remaining_room_if_it_fits_together_with_the_lines(
    lines: list[str], room: SizeLimit
) -> None:
    if room.holds("", *lines):
        assert room.beside(*lines).holds("")
    left = room.beside(*lines)
    text = "é" * left.first("é" * 300)
    assert not text or room.holds(text, *lines)


@given(any_text)
def test_the_size_of_a_text_is_its_length_in_utf8(text: str) -> None:
    assert weight(text) == len(encode(text))


@pytest.mark.parametrize(("text", "fits"), [("結" * 33, True), ("結" * 34, False), ("a" * 100, True)])
def test_a_limit_of_bytes_counts_bytes(text: str, fits: bool) -> None:
    assert SizeLimit(bytes=100).holds(text) == fits
