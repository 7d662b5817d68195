"""What people say, against what tools are called, without a model: everyday words, compounds, currencies, enums."""

from __future__ import annotations

import pytest

from gatemini.discovery.search.index import SearchIndex
from gatemini.discovery.search.lexicon import SPLIT, SYNONYMS
from gatemini.model import Tool

CATALOG = [
    Tool("fetch", "fetch", "Fetches a web page from the internet and extracts its contents as markdown"),
    Tool("money", "convert_currency", "Convert an amount from one currency to another"),
    Tool("money", "list_currencies", "All currencies with their names"),
    Tool("gmail", "list_messages", "Lists the email messages of the account"),
    Tool("gmail", "send_message", "Sends an email message"),
    Tool("git", "git_log", "Shows the commit history of a file, with authors"),
    Tool("git", "git_add", "Adds file contents to the staging area"),
    Tool("git", "git_status", "Shows the working tree status"),
    Tool("duckdb", "query", "Execute a SQL query on files: CSV, Parquet, JSON"),
    Tool("duckdb", "list_tables", "List the tables of the database"),
    Tool("excel", "write_data_to_excel", "Write data to an Excel worksheet"),
    Tool("excel", "create_chart", "Create a chart in a worksheet"),
    Tool("files", "read_text_file", "Read a file from the file system as text"),
    Tool("files", "write_file", "Create a file or overwrite an existing file"),
    Tool("files", "search_files", "Search files by pattern"),
    Tool("files", "check_access", "Check whether a path may be read"),
    Tool("time", "convert_time", "Convert a time from one timezone to another"),
    Tool("memory", "search_nodes", "Search the knowledge graph"),
]


def found(query: str, tools: list[Tool] = CATALOG, limit: int = 3) -> list[str]:
    index = SearchIndex()
    for backend in dict.fromkeys(tool.backend for tool in tools):
        index.replace(backend, [tool for tool in tools if tool.backend == backend])
    return [hit.tool.qualified for hit in index.search(query, limit=limit).hits]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("webpage", "fetch.fetch"),
        ("usd to eur", "money.convert_currency"),
        ("check my inbox", "gmail.list_messages"),
        ("who changed this file", "git.git_log"),
        ("aggregate a CSV with SQL", "duckdb.query"),
        ("export rows to an Excel workbook", "excel.write_data_to_excel"),
        ("what time zone", "time.convert_time"),
        ("filesystem", "files.read_text_file"),
    ],
)
def test_everyday_words_find_the_tool_that_does_it(query: str, name: str) -> None:
    assert name in found(query)


def test_a_word_that_is_written_in_two_finds_it_written_in_one() -> None:
    assert found("take a screen shot", [Tool("web", "screenshot", "Of the page"), *CATALOG], 1) == [
        "web.screenshot"
    ]


def test_words_that_no_tool_has_do_not_hide_what_the_others_find() -> None:
    odd = [Tool("odd", f"odd_{number}", "An odd tool") for number in range(50)]
    assert len(found("odd tool with options", odd, 50)) == 50


def test_members_of_an_enum_are_found() -> None:
    kinds = {"type": "object", "properties": {"kind": {"enum": ["radar", "sankey", "treemap"]}}}
    assert found("sankey", [Tool("plots", "generate", "Make one", kinds), *CATALOG])[0] == "plots.generate"


def test_the_model_is_asked_with_the_words_that_the_lexicon_adds() -> None:
    index = SearchIndex()
    index.replace("gmail", [tool for tool in CATALOG if tool.backend == "gmail"])
    assert index.meaning_text("my inbox") == "my inbox (email messag)"
    assert index.meaning_text("email") == "email (messag)"
    assert index.meaning_text("xyzzy") == "xyzzy"


@pytest.mark.parametrize("query", ["the time of other zones", "who owns the memory of a file"])
def test_a_short_word_is_no_slip_for_one_that_begins_otherwise(query: str) -> None:
    index = SearchIndex()
    index.replace(
        "other", [Tool("other", "pick", "Of several only one is won, at a time, of a file in memory")]
    )
    assert index.search(query).did_you_mean is None


def test_the_model_is_asked_with_a_long_query_as_it_is() -> None:
    index = SearchIndex()
    index.replace("gmail", [tool for tool in CATALOG if tool.backend == "gmail"])
    short = "inbox one two three four five six seven"
    assert index.meaning_text(short) != short
    assert index.meaning_text(f"{short} eight nine") == f"{short} eight nine"


def test_a_word_is_no_synonym_of_itself_and_compounds_have_two_parts() -> None:
    assert [word for word, others in SYNONYMS.items() if word in others] == []
    assert {len(parts) for parts in SPLIT.values()} == {2}
