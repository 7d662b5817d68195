"""A resource is found if its address may be read, a prompt if it may be got: in search, lists, documents and chains."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.direct import TESTS
from fixtures.running import answer, threaded_app, until
from gatemini.app import App
from gatemini.config.model.policy import PolicyConfig
from gatemini.errors import ResourceNotFound
from gatemini.policy.principal import Grant, Principal, local

pytestmark = pytest.mark.anyio

SERVER = TESTS / "fixtures" / "recording_server.py"


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    folder = tmp_path_factory.mktemp("offers")
    vault = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), str(folder / "calls"), "vault"]}
    async with threaded_app(folder, {"vault": vault}, policy={}) as running:
        await until(lambda: len(running.manager.status("vault").offers) == 5)
        yield running


def setting(app: App, *rules: dict[str, Any], **more: Any) -> None:
    assert app.chain.door is not None
    app.chain.door.set_policy(PolicyConfig.model_validate({"rules": rules, **more}))


async def found(app: App, who: Principal) -> set[str]:
    """Everything that a client finds in any way: addresses of resources, and `prompt NAME`."""
    session = app.new_session(who)
    rows = json.loads(
        (
            await app.call_meta_tool(
                "search_tools", {"task_description": "vault key open each", "limit": 50}, session
            )
        )["content"][0]["text"]
    )["results"]
    searched = {
        row["uri"] if row["kind"] == "resource" else f"prompt {row['name'].partition('.')[2]}"
        for row in rows
        if "kind" in row
    }
    surface = app.surface(session)
    document = json.loads((await surface.read_resource("gatemini://backend/vault"))[1])
    listed = {row["uri"] for row in document.get("resources", ())}
    listed |= {f"prompt {row['name']}" for row in document.get("prompts", ())}
    assert listed == searched
    result = await app.call_meta_tool(
        "call_tool_chain", {"code": "return await vault.listResources();"}, session
    )
    inside = {row["uri"] for row in json.loads(result["content"][0]["text"])}
    assert inside == {each for each in listed if not each.startswith("prompt ")}
    return listed


KEY, OPEN, ANY = "vault://key", "vault://open", "vault://{name}"
ALL = {KEY, OPEN, ANY, "prompt key", "prompt open"}
READS = {"tools": ["vault.readResource"]}
GETS = {"tools": ["vault.getPrompt"]}
LIST = {"tools": ["vault.listResources"], "action": "allow"}


@pytest.mark.parametrize(
    ("rules", "default", "seen"),
    [
        ([], "allow", ALL),
        ([{**READS, "arguments": {"/uri": {"equals": KEY}}, "action": "deny"}], "allow", ALL - {KEY}),
        ([{**READS, "arguments": {"/uri": {"pattern": "key"}}, "action": "ask"}], "allow", ALL),
        ([LIST, {**READS, "arguments": {"/uri": {"equals": OPEN}}, "action": "allow"}], "deny", {OPEN, ANY}),
        ([LIST, {**READS, "arguments": {"/uri": {"equals": "x"}}, "action": "allow"}], "deny", {ANY}),
        ([{**GETS, "arguments": {"/name": {"equals": "key"}}, "action": "deny"}], "allow", ALL - {"prompt key"}),
        ([LIST, {**GETS, "arguments": {"/name": {"in": ["key"]}}, "action": "allow"}], "deny", {"prompt key"}),
        (
            [LIST, {**GETS, "arguments": {"/arguments/who": {"equals": "me"}}, "action": "allow"}],
            "deny",
            {"prompt key", "prompt open"},
        ),
        ([{**READS, "when": "args.uri == 'vault://key'", "action": "deny"}], "allow", ALL - {KEY}),
        ([{**READS, "when": "args.uri == 'vault://key' && session.calls > 5", "action": "deny"}], "allow", ALL),
    ],
)  # fmt: skip
async def test_what_is_found_is_what_may_be_read(
    app: App, rules: list[dict[str, Any]], default: str, seen: set[str]
) -> None:
    setting(app, *rules, default=default)
    assert await found(app, local("stdio")) == seen


async def test_a_grant_without_reading_finds_no_resource(app: App) -> None:
    setting(app)
    who = Principal("u", "x", transport="http", grant=Grant(deny=("*.readResource",)))
    assert await found(app, who) == {"prompt key", "prompt open"}


async def test_a_prompt_that_has_the_name_of_a_resource_can_be_got(app: App, tmp_path: Path) -> None:
    setting(app)
    _, failed, _ = await answer(app, 'return await vault.getPrompt("key", {});')
    assert not failed
    prompts = [offer.name for offer in app.manager.status("vault").offers if offer.kind == "prompt"]
    assert prompts == ["key", "open"]


async def test_a_client_that_cannot_reach_a_backend_is_not_told_its_name(app: App) -> None:
    who = Principal("u", "x", transport="http", grant=Grant(backends=frozenset({"other"})))
    for name in ("vault", "vaul"):
        with pytest.raises(ResourceNotFound) as error:
            await app.surface(app.new_session(who)).read_resource(f"gatemini://backend/{name}")
        assert "vault" not in str(error.value).replace(f"'{name}'", "")
