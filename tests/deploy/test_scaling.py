"""docs/scaling.md: its simulation prints the tables of the page, from what real replicas ask of a real Redis."""

from __future__ import annotations

import importlib.util
import itertools
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from types import ModuleType

import httpx2
import pytest

from fixtures.daemons import LEGACY
from fixtures.http_gateway import BOTH, result
from fixtures.redis_server import RedisServer
from fixtures.replicas import cluster

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scaling.md").read_text()

COMMANDS = {
    **dict.fromkeys(("SET", "DEL"), "set"),
    **dict.fromkeys(("LRANGE", "SMEMBERS"), "list"),
    **{"MGET": "get", "EVALSHA": "script", "PUBLISH": "publish"},
}
"""What the simulation calls a command; others are not of requests."""
TIMES = 5
BY_THE_CLOCK = TIMES - 1
"""The most of one command that gateways may send meanwhile by themselves; one more for each request is always found."""


def _simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scaling", ROOT / "docs" / "examples" / "scaling.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scaling = _simulation()


def test_the_simulation_prints_the_tables_of_the_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling.py", "3", "10", "50", "100"])
    scaling.main()
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(shown) == 2 * (2 + 4)
    assert [line for line in shown if line not in PAGE.splitlines()] == []


def test_the_costs_of_the_page_are_those_of_the_simulation() -> None:
    for what, commands in scaling.COSTS.items():
        words = " + ".join(f"{count} {command}" for command, count in commands.items())
        assert f"| {what} | {words} |" in PAGE, (what, words)


def test_twice_the_replicas_cost_each_message_of_the_bus_twice_as_much() -> None:
    busy = [scaling.simulate(scaling.Load(n, 30_000, 1.0, True), 1, 0.5).busy for n in (30, 60, 90)]
    assert busy[0] < busy[1] < busy[2]
    waited = scaling.waits([(0.0, 1000.0), (0.0, 1000.0), (5.0, 1000.0)])
    assert waited == pytest.approx([0.0, 0.001, 0.0])


class Monitor:
    """The commands that a Redis server gets."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(30)
        self._sock.connect(str(server.socket))
        self._sock.sendall(b"MONITOR\r\n")
        self._rest = b""
        self._marks = itertools.count()
        self.until_now()

    def close(self) -> None:
        self._sock.close()

    def until_now(self) -> Counter[str]:
        """The commands since the last time, as the simulation names them."""
        mark = f"mark-{next(self._marks)}".encode()
        self._server.cli("ECHO", mark.decode())
        while mark not in self._rest:
            self._rest += self._sock.recv(65_536)
        lines, self._rest = self._rest.split(b"\r\n"), b""
        found = (re.match(rb'\+[\d.]+ \[\d+ (\S+)\] "(\w+)" ?(?:"gatemini:(\w+))?', line) for line in lines)
        calls = [(each[1], each[2].decode().upper(), each[3]) for each in found if each]
        return Counter(
            COMMANDS[command]
            for who, command, kind in calls
            if command in COMMANDS and who != b"lua" and kind != b"alive"
        )


class Client:
    """A client of a handshake revision."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx2.Client(trust_env=False, timeout=60, headers={"accept": BOTH})
        self.ids = itertools.count(1)

    def handshake(self) -> dict[str, str]:
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": LEGACY}
        found = self.http.post(self.url, json=first)
        session = {"Mcp-Session-Id": found.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.http.post(self.url, json=done, headers=session).status_code == 202
        return session

    def chain(self, code: str, session: dict[str, str]) -> None:
        params = {"name": "call_tool_chain", "arguments": {"code": code}}
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": "tools/call", "params": params}
        answer = result(self.http.post(self.url, json=message, headers=session))
        assert not answer.get("isError"), answer

    def end(self, session: dict[str, str]) -> None:
        self.http.delete(self.url, headers=session)

    def close(self) -> None:
        self.http.close()


def looks(count: int) -> str:
    return f"for (let i = 0; i < {count}; i++) await ledger.look({{}}); return 1;"


ROWS = "return Array.from({length: 3000}, (_, i) => ({id: i, name: `row ${i}`, text: 'abcdefghij'}));"
"""Too large for an answer: it is reduced, and the whole is kept."""
CALL = ("each call of a chain", "each limit a call is counted for", "each call, with the data-flow guard")


@pytest.mark.long
def test_each_request_asks_of_the_store_what_the_page_says(tmp_path: Path, subtests: pytest.Subtests) -> None:
    policy = {"budgets": {"calls_per_minute": 100_000}, "flow": "warn"}
    with cluster(tmp_path, policy=policy) as found, ExitStack() as open_ones:
        first, second = (open_ones.enter_context(closing(Client(each.url))) for each in found.replicas)
        monitor, session = open_ones.enter_context(closing(Monitor(found.redis))), first.handshake()
        kept, chain = "a request with a session key", "a chain"
        cases: list[tuple[Callable[[], object], list[str]]] = [
            (first.handshake, ["a handshake"]),
            (lambda: first.chain("return 1;", session), [kept, chain]),
            (lambda: first.chain(looks(3), session), [kept, chain, *[*CALL] * 3]),
            (
                lambda: first.chain(ROWS, session),
                [kept, chain, "a result that is kept"],
            ),
            (
                lambda: second.chain("return 1;", first.handshake()),
                ["a handshake", "a session at a replica that meets it for the first time", kept, chain],
            ),
            (lambda: first.end(first.handshake()), ["a handshake", "a session that its client ends"]),
        ]
        for ask, parts in cases:
            ask()  # scripts are known, connections open
            monitor.until_now()
            for _ in range(TIMES):
                ask()
            counted = monitor.until_now()
            said = sum((Counter(scaling.COSTS[part]) for part in parts), Counter[str]())
            with subtests.test(", ".join(parts)):
                # Appends to a journal that come together are one, and so are deletions.
                for command in {*counted, *said}:
                    assert counted[command] <= said[command] * TIMES + BY_THE_CLOCK, (command, counted)
                assert said.total() * TIMES / 3 <= counted.total(), counted
