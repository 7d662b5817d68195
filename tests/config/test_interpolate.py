"""Variables in values: every form, every place in a URL, and never a surprise."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.config.variables.interpolate import Reference, TemplateError, expand, expand_url, parse_template

ENV = {
    "HOST": "h.example",
    "KEY": 'a"b: #c\nd',
    "EMPTY": "",
    "BASE": "https://h.example:8443/v1?x=1",
    "PORT": "8080",
}


def look(reference: Reference) -> str | None:
    return ENV.get(reference.name) if reference.kind == "variable" else None


def text(template: str) -> str:
    return expand(parse_template(template), look).text


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("${HOST}", "h.example"),
        ("${env:HOST}", "h.example"),
        ("${NONE:-localhost}:${NONE:-80}", "localhost:80"),
        ("${HOST:-other}", "h.example"),
        ("${EMPTY:-filled}", "filled"),
        ("${env:NONE:-x}", "x"),
        ("${NONE:-${HOST}}", "h.example"),
        ("${NONE:-${ALSO:-deep}}", "deep"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("$$HOME", "$HOME"),
        ("$${HOST}", "${HOST}"),
        ("$$$${HOST}", "$${HOST}"),
        ("$$${HOST}", "$h.example"),
        ("cost $5 and $", "cost $5 and $"),
        ("$HOME", "$HOME"),
        ("${KEY}", 'a"b: #c\nd'),
        ("", ""),
    ],
)
def test_each_form_of_a_variable_gives_its_value(template: str, result: str) -> None:
    assert text(template) == result


@pytest.mark.parametrize(
    "template", ["${", "${A", "${}", "${1A}", "${A-b}", "${A:?b}", "${a b}", "${command:x}", "${A:-${B}"]
)
def test_an_unknown_form_is_an_error_that_names_the_known_ones(template: str) -> None:
    with pytest.raises(TemplateError, match=r"\$\$"):
        parse_template(template)


def test_a_missing_variable_is_reported_and_never_an_empty_text() -> None:
    result = expand(parse_template("a-${NONE}-b"), look)
    assert [reference.name for reference in result.missing] == ["NONE"]
    assert result.text == "a-${NONE}-b"


def test_client_files_keep_their_double_dollars() -> None:
    assert expand(parse_template("pa$$word", dollars=False), look).text == "pa$$word"


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("https://x/y?k=${KEY}", "https://x/y?k=a%22b%3A%20%23c%0Ad"),
        ("${BASE}", "https://h.example:8443/v1?x=1"),
        ("https://${HOST}:${PORT}/mcp", "https://h.example:8080/mcp"),
        ("https://u:${KEY}@h/", "https://u:a%22b%3A%20%23c%0Ad@h/"),
        ("https://h/${KEY}/z", "https://h/a%22b:%20%23c%0Ad/z"),
        ("https://h/y#${HOST}", "https://h/y#h.example"),
    ],
)
def test_a_value_in_a_url_is_encoded_as_its_place_needs(template: str, result: str) -> None:
    assert expand_url(parse_template(template), look).text == result


def test_only_user_info_and_query_of_a_url_count_as_secret() -> None:
    for template, secret in (
        ("https://x/?k=${KEY}", True),
        ("https://u:${KEY}@x/", True),
        ("https://x/${KEY}", False),
        ("https://${HOST}/", False),
    ):
        assert bool(expand_url(parse_template(template), look).secret) is secret


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_value_in_a_query_or_user_info_comes_back_unchanged(value: str) -> None:
    def only(_: Reference) -> str:
        return value

    url = expand_url(parse_template("https://u:${V}@h/p?a=1&k=${V}&z=2"), only).text
    parts = urlsplit(url)
    assert parts.hostname == "h"
    assert unquote(parts.password or "") == value
    assert parse_qs(parts.query, keep_blank_values=True) == {"a": ["1"], "k": [value], "z": ["2"]}


@given(st.text(alphabet="${}:-aB1_ "))
def test_any_text_is_a_template_or_one_named_error(template: str) -> None:
    with suppress(TemplateError):
        expand(parse_template(template), look)


@given(st.text())
def test_text_with_every_dollar_doubled_means_itself(value: str) -> None:
    assert text(value.replace("$", "$$")) == value
