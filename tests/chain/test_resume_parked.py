"""Parked chains are resumed once, by their own session, within their time; their clock is paused meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest

from gatemini.backends.calls.callers import RpcError
from gatemini.chain.deadline import ChainTime
from gatemini.config.variables.redaction import Redactor
from gatemini.model import Json
from gatemini.policy.principal import NOBODY, Behalf
from gatemini.protocol.questions import parking as parking_module
from gatemini.protocol.questions.parking import Parking, Stay
from gatemini.protocol.relay import Relay

pytestmark = pytest.mark.anyio

Ask = Callable[[str, Json], Awaitable[Json]]

SILENT = Relay(lambda _method, _params: None, Redactor(), token=None, log_level=None, modern=True)


@pytest.fixture
async def parking() -> AsyncIterator[Parking]:
    async with anyio.create_task_group() as tasks:
        lot = Parking()
        await tasks.start(lot.run)
        yield lot
        tasks.cancel_scope.cancel()


def started(parking: Parking, chain: Callable[[Ask], Awaitable[Json]], session: str = "s") -> Stay:
    stay = Stay(session, Behalf(NOBODY))

    async def ask(method: str, params: Json) -> Json:
        answer: Json = await parking.ask(stay, method, params)
        return answer

    parking.start(stay, lambda: chain(ask))
    return stay


async def asking(ask: Ask) -> Json:
    return {"told": await ask("elicitation/create", {"message": "sure?"})}


async def parked(parking: Parking, session: str = "s") -> tuple[Stay, str]:
    stay = started(parking, asking, session)
    with anyio.fail_after(60):
        questions = await stay.until_asked(SILENT)
    assert [q.params for q in questions.values()] == [{"message": "sure?"}]
    return stay, parking.park(stay)


async def test_an_answer_reaches_the_chain_that_is_waiting_for_it(parking: Parking) -> None:
    _, token = await parked(parking)
    stay = parking.take_up(token, "s")
    assert stay is not None
    stay.give({"q1": {"action": "accept"}})
    assert await stay.until_asked(SILENT) == {}
    assert stay.result == {"told": {"action": "accept"}}
    assert parking.waiting == 0


async def test_a_parked_chain_is_resumed_once_and_only_by_its_own_session(parking: Parking) -> None:
    _, token = await parked(parking)
    assert parking.take_up(token, "another") is None
    assert parking.take_up("made up", "s") is None
    assert parking.take_up(token, "s") is not None
    assert parking.take_up(token, "s") is None


async def test_a_question_without_an_answer_is_sent_again(parking: Parking) -> None:
    _, token = await parked(parking)
    stay = parking.take_up(token, "s")
    assert stay is not None
    stay.give({"another": {}})
    assert list(await stay.until_asked(SILENT)) == ["q1"]


async def test_a_chain_that_ends_without_the_answer_is_not_lost(parking: Parking) -> None:
    async def impatient(ask: Ask) -> Json:
        with anyio.move_on_after(0.01):
            await ask("roots/list", {})
        return {"went": "on"}

    stay = started(parking, impatient)
    assert list(await stay.until_asked(SILENT)) == ["q1"]
    token = parking.park(stay)
    with anyio.fail_after(60):
        await stay.finished.wait()
    taken = parking.take_up(token, "s")
    assert taken is stay
    assert await taken.until_asked(SILENT) == {}
    assert taken.result == {"went": "on"}


async def test_a_question_without_an_answer_in_time_cancels_the_chain(
    parking: Parking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking_module, "PARKED_SECONDS", 0.01)
    stay, token = await parked(parking)
    with anyio.fail_after(60):
        await stay.finished.wait()
    assert stay.result is None
    assert parking.take_up(token, "s") is None
    assert parking.waiting == 0


async def test_a_parked_chain_ends_with_its_session(parking: Parking) -> None:
    stay, token = await parked(parking)
    other, _ = await parked(parking, "another")
    parking.end_session("s")
    with anyio.fail_after(60):
        await stay.finished.wait()
    assert parking.take_up(token, "s") is None
    assert (parking.waiting, other.finished.is_set()) == (1, False)


async def test_cancelling_the_call_cancels_its_parked_chain(parking: Parking) -> None:
    begun = anyio.Event()

    async def endless(_ask: Ask) -> Json:
        begun.set()
        await anyio.sleep_forever()
        return {}

    stay = started(parking, endless)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stay.until_asked, SILENT)
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert stay.finished.is_set()


async def test_a_question_over_the_limit_is_refused(
    parking: Parking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking_module, "MOST_PARKED", 2)
    for _ in range(2):
        await parked(parking)
    refused: list[str] = []

    async def chain(ask: Ask) -> Json:
        try:
            return await ask("elicitation/create", {})
        except RpcError as exc:
            refused.append(exc.message)
            return {"refused": True}

    stay = started(parking, chain)
    assert await stay.until_asked(SILENT) == {}
    assert stay.result == {"refused": True}
    assert refused == ["2 chains wait for their users already"]


async def test_the_clock_of_a_chain_is_paused_while_a_question_is_open() -> None:
    now = [100.0]
    lent: list[bool] = []
    clock = ChainTime(10, lent.append, lambda: now[0])
    now[0] += 4
    with clock.bound(1) as scope:
        with clock.standing_still():
            assert scope.deadline == float("inf")
            with clock.standing_still():
                now[0] += 500
            assert clock.left() == 6
            before = anyio.current_time()
        assert clock.left() == 6
        assert lent == [True, False]
        assert before + 6.999 < scope.deadline < anyio.current_time() + 7.001
    now[0] += 6
    assert clock.left() <= 0
