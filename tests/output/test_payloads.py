"""On answers of the shape of well-known APIs: little is shown, and what matters can still be answered."""

import json
import statistics

import pytest

from data.payloads.services import services
from data.payloads.shapes import Payload, Seen, payloads
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore

DEFAULT_CLIENT = OutputOptions(max_chars=100_000)


@pytest.fixture(scope="module")
def made() -> list[Payload]:
    """All of them: a second of computing."""
    return [*payloads(), *services()]


def reduced(payload: Payload, store: ResultStore) -> Reduced:
    return reduce_output(payload.text, options=DEFAULT_CLIENT, store=store)


def test_two_of_three_questions_are_answered_at_once_and_all_with_one_step_more(
    made: list[Payload], subtests: pytest.Subtests
) -> None:
    for payload in made:
        with subtests.test(payload.name):
            store = ResultStore()
            answer = reduced(payload, store)
            assert answer.handle is not None
            seen = Seen(answer.text, json.loads(answer.text) if payload.is_json else None)
            at_once = [q.visible(seen) == q.expected for q in payload.questions]
            assert sum(at_once) >= 2
            whole = store.load(answer.handle)
            assert [q.stored(whole) for q in payload.questions] == [q.expected for q in payload.questions]


def test_cut_answers_are_kept_byte_for_byte_in_the_store(
    made: list[Payload], subtests: pytest.Subtests
) -> None:
    for payload in made:
        with subtests.test(payload.name):
            store = ResultStore()
            answer = reduced(payload, store)
            assert answer.handle is not None
            assert store.text(answer.handle) == payload.text


def test_the_median_payload_shrinks_by_at_least_95_percent(made: list[Payload]) -> None:
    store = ResultStore()
    answers = [reduced(payload, store) for payload in made]
    assert all(answer.bytes_in > 100_000 for answer in answers)
    assert statistics.median(1 - answer.bytes_out / answer.bytes_in for answer in answers) >= 0.95
