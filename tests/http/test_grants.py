"""What clients may reach: the same in search, lists, types and calls; rates; registrations of one session."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import LEDGER
from fixtures.http_gateway import Served, messages, result, served, text, until
from fixtures.issuer import AUDIENCE, issuer
from fixtures.running import DEMO
from gatemini.config.model.http.auth import ClientGrant
from gatemini.http.auth.client_grants import NOTHING, grant_of
from gatemini.http.auth.tokens import create
from gatemini.policy.client_grant import may_reach, refusal_by
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallFacts, Hints
from gatemini.policy.limits.rates import CallRates
from gatemini.policy.principal import Grant, Principal

pytestmark = pytest.mark.anyio


def backends(folder: Path) -> dict[str, Any]:
    command = ["-I", "-S", str(LEDGER), str(folder / "ledger")]
    return {**DEMO, "ledger": {"command": sys.executable, "args": command}}


def logins(
    folder: Path, clients: dict[str, Any] | None, **tokens: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the section `http`, headers of each client); `tokens` are tools that the client's token is limited to."""
    headers = {}
    folder.mkdir(parents=True, exist_ok=True)
    for client, tools in tokens.items():
        made, _ = create(folder / "tokens.yaml", client, (), tools, timedelta(days=1))
        headers[client] = {"Authorization": f"Bearer {made}"}
    section: dict[str, Any] = {"auth": {"tokens": {"file": "tokens.yaml"}}}
    return {**section, **({"clients": clients} if clients is not None else {})}, headers


async def meta_tool(gateway: Served, headers: dict[str, str], name: str, **arguments: Any) -> dict[str, Any]:
    message, own = gateway.modern("tools/call", {"name": name, "arguments": arguments})
    return result(await gateway.post(message, headers={**own, **headers}))


async def listed(gateway: Served, headers: dict[str, str]) -> set[str]:
    return set(json.loads(text(await meta_tool(gateway, headers, "list_tools_meta", page_size=500)))["tools"])


async def reached(gateway: Served, headers: dict[str, str], tool: str, arguments: str = "{}") -> bool:
    """Whether the tool is found everywhere and can be called; fails if these differ."""
    backend, _, name = tool.partition(".")
    task = name.replace("_", " ")
    search = text(await meta_tool(gateway, headers, "search_tools", task_description=task, limit=50))
    info = await meta_tool(gateway, headers, "tool_info", tool_name=tool)
    message, own = gateway.modern("resources/read", {"uri": f"gatemini://types/{backend}"})
    own["Mcp-Name"] = f"gatemini://types/{backend}"
    types = json.dumps(messages(await gateway.post(message, headers={**own, **headers})))
    argument = {"name": "tool_name", "value": tool}
    asked = {"ref": {"type": "ref/resource", "uri": "gatemini://tool/{tool_name}"}, "argument": argument}
    message, own = gateway.modern("completion/complete", asked)
    completed = result(await gateway.post(message, headers={**own, **headers}))["completion"]["values"]
    calls = [
        await gateway.chain(f'{{"tool": "{tool}", "arguments": {arguments}}}', headers=headers),
        await gateway.chain(f"return await {tool}({arguments});", headers=headers),
        await gateway.chain(f"const a = [1]; return a.map(() => {tool}({arguments}))[0];", headers=headers),
    ]
    shown = {
        "list": tool in await listed(gateway, headers),
        "search": tool in search,
        "info": not info["isError"],
        "types": re.search(rf"\b{name}\b", types) is not None,
        "completion": tool in completed,
        "calls": not any(call["isError"] for call in calls),
    }
    assert len(set(shown.values())) == 1, (shown, [text(call) for call in calls])
    return shown["calls"]


@pytest.mark.proves("http.clients.*.tools.allow", "http.clients.*.tools.deny", "http.clients.*.backends")
async def test_a_grant_shapes_search_lists_types_completion_and_calls_alike(tmp_path: Path) -> None:
    clients = {
        "ci-*": {"tools": {"allow": ["ledger.*"], "deny": ["ledger.write"]}},
        "only": {"backends": ["ledger"]},
        "all": {},
    }
    names: dict[str, Any] = {
        "ci-1": None,
        "only": None,
        "all": None,
        "stranger": None,
        "short": ("ledger.look",),
    }
    http, headers = logins(tmp_path, {**clients, "short": {}}, **names)
    async with served(tmp_path, backends(tmp_path), http=http) as gateway:
        write = '{"key": "x"}'
        assert await reached(gateway, headers["ci-1"], "ledger.look")
        assert not await reached(gateway, headers["ci-1"], "ledger.write", write)
        assert await reached(gateway, headers["only"], "ledger.write", write)
        assert await reached(gateway, headers["short"], "ledger.look")
        assert not await reached(gateway, headers["short"], "ledger.write", write)
        assert await listed(gateway, headers["stranger"]) == set()
        assert await listed(gateway, headers["ci-1"]) == {"ledger.look"}
        assert {each.partition(".")[0] for each in await listed(gateway, headers["only"])} == {"ledger"}
        assert len(await listed(gateway, headers["all"])) > 5
        refused = text(
            await gateway.chain(
                f'{{"tool": "ledger.write", "arguments": {write}}}', headers=headers["stranger"]
            )
        )
        assert "PolicyDenied" in refused
    assert (tmp_path / "ledger").read_text().split() == ["x"] * 3


async def test_a_client_sees_no_calls_of_others_and_no_backend_that_it_cannot_reach(tmp_path: Path) -> None:
    clients = {"one": {}, "two": {"backends": ["ledger"]}}
    http, headers = logins(tmp_path, clients, one=None, two=None)
    off = {"ghost": {"command": "no-such-program-here"}}
    async with served(tmp_path, {**backends(tmp_path), **off}, http=http) as gateway:
        await gateway.chain('{"tool": "demo.echo", "arguments": {}}', headers=headers["one"])
        await gateway.chain('{"tool": "ledger.look", "arguments": {}}', headers=headers["two"])

        async def read(client: str, name: str) -> str:
            uri = f"gatemini://{name}"
            message, own = gateway.modern("resources/read", {"uri": uri})
            own["Mcp-Name"] = uri
            answer = await gateway.post(message, headers={**own, **headers[client]})
            return str(result(answer)["contents"][0]["text"])

        for name in ("recent", "stats", "health", "backends", "overview"):
            seen = await read("two", name)
            assert not [word for word in ("demo", "ghost") if word in seen], (name, seen)
        for method, count in (("tools/list", "ledger (2)"), ("server/discover", "2 tools of 1 backend")):
            message, own = gateway.modern(method)
            said = (await gateway.post(message, headers={**own, **headers["two"]})).text
            assert count in said
            assert not [word for word in ("demo", "ghost") if word in said], (method, said)
        assert "demo.echo" in await read("one", "recent")
        assert "ledger.look" not in await read("one", "recent")
        assert {"demo", "ghost", "ledger"} <= set(json.loads(await read("one", "health"))["backends"])


async def test_a_client_is_not_notified_of_calls_to_a_backend_that_it_cannot_reach(tmp_path: Path) -> None:
    http, headers = logins(tmp_path, {"one": {}, "two": {"backends": ["ledger"]}}, one=None, two=None)
    async with served(tmp_path, backends(tmp_path), http=http) as gateway:
        session = await gateway.handshake(headers["two"])
        for number, name in enumerate(("demo", "ledger"), 90):
            params = {"uri": f"gatemini://backend/{name}"}
            message = {"jsonrpc": "2.0", "id": number, "method": "resources/subscribe", "params": params}
            assert result(await gateway.post(message, headers=session)) == {}
        listening = {**session, "accept": "text/event-stream"}
        async with gateway.http.stream("GET", gateway.url, headers=listening) as stream:
            for tool in ("demo.echo", "ledger.look"):
                await gateway.chain(f'{{"tool": "{tool}", "arguments": {{}}}}', headers=headers["one"])
            updated = [line async for line in until_data(stream.aiter_lines())][-1]
    assert json.loads(updated.removeprefix("data:"))["params"]["uri"] == "gatemini://backend/ledger"


async def until_data(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith("data:") and "updated" in line:
            return


async def test_changed_clients_count_within_a_second_without_a_restart(tmp_path: Path) -> None:
    http, headers = logins(tmp_path, {"ci-*": {}}, **{"ci-1": None})
    async with served(tmp_path, backends(tmp_path), http=http) as gateway:
        assert await listed(gateway, headers["ci-1"])
        config = json.loads((tmp_path / "config.yaml").read_text())
        config["http"]["clients"] = {"other": {}}
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        await until(lambda: "other" in gateway.server.app.loaded.config.http.clients)
        assert await listed(gateway, headers["ci-1"]) == set()


@pytest.mark.proves("http.clients.*.calls_per_minute")
async def test_calls_over_the_rate_of_a_client_are_refused_whatever_session_they_are_in(
    tmp_path: Path,
) -> None:
    http, headers = logins(tmp_path, {"*": {"calls_per_minute": 3}}, one=None, two=None)
    async with served(tmp_path, backends(tmp_path), http=http) as gateway:
        look = '{"tool": "ledger.look", "arguments": {}}'
        found = [await gateway.chain(look, session=f"s{n}", headers=headers["one"]) for n in range(5)]
        assert [each["isError"] for each in found] == [False, False, False, True, True]
        assert "3 calls a minute; the next may be made in" in text(found[-1])
        assert not (await gateway.chain(look, headers=headers["two"]))["isError"]


def facts(principal: Principal, tool: str = "tool", backend: str = "shop") -> CallFacts:
    return CallFacts(backend, tool, f"{backend}.{tool}", {}, (), Hints(), principal)


def test_a_rate_allows_a_burst_up_to_the_limit_and_then_the_limit_each_minute() -> None:
    now = [0.0]
    rates = CallRates(lambda: now[0])
    who = facts(Principal("p", grant=Grant(calls_per_minute=60)))
    made = 0
    for _ in range(6000):  # ten minutes
        now[0] += 0.1
        if rates.refusal(who) is None:
            rates.count(who)
            made += 1
    assert made == pytest.approx(600 + 60, abs=6)
    now[0] += 3600
    assert rates.refusal(who) is None


def test_all_patterns_that_match_and_the_limits_of_the_token_hold_together() -> None:
    clients = {
        pattern: ClientGrant.model_validate(grant)
        for pattern, grant in {
            "ci-*": {
                "tools": {"allow": ["shop.*", "notes.read"]},
                "backends": ["shop", "notes"],
                "calls_per_minute": 9,
            },
            "*-1": {"tools": {"deny": ["*.delete"]}, "backends": ["shop"], "calls_per_minute": 5},
            "free": {},
        }.items()
    }
    grant = grant_of(clients, "ci-1", ("shop.get*", "shop.delete", "notes.*"))
    assert grant is not None
    assert grant.calls_per_minute == 5

    def allowed(name: str, given: Grant | None = grant) -> bool:
        backend, _, tool = name.partition(".")
        assert given is not None
        decision: Decision | None = refusal_by(given, facts(Principal("p"), tool, backend))
        return decision is None

    assert [name for name in ("shop.get", "shop.put", "shop.delete", "notes.read") if allowed(name)] == [
        "shop.get"
    ]
    assert grant_of(clients, "nobody", None) == NOTHING
    assert not allowed("shop.get", NOTHING)
    assert grant_of(clients, "free", None) is None
    assert grant_of(None, "anybody", None) is None
    assert grant_of({}, "anybody", None) == NOTHING
    one = grant_of(clients, "x-1", None)
    assert [may_reach(each, "shop") for each in (None, one, grant, NOTHING)] == [True, True, False, False]
    assert not may_reach(one, "other")


async def test_a_registered_backend_is_seen_by_its_session_only_and_dies_with_it(tmp_path: Path) -> None:
    template = {
        "name": "mine",
        "command": sys.executable,
        "args": ["-I", "-S", str(LEDGER), str(tmp_path / "l")],
    }
    registration = {"stdio": "allow", "allow_commands": ["*"]}
    async with served(tmp_path, registration=registration) as gateway:
        sessions = [await gateway.handshake(), await gateway.handshake()]

        async def call(session: dict[str, str], name: str, **arguments: Any) -> dict[str, Any]:
            params = {"name": name, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": next(gateway.ids), "method": "tools/call", "params": params}
            return result(await gateway.post(message, headers=session))

        made = await call(sessions[0], "register_manual", manual_call_template=template)
        assert not made["isError"], text(made)
        look = "return await mine.look({});"
        assert not (await call(sessions[0], "call_tool_chain", code=look))["isError"]
        assert "mine.look" in text(await call(sessions[0], "list_tools_meta", page_size=500))
        assert "mine.look" not in text(await call(sessions[1], "list_tools_meta", page_size=500))
        for code in (look, '{"tool": "mine.look", "arguments": {}}'):
            assert (await call(sessions[1], "call_tool_chain", code=code))["isError"]
        assert (await gateway.chain(look))["isError"]
        taken = await call(sessions[1], "register_manual", manual_call_template=template)
        assert "cannot be used now" in text(taken)
        assert (await call(sessions[1], "deregister_manual", manual_name="mine"))["isError"]
        await gateway.http.delete(gateway.url, headers=sessions[0])
        await until(lambda: "mine" not in gateway.server.app.manager.names())
        assert not (await call(sessions[1], "register_manual", manual_call_template=template))["isError"]
        assert not (await call(sessions[1], "deregister_manual", manual_name="mine"))["isError"]


async def test_a_client_registers_nothing_that_its_grant_leaves_out(tmp_path: Path) -> None:
    http, headers = logins(tmp_path, {"known": {"backends": ["demo"]}}, known=None, stranger=None)
    registration = {"stdio": "allow", "allow_commands": ["*"]}
    template = {"name": "mine", "command": sys.executable, "args": ["-c", "import time; time.sleep(9)"]}
    async with served(tmp_path, http=http, registration=registration) as gateway:
        for client in ("known", "stranger"):
            found = await meta_tool(
                gateway, headers[client], "register_manual", manual_call_template=template
            )
            assert "the client's grant has no backend 'mine'" in text(found)


async def test_rules_see_the_claims_of_a_token(tmp_path: Path) -> None:
    rules = [
        {"tools": ["demo.add"], "when": "client.claims.roles.exists(r, r == 'admin')", "action": "allow"},
        {"tools": ["demo.*"], "when": "client.claims.sub == 'user-1'", "scopes": ["read"], "action": "allow"},
    ]
    async with issuer() as found:
        oauth = {"issuer": found.url, "audience": AUDIENCE}
        async with served(
            tmp_path, DEMO, http={"auth": {"oauth": oauth}}, policy={"default": "deny", "rules": rules}
        ) as gateway:
            claims: list[tuple[dict[str, Any], set[str]]] = [
                ({"roles": ["admin"], "sub": "user-2"}, {"demo.add"}),
                ({"roles": ["reader"], "sub": "user-2"}, set()),
                ({"sub": "user-2"}, set()),
            ]
            for given, tools in claims:
                headers = {"Authorization": f"Bearer {found.token(**given)}"}
                assert await listed(gateway, headers) == tools
                answer = await gateway.chain(
                    '{"tool": "demo.add", "arguments": {"a": 1, "b": 2}}', headers=headers
                )
                assert answer["isError"] is not bool(tools)
            headers = {"Authorization": f"Bearer {found.token(scope='read', roles=[])}"}
            assert len(await listed(gateway, headers)) > 5
