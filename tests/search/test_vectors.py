"""Vectors by slot: shortened rows of a large catalog rank as whole ones do."""

from __future__ import annotations

import numpy as np
import pytest

from gatemini.search.postings import Floats
from gatemini.search.vectors import BLOCK, Vectors

SIZE = 256
COUNT = 3 * BLOCK


def like_language(count: int) -> Floats:
    """Unit rows whose directions matter unequally, as those of sentences do."""
    made = np.random.default_rng(3).standard_normal((count, SIZE)) * np.geomspace(1.0, 0.02, SIZE)
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def rows() -> Floats:
    return like_language(COUNT + 20)


def filled(rows: Floats, large: int) -> Vectors:
    vectors = Vectors("m", large=large)
    for slot in range(COUNT):
        vectors.add(slot, ((str(slot), 1.0),))
    vectors.supply({key: rows[int(text)] for key, text in vectors.pending(COUNT).items()})
    return vectors


def test_shortened_rows_keep_cosines_and_the_likeliest_exactly(rows: Floats) -> None:
    whole, short = filled(rows, 10**9), filled(rows, 2 * BLOCK)
    for query in rows[COUNT:]:
        exact, about = whole.likeness(query, COUNT), short.likeness(query, COUNT)
        assert exact is not None
        assert about is not None
        assert np.abs(exact - about).max() < 0.2
        best = np.argsort(-exact)[:20]
        assert about[best] == pytest.approx(exact[best], abs=1e-5)


def test_slots_that_come_and_go_after_shortening_are_right(rows: Floats) -> None:
    vectors = filled(rows, 2 * BLOCK)
    query = rows[COUNT]
    vectors.remove([5])
    vectors.add(5, (("new", 1.0),))
    before = vectors.likeness(query, COUNT)
    assert before is not None
    assert before[5] == pytest.approx(0, abs=1e-6)
    vectors.add(COUNT, (("beyond", 1.0),))
    vectors.supply(dict.fromkeys(vectors.pending(2), query))
    after = vectors.likeness(query, COUNT + 1)
    assert after is not None
    assert after[[5, COUNT]] == pytest.approx([1, 1], abs=1e-5)


def test_a_vector_is_the_sum_of_its_texts_by_their_shares() -> None:
    vectors = Vectors("m")
    vectors.add(0, (("a", 1.0), ("b", 0.5), ("b", 0.5)))
    one, other = np.eye(2, dtype=np.float32)
    assert not vectors.any()
    vectors.supply({key: one if text == "a" else other for key, text in vectors.pending(9).items()})
    assert vectors.likeness(one, 1) == pytest.approx([0.5**0.5])


def test_texts_nobody_waits_for_any_more_are_not_asked_for() -> None:
    vectors = Vectors("m")
    vectors.add(0, (("shared", 1.0),))
    vectors.add(1, (("shared", 1.0), ("own", 1.0)))
    vectors.remove([1])
    assert list(vectors.pending(9).values()) == ["shared"]
    vectors.remove([0])
    assert vectors.pending(9) == {}
