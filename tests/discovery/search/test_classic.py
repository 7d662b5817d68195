"""`search.ranking: classic`, the documented ladder, pinned by scores computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import pytest

from gatemini.discovery.search.fallbacks import correct, edits_allowed
from gatemini.discovery.search.index import SearchIndex
from gatemini.model import Tool

TOOLS = [
    Tool("web", "web_search", "Find pages"),
    Tool("web", "get_repository", "Read one"),
    Tool("web", "list_files", "Show a directory of things"),
]


def ladder(tools: Sequence[Tool] = TOOLS, **settings: float) -> SearchIndex:
    made = SearchIndex("classic", **settings)  # type: ignore[arg-type]
    made.replace("web", tools)
    return made


def test_tier_1_is_bm25_with_name_tokens_counted_twice() -> None:
    # Lengths with doubled names: 2*2+2 = 6, 2*2+2 = 6, 2*2+5 = 9; average 7.
    idf = log((3 - 1 + 0.5) / (1 + 0.5) + 1)
    norm = 1.2 * (0.25 + 0.75 * 6 / 7)
    by_name, by_text = idf * 2 * 2.2 / (2 + norm), idf * 1 * 2.2 / (1 + norm)
    found = ladder().search("SEARCH")
    assert (found.tier, found.hits[0].tool.name) == ("bm25", "web_search")
    assert found.hits[0].score == pytest.approx(by_name, rel=1e-5)
    assert ladder().search("pages").hits[0].score == pytest.approx(by_text, rel=1e-5)


def test_the_constants_of_classic_ranking_can_be_configured() -> None:
    idf = log((3 - 1 + 0.5) / (1 + 0.5) + 1)
    # Without length normalisation and with k1 = 2, names counted 5 times.
    hit = ladder(k1=2.0, b=0.0, name_weight=5).search("search").hits[0]
    assert hit.score == pytest.approx(idf * 5 * 3 / (5 + 2), rel=1e-5)


@pytest.mark.parametrize(
    ("query", "name", "share"), [("websrch", "web_search", 2.5 / 5), ("getrepo", "get_repository", 1.0)]
)
def test_tier_2_matches_trigrams_of_partial_and_run_together_words(
    query: str, name: str, share: float
) -> None:
    found = ladder([*TOOLS, Tool("web", "x", "cherchez")]).search(query)
    assert (found.tier, found.hits[0].tool.name) == ("trigram", name)
    if query == "getrepo":
        assert found.hits[0].score == pytest.approx(share)


def test_tier_3_corrects_spelling_and_says_so() -> None:
    found = ladder().search("direktori")
    assert (found.tier, found.did_you_mean) == ("spelling", "directory")
    assert found.hits[0].tool.name == "list_files"


def test_a_tier_is_used_only_when_the_one_before_finds_nothing() -> None:
    found = ladder().search("search direktori")
    assert [hit.tool.name for hit in found.hits] == ["web_search"]
    assert (found.tier, found.did_you_mean) == ("bm25", None)


@pytest.mark.parametrize(("length", "edits"), [(1, 1), (4, 1), (5, 2), (12, 2), (13, 3), (40, 3)])
def test_edits_allowed_grow_with_the_length(length: int, edits: int) -> None:
    assert edits_allowed("x" * length) == edits


def test_a_term_takes_the_closest_known_word_and_the_first_by_name_among_equals() -> None:
    assert correct(["serch"], ["search", "perch", "starch"]) == ["perch"]
    assert correct(["search"], ["search"]) is None
    assert correct(["zzzz"], ["search"]) is None


def test_meaning_is_fused_by_reciprocal_rank() -> None:
    # Cosines by slot, of web_search, get_repository and list_files.
    found = ladder().search("search", meaning=[0.6, 0.6, 0.8])
    scores = {hit.tool.name: hit.score for hit in found.hits}
    # web_search: rank 1 by BM25 and rank 2 (shared) by meaning; list_files: rank 1 by meaning alone.
    assert scores["web_search"] == pytest.approx(1 / 61 + 1 / 62, rel=1e-5)
    assert scores["list_files"] == pytest.approx(1 / 61, rel=1e-5)
    assert scores["get_repository"] == pytest.approx(1 / 62, rel=1e-5)
