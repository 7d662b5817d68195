"""A backend with a process for each session: the chains of a session run at the replica that has its process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from fixtures.http_gateway import result, text
from fixtures.replicas import Cluster, cluster
from gatemini.http.replicas.homes import Homes
from gatemini.state.memory import MemoryStore

pytestmark = pytest.mark.anyio

COUNTING = Path(__file__).parents[1] / "fixtures" / "counting_server.py"
COUNT = "return await counting.count({});"


@pytest.fixture
def dedicated(tmp_path: Path) -> Iterator[Cluster]:
    command = {"command": sys.executable, "args": ["-I", "-S", str(COUNTING)]}
    with cluster(tmp_path, backends={"counting": {**command, "instance_mode": "dedicated"}}) as found:
        yield found


@pytest.mark.long
async def test_what_the_process_of_a_session_keeps_is_there_through_any_replica(dedicated: Cluster) -> None:
    async with dedicated.at(0) as first, dedicated.at(1) as second:
        for number in range(1, 5):
            at = (first, second)[number % 2]
            assert text(await at.chain(COUNT, session="a")) == str(number)
        assert text(await first.chain(COUNT, session="b")) == "1"
        session = await second.handshake()
        for number, at in enumerate((first, second, first), 1):
            assert text(result(await at.post(at.legacy_chain(COUNT), headers=session))) == str(number)
        # The replica of session `a` is gone, and its process with it: another one begins.
        dedicated.replicas[1].kill()
        assert text(await first.chain(COUNT, session="a")) == "1"
        assert text(await first.chain(COUNT, session="b")) == "2"


@pytest.mark.long
async def test_a_write_of_a_forwarded_chain_is_not_made_twice_when_its_replica_is_killed(
    dedicated: Cluster,
) -> None:
    code = 'await ledger.write({key: "one"}); await ledger.look({seconds: 3}); await ledger.write({key: "two"}); return "done";'
    async with dedicated.at(0) as first, dedicated.at(1) as second:
        assert text(await first.chain(COUNT, session="a")) == "1"
        message, headers = second.modern_chain(code, session="a")
        answers, before = [], recorded(dedicated)

        async def call() -> None:
            answers.append(await second.post(message, headers=headers))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(60):
                while recorded(dedicated) < before + 3:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                # The end of the chain before may have been one of the three; `look` takes 3 s.
                await anyio.sleep(0.7)
            dedicated.replicas[0].kill()
        [answer] = answers
    assert text(result(answer)) == "done"
    assert dedicated.writes() == ["one", "two"]


def recorded(found: Cluster) -> int:
    """Entries of journals in the store: the begin and the end of each chain, each call, each result."""
    names = found.redis.cli("KEYS", "gatemini:journal:*").split()
    return sum(int(found.redis.cli("LLEN", name.decode())[1:]) for name in names if b"journal" in name)


async def test_one_of_several_replicas_becomes_the_home_in_place_of_one_that_is_gone() -> None:
    store, gone = MemoryStore(), {"dead"}

    async def alive(replica: str) -> bool:
        return replica not in gone

    homes = {name: Homes(store, name, alive, 60) for name in ("dead", "one", "two", "three")}
    assert await homes["dead"].of("s") == "dead"
    found: list[str] = []

    async def find(name: str) -> None:
        found.append(await homes[name].of("s"))

    async with anyio.create_task_group() as tasks:
        for name in ("one", "two", "three"):
            tasks.start_soon(find, name)
    assert len(set(found)) == 1
    assert found[0] in ("one", "two", "three")
    assert await homes["dead"].of("t") == "dead"
