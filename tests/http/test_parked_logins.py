"""A parked chain of a client over HTTP goes on by the login of the request that continues it."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.types import Message

from fixtures.daemons import LEDGER
from fixtures.http_gateway import BOTH, Served, messages, result, served, text, until
from fixtures.running import DEMO
from gatemini.http.auth.login import TokenFacts
from gatemini.http.auth.tokens import TokenEntry, create, revoke
from gatemini.http.replicas.forwarding import Forwarded
from gatemini.policy.principal import Principal

pytestmark = pytest.mark.anyio

CONFIRMED = 'const ok = await demo.confirm({ q: "go on?" }); await ledger.write({ key: "late" }); return ok;'
WRITE = '{"tool": "ledger.write", "arguments": {"key": "late"}}'
IN_THE_BACKGROUND = """const ok = demo.confirm({ q: "go on?" });
let failed = "";
while (!failed) {
  await sleep(20);
  try { await ledger.write({ key: "x" }); } catch (e) { failed = e.message; }
}
await ok;
return failed;"""


def backends(folder: Path) -> dict[str, Any]:
    command = ["-I", "-S", str(LEDGER), str(folder / "ledger")]
    return {**DEMO, "ledger": {"command": sys.executable, "args": command}}


def login(folder: Path, tools: tuple[str, ...] | None = None) -> tuple[dict[str, str], TokenEntry]:
    """The header of a new token of the client `ci`, and its entry in the file."""
    token, entry = create(folder / "tokens.yaml", "ci", (), tools, timedelta(days=1))
    return {"Authorization": f"Bearer {token}"}, entry


HTTP: dict[str, Any] = {"auth": {"tokens": {"file": "tokens.yaml"}}, "clients": {"ci": {}}}


async def call(gateway: Served, headers: dict[str, str], name: str, arguments: Any, **more: Any) -> Any:
    message, own = gateway.modern("tools/call", {"name": name, "arguments": arguments, **more}, session="s1")
    can = {"elicitation": {"form": {}}}
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = can
    return await gateway.post(message, headers={**own, **headers})


async def parked(gateway: Served, headers: dict[str, str], name: str, arguments: Any) -> dict[str, Any]:
    """Call a meta-tool until it asks the user; what the client sends with its answer."""
    asked = result(await call(gateway, headers, name, arguments))
    assert asked.get("resultType") == "input_required", asked
    yes = {key: {"action": "accept", "content": {"ok": True}} for key in asked["inputRequests"]}
    return {"requestState": asked["requestState"], "inputResponses": yes}


def written(folder: Path) -> list[str]:
    return (folder / "ledger").read_text().split() if (folder / "ledger").exists() else []


@pytest.mark.parametrize("code", [CONFIRMED, WRITE])
async def test_a_grant_that_was_narrowed_meanwhile_holds_for_its_calls(tmp_path: Path, code: str) -> None:
    """Also for the call about which the user was asked."""
    headers, _ = login(tmp_path)
    policy = {"rules": [{"tools": ["ledger.write"], "action": "ask"}]} if code == WRITE else {}
    async with served(tmp_path, backends(tmp_path), http=HTTP, policy=policy) as gateway:
        answer = await parked(gateway, headers, "call_tool_chain", {"code": code})
        config = json.loads((tmp_path / "config.yaml").read_text())
        config["http"]["clients"] = {"ci": {"tools": {"deny": ["ledger.write"]}}}
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        await until(lambda: gateway.server.app.loaded.config.http.clients["ci"].tools.deny)
        said = await call(gateway, headers, "call_tool_chain", {"code": code}, **answer)
        assert "PolicyDenied: ledger.write is denied by the client's grant" in text(result(said))
    assert written(tmp_path) == []


async def test_a_token_with_less_rights_continues_it_with_less_rights(tmp_path: Path) -> None:
    wide, _ = login(tmp_path)
    narrow, _ = login(tmp_path, ("ledger.look", "demo.*"))
    async with served(tmp_path, backends(tmp_path), http=HTTP) as gateway:
        answer = await parked(gateway, wide, "call_tool_chain", {"code": CONFIRMED})
        said = await call(gateway, narrow, "call_tool_chain", {"code": CONFIRMED}, **answer)
        assert "PolicyDenied: ledger.write" in text(result(said))
        answer = await parked(gateway, narrow, "call_tool_chain", {"code": CONFIRMED})
        said = await call(gateway, wide, "call_tool_chain", {"code": CONFIRMED}, **answer)
        assert not result(said)["isError"], text(result(said))
    assert written(tmp_path) == ["late"]


async def test_a_revoked_token_ends_what_it_does_in_the_background(tmp_path: Path) -> None:
    headers, entry = login(tmp_path)
    other, _ = login(tmp_path)
    code = {"code": IN_THE_BACKGROUND}
    async with served(tmp_path, backends(tmp_path), http=HTTP) as gateway:
        answer = await parked(gateway, headers, "call_tool_chain", code)
        await until(lambda: written(tmp_path))
        revoke(tmp_path / "tokens.yaml", entry.id)
        await until(lambda: gateway.server.app.tracker.load(60)["failed"], "a call is refused")
        said = await call(gateway, other, "call_tool_chain", code, **answer)
        assert "is denied by the client's login: it has ended" in text(result(said))
        assert messages(await call(gateway, headers, "call_tool_chain", code))[0].get("result") is None


async def test_a_registration_is_refused_that_the_grant_leaves_out_once_the_user_has_agreed(
    tmp_path: Path,
) -> None:
    wide, _ = login(tmp_path)
    narrow, _ = login(tmp_path, ("ledger.look",))
    args = ["-I", "-S", str(LEDGER), str(tmp_path / "mine")]
    arguments = {"manual_call_template": {"name": "mine", "command": sys.executable, "args": args}}
    async with served(tmp_path, backends(tmp_path), http=HTTP) as gateway:
        answer = await parked(gateway, wide, "register_manual", arguments)
        said = await call(gateway, narrow, "register_manual", arguments, **answer)
        assert "the client's grant has no backend 'mine'" in text(result(said))
        assert "mine" not in gateway.server.app.manager.names()


async def test_a_forwarded_request_is_refused_by_a_replica_that_knows_its_token_as_revoked(
    tmp_path: Path,
) -> None:
    """The replica that has forwarded it may not know yet."""
    (headers, kept), (_, ended) = login(tmp_path), login(tmp_path)
    revoke(tmp_path / "tokens.yaml", ended.id)
    who = Principal(json.dumps(["gatemini", "ci", "ci"]), "ci", transport="http")
    over = TokenFacts(kept.id, expires=1.0)
    statuses: list[int] = []

    async def send(part: Message) -> None:
        statuses.extend([part["status"]] if part["type"] == "http.response.start" else [])

    async with served(tmp_path, backends(tmp_path), http=HTTP) as gateway:
        await call(gateway, headers, "list_tools", {})
        for token in (TokenFacts(kept.id), TokenFacts(ended.id), over, TokenFacts("0123456789ab")):
            message, own = gateway.modern("tools/list")
            fields = {**own, "accept": BOTH, "content-type": "application/json"}
            raw = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
            request = Forwarded(who, "POST", raw, json.dumps(message).encode(), True, token)
            await gateway.server.endpoint.serve_forwarded(request, anyio.sleep_forever, send)
    assert statuses == [200, 401, 401, 200]
