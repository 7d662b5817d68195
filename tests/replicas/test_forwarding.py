"""Requests that one replica forwards to another: each test has two relays on one store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest
from starlette.types import Message, Receive, Send

from gatemini.errors import StateUnavailable
from gatemini.http.replicas.forwarding import PIECE, Forwarded, OwnerLost, Piece, Relay, Serve
from gatemini.policy.principal import local
from gatemini.state.memory import MemoryStore
from gatemini.state.replicas.peers import Peers

pytestmark = pytest.mark.anyio
REQUEST = Forwarded(local("http"), "POST", [], b"{}")
HEAD = {"type": "http.response.start", "status": 200, "headers": []}


class Store(MemoryStore):
    """A store that can be made unreachable."""

    shared = True
    down = False

    async def get(self, *keys: str) -> list[bytes | None]:
        if self.down:
            raise StateUnavailable("the server is down")
        return await super().get(*keys)


async def nothing(request: Forwarded, receive: Receive, send: Send) -> None:
    raise AssertionError("a request was forwarded to the replica that forwards")


@asynccontextmanager
async def relays(store: Store, serve: Serve) -> AsyncIterator[tuple[Relay, Peers]]:
    """(the relay that forwards, the peers of the replica `owner`, which answers with `serve`)."""
    async with anyio.create_task_group() as tasks:
        made = []
        for name, served in (("one", nothing), ("owner", serve)):
            peers = Peers(store, name)
            made.append((Relay(peers, served), peers))
            await tasks.start(made[-1][0].run)
            await tasks.start(peers.run)
        while not await made[0][1].alive("owner"):  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.001)
        yield made[0][0], made[1][1]
        tasks.cancel_scope.cancel()


async def test_an_answer_that_an_outage_cuts_off_is_lost_and_not_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gatemini.http.replicas.forwarding.CHECK_SECONDS", 0.01)
    store = Store()

    async def serve(request: Forwarded, receive: Receive, send: Send) -> None:
        store.down = True
        await anyio.sleep_forever()

    async def send(message: Message) -> None:
        raise AssertionError(message)

    with anyio.fail_after(60):
        async with relays(store, serve) as (forwarding, _):
            with pytest.raises(OwnerLost):
                await forwarding.forward("owner", REQUEST, send)


@pytest.mark.parametrize("bound", ["WAITING_PIECES", "WAITING_BYTES"])
async def test_a_client_that_reads_too_slowly_loses_its_answer_and_no_other(
    monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(f"gatemini.http.replicas.forwarding.{bound}", 4)
    reads, sent = anyio.Event(), anyio.Event()
    quick = False

    async def serve(request: Forwarded, receive: Receive, answer: Send) -> None:
        await answer(HEAD)
        for _ in range(0 if quick else 9):
            await answer({"type": "http.response.body", "body": b"x", "more_body": True})
        await answer({"type": "http.response.body", "body": b"end", "more_body": False})
        sent.set()

    got: list[Message] = []

    async def send(message: Message) -> None:
        await reads.wait()
        got.append(message)

    async def let_it_read() -> None:
        await sent.wait()
        await anyio.wait_all_tasks_blocked()
        reads.set()

    with anyio.fail_after(60):
        async with relays(Store(), serve) as (forwarding, _), anyio.create_task_group() as tasks:
            tasks.start_soon(let_it_read)
            with pytest.raises(OwnerLost):
                await forwarding.forward("owner", REQUEST, send)
            assert b"end" not in [message.get("body") for message in got]
            quick = True
            got.clear()
            assert await forwarding.forward("owner", REQUEST, send)
            assert got[-1]["body"] == b"end"


async def test_a_message_of_another_version_is_skipped() -> None:
    async def serve(request: Forwarded, receive: Receive, answer: Send) -> None:
        await answer(HEAD)
        await answer({"type": "http.response.body", "body": b"end", "more_body": False})

    got: list[Message] = []

    async def send(message: Message) -> None:
        got.append(message)

    with anyio.fail_after(60):
        async with relays(Store(), serve) as (forwarding, owner):
            await owner.send("one", PIECE, "unknown", msgspec.msgpack.encode(Piece(0, [], b"", False)))
            await owner.send("one", PIECE, "unknown", b"\xc1")
            assert await forwarding.forward("owner", REQUEST, send)
    assert len(got) == 2
