"""Gateways over HTTP that share a real Redis server: limits and logins of all replicas, and what holds while it is down."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from fixtures.daemons import LEDGER
from fixtures.http_gateway import Served, result, served, text, until
from fixtures.redis_server import RedisServer, redis_server
from fixtures.replicas import cluster
from gatemini.daemon import console
from gatemini.daemon.hello import Hello
from gatemini.http.auth import tokens
from gatemini.http.control import answer_control

__all__ = ["redis_server"]
pytestmark = pytest.mark.anyio
LOOK = '{"tool": "ledger.look", "arguments": {}}'
WRITE = '{"tool": "ledger.write", "arguments": {"key": "x"}}'


def bearer(folder: Path, client: str) -> tuple[dict[str, str], str]:
    """(headers, id) of a new token."""
    made, entry = tokens.create(folder / "tokens.yaml", client, (), None, timedelta(days=1))
    return {"Authorization": f"Bearer {made}"}, entry.id


def section(**clients: Any) -> dict[str, Any]:
    return {"auth": {"tokens": {"file": "tokens.yaml"}}, **({"clients": clients} if clients else {})}


@asynccontextmanager
async def replica(
    folder: Path, server: RedisServer, http: dict[str, Any] | None = None, **top: Any
) -> AsyncIterator[Served]:
    state = {**server.config, **top.pop("state", {})}
    ledger = {"command": "python3", "args": ["-I", "-S", str(LEDGER), str(folder / "ledger")]}
    async with served(folder, {"ledger": ledger}, http=http, state=state, **top) as gateway:
        yield gateway


async def ready(gateway: Served) -> tuple[int, str]:
    answer = await gateway.http.get(f"{gateway.base}/readyz")
    return answer.status_code, answer.json()["status"]


async def stop(server: RedisServer, *gateways: Served) -> None:
    await anyio.to_thread.run_sync(server.stop)
    await until(lambda: all(each.server.app.state.problem is not None for each in gateways))


async def start(server: RedisServer, *gateways: Served) -> None:
    await anyio.to_thread.run_sync(server.start)
    await until(lambda: all(each.server.app.state.problem is None for each in gateways))


@pytest.mark.proves(
    "http.clients.*.budget.calls", "http.clients.*.budget.writes", "http.clients.*.budget.period"
)
async def test_budgets_of_clients_are_spent_on_all_replicas_together(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    clients = {
        "calls": {"budget": {"calls": 2}},
        "writes": {"budget": {"writes": 1}},
        "brief": {"budget": {"calls": 1, "period": "300ms"}},
    }
    headers = {name: bearer(tmp_path, name)[0] for name in clients}
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "tokens.yaml").write_text((tmp_path / "tokens.yaml").read_text())
    (tmp_path / "two" / "tokens.yaml").chmod(0o600)
    trusted = {"trust_annotations": ["ledger"]}
    async with (
        replica(tmp_path, redis_server, section(**clients), policy=trusted) as a,
        replica(tmp_path / "two", redis_server, section(**clients), policy=trusted) as b,
    ):

        async def call(at: Served, name: str, code: str) -> str:
            found = await at.chain(code, headers=headers[name])
            return text(found) if found["isError"] else ""

        assert [await call(each, "calls", LOOK) for each in (a, b)] == ["", ""]
        assert "http.clients.budget: the client has made its 2 calls within 86400 s" in await call(
            a, "calls", LOOK
        )
        assert await call(a, "writes", WRITE) == ""
        assert "its 1 calls that may change something" in await call(b, "writes", WRITE)
        assert await call(b, "writes", LOOK) == ""
        assert await call(a, "brief", LOOK) == ""
        with anyio.fail_after(60):
            while await call(b, "brief", LOOK):  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.02)


async def test_a_token_that_one_replica_has_as_revoked_counts_nowhere_within_a_second(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    headers, ident = bearer(one, "ci-1")
    others, _ = bearer(one, "ci-2")
    (two / "tokens.yaml").write_text((one / "tokens.yaml").read_text())
    (two / "tokens.yaml").chmod(0o600)

    async def counts(at: Served, given: dict[str, str]) -> bool:
        message, own = at.modern("tools/list")
        return (await at.post(message, headers={**own, **given})).status_code == 200

    async with replica(one, redis_server, section()) as a, replica(two, redis_server, section()) as b:
        assert [await counts(each, headers) for each in (a, b)] == [True, True]
        tokens.revoke(one / "tokens.yaml", ident)
        with anyio.fail_after(60):
            while await counts(b, headers):  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)
        assert [await counts(each, others) for each in (a, b)] == [True, True]
    async with replica(two, redis_server, section()) as late:
        await until(lambda: late.server.revocations and late.server.revocations.ids)
        assert [await counts(late, headers), await counts(late, others)] == [False, True]


@pytest.mark.long
async def test_uses_of_tools_on_one_replica_rank_searches_on_another(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with (
        replica(tmp_path / "one", redis_server) as one,
        replica(tmp_path / "two", redis_server) as two,
    ):
        a, b = one.server.app, two.server.app
        for _ in range(3):
            await one.chain(LOOK)
        await two.chain(LOOK)
        for app in (a, b, a):
            await app.housekeeping.usage.exchange()
        assert (a.tracker.usage["ledger.look"], b.tracker.usage["ledger.look"]) == (4, 4)
        assert a.tracker.own_usage() == {"ledger.look": 3}
    async with replica(tmp_path / "three", redis_server) as three:
        await until(lambda: three.server.app.tracker.usage.get("ledger.look") == 4)


@pytest.mark.proves("state.on_failure")
async def test_while_the_store_is_down_refuse_is_not_ready_and_refuses_what_needs_it(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    policy = {"trust_annotations": ["ledger"]}
    audit = {"path": str(tmp_path / "audit")}
    limited = {"limited": {"calls_per_minute": 100}, "free": {}}
    headers = {name: bearer(tmp_path, name)[0] for name in limited}
    async with replica(tmp_path, redis_server, section(**limited), policy=policy, audit=audit) as gateway:
        assert await ready(gateway) == (200, "ready")
        await stop(redis_server, gateway)
        assert await ready(gateway) == (503, "the state store cannot be reached")
        refused = await gateway.chain(LOOK, headers=headers["limited"])
        assert "StateUnavailable: ledger.look cannot be checked: its limits" in text(refused)
        refused = await gateway.chain(WRITE, headers=headers["free"])
        assert "StateUnavailable: ledger.write cannot be checked: it may change something" in text(refused)
        assert "HINT: try again later" in text(refused)
        assert not (await gateway.chain(LOOK, headers=headers["free"]))["isError"]
        assert any("cannot be reached" in each for each in gateway.server.app.problems())
        await start(redis_server, gateway)
        assert await ready(gateway) == (200, "ready")
        for name, code in (("limited", LOOK), ("free", WRITE)):
            answer = await gateway.chain(code, headers=headers[name])
            assert not answer["isError"]
            assert "gatemini/state" not in answer["_meta"]
    assert (tmp_path / "ledger").read_text().split() == ["x"]
    written = "".join(path.read_text() for path in (tmp_path / "audit").glob("*.jsonl"))
    assert written.count('"state.on_failure"') == 2


async def test_while_the_store_is_down_degrade_serves_with_local_limits_and_says_so(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    clients = {"limited": {"calls_per_minute": 2}}
    headers, _ = bearer(tmp_path, "limited")
    degrade = {"on_failure": "degrade"}
    async with replica(tmp_path, redis_server, section(**clients), state=degrade) as gateway:
        await stop(redis_server, gateway)
        assert await ready(gateway) == (200, "ready")
        answers = [await gateway.chain(LOOK, headers=headers) for _ in range(3)]
        assert [each["isError"] for each in answers] == [False, False, True]
        assert "2 calls a minute" in text(answers[-1])
        message, own = gateway.modern("tools/call", {"name": "list_tools_meta", "arguments": {}})
        answers.append(result(await gateway.post(message, headers={**own, **headers})))
        for answer in answers:
            assert "of this replica alone" in answer["_meta"]["gatemini/state"]["degraded"]
        await start(redis_server, gateway)
        answer = await gateway.chain("return 1;", headers=headers)
        assert "gatemini/state" not in answer["_meta"], json.dumps(answer["_meta"])


ASK = {"rules": [{"tools": ["ledger.write"], "action": "ask", "ask": {"via": ["console"]}}]}


async def test_a_console_at_one_replica_decides_what_another_asks(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with (
        replica(tmp_path / "one", redis_server, policy=ASK) as one,
        replica(tmp_path / "two", redis_server, policy=ASK) as two,
    ):
        for each in (one, two):
            each.server.app.approvals.console = True
        listed = Hello(gatemini=1, control=console.LIST)

        async def command(at: Served, hello: Hello) -> dict[str, Any]:
            return await answer_control(at.server, "", hello)

        def decision(ident: str, digest: str, granted: bool) -> Hello:
            given = {"id": ident, "arguments_sha256": digest, "granted": granted}
            return Hello(gatemini=1, control=console.DECIDE, arguments=given)

        pending = await one.chain(WRITE, session="s")
        assert "ApprovalPending" in text(pending)
        await one.server.app.state.publish("console", b"a command of another version")
        [row] = (await command(two, listed))["approvals"]
        assert [each["id"] for each in (await command(one, listed))["approvals"]] == [row["id"]]
        wrong = await command(two, decision(row["id"], "0" * 64, True))
        assert "is for other arguments" in wrong["error"]
        unknown = await command(two, decision("apr_0000000000000000", row["arguments_sha256"], True))
        assert "there is no open approval" in unknown["error"]
        granted = await command(two, decision(row["id"], row["arguments_sha256"], True))
        assert granted["approval"]["state"] in ("granted", "used")
        assert (await command(two, listed))["approvals"] == []
        # Anybody of the replicas may get the call when it is sent again; one of two calls has the grant.
        answers = [await at.chain(WRITE, session="s") for at in (two, one)]
        assert [each["isError"] for each in answers] == [False, True]
        assert (tmp_path / "two" / "ledger").read_text().split() == ["x"]


@pytest.mark.long
async def test_the_rate_of_a_client_is_exact_over_replicas_that_are_processes(tmp_path: Path) -> None:
    limit, headers = 200, bearer(tmp_path, "ci-1")[0]
    http = section(**{"ci-*": {"calls_per_minute": limit}})
    http["auth"] = {"tokens": {"file": str(tmp_path / "tokens.yaml")}}
    token = headers["Authorization"].removeprefix("Bearer ")
    with cluster(tmp_path, 2, token=token, http=http) as replicas:
        admitted = 0
        async with replicas.at() as gateway:
            start = anyio.current_time()

            async def calls(client: int) -> None:
                nonlocal admitted
                for _ in range(30):
                    found = await gateway.chain(LOOK, session=f"s{client}", headers=headers)
                    assert not found["isError"] or "calls a minute" in text(found)
                    admitted += not found["isError"]

            async with anyio.create_task_group() as tasks:
                for client in range(8):
                    tasks.start_soon(calls, client)
        came_back = (anyio.current_time() - start) * limit / 60
        assert limit - 1 <= admitted <= limit * 1.01 + came_back
        assert min(replicas.requests()) > 50
