"""Over HTTP: one call through the gateway beside an echo server of the SDK, and chains beside FastMCP's code mode.

All are processes of their own with the same client in front; gateway and code mode have the same backend behind them.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import psutil
from tests.benchmarks.contestants import PLAIN_SERVER, ROOT, stdio_backend
from tests.benchmarks.gateway import ONE, PYTHON_ONE, SHORT
from tests.benchmarks.measure import Figure, Outcome, Ratio, Run, take_turns
from tests.fixtures.ports import free_port

RIVALS = ROOT / "tests" / "benchmarks" / "http_rivals.py"
START_SECONDS = 60.0
SESSIONS, SETTLED_SESSIONS = 2000, 100
MOST_KIB = 60
AT_ONCE = 8
"""Clients of the throughput; each has a connection of its own."""
EACH = 10
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class HttpClient:
    """One connection that is kept, and a request after the other; of either era."""

    def __init__(self, port: int, *, modern: bool) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._modern = modern
        self._headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if modern:
            self._headers["mcp-protocol-version"] = "2026-07-28"
            return
        answer, _ = self._post({"id": 0, "method": "initialize", "params": HANDSHAKE})
        self._headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        self._headers["mcp-protocol-version"] = "2025-11-25"
        self._post({"method": "notifications/initialized"})

    def _post(self, message: dict[str, Any]) -> tuple[http.client.HTTPResponse, bytes]:
        body = orjson.dumps({"jsonrpc": "2.0", **message})
        headers = dict(self._headers)
        if self._modern:
            headers["mcp-method"], headers["mcp-name"] = message["method"], message["params"]["name"]
        self._connection.request("POST", "/mcp", body, headers)
        answer = self._connection.getresponse()
        return answer, answer.read()

    def call(self, name: str, arguments: dict[str, Any], expected: Any) -> None:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if self._modern:
            params["_meta"] = MODERN
        answer, body = self._post({"id": 1, "method": "tools/call", "params": params})
        if answer.headers["content-type"].startswith("text/event-stream"):
            body = next(line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 6)
        result = orjson.loads(body)["result"]
        if result.get("isError") or orjson.loads(result["content"][0]["text"]) != expected:
            raise RuntimeError(f"expected {expected!r}, got {body[:300]!r}")


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def listening_process(words: list[str], port: int) -> Iterator[int]:
    """The id of a server that this command starts on the port."""
    process = subprocess.Popen(
        [sys.executable, "-P", *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + START_SECONDS
        while not listens(port):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"{words} does not listen")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def contestant(words: list[str], port: int, *, modern: bool) -> Iterator[tuple[int, list[HttpClient]]]:
    """The id of a server that this command starts on the port, and clients of it."""
    with listening_process(words, port) as pid:
        yield pid, [HttpClient(port, modern=modern) for _ in range(AT_ONCE)]


def cpu_ms(pid: int) -> float:
    """Milliseconds of CPU time that a process has used; the system counts in hundredths of a second."""
    times = psutil.Process(pid).cpu_times()
    return (times.user + times.system) * 1000


def cpu_of_a_call(contestants: dict[str, tuple[int, Run]], rounds: int) -> dict[str, Figure]:
    """CPU time of the servers' own processes, of all rounds together; the contestants take turns."""
    spent = dict.fromkeys(contestants, 0.0)
    for _ in range(rounds):
        for name, (pid, run) in contestants.items():
            before = cpu_ms(pid)
            run()
            spent[name] += cpu_ms(pid) - before
    each = {name: round(total / rounds / AT_ONCE / EACH, 3) for name, total in spent.items()}
    return {name: Figure("http", f"{name}, CPU a call", ms, ms, ms, rounds) for name, ms in each.items()}


def over_http(rounds: int) -> Outcome:
    """One call, many at once, and a chain of one call."""
    ports = [free_port() for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        config = Path(folder) / "config.yaml"
        backends = {"demo": stdio_backend(PLAIN_SERVER)}
        config.write_text(json.dumps({"cache_path": f"{folder}/cache.json", "backends": backends}))
        serve = ["-m", "gatemini", "serve", "--http", f"127.0.0.1:{ports[0]}", "-c", str(config)]
        with (
            contestant(serve, ports[0], modern=True) as (gateway, ours),
            contestant([str(RIVALS), "echo", str(ports[1])], ports[1], modern=True) as (server, sdk),
            contestant([str(RIVALS), "code", str(ports[2]), str(PLAIN_SERVER)], ports[2], modern=False) as (
                _,
                code,
            ),
        ):
            json_call = json.dumps({"tool": "demo.echo", "arguments": {"n": 1}})
            gate = partial(
                HttpClient.call, name="call_tool_chain", arguments={"code": json_call}, expected={"n": 1}
            )
            echo = partial(HttpClient.call, name="echo", arguments={"n": 1}, expected={"n": 1})

            def crowd(call: Any, clients: list[HttpClient]) -> None:
                list(pool.map(lambda client: [call(client) for _ in range(EACH)], clients))

            single: dict[str, Run] = {
                "gatemini, one-call chain": lambda: gate(ours[0]),
                "SDK echo server": lambda: echo(sdk[0]),
                "gatemini, script of one call": lambda: ours[0].call("call_tool_chain", {"code": ONE}, 1),
                "fastmcp code mode": lambda: code[0].call("execute", {"code": PYTHON_ONE}, 1),
            }
            many: dict[str, Run] = {
                f"gatemini, {AT_ONCE * EACH} calls of {AT_ONCE} clients": lambda: crowd(gate, ours),
                f"SDK echo server, {AT_ONCE * EACH} calls of {AT_ONCE} clients": lambda: crowd(echo, sdk),
            }
            figures = take_turns("http", single, rounds, repeat=SHORT)
            crowds = take_turns("http", many, rounds)
            cpu = cpu_of_a_call(
                dict(zip(many, zip((gateway, server), many.values(), strict=True), strict=True)), rounds
            )
    call, plain, script, rival = (figures[name].median_ms for name in single)
    crowd_of_ours, crowd_of_sdk = (crowds[name].median_ms for name in many)
    throughput = crowd_of_sdk / crowd_of_ours
    cpu_of_ours, cpu_of_sdk = (cpu[name].median_ms for name in many)
    ratios = (
        Ratio(
            "http", "one-call chain / the SDK's tools/call", round(call / plain, 2), "<= 2", call / plain <= 2
        ),
        Ratio("http", "calls a second / the SDK's", round(throughput, 2), ">= 0.5", throughput >= 0.5),
        Ratio("http", "CPU of a call / the SDK's", round(cpu_of_ours / cpu_of_sdk, 2), "reported", None),
        Ratio("http", "chains a second / code mode's", round(rival / script, 2), ">= 3", rival / script >= 3),
    )
    return Outcome((*figures.values(), *crowds.values(), *cpu.values()), ratios)


def idle_sessions(rounds: int) -> Outcome:
    """What one more idle session of the handshake eras takes of memory."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        backends = {"demo": stdio_backend(PLAIN_SERVER)}
        config.write_text(json.dumps({"cache_path": f"{folder}/cache.json", "backends": backends}))
        serve = ["-m", "gatemini", "serve", "--http", f"127.0.0.1:{port}", "-c", str(config)]
        with listening_process(serve, port) as pid:
            for _ in range(SETTLED_SESSIONS):
                HttpClient(port, modern=False)
            before = psutil.Process(pid).memory_full_info().pss
            for _ in range(SESSIONS):
                HttpClient(port, modern=False)
            each = (psutil.Process(pid).memory_full_info().pss - before) / SESSIONS / 1024
    figure = Figure("http_sessions", "KiB of an idle session", each, each, each, 1)
    return Outcome(
        (figure,),
        (
            Ratio(
                "http_sessions", "KiB of an idle session", round(each, 1), f"<= {MOST_KIB}", each <= MOST_KIB
            ),
        ),
    )
