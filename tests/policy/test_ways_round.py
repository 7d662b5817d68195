"""Ways round the door: whatever code does to reach what the policy denies, nothing of it arrives at a real server."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.direct import TESTS, gateway, write_config
from fixtures.running import answer, client_of, threaded_app
from gatemini.app import App
from gatemini.config.model.policy import PolicyConfig, Rule

pytestmark = pytest.mark.anyio

SERVER = TESTS / "fixtures" / "recording_server.py"
NAMES = ("github", "hub", "bank", "mail", "vault", "files-eu")
SPACES = {"hub": "forge", "bank": "till"}
POLICY: dict[str, Any] = {
    "rules": [
        {"tools": ["github.delete*", "forge.*", "bank.*", "vault.*", "files-eu.push"], "action": "deny"},
        {"tools": ["composite.nightly"], "action": "deny"},
        {"tools": ["mail.send"], "arguments": {"/to": {"pattern": r"@example\.com$"}}, "action": "allow"},
        {"tools": ["mail.pay"], "arguments": {"/amount": {"max": 100}}, "action": "allow"},
        {"tools": ["mail.send", "mail.pay"], "action": "deny"},
        {"tools": ["mail.read"], "arguments": {"/path": {"pattern": "secret"}}, "action": "deny"},
        {"tools": ["mail.push"], "arguments": {"/force": {"equals": True}}, "action": "deny"},
    ]
}
COMPOSITES = {
    "nightly": "return await mail.push({});",
    "hidden": "return await github.delete_repo({});",
    "deeper": "return await composite.hidden({});",
    "catching": "try { await github.delete_repo({}); } catch (e) {} return await github['delete-branch']({});",
    "passing": "return await mail.send({ to: args.to });",
}
ALIASES = {"wipe": "github.delete_repo", "wipe2": "hub.push", "publish": "forge.push"}


def backends(ledger: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        name: {
            "command": sys.executable,
            "args": ["-I", "-S", str(SERVER), str(ledger), name],
            **({"namespace": SPACES[name]} if name in SPACES else {}),
        }
        for name in NAMES
    }
    for name in ("broken", "broken-2"):
        found[name] = {"command": "/nonexistent/program", "fallback_chain": ["vault", "github", "bank"]}
    found["broken-2"]["namespace"] = "wreck"
    return found


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledger") / "calls"


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory, ledger: Path) -> AsyncIterator[App]:
    opened = {
        "http": "allow",
        "stdio": "allow",
        "cli": "allow",
        "allow_commands": ["*"],
        "allow_hosts": ["*"],
    }
    async with threaded_app(
        tmp_path_factory.mktemp("round"),
        backends(ledger),
        policy=POLICY,
        aliases=ALIASES,
        registration=opened,
        composite_tools={name: {"code": code} for name, code in COMPOSITES.items()},
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def _emptied(ledger: Path) -> None:
    ledger.write_text("")


def lines(ledger: Path) -> list[str]:
    return ledger.read_text("utf-8").splitlines()


SPELLINGS = [
    '{"tool": "github.delete_repo", "arguments": {}}',
    '{"tool": "github.delete_repo"}',
    "await github.delete_repo({})",
    "const x = await github.delete_repo({}); return x;",
    '{"tool": "wipe", "arguments": {}}',
    '{"tool": "wipe2", "arguments": {}}',
    '{"tool": "publish", "arguments": {}}',
    '[{"tool": "github.delete_repo"}, {"tool": "wipe"}, {"tool": "hub.push"}, {"tool": "till.pay"}]',
    "return await github.delete_repo.raw({});",
    "return await __backends['github'].delete_repo({});",
    "return await __backends['github'].call('delete_repo', {});",
    "return await __backends.github['delete_repo'].raw({});",
    'return await github["delete_repo"]({});',
    'return await github["delete\\u005frepo"]({});',
    "return await github.delete\\u005frepo({});",
    "return await github.delete_branch({});",
    'return await github["delete-branch"]({});',
    '{"tool": "github.delete_branch"}',
    '{"tool": "github.delete-branch"}',
    '{"tool": " github.delete_repo "}',
    '{"tool": "GitHub.Delete_Repo"}',
    '{"tool": "github.d\\u0435lete_repo"}',
    '{"tool": "\\uff47ithub.delete_repo"}',
    '{"tool": "github.delete\\u200b_repo"}',
    '{"tool": "github.delete_repo\\u0000"}',
    '{"tool": "github.list_repos", "tool": "github.delete_repo"}',
    '{"tool": "github.github.delete_repo"}',
    "return await github['d\u0435lete_repo']({});",
    "return await g\u0456thub.delete_repo({});",
    "return await github['delete\u200b_repo']({});",
    "return await forge.push({});",
    "return await __backends['hub'].push({});",
    '{"tool": "hub.push"}',
    '{"tool": "forge.push"}',
    "return await till.pay({ amount: 1 });",
    "return await __backends['till'].pay({ amount: 1 });",
    '{"tool": "bank.pay", "arguments": {"amount": 1}}',
    "return await files_eu.push({});",
    "return await __backends['files-eu'].push({});",
    '{"tool": "files_eu.push"}',
]
INSIDE = [
    "return await eval('github.delete_repo({})');",
    "return await new Function('return github.delete_repo({})')();",
    "await Promise.allSettled([1, 2, 3].map(() => github.delete_repo({})));",
    "await new Promise((r) => setTimeout(() => github.delete_repo({}).catch(r), 1));",
    "github.delete_repo({}).catch(() => {}); await github.delete_repo({ n: 2 }).catch(() => {}); return 1;",
    "return await github['del' + 'ete_repo']({});",
    "return await Reflect.get(github, 'delete_repo')({});",
    "const { delete_repo } = github; return await delete_repo({});",
    "return await github.delete_repo.call(mail, {});",
    "return await github.delete_repo.apply(null, [{}]);",
    "return await github.delete_repo.bind({})({});",
    "const own = { ...github }; return await own.delete_repo({});",
    "return await Object.create(github).delete_repo({});",
    "for (let i = 0; i < 5; i++) try { await github.delete_repo({ i }); } catch (e) {}",
    "return await gatemini.github.delete_repo({});",
    "return await gatemini.call_tool_chain({ code: 'await github.delete_repo({})' });",
    "// @dry-run\nreturn await github.delete_repo({});",
    "return await composite.hidden({});",
    "return await composite.deeper({});",
    "return await composite.catching({});",
    "return await composite.hidden.raw({});",
    "return await composite.passing({ to: 'a@example.org' });",
    "return await composite.nightly({});",
    "return await __backends['__composite'].nightly({});",
    '{"tool": "composite.nightly"}',
    '{"tool": "__composite.nightly"}',
    '{"tool": "composite.deeper"}',
    "return await broken.delete_repo({});",
    "return await broken.delete_repo.raw({});",
    '{"tool": "broken.delete_repo"}',
    "return await wreck.pay({ amount: 1 });",
    "const names = ['vault', 'bank', 'hub']; return await Promise.any(names.map((n) => __backends[n].push({})));",
]
READING = [
    'return await vault.readResource("vault://key");',
    'return await vault.readResource({ uri: "vault://key" });',
    'return await __backends["vault"].call("readResource", "vault://key");',
    '{"tool": "vault.readResource", "arguments": {"uri": "vault://key"}}',
    'return await vault.getPrompt("key", {});',
    '{"tool": "vault.getPrompt", "arguments": {"name": "key"}}',
    "return await vault.listResources();",
    'return await till.readResource("vault://key");',
    'return await bank.readResource("vault://key");',
    'return await forge.getPrompt("key");',
    'return await __backends["hub"].readResource("vault://key");',
    "return await broken.readResource('vault://key');",
]
ARGUMENTS = [
    "await mail.send({ to: 'a@example.org' })",
    "await mail.send({ to: ['a@example.com', 'b@example.org'] })",
    "await mail.send({ to: [['b@example.org'], 'a@example.com'] })",
    "await mail.send({ to: 'b@example.org\\n@example.com\\n' })",
    "await mail.send({ to: { address: 'b@example.org', toString: 'a@example.com' } })",
    "await mail.send({ To: 'a@example.com', TO: 'b@example.org' })",
    "await mail.send({ ' to': 'a@example.com' })",
    'return await mail.send(\'{"to": "b@example.org"}\');',
    "return await mail.send('b@example.org');",
    "return await mail.send([{ to: 'b@example.org' }]);",
    "return await mail.send({ arguments: { to: 'a@example.com' }, bcc: 'b@example.org' });",
    '{"tool": "mail.send", "arguments": {"to": "a@example.com", "to": "b@example.org"}}',
    '{"tool": "mail.send", "arguments": {"__proto__": {"to": "a@example.com"}}}',
    "return await mail.send({ toJSON() { return { to: 'b@example.org' }; }, to: 'a@example.com' });",
    "return await mail.send(new Proxy({}, { ownKeys: () => ['to'], get: () => 'b@example.org', "
    "getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) }));",
    "return await mail.send({ to: new String('b@example.org') });",
    "return await mail.send({ to: '\\ud800@example.org' });",
    "return await mail.send({ to: 'x'.repeat(100000) + '@example.org' });",
    "await mail.pay({ amount: 1000 })",
    "await mail.pay({ amount: '50' })",
    "await mail.pay({ amount: 1e3 })",
    "return await mail.pay({ amount: 1000n });",
    "return await mail.pay({ amount: 18446744073709551617n });",
    "return await mail.pay({ amount: true });",
    "return await mail.pay({ amount: [50, 1000] });",
    "return await mail.pay({ amount: NaN });",
    "return await mail.pay({ amount: null });",
    '{"tool": "mail.pay", "arguments": {"amount": -1e999}}',
    "return await mail.pay('{\"amount\": -1e999}');",
    "return await mail.pay({});",
    "await mail.read({ path: 'a/secret/b' })",
    "await mail.read({ path: ['a', ['secret']] })",
    "await mail.read({ path: { p: 'secret' } })",
    "await mail.read({ path: ['x', 5] })",
    "await mail.push({ force: true })",
    "await mail.push({ force: 'true' })",
    "await mail.push({ force: 1 })",
    "await mail.push({ force: [true] })",
]
WAYS = [*SPELLINGS, *INSIDE, *READING, *ARGUMENTS]


def test_there_are_more_than_sixty_ways() -> None:
    assert len(set(WAYS)) == len(WAYS) > 60


@pytest.mark.parametrize("code", WAYS)
async def test_nothing_arrives(app: App, ledger: Path, code: str) -> None:
    text, _, meta = await answer(app, code)
    assert lines(ledger) == [], text
    assert not any(call["outcome"] == "ok" for call in meta["calls"] if "composite" not in call["tool"])


ALLOWED = [
    ("await github.list_repos({})", "github tools/call list_repos {}"),
    ("await mail.send({ to: 'a@example.com' })", 'mail tools/call send {"to": "a@example.com"}'),
    ("await mail.send({ to: ['a@example.com'] })", 'mail tools/call send {"to": ["a@example.com"]}'),
    ("await mail.pay({ amount: 99 })", 'mail tools/call pay {"amount": 99}'),
    ("await mail.read({ path: 'a' })", 'mail tools/call read {"path": "a"}'),
    ("await mail.push({ force: false })", 'mail tools/call push {"force": false}'),
    ("return await mail.readResource('vault://key');", "mail resources/read vault://key null"),
    (
        "return await composite.passing({ to: 'a@example.com' });",
        'mail tools/call send {"to": "a@example.com"}',
    ),
    (
        "let n = 0; return await mail.send({ get to() { return n++ ? 'a@example.com' : 'b@example.org'; } });",
        'mail tools/call send {"to": "a@example.com"}',
    ),
    ("return await broken.list_repos({});", "github tools/call list_repos {}"),
]


@pytest.mark.parametrize(("code", "line"), ALLOWED)
async def test_what_is_allowed_arrives_as_it_was_judged(app: App, ledger: Path, code: str, line: str) -> None:
    """Without it, a gateway that sends nothing at all would pass."""
    text, failed, _ = await answer(app, code)
    assert not failed, text
    assert lines(ledger) == [line]


async def test_the_allowed_part_of_a_batch_arrives_alone(app: App, ledger: Path) -> None:
    text, _, _ = await answer(
        app, '[{"tool": "github.delete_repo"}, {"tool": "github.list_repos"}, {"tool": "vault.push"}]'
    )
    assert lines(ledger) == ["github tools/call list_repos {}"]
    assert text.count("is denied by policy.rules[0]") == 2


# -- other ways in ------------------------------------------------------------------------------------------


async def test_a_backend_cannot_be_registered_over_or_beside_the_name_of_a_denied_one(
    app: App, ledger: Path
) -> None:
    for name in ("github", "files_eu", "forge", "till", "composite", "wipe"):
        template = {
            "name": name,
            "command": sys.executable,
            "args": ["-I", "-S", str(SERVER), str(ledger), "again"],
        }
        result = await app.call_meta_tool("register_manual", {"manual_call_template": template})
        assert result["isError"], name
    beside = {"name": "own", "namespace": "github", "command": sys.executable}
    beside["args"] = ["-I", "-S", str(SERVER), str(ledger), "again"]  # type: ignore[assignment]
    result = await app.call_meta_tool("register_manual", {"manual_call_template": beside})
    assert result["isError"]
    await answer(app, "return await github.delete_repo({});")
    assert lines(ledger) == []


async def test_a_registered_backend_has_no_tag_for_rules(app: App, ledger: Path) -> None:
    """An agent writes the template, and would give it the tag of what is allowed."""
    template = {
        "name": "tagged",
        "tags": ["safe"],
        "command": sys.executable,
        "args": ["-I", "-S", str(SERVER), str(ledger), "tagged"],
    }
    door = app.chain.door
    assert door is not None
    session = app.new_session()
    result = await app.call_meta_tool("register_manual", {"manual_call_template": template}, session)
    assert not result["isError"], result
    door.set_policy(PolicyConfig(default="deny", rules=(Rule(tags=("safe",), action="allow"),)))
    try:
        result = await app.call_meta_tool("call_tool_chain", {"code": "await tagged.push({})"}, session)
    finally:
        door.set_policy(PolicyConfig.model_validate(POLICY))
        app.end_session(session)
    assert "PolicyDenied: tagged.push is denied by policy.default" in str(result)
    assert lines(ledger) == []


async def test_the_hints_of_a_registered_backend_are_never_trusted(app: App, ledger: Path) -> None:
    """An agent chooses the name, and would take one that a glob trusts."""
    policy = {"read_only": True, "trust_annotations": ["*"], "rules": [{"tools": ["*"], "action": "allow"}]}
    door, session = app.chain.door, app.new_session()
    assert door is not None
    template = {
        "name": "mine",
        "command": sys.executable,
        "args": ["-I", "-S", str(SERVER), str(ledger), "mine"],
    }
    result = await app.call_meta_tool("register_manual", {"manual_call_template": template}, session)
    assert not result["isError"], result
    door.set_policy(PolicyConfig.model_validate(policy))
    try:
        for backend in ("mine", "github"):
            code = {"code": f"await {backend}.list_repos({{}})"}
            await app.call_meta_tool("call_tool_chain", code, session)
    finally:
        door.set_policy(PolicyConfig.model_validate(POLICY))
        app.end_session(session)
    assert lines(ledger) == ["github tools/call list_repos {}"]


async def test_a_client_of_the_protocol_meets_the_same_door(app: App, ledger: Path) -> None:
    async with client_of(app) as client:
        for code in SPELLINGS[:4]:
            result = await client.call_tool("call_tool_chain", {"code": code})
            assert result.is_error
        await client.call_tool("github.delete_repo", {})
        await client.read_resource("gatemini://tool/github.list_repos")
    assert lines(ledger) == []


async def test_a_process_of_its_own_meets_the_same_door(tmp_path: Path) -> None:
    ledger = tmp_path / "calls"
    ledger.write_text("")
    top = {"policy": POLICY, "aliases": ALIASES}
    async with gateway(tmp_path, backends(ledger), top=top) as client:
        for code in (SPELLINGS[0], SPELLINGS[3], READING[0], ARGUMENTS[0]):
            result = await client.call_tool("call_tool_chain", {"code": code})
            assert result.is_error
            assert "PolicyDenied" in str(result.content)
        await client.call_tool("call_tool_chain", {"code": "await github.list_repos({})"})
    assert lines(ledger) == ["github tools/call list_repos {}"]


@pytest.mark.long
async def test_the_command_line_meets_the_same_door(tmp_path: Path) -> None:
    ledger = tmp_path / "calls"
    ledger.write_text("")
    some = {name: backend for name, backend in backends(ledger).items() if name in ("github", "mail")}
    config = write_config(tmp_path, some, policy={"rules": [*POLICY["rules"], CLI_RULE]})
    command = [sys.executable, "-m", "gatemini", "-c", str(config), "call"]
    for words in (["github.delete_repo", "{}"], ["mail.read", "path=x"]):
        ran = await anyio.run_process([*command, *words], check=False)
        assert ran.returncode == 1
        assert b"PolicyDenied" in ran.stderr
    await anyio.run_process([*command, "github.list_repos"])
    assert lines(ledger) == ["github tools/call list_repos {}"]


CLI_RULE = {"tools": ["mail.*"], "transport": ["cli"], "clients": ["gatemini"], "action": "deny"}
