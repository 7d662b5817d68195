"""Requests that are being sent when their connection ends: they fail at once, leave nothing, and are not sent twice."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from fixtures.backend_bench import TEST_SECONDS, Bench
from fixtures.odd_http import OddHttp, Request
from gatemini.backends.calls.callers import RpcError
from gatemini.backends.conversation.peer import Peer
from gatemini.backends.transports.http import open_streamable
from gatemini.backends.transports.sse import open_sse
from gatemini.backends.transports.stdio import open_stdio
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendError, BackendStopped, BackendTimeout
from gatemini.model import Json
from gatemini.processes.children import Children

pytestmark = pytest.mark.anyio


class OldServer(OddHttp):
    """HTTP+SSE, one connection for each request, and an accept loop that can be paused: connections then wait."""

    def __init__(self) -> None:
        super().__init__()
        self.events: Request | None = None
        self.door = anyio.CancelScope()
        self._knocking: list[socket.socket] = []

    async def handle(self, request: Request) -> None:
        if request.verb == "GET":
            self.events = request
            await request.begin_events()
            await request.event("/messages", name="endpoint")
            await request.stream.receive()  # until the client leaves
            return
        await request.answer(202, connection="close")
        if self.events is not None and "id" in request.message:
            await self.events.event(request.reply(self.result_of(request.message)), name="message")

    def close_door(self) -> None:
        """No connection is accepted any more, and those that may wait for it do already."""
        self.door.cancel()
        for _ in range(4):
            visitor = socket.socket()
            visitor.setblocking(False)
            visitor.connect_ex(("127.0.0.1", self.port))
            self._knocking.append(visitor)

    def leave(self) -> None:
        for visitor in self._knocking:
            visitor.close()


@pytest.fixture
async def server() -> AsyncIterator[OldServer]:
    server = OldServer()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=0)
    server.port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:

        async def accept() -> None:
            with server.door:
                while True:
                    tasks.start_soon(server.serve, await listener.listeners[0].accept())

        tasks.start_soon(accept)
        yield server
        tasks.cancel_scope.cancel()
    server.leave()


async def test_removing_a_backend_ends_a_call_that_is_still_connecting(
    bench: Bench, server: OldServer
) -> None:
    config = {"name": "odd", "url": f"http://127.0.0.1:{server.port}/sse", "transport": "sse"}
    bench.manager.add(BackendConfig.model_validate(config))
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
    server.close_door()
    refused: list[BackendError] = []

    async def call() -> None:
        try:
            await bench.call("echo", timeout=600)
        except BackendError as error:
            refused.append(error)

    with anyio.fail_after(TEST_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await bench.until_true(lambda: bench.manager.status("odd").calls_open == 1)
            await bench.manager.remove("odd")
    assert isinstance(refused[0], BackendStopped)
    assert "odd was stopped while the call was open" in refused[0].message


class Nobody:
    """Takes what a link hands on, and waits for nothing."""

    def receive(self, piece: object, during: int | None = None) -> None:
        """Dropped."""

    def fail(self, error: BackendError) -> None:
        """Dropped."""

    def fail_one(self, ident: int, error: BackendError) -> None:
        """Dropped."""

    def waiting(self, ident: int) -> bool:
        del ident
        return False


@pytest.mark.parametrize("ident", [None, 1])
@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
async def test_sending_after_the_end_of_a_link_fails_as_not_sent(
    server: OldServer, transport: str, ident: int | None
) -> None:
    config = BackendConfig.model_validate(
        {"name": "odd", "url": f"http://127.0.0.1:{server.port}/x", "transport": transport}
    )
    open_link = open_sse if transport == "sse" else open_streamable
    async with open_link(config, Nobody()) as link:
        pass
    with anyio.fail_after(TEST_SECONDS), pytest.raises(BackendCrashed, match="odd is gone") as late:
        await link.send({"jsonrpc": "2.0", "method": "ping"}, ident=ident)
    assert not late.value.sent


class EndsWhileWriting:
    """A link that breaks in the middle of a send which reaches the other side all the same."""

    pid = None
    skipped = 0
    all_or_nothing = False

    def __init__(self, peer: Peer) -> None:
        self.closed = anyio.Event()
        self.failure: BackendError | None = None
        self._peer = peer

    def send_now(self, message: Json) -> bool:
        return False

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        del message, ident
        self._peer.fail(BackendCrashed("the stream of answers ended"))

    def abandon(self, ident: int) -> bool:
        del ident
        return False

    def learn(self, tools: object) -> None:
        """Nothing to learn."""

    def stderr_tail(self) -> list[str]:
        return []


class NeverWritten(EndsWhileWriting):
    """A link that blocks in `send`."""

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        del message
        if ident is not None:
            self.writing.set()
            await anyio.sleep_forever()


def peer_with(link_of: Any) -> tuple[Peer, Any]:
    async def ask(method: str, params: Json) -> Json:
        raise RpcError(-32601, method)

    peer = Peer("odd", on_notification=lambda *_: None, on_ask_outside=ask)
    link = link_of(peer)
    link.writing = anyio.Event()
    peer.attach(link)
    return peer, link


@pytest.mark.parametrize("all_or_nothing", [False, True])
async def test_a_request_cancelled_during_the_write_counts_as_sent_if_it_may_have_been_delivered(
    all_or_nothing: bool,
) -> None:
    peer, link = peer_with(NeverWritten)
    link.all_or_nothing = all_or_nothing
    with pytest.raises(BackendTimeout) as late:
        await peer.request("tools/call", {}, timeout=0.01)
    assert late.value.sent is not all_or_nothing, "one that may be read later must not be sent again"


LATE_READER = """
import json, pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
log = open(sys.argv[2], "a")
for line in sys.stdin.buffer:
    message = json.loads(line)
    print(message["method"], message.get("id", message.get("params", {}).get("requestId")), file=log, flush=True)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""


async def test_a_child_that_reads_late_gets_exactly_the_requests_that_count_as_sent(tmp_path: Path) -> None:
    script, go, log = tmp_path / "late.py", tmp_path / "go", tmp_path / "log"
    script.write_text(LATE_READER)

    async def ask(method: str, params: Json) -> Json:
        raise RpcError(-32601, method)

    peer = Peer("late", on_notification=lambda *_: None, on_ask_outside=ask)
    command = BackendConfig(
        name="late", command=sys.executable, args=("-I", "-S", str(script), str(go), str(log))
    )
    sent: list[int] = []
    children = Children()
    async with open_stdio(command, peer, children) as link:
        peer.attach(link)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.run)
            for ident in range(1, 5):
                with pytest.raises(BackendTimeout) as late:
                    await peer.request("tools/call", {"text": "x" * 1_000_000}, timeout=0.05)
                if late.value.sent:
                    sent.append(ident)
            go.touch()
            await peer.request("ping", {}, timeout=TEST_SECONDS)
            tasks.cancel_scope.cancel()
    await children.close()
    read = [line.split() for line in log.read_text().splitlines()]
    assert [int(ident) for method, ident in read if method == "tools/call"] == sent
    assert sent == [1], "the second waits for room, and the pipe has none"
    assert sorted(ident for method, ident in read if method == "notifications/cancelled") == ["1"]


async def test_a_request_cancelled_during_the_write_is_cancelled_at_the_backend() -> None:
    peer, link = peer_with(NeverWritten)
    told: list[str] = []

    async def notified(method: str, params: Json | None = None) -> None:
        told.append(method)

    peer.notify = notified  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(peer.request, "tools/call", {}, timeout=TEST_SECONDS))
        with anyio.fail_after(TEST_SECONDS):
            await link.writing.wait()
        tasks.cancel_scope.cancel()
    assert told == ["notifications/cancelled"]


async def test_a_request_written_while_the_connection_ends_counts_as_sent() -> None:
    async def ask(method: str, params: Json) -> Json:
        raise RpcError(-32601, method)

    peer = Peer("odd", on_notification=lambda *_: None, on_ask_outside=ask)
    link: Any = EndsWhileWriting(peer)
    peer.attach(link)
    with pytest.raises(BackendCrashed) as lost:
        await peer.request("tools/call", {}, timeout=TEST_SECONDS)
    assert lost.value.sent, "else it would be sent again"
