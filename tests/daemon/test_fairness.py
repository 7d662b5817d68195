"""One client must not slow others: at most twice their p95 for a flood, or for a client that reads nothing."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from fixtures.daemons import Home, ProxyClient

pytestmark = pytest.mark.load

ROUNDS = 30
TURNS = 6
SETTLED_SECONDS = 0.3
"""How long the daemon may take for the requests that a client which is stopped has in flight."""
MOST = 2.0
SLACK_SECONDS = 0.01
"""What the scheduler of a busy machine may add to a request: clients, proxies and servers share its cores."""
CALL = '{"tool": "ledger.look", "arguments": {}}'
SCRIPT = "const seen = await ledger.look({}); return seen.length"


def timed(client: ProxyClient, code: str, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        client.value(client.chain(code))
        times.append(time.perf_counter() - began)
    return times


def p95(times: list[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


@contextmanager
def flooding(client: ProxyClient, code: str) -> Iterator[None]:
    """Send requests without waiting, and read answers as fast as they come."""
    over = threading.Event()

    def send() -> None:
        with contextlib.suppress(OSError):
            while not over.is_set():
                client.chain(code)

    def read() -> None:
        while not over.is_set():
            client.read(0.05)
            client.messages.clear()

    threads = [threading.Thread(target=send), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        threads[1].join()
        client.process.kill()  # its pipe is full: the sender waits in a write
        threads[0].join()
        client.kill()


@contextmanager
def reading_nothing(client: ProxyClient, code: str) -> Iterator[None]:
    """Send requests with large answers and read none of them."""
    del code
    over = threading.Event()

    def send() -> None:
        with contextlib.suppress(OSError):
            while not over.is_set():
                client.call("ledger.look", size=100_000)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
        assert psutil.Process(client.process.pid).memory_info().rss < 16 << 20
    finally:
        over.set()
        client.process.kill()
        sender.join()
        client.kill()


@pytest.mark.parametrize("code", [CALL, SCRIPT], ids=["call", "script"])
@pytest.mark.parametrize("busy", [flooding, reading_nothing], ids=["flood", "reads nothing"])
def test_another_client_s_p95_at_most_doubles(
    home: Home, busy: Callable[[ProxyClient, str], contextlib.AbstractContextManager[None]], code: str
) -> None:
    home.write_config(daemon={"idle_timeout": "60s"})
    other = home.client()
    other.greet()
    timed(other, code, ROUNDS)
    client = home.client(modern=True)
    client.greet()
    client.value(client.chain(code))
    home.clients.remove(client)
    proxy = psutil.Process(client.process.pid)
    alone: list[float] = []
    beside: list[float] = []
    with busy(client, code):
        for _ in range(TURNS):  # in turns, since the machine may have other work
            proxy.suspend()
            time.sleep(SETTLED_SECONDS)
            alone += timed(other, code, ROUNDS)
            proxy.resume()
            beside += timed(other, code, ROUNDS)
    print(f"p95 alone {p95(alone) * 1000:.1f} ms, beside {p95(beside) * 1000:.1f} ms")
    assert p95(beside) <= MOST * p95(alone) + SLACK_SECONDS
