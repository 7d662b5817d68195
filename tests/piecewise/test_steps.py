"""What is done in steps to a large text is what is done to it at once."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.config.secrets import Redactor
from gatemini.output.room import weight
from gatemini.piecewise import keys, steps

TEXTS = st.text(alphabet="ab\n …é😀\ud800", max_size=60)


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "STEP", 5)
        patch.setattr(steps, "SPACES", 3)
        patch.setattr(steps, "GIVEN_SECONDS", 0)
        yield


@given(st.lists(TEXTS))
def test_parts_are_joined(parts: list[str]) -> None:
    assert steps.joined(parts) == "".join(parts)
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    assert steps.joined_bytes(data) == b"".join(data)


@given(TEXTS, st.integers(0, 60), st.integers(0, 60))
def test_a_part_is_a_slice_and_is_measured_and_counted_as_one(text: str, one: int, other: int) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    piece = text[start:end]
    assert steps.part(text, start, end) == piece
    assert steps.byte_count(text, start, end) == len(piece.encode("utf-8", "surrogatepass"))
    assert steps.counted(text, "\n", start, end) == piece.count("\n")


@given(TEXTS)
def test_a_text_is_encoded_and_stripped(text: str) -> None:
    assert steps.encoded(text) == text.encode("utf-8", "surrogatepass")
    assert steps.stripped(text, " \n") == text.strip(" \n")


@given(TEXTS, st.text(alphabet="ab\n …", min_size=1, max_size=8), st.integers(0, 60))
def test_a_word_is_found_wherever_it_begins(text: str, word: str, start: int) -> None:
    assert steps.found(text, word, start) == text.find(word, start)
    assert steps.found(text + word, word) == (text + word).find(word)


def test_reading_rests_while_somebody_is_ahead_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr(steps, "WORKED_SECONDS", 0)
    monkeypatch.setattr(steps.time, "sleep", rests.append)
    steps.give_way()
    assert len(rests) == 1, "nobody is ahead"
    with steps.ahead(), steps.ahead():
        steps.give_way()
    assert len(rests) == 2 + steps.RESTS, "no longer than that"
    rests.clear()

    def leave(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 4:
            block.__exit__(None, None, None)

    monkeypatch.setattr(steps.time, "sleep", leave)
    block = steps.ahead()
    block.__enter__()
    steps.give_way()
    assert len(rests) == 4, "it goes on as soon as nobody is ahead any more"


def test_nothing_sleeps_on_an_event_loop_but_threads_of_its_own_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr(steps, "WORKED_SECONDS", 0)
    monkeypatch.setattr(steps.time, "sleep", rests.append)

    async def measured() -> int:
        with steps.ahead():
            size = weight("é" * 50)
            assert rests == [], "all that waits on this loop would sleep too"
            return size + await anyio.to_thread.run_sync(weight, "é" * 50)

    assert anyio.run(measured) == 200
    assert rests


def test_the_keys_of_a_large_object_are_compared_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[None] = []
    monkeypatch.setattr(keys, "SHARE", 10)
    monkeypatch.setattr(keys, "give_way", lambda: turns.append(None))
    passed = keys.Keys()
    passed.add(map(str, range(100)))
    assert not passed.repeat()
    assert len(turns) >= 20
    passed.add(["7"])
    assert passed.repeat()


SECRETS = (("ONE", "abcabcd"), ("TWO", "abcabcdefgh"), ("THREE", "zzzzzzzz"))
PIECES = st.sampled_from(
    ["abcabcd", "abcabcdefgh", "zzzzzzzz", "abcabc", "efgh", "zzz", "…", "...", " ", "x", "\n"]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_secrets_are_taken_out_of_a_text_in_steps_as_at_once(text: str) -> None:
    redactor = Redactor(SECRETS)
    by_steps = redactor.redact(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "STEP", 1 << 20)
        assert by_steps == redactor.redact(text)
    assert not any(value in by_steps for _, value in SECRETS)
