"""A backend of `instance_mode: singleton`: one process for all replicas, whichever a call comes to, and through their ends."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from fixtures.daemons import LEDGER
from fixtures.direct import text_of
from fixtures.http_gateway import Served, text
from fixtures.paused import pause
from fixtures.redis_server import redis_running
from fixtures.replicas import QUESTION, Cluster, Replica, cluster
from fixtures.running import running_app
from gatemini.state.replicas.lease import LEASE_SECONDS, MARGIN_SECONDS

pytestmark = pytest.mark.anyio

FIXTURES = Path(__file__).parents[1] / "fixtures"
COUNTING, ASKING = FIXTURES / "counting_server.py", FIXTURES / "asking_server.py"
COUNT = "return await counting.count({});"
BUSY_SECONDS = 20.0
"""What a busy machine may add to a time that is promised."""


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Cluster]:
    """Two replicas with one ledger and one counter between them."""
    counting = {"command": sys.executable, "args": ["-I", "-S", str(COUNTING)], "instance_mode": "singleton"}
    ledger = {"command": sys.executable, "args": ["-I", "-S", str(LEDGER), str(tmp_path / "ledger")]}
    backends = {"counting": counting, "ledger": {**ledger, "instance_mode": "singleton"}}
    with cluster(tmp_path, backends=backends) as found:
        yield found


def children(replica: Replica, server: Path) -> list[psutil.Process]:
    """The processes of a backend that a replica has started."""
    assert replica.process is not None
    started = psutil.Process(replica.process.pid).children(recursive=True)
    return [p for p in started if p.status() != psutil.STATUS_ZOMBIE and str(server) in p.cmdline()]


def split(found: Cluster, server: Path) -> tuple[int, int]:
    """(the number of the replica that runs the backend, that of the other one), once one runs it."""
    end = time.monotonic() + 60
    while not (numbers := [number for number in range(2) if children(found.replicas[number], server)]):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(numbers) == 1
    return numbers[0], 1 - numbers[0]


async def answered(at: Served, code: str, seconds: float) -> str:
    """What a chain returns within a time in which it may fail, as while no replica runs the backend."""
    with anyio.fail_after(seconds):
        while (found := await at.chain(code, timeout=60_000))["isError"]:  # noqa: ASYNC110 - no event
            await anyio.sleep(0.1)
    return text(found)


@pytest.mark.long
async def test_calls_through_either_replica_reach_the_one_process(replicas: Cluster) -> None:
    async with replicas.at(0) as first, replicas.at(1) as second:
        for number in range(1, 7):
            assert text(await (first, second)[number % 2].chain(COUNT)) == str(number)
    assert sum(len(children(each, COUNTING)) for each in replicas.replicas) == 1


async def test_gateways_that_serve_no_http_share_it_too(tmp_path: Path) -> None:
    """Two processes of one client each, say, on one store."""
    counting = {"command": sys.executable, "args": ["-I", "-S", str(COUNTING)], "instance_mode": "singleton"}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with redis_running() as redis:
        config = {"backends": {"counting": counting}, "state": redis.config}
        async with (
            running_app(tmp_path / "one", **config) as one,
            running_app(tmp_path / "two", **config) as two,
        ):
            for number in range(1, 5):
                found = await (one, two)[number % 2].call_meta_tool("call_tool_chain", {"code": COUNT})
                assert text(found) == str(number)


@pytest.mark.long
async def test_another_replica_takes_over_from_one_that_is_killed(replicas: Cluster) -> None:
    owner, other = split(replicas, LEDGER)
    async with replicas.at(other) as at:
        assert not (await at.chain('return await ledger.write({key: "before"});'))["isError"]
        answers: list[str] = []

        async def call(code: str) -> None:
            answers.append(text(await at.chain(code, timeout=60_000)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, 'return await ledger.write({key: "open", seconds: 120});')
            with anyio.fail_after(60):
                while "open" not in replicas.writes():  # noqa: ASYNC110 - there is no event
                    await anyio.sleep(0.01)
            tasks.start_soon(call, "return (await ledger.look({seconds: 1})).length;")
            await anyio.sleep(0.2)
            replicas.replicas[owner].kill()
            killed = time.monotonic()
        [write] = [each for each in answers if "ledger.write" in each]
        assert "the replica that ran it is gone" in write, answers
        assert "look whether this call took effect before you repeat it" in write
        assert "2" in answers  # the call that may be repeated was repeated
        assert not (await at.chain('return await ledger.write({key: "after"});'))["isError"]
        assert time.monotonic() - killed < LEASE_SECONDS + BUSY_SECONDS
    assert replicas.writes() == ["before", "open", "after"]
    assert len(children(replicas.replicas[other], LEDGER)) == 1


@pytest.mark.long
async def test_one_that_was_paused_past_its_lease_writes_nothing_more(replicas: Cluster) -> None:
    owner, other = split(replicas, LEDGER)
    paused = replicas.replicas[owner]
    [child] = children(paused, LEDGER)
    assert paused.process is not None
    async with replicas.at(owner) as there, replicas.at(other) as at:
        answers: list[str] = []

        async def call(at: Served, key: str) -> None:
            code = f'return await ledger.write({{key: "{key}"}});'
            answers.append(text(await at.chain(code, timeout=120_000)))

        async with anyio.create_task_group() as tasks:
            pause(paused.process.pid)
            tasks.start_soon(call, at, "relayed")
            tasks.start_soon(call, there, "direct")
            assert await answered(at, 'return await ledger.write({key: "new"});', LEASE_SECONDS + 60) == "ok"
            paused.signal(signal.SIGCONT)
        [relayed] = [each for each in answers if each != "ok"]
        assert "the replica that ran it is gone" in relayed
        assert len(answers) == 2
        with anyio.fail_after(MARGIN_SECONDS + 60):
            while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)
        assert await answered(there, 'return await ledger.write({key: "last"});', 60) == "ok"
    assert replicas.writes() == ["new", "direct", "last"]
    assert split(replicas, LEDGER) == (other, owner)


@pytest.mark.long
@pytest.mark.parametrize("era", ["handshake", ""])
async def test_questions_and_cancels_pass_between_replicas(tmp_path: Path, era: str) -> None:
    """Also where the process speaks the stateless revision."""
    asking = {"command": sys.executable, "args": ["-P", str(ASKING), *([era] if era else [])]}
    with cluster(tmp_path, backends={"ask": {**asking, "instance_mode": "singleton"}}) as found:
        _, other = split(found, ASKING)

        async def answer(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            return ElicitResult(action="accept", content={"name": "Ada"})

        url = found.replicas[other].url
        async with found.client(url, elicitation_callback=answer) as client:
            code = f"return (await ask.ask({json.dumps(QUESTION)})).content.name;"
            assert text_of(await client.call_tool("call_tool_chain", {"code": code})) == "Ada"
        async with found.at(other) as at:
            message, headers = at.modern_chain("await ask.wait({});", timeout=300_000)
            with anyio.move_on_after(1):
                await at.post(message, headers=headers)
            with anyio.fail_after(60):
                while text(await at.chain("return (await ask.told({})).cancelled;")) != "1":  # noqa: ASYNC110
                    await anyio.sleep(0.05)


@pytest.mark.long
async def test_a_replica_that_stops_hands_its_backends_over(replicas: Cluster) -> None:
    owner, other = split(replicas, LEDGER)
    async with replicas.at(other) as at:
        answers: list[str] = []

        async def call(key: str, seconds: float) -> None:
            code = f'return await ledger.write({{key: "{key}", seconds: {seconds}}});'
            answers.append(text(await at.chain(code, timeout=60_000)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, "open", 2)
            with anyio.fail_after(60):
                while "open" not in replicas.writes():  # noqa: ASYNC110 - there is no event
                    await anyio.sleep(0.01)
            replicas.replicas[owner].signal(signal.SIGTERM)
            for number in range(20):
                await call(f"w{number}", 0)
                await anyio.sleep(0.1)
    assert answers == ["ok"] * 21
    assert sorted(replicas.writes()) == sorted(["open", *(f"w{number}" for number in range(20))])
