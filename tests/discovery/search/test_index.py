"""Both rankings: exact names first, tags, usage, ties, changes in place, any input."""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import zip_longest
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.discovery.search.index import TOOLS_AT_ONCE, USAGE_CAP, Ranking, SearchIndex
from gatemini.discovery.search.words import raw_words, squash, stem, words
from gatemini.model import Tool

RANKINGS: list[Ranking] = ["best", "classic"]
TOOLS = [
    Tool("github", "create_pull_request", "Open a pull request", tags=("code",)),
    Tool("github", "get_issue", "Read an issue", tags=("code", "read")),
    Tool("github", "create_issue", "Open an issue", tags=("code",)),
    Tool("files", "read_file", "Read a file from disk", tags=("read",)),
    Tool("files", "create_directory", "Make a folder"),
    Tool("mail", "send_message", "Send an email message"),
]


def index_of(tools: Sequence[Tool] = TOOLS, ranking: Ranking = "best") -> SearchIndex:
    made = SearchIndex(ranking)
    for backend in dict.fromkeys(tool.backend for tool in tools):
        made.replace(backend, [tool for tool in tools if tool.backend == backend])
    return made


def names(index: SearchIndex, query: str, **more: object) -> list[str]:
    return [hit.tool.qualified for hit in index.search(query, **more).hits]  # type: ignore[arg-type]


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize(
    "query",
    ["read_file", "files.read_file", "READ_FILE", "read file", "readFile", "  read-file ", "filesreadfile"],
)
def test_an_exact_name_comes_first_however_it_is_written(ranking: Ranking, query: str) -> None:
    found = index_of(ranking=ranking).search(query)
    assert found.hits[0].tool.qualified == "files.read_file"
    assert found.tier == "exact"


@pytest.mark.parametrize("ranking", RANKINGS)
def test_usage_never_ranks_above_an_exact_name(ranking: Ranking) -> None:
    index = index_of([*TOOLS, Tool("x", "get_issue_events", "get issue get issue")], ranking)
    assert names(index, "get_issue", usage={"x.get_issue_events": 10**9})[0] == "github.get_issue"


@pytest.mark.parametrize("ranking", RANKINGS)
def test_uses_lift_a_score_logarithmically_up_to_a_cap(ranking: Ranking) -> None:
    index = index_of(ranking=ranking)
    plain = {h.tool.name: h.score for h in index.search("open issue").hits}
    for uses in (1, 5, 10**6):
        lifted = {
            h.tool.name: h.score for h in index.search("open issue", usage={"github.get_issue": uses}).hits
        }
        boost = min(1 + 0.3 * log(1 + uses), USAGE_CAP)
        assert lifted["get_issue"] == pytest.approx(plain["get_issue"] * boost, rel=1e-5)
        assert lifted["create_issue"] == pytest.approx(plain["create_issue"])


@pytest.mark.parametrize("ranking", RANKINGS)
def test_ties_break_by_name(ranking: Ranking) -> None:
    twins = [Tool("b", name, "same words here") for name in ("t3", "t1", "t2")]
    assert names(index_of(twins, ranking), "same words") == ["b.t1", "b.t2", "b.t3"]


@pytest.mark.parametrize("ranking", RANKINGS)
def test_a_tag_filters_before_ranking(ranking: Ranking) -> None:
    index = index_of(ranking=ranking)
    assert set(names(index, "read issue file", tag="read")) == {"github.get_issue", "files.read_file"}
    assert names(index, "create_directory", tag="read") == []
    assert index.tags() == ["code", "read"]


def test_total_counts_all_matches_and_limit_cuts_hits_only() -> None:
    index = index_of([Tool("b", f"list_thing_{i}", "lists things") for i in range(30)])
    found = index.search("list things", limit=5)
    assert (len(found.hits), found.total) == (5, 30)


def test_try_also_names_the_distinctive_terms_of_a_backend() -> None:
    found = index_of().search("read an issue")
    assert "pull" in found.try_also["github"]
    assert len(found.try_also["github"]) <= 3
    assert "issue" not in found.try_also["github"]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("make a folder", "files.create_directory"),
        ("mkdir", "files.create_directory"),
        ("createpr", "github.create_pull_request"),
        ("open a pr", "github.create_pull_request"),
        ("creat pul requst", "github.create_pull_request"),
        ("sendmail", "mail.send_message"),
        ("enviar un correo", "mail.send_message"),
        ("Datei lesen", "files.read_file"),
        ("прочитать файл", "files.read_file"),
        ("创建文件夹", "files.create_directory"),
        ("ファイルを読む", "files.read_file"),
        ("메시지 보내기", "mail.send_message"),
    ],
)
def test_best_understands_short_forms_misspellings_and_other_languages(query: str, name: str) -> None:
    assert names(index_of(), query)[0] == name


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Bestellungen anzeigen", "b.orders"),
        ("archivos", "b.files"),
        ("imágenes", "b.pictures"),
        ("Rechnungen", "b.invoices"),
        ("Lagerbestand", "b.stock"),
    ],
)
def test_best_understands_plurals_of_other_languages_and_synonyms(query: str, name: str) -> None:
    tools = [Tool("b", word, "") for word in ("orders", "files", "pictures", "invoices", "stock", "bests")]
    assert names(index_of(tools), query)[0] == name


def test_a_repaired_query_is_shown() -> None:
    assert index_of().search("opne pull reqeust mesage").did_you_mean == "open pull request message"
    assert index_of().search("create pull request").did_you_mean is None


def test_an_english_word_or_a_name_is_not_taken_for_a_misspelling() -> None:
    index = index_of([Tool("b", "sent_items", "Things that were sent"), Tool("b", "music", "Play music")])
    assert names(index, "send") == []
    assert names(index, "the way to Munich") == []
    assert names(index, "mucis") == ["b.music"]


BAD = [
    "",
    " \n\t",
    "\x00\x01",
    "😀🎉",
    ".*+?[](){}^$|\\",
    "the of and",
    "\ud800",
    "a" * 20_000,
    "word " * 10_000,
    "1",
    "-",
]


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("query", BAD)
def test_any_query_is_answered(ranking: Ranking, query: str) -> None:
    index_of(ranking=ranking).search(query)
    SearchIndex(ranking).search(query)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_zero_gives_no_hits(limit: int) -> None:
    assert names(index_of(), "read file", limit=limit) == []


def test_tools_with_unusual_texts_are_indexed() -> None:
    odd = [
        Tool("b", "", "no name at all"),
        Tool("b", "long", "word " * 13_000),
        Tool("b", "schema", "", {"properties": {"a": True, "b": 5, "c": {"description": 7}}}),
        Tool("b", "\u200b\x00", "hidden"),
    ]
    index = index_of(odd)
    assert names(index, "no name at all")[0] == "b."
    assert names(index, "hidden") == ["b.\u200b\x00"]


def test_meaning_adds_tools_that_share_no_word_with_the_query() -> None:
    index = index_of()
    slot = [tool.qualified for tool in index.tools if tool].index("mail.send_message")
    assert names(index, "peruse") == []
    found = index.search("peruse", meaning=[0.0] * slot + [0.9])
    assert [hit.tool.qualified for hit in found.hits] == ["mail.send_message"]
    assert found.hits[0].why["meaning"] == 0.9


NAMES = st.text(alphabet="abcde_", max_size=6)
DESCRIPTIONS = st.lists(
    st.sampled_from(["read", "write", "file", "mail", "issue", "folder"]), max_size=4
).map(" ".join)
STEPS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.dictionaries(NAMES, DESCRIPTIONS, max_size=4) | st.none()),
    max_size=8,
)


@pytest.mark.parametrize("ranking", RANKINGS)
@given(steps=STEPS, worked=st.lists(st.integers(0, 9), max_size=8), query=DESCRIPTIONS | NAMES)
def test_changes_made_in_steps_end_where_building_anew_would(
    ranking: Ranking, steps: list[tuple[str, dict[str, str] | None]], worked: list[int], query: str
) -> None:
    index, last = SearchIndex(ranking), {}
    for (backend, listed), work in zip_longest(steps, worked[: len(steps)], fillvalue=0):
        last[backend] = [Tool(backend, name, text) for name, text in (listed or {}).items()]
        index.expect(backend, last[backend])
        for _ in range(work):
            index.work()
            known = {tool.qualified for tools in last.values() for tool in tools}
            assert {hit.tool.qualified for hit in index.search(query, limit=50).hits} <= known
    while index.work():
        pass
    fresh = SearchIndex(ranking)
    for backend, tools in last.items():
        fresh.replace(backend, tools)
    _assert_alike(index, fresh, query)


def test_a_changed_tool_is_found_as_it_was_until_it_is_indexed_and_a_removed_one_is_not() -> None:
    index = SearchIndex()
    many = 3 * TOOLS_AT_ONCE
    before = [Tool("big", f"tool_{i:03}", "read a file") for i in range(many)]
    index.replace("big", before)
    index.expect("big", [Tool("big", tool.name, "send a letter") for tool in before[:-1]])
    assert before[-1].name not in {hit.tool.name for hit in index.search("file", limit=many).hits}
    assert index.search("file").total == many - 1
    assert index.work()
    assert index.search("letter").total == TOOLS_AT_ONCE
    assert index.search("file").total == many - 1 - TOOLS_AT_ONCE
    assert len(index) == many - 1
    while index.work():
        pass
    assert index.search("letter").total == many - 1
    assert index.search("file").total == 0


def test_a_backend_is_incomplete_until_its_first_list_is_taken_in_and_not_when_that_changes() -> None:
    index = SearchIndex()
    tools = [Tool("big", f"tool_{i}", "read") for i in range(2 * TOOLS_AT_ONCE)]
    index.expect("big", tools)
    index.work()
    index.expect("big", tools[1:])
    assert index.incomplete() == ["big"]
    while index.work():
        pass
    assert index.incomplete() == []
    index.expect("big", [Tool("big", tool.name, "write") for tool in tools])
    assert index.incomplete() == []


def _assert_alike(index: SearchIndex, fresh: SearchIndex, query: str) -> None:
    ours, theirs = index.search(query, limit=50), fresh.search(query, limit=50)
    assert len(index) == len(fresh)
    assert ours.total == theirs.total
    assert ours.try_also.keys() == theirs.try_also.keys()
    scores = {h.tool.qualified: h.score for h in theirs.hits}
    assert {h.tool.qualified: h.score for h in ours.hits} == pytest.approx(scores, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("getUserInfo", ["get", "user", "info"]),
        ("HTTPServer_v2", ["http", "server", "v2"]),
        ("create-pull.request", ["create", "pull", "request"]),
        ("Café Ünïcode", ["cafe", "unicode"]),
        ("文件夹", ["文件", "件夹"]),
        ("base64decode", ["base", "64", "decode"]),
        ("", []),
    ],
)
def test_words_are_split_where_names_are_put_together(text: str, split: list[str]) -> None:
    assert raw_words(text) == split


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("repositories", "repository"),
        ("listing", "lists"),
        ("created", "creates"),
        ("boxes", "box"),
        ("searches", "search"),
    ],
)
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@given(st.text())
def test_splitting_any_text_loses_no_ascii_letter(text: str) -> None:
    words(text)
    ascii_only = "".join(c for c in text if c in string.ascii_letters + string.digits + " ")
    assert squash("".join(raw_words(ascii_only))) == squash(ascii_only)
