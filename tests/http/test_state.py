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
from gatemini.http.auth import tokens

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
        with anyio.fail_after(30):
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
        with anyio.fail_after(20):
            while await counts(b, headers):  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.01)
        assert [await counts(each, others) for each in (a, b)] == [True, True]
    async with replica(two, redis_server, section()) as late:
        await until(lambda: late.server.revocations and late.server.revocations.ids)
        assert [await counts(late, headers), await counts(late, others)] == [False, True]


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
            await app._housekeeping.usage.exchange()
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
