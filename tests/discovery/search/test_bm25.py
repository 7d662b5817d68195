"""BM25 scores: computed by hand, compared with rank-bm25, and after any order of changes."""

from __future__ import annotations

from collections import Counter
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from gatemini.discovery.search.bm25 import K1, B, Bm25

DOCUMENTS = ["get user", "get get repository", "delete user account now", "search"]


def index_of(documents: list[str]) -> Bm25:
    made = Bm25()
    for slot, text in enumerate(documents):
        made.add(slot, {t: float(n) for t, n in Counter(text.split()).items()})
    return made


class SpecIdf(BM25Okapi):
    """rank-bm25 with the IDF of the classic ranking, which is never negative."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        self.idf = {term: log((self.corpus_size - df + 0.5) / (df + 0.5) + 1) for term, df in nd.items()}


def test_a_score_equals_the_one_computed_by_hand() -> None:
    # N = 4, df(get) = 2, lengths 2, 3, 4, 1: average 2.5.
    idf = log((4 - 2 + 0.5) / (2 + 0.5) + 1)
    first = idf * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.5))
    second = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2.5))
    assert index_of(DOCUMENTS).scores({"get": 1.0}) == pytest.approx({0: first, 1: second})


def test_scores_are_those_of_rank_bm25_with_this_idf() -> None:
    oracle = SpecIdf([text.split() for text in DOCUMENTS], k1=K1, b=B)
    ours = index_of(DOCUMENTS)
    for query in ("get user", "user user delete", "search", "nothing", "get account now repository"):
        asked = {term: float(n) for term, n in Counter(query.split()).items()}
        expected = {slot: n for slot, n in enumerate(oracle.get_scores(query.split())) if n}
        assert ours.scores(asked) == pytest.approx(expected)


WORDS = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=8), st.lists(st.integers(0, 7), max_size=6), WORDS)
def test_removing_and_adding_leaves_what_building_anew_would_give(
    texts: list[str], gone: list[int], query: str
) -> None:
    index = index_of(texts)
    removed = sorted({slot for slot in gone if slot < len(texts)})
    for slot in removed:
        index.remove(slot)
    for slot in removed[::2]:
        index.add(slot, {t: float(n) for t, n in Counter(texts[slot].split()).items()})
    left = [s for s in range(len(texts)) if s not in removed or s in removed[::2]]
    asked = dict.fromkeys(query.split(), 1.0)
    fresh = index_of([texts[s] for s in left]).scores(asked)
    assert index.scores(asked) == pytest.approx({left[slot]: score for slot, score in fresh.items()})


def test_the_vocabulary_forgets_words_of_removed_tools() -> None:
    index = index_of(DOCUMENTS)
    assert index.remove(3) == ["search"]
    assert "search" not in index.postings
    assert index.add(3, {"find": 1.0}) == ["find"]
