"""Spelling of backends and tools in a chain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.discovery.types.identifiers import (
    backend_expressions,
    backend_identifier,
    backend_identifiers,
    call_expression,
    identifier,
)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("get_user", "get_user"),
        ("get-user", "get_user"),
        ("repo.get", "repo_get"),
        ("repo/list", "repo_list"),
        ("2fa", "_2fa"),
        ("日本", "日本"),
        ("$x", "$x"),
        ("a\u200bb", "a_b"),
        ("a\u0301", "a\u0301"),
        ("", "_"),
    ],
)
def test_a_name_becomes_this_identifier(name: str, made: str) -> None:
    assert identifier(name) == made


@given(st.text(max_size=20))
def test_making_an_identifier_twice_changes_nothing(name: str) -> None:
    made = identifier(name)
    assert made.replace("$", "_").isidentifier()
    assert identifier(made) == made


@pytest.mark.parametrize("name", ["delete", "default", "JSON", "console", "results", "gatemini", "fetch"])
def test_a_backend_named_like_a_word_of_the_language_gets_an_underscore(name: str) -> None:
    assert backend_identifier(name) == name + "_"


def test_names_of_the_gateway_are_not_given_to_backends() -> None:
    assert backend_identifier("__backends") == "__backends_"
    assert backend_identifier("__composite") == "composite"


def test_backends_that_collapse_to_one_identifier() -> None:
    owners, ambiguous = backend_identifiers(["files-eu", "files_eu", "a-b", "a.b", "solo"])
    assert owners == {"files_eu": "files_eu", "solo": "solo"}
    assert ambiguous == {"a_b": ("a-b", "a.b")}
    assert backend_expressions(["files-eu", "files_eu"]) == {
        "files-eu": '__backends["files-eu"]',
        "files_eu": "files_eu",
    }


@pytest.mark.parametrize(
    ("backend", "tool", "required", "call"),
    [
        ("exa", "web_search_exa", ["query"], "await exa.web_search_exa({query})"),
        ("files-eu", "get-user", [], 'await files_eu["get-user"]({})'),
        ("files-eu", "get_user", ["id"], "await files_eu.get_user({id})"),
        ("files-eu", "delete", [], "await files_eu.delete({})"),
        ("files-eu", "2fa", [], 'await files_eu["2fa"]({})'),
        ("files-eu", "日本", [], 'await files_eu["日本"]({})'),
        ("files-eu", "then", [], 'await __backends["files-eu"].call("then", {})'),
        ("files-eu", "__proto__", ["a"], 'await __backends["files-eu"].call("__proto__", {a})'),
        ("fetch", "fetch", ["url"], "await fetch_.fetch({url})"),
        ("b", "a\u200bb", [], 'await b["a\\u200bb"]({})'),
        ("b", 'quo"te', [], 'await b["quo\\"te"]({})'),
        ("b", "t", ["my-prop", "class", "a b"], 'await b.t({"my-prop": my_prop, class: class_, "a b": a_b})'),
        ("b", "t", ["__proto__"], "await b.t({__proto__})"),
    ],
)
def test_calls_are_ready_to_paste(backend: str, tool: str, required: list[str], call: str) -> None:
    assert call_expression(backend, tool, required) == call


def test_a_call_uses_the_spelling_of_the_registry_it_is_for() -> None:
    expressions = backend_expressions(["a-b", "a.b"])
    assert call_expression("a-b", "t", [], expressions=expressions) == 'await __backends["a-b"].t({})'
