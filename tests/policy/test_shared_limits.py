"""Limits of several replicas together: each test has two doors, as two replicas have them, on one real Redis server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from fixtures.redis_server import RedisServer, redis_server
from fixtures.running import until
from gatemini.config.model.policy import PolicyConfig
from gatemini.errors import ApprovalPending, CallUnchecked, PolicyDenied, StateUnavailable
from gatemini.policy.approvals import shared_grants
from gatemini.policy.approvals.asking import Approvals
from gatemini.policy.audit.log import AuditLog
from gatemini.policy.door import Door
from gatemini.policy.facts import CallFacts, Hints
from gatemini.policy.limits.shared import RENEW_SECONDS, SharedLimits
from gatemini.policy.principal import Grant, PeriodBudget, Principal
from gatemini.policy.reach import Reach
from gatemini.state.memory import MemoryStore
from gatemini.state.store import StateStore

__all__ = ["redis_server"]
pytestmark = pytest.mark.anyio


def door(store: StateStore, *, refuse: bool = True, audit: AuditLog | None = None, **policy: Any) -> Door:
    """The door of one replica."""
    approvals = Approvals(state=store)
    approvals.console = True
    limits = SharedLimits(store, refuse=refuse)
    return Door(PolicyConfig.model_validate(policy), approvals, audit=audit, limits=limits)


def call(
    grant: Grant | None = None,
    *,
    session: str = "s",
    read: bool = True,
    principal: str = "p",
    argument: int = 1,
) -> CallFacts:
    who = Principal(principal, grant=grant, transport="http")
    hints = Hints(read_only=read, destructive=not read)
    return CallFacts("shop", "tool", "shop.tool", {"n": argument}, (), hints, who, session)


async def admits(at: Door, facts: CallFacts) -> bool:
    try:
        await at.admit(facts, Reach())
    except PolicyDenied:
        return False
    return True


@pytest.fixture
async def stores(redis_server: RedisServer) -> AsyncIterator[tuple[StateStore, StateStore]]:
    async with redis_server.store().opened() as a, redis_server.store().opened() as b:
        yield a, b


async def test_a_clients_rate_is_one_for_all_replicas_to_one_percent(
    stores: tuple[StateStore, StateStore],
) -> None:
    doors = [door(store) for store in stores]
    limit, admitted = 300, 0
    grant = Grant(calls_per_minute=limit)
    start = anyio.current_time()

    async def calls(number: int) -> None:
        nonlocal admitted
        for _ in range(50):
            if await admits(doors[number % 2], call(grant, session=f"s{number}")):
                admitted += 1

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(calls, number)
    came_back = (anyio.current_time() - start) * limit / 60
    assert limit <= admitted <= limit * 1.01 + came_back
    assert await admits(doors[0], call(grant, principal="other"))


async def test_a_sessions_budgets_are_spent_on_all_replicas_together(
    stores: tuple[StateStore, StateStore],
) -> None:
    a, b = (door(store, budgets={"calls_per_session": 4, "writes_per_session": 1}) for store in stores)
    assert await admits(a, call(read=False))
    assert not await admits(b, call(read=False))
    assert [await admits(each, call()) for each in (b, a, b, a, b)] == [True, True, True, False, False]
    assert await admits(b, call(session="other"))


@pytest.mark.parametrize(("idle", "least"), [(60.0, 3600.0), (7200.0, 7200.0)])
async def test_what_a_session_has_spent_is_kept_for_as_long_as_the_session(
    redis_server: RedisServer, idle: float, least: float
) -> None:
    async with redis_server.store().opened() as store:
        limits = SharedLimits(store, idle=idle)
        at = Door(
            PolicyConfig.model_validate({"budgets": {"calls_per_session": 4}}), Approvals(), limits=limits
        )
        assert await admits(at, call())
        [key] = (line for line in redis_server.cli("KEYS", "gatemini:budget:*").split() if b"budget" in line)
        left = int(redis_server.cli("PTTL", key.decode()).strip(b":\r\n")) / 1000
        assert least < left <= least + RENEW_SECONDS


async def test_a_rule_on_what_the_session_has_called_sees_the_calls_of_all_replicas(
    stores: tuple[StateStore, StateStore],
) -> None:
    pytest.importorskip("cel")
    rule = {"when": "session.calls >= 2", "action": "deny", "reason": "enough"}
    a, b = (door(store, rules=[rule]) for store in stores)
    assert [await admits(each, call()) for each in (a, b, a, b)] == [True, True, False, False]


async def test_a_clients_budget_of_a_period_is_spent_on_all_replicas_together(
    stores: tuple[StateStore, StateStore],
) -> None:
    a, b = (door(store) for store in stores)
    grant = Grant(
        budgets=(PeriodBudget(3, None, 600), PeriodBudget(None, 1, 600), PeriodBudget(100, None, 60))
    )
    assert await admits(a, call(grant, read=False))
    assert not await admits(b, call(grant, read=False, session="other"))
    assert [await admits(each, call(grant)) for each in (b, a, b)] == [True, True, False]
    assert await admits(b, call(grant, principal="other"))


async def test_a_clients_budget_counts_in_one_process_too_and_begins_anew_after_its_period() -> None:
    now = [0.0]
    alone = door(MemoryStore(lambda: now[0]))
    grant = Grant(budgets=(PeriodBudget(2, None, 600),))
    assert [await admits(alone, call(grant)) for _ in range(3)] == [True, True, False]
    now[0] += 601
    assert await admits(alone, call(grant))


def asking(**ask: Any) -> dict[str, Any]:
    """A policy that asks about each call at a terminal."""
    return {"rules": [{"tools": ["shop.*"], "action": "ask", "ask": {"via": ["console"], **ask}}]}


async def grant_later(at: Door, facts: CallFacts) -> None:
    """Let a call leave its approval open, and grant it as `gatemini approve` does."""
    with pytest.raises(ApprovalPending):
        await at.admit(facts, Reach())
    (approval,) = at.approvals.opened()
    await at.approvals.decided(approval.id, approval.subject.digest, "console", granted=True)


async def outcomes_at_once(*doors: Door) -> list[str]:
    """What becomes of the same call at each of these doors at once, in order of the alphabet."""
    outcomes: list[str] = []

    async def attempt(at: Door) -> None:
        try:
            await at.admit(call(), Reach())
            outcomes.append("admitted")
        except ApprovalPending:
            outcomes.append("pending")

    async with anyio.create_task_group() as tasks:
        for at in doors:
            tasks.start_soon(attempt, at)
    return sorted(outcomes)


async def test_a_grant_that_one_replica_got_admits_one_call_of_all_replicas(
    stores: tuple[StateStore, StateStore],
) -> None:
    a, b = (door(store, **asking()) for store in stores)
    await grant_later(a, call())
    assert await outcomes_at_once(a, b, a, b, a, b) == ["admitted", *["pending"] * 5]


async def test_a_grant_admits_no_call_that_differs_and_none_after_the_store_was_emptied(
    redis_server: RedisServer, stores: tuple[StateStore, StateStore]
) -> None:
    a, b = (door(store, **asking()) for store in stores)
    await grant_later(a, call())
    for other in (call(argument=2), call(session="other"), call(principal="other")):
        with pytest.raises(ApprovalPending):
            await b.admit(other, Reach())
    assert b"OK" in redis_server.cli("FLUSHALL")
    for each in (a, b):
        with pytest.raises(ApprovalPending):
            await each.admit(call(), Reach())


async def test_a_remembered_grant_admits_equal_calls_on_all_replicas(
    stores: tuple[StateStore, StateStore],
) -> None:
    a, b = (door(store, **asking(remember="session")) for store in stores)
    await grant_later(a, call())
    for each in (b, a, b):
        assert await admits(each, call())
    with pytest.raises(ApprovalPending):
        await b.admit(call(session="other"), Reach())


async def test_a_grant_for_a_session_does_not_outlive_it_for_days(
    stores: tuple[StateStore, StateStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that the client names is the same again after it has ended: replicas keep its grants for a time only."""
    monkeypatch.setattr(shared_grants, "SESSION_SECONDS", 1.0)
    a, b = (door(store, **asking(remember="session")) for store in stores)
    await grant_later(a, call())
    assert await admits(b, call())
    pending = False
    with anyio.fail_after(60):
        while not pending:
            try:
                await b.admit(call(), Reach())
                await anyio.sleep(0.1)
            except ApprovalPending:
                pending = True


@pytest.mark.parametrize("remember", ["call", "session"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_policy_that_comes_back_brings_back_no_grant(
    stores: tuple[StateStore, StateStore], remember: str, restarts: bool
) -> None:
    """A replica reads a changed configuration, or starts with it; another one has the first policy all the time."""
    first, between = asking(remember=remember), {"default": "deny"}
    changing, other = (door(store, **first) for store in stores)
    await grant_later(changing, call())
    for policy in (between, first):
        if restarts:
            changing = door(stores[0], **policy)
        else:
            changing.set_policy(PolicyConfig.model_validate(policy))
        assert changing.approvals.shared is not None
        await changing.approvals.shared.follow()  # as `Approvals.run` does at the start and after a change
    for each in (changing, other):
        with pytest.raises(ApprovalPending):
            await each.admit(call(), Reach())


async def test_a_replica_that_could_not_tell_of_its_changes_does_so_before_it_uses_a_grant(
    stores: tuple[StateStore, StateStore],
) -> None:
    first = asking(remember="session")
    changing, other = (door(store, **first) for store in stores)
    await grant_later(other, call())
    assert await admits(changing, call())
    for policy in ({"default": "deny"}, first):
        changing.set_policy(PolicyConfig.model_validate(policy))
    for each in (changing, other):
        with pytest.raises(ApprovalPending):
            await each.admit(call(), Reach())


async def test_a_grant_that_its_waiting_call_uses_is_not_left_for_another_one(
    redis_server: RedisServer, stores: tuple[StateStore, StateStore]
) -> None:
    """It is remembered for a while; after that nothing of it is there."""
    at = door(stores[0], **asking(remember="1s"))
    async with anyio.create_task_group() as tasks:
        await tasks.start(at.approvals.run)
        at.approvals.watched()
        async with anyio.create_task_group() as calls:
            calls.start_soon(at.admit, call(), Reach())
            await until(lambda: len(at.approvals.opened()) == 1)
            (approval,) = at.approvals.opened()
            await at.approvals.decided(approval.id, approval.subject.digest, "console", granted=True)
        tasks.cancel_scope.cancel()
    assert redis_server.cli("KEYS", "gatemini:remembered:*").startswith(b"*1")
    assert redis_server.cli("KEYS", "gatemini:grant:*").startswith(b"*0")


async def test_a_grant_that_reached_the_store_without_an_answer_admits_one_call_all_the_same(
    stores: tuple[StateStore, StateStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (door(store, **asking()) for store in stores)
    put = stores[0].put

    async def put_unheard(key: str, value: bytes, ttl: float) -> None:
        await put(key, value, ttl)
        if key.startswith("grant:"):
            raise StateUnavailable("no answer")

    monkeypatch.setattr(stores[0], "put", put_unheard)
    await grant_later(a, call())
    assert await outcomes_at_once(a, b, b, a) == ["admitted", *["pending"] * 3]


async def test_without_the_store_calls_that_need_it_are_refused_and_others_go_on(
    redis_server: RedisServer, stores: tuple[StateStore, StateStore]
) -> None:
    store = stores[0]
    limited = Grant(calls_per_minute=60)
    plain, budgeted, asks = (
        door(store),
        door(store, budgets={"calls_per_session": 9}),
        door(store, **asking()),
    )
    await anyio.to_thread.run_sync(redis_server.stop)
    await until(lambda: store.problem is not None)
    for at, facts in ((plain, call(limited)), (budgeted, call()), (asks, call())):
        with pytest.raises(
            CallUnchecked, match=r"shop\.tool cannot be checked: .* the state store cannot be reached"
        ) as e:
            await at.admit(facts, Reach())
        assert (e.value.code, e.value.kind) == ("state.unavailable", "StateUnavailable")
        assert "try again later" in str(e.value.hint)
    assert await admits(plain, call())
    assert await admits(plain, call(read=False))
    await anyio.to_thread.run_sync(redis_server.start)
    await until(lambda: store.problem is None)
    assert await admits(plain, call(limited))
    assert await admits(budgeted, call())


async def test_degraded_replicas_apply_the_limits_alone_and_share_them_again_afterwards(
    redis_server: RedisServer, stores: tuple[StateStore, StateStore]
) -> None:
    grant = Grant(budgets=(PeriodBudget(2, None, 600),))
    a, b = (door(store, refuse=False, budgets={"calls_per_session": 3}) for store in stores)
    assert await admits(a, call())
    assert a.limits.degraded() is None
    await anyio.to_thread.run_sync(redis_server.stop)
    await until(lambda: all(store.problem is not None for store in stores))
    assert [await admits(a, call()) for _ in range(3)] == [True, True, False]
    assert [await admits(b, call(grant)) for _ in range(3)] == [True, True, False]
    assert "those of this replica alone" in str(a.limits.degraded())
    await anyio.to_thread.run_sync(redis_server.start)
    await until(lambda: all(store.problem is None for store in stores))
    assert a.limits.degraded() is None
    assert await admits(b, call(session="new"))


async def test_a_call_that_one_budget_refuses_spends_nothing_of_the_others(
    stores: tuple[StateStore, StateStore],
) -> None:
    grant = Grant(budgets=(PeriodBudget(3, None, 60.0), PeriodBudget(None, 1, 3600.0)))
    one, two = (door(store, budgets={"calls_per_session": 4}) for store in stores)
    assert await admits(one, call(grant, read=False))
    assert [await admits(at, call(grant, read=False)) for at in (one, two, one, two)] == [False] * 4
    assert [await admits(at, call(grant)) for at in (one, two, one)] == [True, True, False]
    assert [await admits(at, call(principal="q")) for at in (one, two)] == [True, False]


async def test_the_counts_of_a_session_are_renewed_by_the_next_call_where_the_store_was_away() -> None:
    class Store(MemoryStore):
        shared = True
        renewals = 0

        async def renew(self, ttl: float, *keys: str) -> None:
            self.renewals += 1
            if self.renewals == 1:
                raise StateUnavailable("away")

    store = Store()
    at = door(store, budgets={"calls_per_session": 9})
    with pytest.raises(CallUnchecked):
        await at.admit(call(), Reach())
    await at.admit(call(), Reach())
    await at.admit(call(), Reach())
    assert store.renewals == 2
