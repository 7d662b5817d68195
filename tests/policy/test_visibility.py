"""A tool that no arguments could be allowed for is found nowhere, and explains itself when it is called by name."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fixtures.running import DEMO, answer, threaded_app
from gatemini.app import App
from gatemini.config.model.policy import PolicyConfig
from gatemini.config.model.schema import CompositeTool
from gatemini.policy.door import door_of
from gatemini.policy.principal import Grant, Principal
from gatemini.protocol.sessions.client_session import Session

pytestmark = pytest.mark.anyio

BACKENDS = {**DEMO, "other": {**DEMO["demo"], "namespace": "far"}}
RULES = [
    {"tools": ["demo.sleep", "demo.readResource"], "action": "deny", "reason": "too slow"},
    {"tools": ["other.*"], "clients": ["guest"], "action": "deny"},
    {"tools": ["demo.rows"], "arguments": {"/n": {"max": 10}}, "action": "allow"},
    {"tools": ["demo.rows"], "action": "deny"},
    {"tools": ["demo.text"], "arguments": {"/n": {"max": 10}}, "action": "deny"},
    {"tools": ["demo.image"], "action": "ask"},
]


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    aliases = {"nap": "demo.sleep", "plus": "demo.add"}
    async with threaded_app(tmp_path_factory.mktemp("seen"), BACKENDS, aliases=aliases) as running:
        running.set_composite_tools({"weekly": CompositeTool(code="return 1;")})
        running.chain.door = door_of(PolicyConfig.model_validate({"rules": RULES}), None)
        yield running


@pytest.fixture
def session(app: App) -> Session:
    return app.new_session()


async def call(app: App, name: str, session: Session, **arguments: Any) -> Any:
    result = await app.call_meta_tool(name, arguments, session)
    text = result["content"][0]["text"]
    return text if result["isError"] else json.loads(text)


async def test_search_and_lists_have_no_hidden_tool(app: App, session: Session) -> None:
    found = await call(
        app, "search_tools", session, task_description="demo.sleep wait milliseconds", limit=50
    )
    assert "demo.sleep" not in {row["name"] for row in found["results"]}
    assert "far.sleep" in {row["name"] for row in found["results"]}
    listed = await call(app, "list_tools_meta", session, page_size=100)
    assert "demo.sleep" not in listed["tools"]
    assert "far.sleep" in listed["tools"]
    for name in ("demo.rows", "demo.text", "demo.image"):
        assert name in listed["tools"], "some arguments may be allowed, or it may be asked for"


async def test_an_error_about_a_name_offers_no_hidden_tool(app: App, session: Session) -> None:
    for name in ("demo.sleep", "demo.slep", "nap"):
        text = await call(app, "tool_info", session, tool_name=name)
        assert "ToolNotFound" in text
        assert "demo.sleep" not in text.replace(f"'{name}'", "")
    text, failed, _ = await answer(app, "return await demo.slepp({ ms: 1 });")
    assert failed
    assert "sleep" not in text.replace("slepp", "")


@pytest.mark.parametrize(
    "code",
    [
        "await demo.add({})",
        '{"tool": "demo.add"}',
        'return await demo.readResource("x://y");',
        "await demo.add.raw({})",
    ],
)
async def test_a_call_that_is_denied_does_not_start_its_server(tmp_path: Path, code: str) -> None:
    """It is denied whatever the server, which has never run, says of its tools."""
    rules = [{"tools": ["demo.*"], "action": "deny"}]
    lazy = {"demo": {**DEMO["demo"], "lazy": True}}
    async with threaded_app(tmp_path, lazy, policy={"rules": rules}) as app:
        text, failed, _ = await answer(app, code)
        assert failed
        assert "is denied by policy.rules[0]" in text
        assert app.manager.state("demo") == "stopped"


async def test_an_error_about_a_server_that_has_just_started_offers_no_hidden_tool(tmp_path: Path) -> None:
    rules = [{"tools": ["demo.sleep"], "action": "deny"}]
    lazy = {"demo": {**DEMO["demo"], "lazy": True}}
    code = "try { await demo.slepp({ ms: 1 }); } catch (e) { return [e.message, e.hint]; }"
    async with threaded_app(tmp_path, lazy, policy={"rules": rules}) as app:
        text, failed, _ = await answer(app, code)
    assert not failed, text
    assert "Did you mean demo." in text
    assert "sleep" not in text


async def test_resources_prompts_and_completion_have_no_hidden_tool(app: App, session: Session) -> None:
    surface = app.surface(session)
    for uri in ("tools", "llms", "llms-full", "types/demo", "backend/demo", "backend/demo/tools"):
        _, text = await surface.read_resource(f"gatemini://{uri}")
        assert "demo.sleep" not in text, uri
        assert text.count("sleep") <= text.count("far"), uri
    _, declared = await surface.read_resource("gatemini://types/demo")
    assert "add(" in declared
    assert "sleep(" not in declared
    values, _ = surface.complete("tool_name", "demo.s")
    assert "demo.sleep" not in values
    assert "demo.stats" in values
    prompt = await surface.get_prompt("find_tool", {"task": "wait some milliseconds"})
    assert "demo.sleep" not in str(prompt)
    assert "far.sleep" in str(prompt)


async def test_the_inventory_counts_what_is_found(app: App, session: Session) -> None:
    whole = dict(app.catalog.inventory())
    shown = dict(app.catalog.inventory(app.chain.listing(session.who).registry))
    assert shown["demo"] == whole["demo"] - 1
    assert shown["other"] == whole["other"]


async def test_code_in_a_chain_finds_no_hidden_tool(app: App) -> None:
    for code in (
        "return Object.keys(demo);",
        "return __interfaces;",
        'return __getToolInterface("demo.sleep");',
        "return await gatemini.list_tools_meta({ page_size: 100 });",
        'return await gatemini.search_tools({ task_description: "demo.sleep", limit: 50 });',
    ):
        text, failed, _ = await answer(app, code)
        assert not failed, text
        assert "demo.sleep" not in text, code
    text, _, _ = await answer(app, "return Object.keys(demo);")
    assert "add" in text
    assert "sleep" not in text


async def test_resources_of_a_backend_that_may_not_be_read_are_not_found(app: App, session: Session) -> None:
    found = await call(app, "search_tools", session, task_description="greeting text", limit=50)
    offered = [str(row) for row in found["results"] if row.get("kind") == "resource"]
    assert offered
    assert all("other" in row or "far" in row for row in offered), offered
    _, text = await app.surface(session).read_resource("gatemini://backend/demo")
    assert "resources" not in json.loads(text)


async def test_what_is_found_depends_on_the_client(app: App) -> None:
    guest = app.new_session(Principal("uid:1", "guest"))
    listed = await call(app, "list_tools_meta", guest, page_size=100)
    assert not any(name.startswith("far.") for name in listed["tools"])
    limited = replace(guest.principal, client="x", grant=Grant(allow=(("demo.a*",),), deny=("*.audio",)))
    listed = await call(app, "list_tools_meta", app.new_session(limited), page_size=100)
    assert listed["tools"] == ["demo.add"]
    backends = replace(limited, grant=Grant(backends=frozenset({"other"})))
    listed = await call(app, "list_tools_meta", app.new_session(backends), page_size=100)
    assert listed["tools"]
    assert all(name.startswith("far.") for name in listed["tools"])


async def test_what_is_found_depends_on_expressions_about_the_client_alone(app: App) -> None:
    door = app.chain.door
    assert door is not None
    rules = [
        {"tools": ["demo.add"], "when": "client.claims.role == 'admin'", "action": "allow"},
        {"tools": ["demo.text"], "when": "client.name == 'x' && args.n < 5", "action": "allow"},
        {"tools": ["*"], "action": "deny"},
    ]
    door.set_policy(PolicyConfig.model_validate({"rules": rules}))
    admin = Principal("u", "x", transport="http", claims={"role": "admin"})
    for claims, names in (
        ({"role": "admin"}, ["add", "text"]),
        ({"role": "reader"}, ["text"]),
        ({}, ["text"]),
    ):
        shown = app.chain.listing(replace(admin, claims=claims)).registry.tools()
        assert [tool.name for tool in shown] == names, claims
    door.set_policy(PolicyConfig.model_validate({"rules": RULES}))


@pytest.mark.parametrize(
    "code",
    [
        "await demo.sleep({ ms: 1 })",
        '{"tool": "demo.sleep", "arguments": {"ms": 1}}',
        '{"tool": "nap", "arguments": {"ms": 1}}',
        "return await demo.sleep({ wrong: 'arguments' });",
        "return await demo['sleep']();",
    ],
)
async def test_a_hidden_tool_called_by_name_names_rule_and_reason(app: App, code: str) -> None:
    text, failed, _ = await answer(app, code)
    assert failed
    assert "PolicyDenied: demo.sleep is denied by policy.rules[0]: too slow" in text
    assert "HINT: do not try other spellings" in text
    assert "number" not in text, "nothing describes its parameters"


async def test_code_can_act_on_a_denial(app: App) -> None:
    code = """
    try { await demo.sleep({ ms: 1 }); } catch (e) {
      return [e instanceof ToolError, e.name, e.code, e.structured.rule, e.structured.reason, e.tool];
    }"""
    text, failed, _ = await answer(app, code)
    assert not failed, text
    assert json.loads(text) == [
        True,
        "PolicyDenied",
        "policy.denied",
        "policy.rules[0]",
        "too slow",
        "demo.sleep",
    ]


async def test_what_is_found_depends_on_who_the_client_is(app: App) -> None:
    """Two principals that are equal in all but their id, of which one alone is named in a rule."""
    door = app.chain.door
    assert door is not None
    for named in ({"clients": ["iss|alice"]}, {"when": "client.id == 'iss|alice'"}):
        rules = [
            {"tools": ["demo.sleep"], **named, "action": "allow"},
            {"tools": ["demo.sleep"], "action": "deny"},
        ]
        door.set_policy(PolicyConfig.model_validate({"rules": rules}))
        shown = {}
        for name in ("alice", "bob"):
            who = Principal(f"iss|{name}", "app", transport="http")
            listed = await call(app, "list_tools_meta", app.new_session(who), page_size=100)
            shown[name] = "demo.sleep" in listed["tools"]
        assert shown == {"alice": True, "bob": False}, named
    door.set_policy(PolicyConfig.model_validate({"rules": RULES}))


async def test_tags_of_hidden_tools_alone_are_not_named(tmp_path: Path) -> None:
    rule = [{"tools": ["other.*"], "action": "deny"}]
    tagged = {
        "demo": {**DEMO["demo"], "tags": ["open"]},
        "other": {**DEMO["demo"], "namespace": "far", "tags": ["hushed"]},
    }
    async with threaded_app(tmp_path, tagged, policy={"rules": rule}) as own:
        for tag in ("none", "hushed"):
            text = await call(own, "search_tools", own.new_session(), task_description="add", tag=tag)
            assert f"no tool has the tag '{tag}'" in text
            assert "Tags: open." in text


async def test_calls_of_others_do_not_name_tools_that_a_client_does_not_find(
    app: App, session: Session
) -> None:
    await answer(app, "await far.stats({})")
    _, text = await app.surface(session).read_resource("gatemini://recent")
    assert "far.stats" in text
    guest = app.surface(app.new_session(Principal("uid:1", "guest")))
    for uri in ("recent", "recent/100", "stats"):
        _, text = await guest.read_resource(f"gatemini://{uri}")
        assert "far." not in text, uri


async def test_an_error_about_arguments_describes_no_hidden_fallback(tmp_path: Path) -> None:
    broken = {"command": "/nonexistent/program", "fallback_chain": ["demo"], "lazy": True}
    rules = [{"tools": ["demo.add"], "action": "deny"}]
    async with threaded_app(tmp_path, {**DEMO, "broken": broken}, policy={"rules": rules}) as own:
        text, failed, _ = await answer(own, "return await broken.add({ wrong: 1 });")
        assert failed
        assert "number" not in text


async def test_a_changed_policy_and_changed_tools_are_seen_at_once(app: App, session: Session) -> None:
    door = app.chain.door
    assert door is not None
    assert not any(t.qualified == "demo.sleep" for t in app.chain.listing(session.who).registry.tools())
    before = PolicyConfig.model_validate({"rules": RULES})
    door.set_policy(PolicyConfig())
    assert app.chain.listing(session.who).registry is app.registry
    door.set_policy(before)
    assert app.chain.listing(session.who).registry is not app.registry
    app.registry.replace("late", [replace(app.registry.find("demo", "sleep"), backend="late")])
    assert any(t.qualified == "late.sleep" for t in app.chain.listing(session.who).registry.tools())
    app.registry.remove("late")
