"""Which tool a name means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.discovery.types.identifiers import is_plain_name, member_expression, short_name
from gatemini.errors import AmbiguousTool, BackendNotFound, ToolNotFound
from gatemini.model import Tool
from gatemini.registry import Change, Registry


def tools(backend: str, *names: str, namespace: str | None = None) -> list[Tool]:
    return [Tool(backend, name, namespace=namespace) for name in names]


@pytest.fixture
def registry() -> Registry:
    made = Registry(clock=lambda: datetime(2026, 11, 28, 14, 5, tzinfo=UTC))
    made.replace("exa", tools("exa", "search", "fetch_page"))
    made.replace("github", tools("github", "search", "get_issue"))
    return made


def test_a_bare_name_works_while_one_live_backend_owns_it(registry: Registry) -> None:
    assert registry.resolve("exa.search").backend == "exa"
    assert registry.resolve("get_issue").qualified == "github.get_issue"
    with pytest.raises(AmbiguousTool, match=r"exa\.search, github\.search"):
        registry.resolve("search")
    registry.remove("github")
    assert registry.resolve("search").backend == "exa"


def test_tools_of_the_cache_have_no_bare_name_until_their_backend_is_live(registry: Registry) -> None:
    registry.replace("slack", tools("slack", "post"), live=False)
    assert registry.resolve("slack.post").name == "post"
    with pytest.raises(ToolNotFound, match=r"tool of backend slack \(still starting\)"):
        registry.resolve("post")
    registry.replace("slack", tools("slack", "post"))
    assert registry.resolve("post").backend == "slack"


def test_a_cached_owner_does_not_make_a_bare_name_ambiguous(registry: Registry) -> None:
    registry.replace("gitlab", tools("gitlab", "get_issue"), live=False)
    assert registry.resolve("get_issue").backend == "github"


def test_aliases_resolve_one_level_deep_and_never_shadow_a_tool(registry: Registry) -> None:
    registry.set_aliases({"s": "exa.search", "t": "s", "get_issue": "exa.search", "gone": "x.y"})
    assert registry.resolve("s").qualified == "exa.search"
    assert registry.resolve("get_issue").qualified == "github.get_issue"
    for name in ("t", "gone"):
        with pytest.raises(ToolNotFound):
            registry.resolve(name)


def test_lists_know_each_tool_once_and_in_order(registry: Registry) -> None:
    registry.set_aliases({"s": "exa.search"})
    names = [tool.qualified for tool in registry.tools()]
    assert names == ["exa.fetch_page", "exa.search", "github.get_issue", "github.search"]
    assert len(registry) == 4


def test_a_namespace_precedes_the_name(registry: Registry) -> None:
    registry.replace("jira-prod", tools("jira-prod", "create", namespace="jira"))
    assert registry.resolve("jira.create").backend == "jira-prod"
    assert registry.resolve("jira-prod.create").qualified == "jira.create"
    assert registry.find("jira", "create").backend == "jira-prod"
    assert "jira" in registry.spaces()
    assert "jira-prod" in registry.backends()


def test_when_namespaces_collide_the_backend_of_that_name_wins() -> None:
    own, other = tools("jira", "create"), tools("a", "create", "extra", namespace="jira")
    for first, second in ((own, other), (other, own)):
        registry = Registry()
        registry.replace(first[0].backend, first)
        registry.replace(second[0].backend, second)
        assert registry.resolve("jira.create").backend == "jira"
        assert registry.resolve("jira.extra").backend == "a"
        assert [t.qualified for t in registry.tools()] == ["jira.create", "jira.extra"]
        registry.remove("jira")
        assert registry.resolve("jira.create").backend == "a"


def test_the_error_for_an_unknown_tool_offers_close_names(registry: Registry) -> None:
    with pytest.raises(ToolNotFound) as caught:
        registry.resolve("github.get_isue")
    assert "github.get_issue" in (caught.value.hint or "")
    assert (caught.value.hint or "").count(",") <= 2


def test_the_error_for_an_unlike_name_lists_the_backends(registry: Registry) -> None:
    with pytest.raises(ToolNotFound) as caught:
        registry.resolve("xyzzy_plugh_42")
    assert caught.value.hint == "Call search_tools with what you want to do; backends: exa, github."
    registry.search_with = "Use `gatemini search`"
    with pytest.raises(ToolNotFound) as caught:
        registry.resolve("xyzzy_plugh_42")
    assert caught.value.hint == "Use `gatemini search` with what you want to do; backends: exa, github."
    with pytest.raises(ToolNotFound) as caught:
        Registry().resolve("a.b")
    assert caught.value.hint == "Call search_tools with what you want to do; no backend has listed tools."


def test_the_error_for_a_tool_of_another_backend_names_that_backend(registry: Registry) -> None:
    with pytest.raises(ToolNotFound, match="this is a tool of backend github") as caught:
        registry.resolve("exa.get_issue")
    assert caught.value.hint == "Use github.get_issue."
    with pytest.raises(ToolNotFound, match="this is a tool of backend github"):
        registry.find("exa", "get_issue")


def test_the_error_for_an_unknown_backend_offers_close_names(registry: Registry) -> None:
    with pytest.raises(BackendNotFound) as caught:
        registry.find("gitub", "search")
    assert caught.value.hint == "Did you mean github?"


def test_the_error_for_a_removed_tool_gives_the_time_and_close_names(registry: Registry) -> None:
    registry.replace("github", tools("github", "search", "get_issues"))
    with pytest.raises(ToolNotFound, match=r"was removed at 14:05; similar: github\.get_issues"):
        registry.resolve("github.get_issue")
    with pytest.raises(ToolNotFound, match="was removed at 14:05"):
        registry.find("github", "get_issue")


def test_a_changed_schema_is_flagged_and_a_changed_description_is_not(registry: Registry) -> None:
    changed = Tool("exa", "search", "new words", {"type": "object", "properties": {"q": {}}})
    change = registry.replace("exa", [changed, Tool("exa", "fetch_page", "new words")])
    assert change == Change(changed=("exa.search",))
    assert registry.changed_at("exa.search") is not None
    assert registry.changed_at("exa.fetch_page") is None


def test_odd_names_reach_different_tools() -> None:
    registry = Registry()
    odd = [
        "repo.get",
        "repo/list",
        "get-user",
        "get_user",
        "delete",
        "2fa",
        "then",
        "constructor",
        "__proto__",
        "日本",
    ]
    registry.replace("files-eu", tools("files-eu", *odd, "x" * 200))
    for name in odd:
        assert registry.resolve(f"files-eu.{name}").name == name
        assert registry.find("files-eu", name).name == name
        if not is_plain_name(name):  # as a call of it is shown
            assert registry.resolve(member_expression("files_eu", name)).name == name
    assert registry.find("files_eu", "get_user").name == "get_user"
    assert registry.find("files-eu", "repo_get").name == "repo.get"
    assert registry.find("files-eu", "_2fa").name == "2fa"
    assert registry.resolve("files_eu.get_user").name == "get_user"


def test_an_identifier_that_two_tools_share_and_none_owns_lists_both() -> None:
    registry = Registry()
    registry.replace("b", tools("b", "get-user", "get.user"))
    for ask in (lambda: registry.find("b", "get_user"), lambda: registry.resolve("b.get_user")):
        with pytest.raises(AmbiguousTool, match=r"b\.get-user, b\.get\.user"):
            ask()


def test_backends_that_share_an_identifier_list_both() -> None:
    registry = Registry()
    registry.replace("a-b", tools("a-b", "t"))
    registry.replace("a.b", tools("a.b", "t"))
    with pytest.raises(AmbiguousTool, match=r"a-b, a\.b"):
        registry.find("a_b", "t")
    assert registry.expressions()["a-b"] == '__backends["a-b"]'


def test_an_escaped_name_is_accepted_and_shown_in_errors() -> None:
    registry = Registry()
    registry.replace("b", tools("b", "a\u200bb", "a\u200bc"))
    assert registry.resolve("b.a\\u200bb").name == "a\u200bb"
    with pytest.raises(ToolNotFound) as caught:
        registry.resolve("b.a\u200bx")
    assert "\u200b" not in caught.value.text()


def test_listeners_are_called_for_changes_only() -> None:
    registry = Registry()
    heard: list[tuple[str, int | None]] = []
    stop = registry.listen(lambda backend, now: heard.append((backend, None if now is None else len(now))))
    registry.replace("b", tools("b", "x"))
    registry.replace("b", tools("b", "x"))
    registry.replace("b", tools("b", "x", "y"))
    registry.remove("b")
    registry.remove("b")
    stop()
    registry.replace("b", tools("b", "x"))
    assert heard == [("b", 1), ("b", 2), ("b", None)]


NAMES = st.sampled_from(["a", "b", "a.b", "a-b", "a_b", "2", ""])


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=4), st.none() | NAMES, st.booleans()), max_size=12))
def test_any_order_of_changes_ends_in_the_same_registry(
    steps: list[tuple[str, list[str], str | None, bool]],
) -> None:
    stepwise, last = Registry(), {}
    for backend, names, namespace, removed in steps:
        if removed:
            stepwise.remove(backend)
            last.pop(backend, None)
        else:
            stepwise.replace(backend, tools(backend, *names, namespace=namespace))
            last[backend] = tools(backend, *names, namespace=namespace)
    fresh = Registry()
    for backend, listed in sorted(last.items()):
        fresh.replace(backend, listed)
    assert stepwise.tools() == fresh.tools()
    assert stepwise.spaces() == fresh.spaces()
    assert dict(stepwise.expressions()) == dict(fresh.expressions())
    for tool in fresh.tools():
        assert stepwise.resolve(tool.qualified) == tool


@pytest.mark.parametrize("asked", ["exa", "exa.", " exa "])
def test_the_error_for_a_backend_name_lists_its_tools(registry: Registry, asked: str) -> None:
    with pytest.raises(ToolNotFound) as caught:
        registry.resolve(asked)
    assert "'exa' is a backend" in caught.value.message
    assert caught.value.hint == "Its tools: exa.fetch_page, exa.search."


def test_a_shortened_name_is_accepted_if_no_tool_has_exactly_that_name(registry: Registry) -> None:
    registry.replace("odd", tools("odd", "a\u200bb", "n" * 1_000))
    assert registry.resolve("a\\u200bb").name == "a\u200bb"
    assert registry.resolve(short_name("n" * 1_000)).name == "n" * 1_000
    registry.replace("exa", tools("exa", "a\\u200bb"))
    assert registry.resolve("a\\u200bb").backend == "exa"
    registry.replace("exa", tools("exa", "a\\u200bb"), live=False)
    assert registry.resolve("a\\u200bb").backend == "odd"
