"""Replicas on Redis beside gateways that keep everything in memory, and what relaying a parked chain adds.

All are processes of their own on this machine; each client is at one of them, so that what is compared is the store.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
from tests.benchmarks.contestants import PLAIN_SERVER, ROOT, stdio_backend
from tests.benchmarks.gateway import ONE, SHORT
from tests.benchmarks.http import AT_ONCE, EACH, MODERN, HttpClient, contestant
from tests.benchmarks.measure import Outcome, Ratio, Run, take_turns
from tests.fixtures.ports import free_port
from tests.fixtures.redis_server import redis_running

REPLICAS = 4
ASKING = ROOT / "tests" / "fixtures" / "asking_server.py"
JSON_CALL = json.dumps({"tool": "demo.echo", "arguments": {"n": 1}})
CAN_ASK = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
QUESTION = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}},
}


class SessionClient(HttpClient):
    """A client of 2026-07-28 with a session of its own, which all replicas know by its name."""

    def __init__(self, port: int, session: str) -> None:
        super().__init__(port, modern=True)
        self._meta = {**CAN_ASK, "gatemini/session": session}
        self._ids = itertools.count(1)

    def ask(self, code: str, **more: Any) -> dict[str, Any]:
        """The result of a chain."""
        params = {"name": "call_tool_chain", "arguments": {"code": code}, "_meta": self._meta, **more}
        answer, body = self._post({"id": next(self._ids), "method": "tools/call", "params": params})
        if answer.headers["content-type"].startswith("text/event-stream"):
            body = next(line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 6)
        result: dict[str, Any] = orjson.loads(body)["result"]
        if result.get("isError"):
            raise RuntimeError(str(result))
        return result


@contextmanager
def gateways(count: int, state: dict[str, Any]) -> Iterator[list[int]]:
    """So many gateways with this state; their ports."""
    with ExitStack() as stack:
        ports = [free_port() for _ in range(count)]
        for port in ports:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            backends = {
                "demo": stdio_backend(PLAIN_SERVER),
                "ask": {"command": sys.executable, "args": ["-P", str(ASKING)]},
            }
            config = {"cache_path": f"{folder}/cache.json", "backends": backends, "state": state}
            (folder / "config.yaml").write_text(json.dumps({**config, "semantic": {"model": "none"}}))
            serve = ["-m", "gatemini", "serve", "--http", f"127.0.0.1:{port}", "-c", f"{folder}/config.yaml"]
            stack.enter_context(contestant(serve, port, modern=True))
        yield ports


def _clients(ports: list[int]) -> list[SessionClient]:
    return [SessionClient(ports[number % len(ports)], f"s{number}") for number in range(AT_ONCE)]


def _answered(asker: SessionClient, answerer: SessionClient) -> float:
    """Milliseconds of the second call of a chain that asks its user."""
    code = f"return await ask.ask({json.dumps(QUESTION)});"
    parked = asker.ask(code)
    [key] = parked["inputRequests"]
    given = {key: {"action": "accept", "content": {}}}
    began = time.perf_counter()
    answerer.ask(code, requestState=parked["requestState"], inputResponses=given)
    return (time.perf_counter() - began) * 1000


def replicas(rounds: int) -> Outcome:
    """One call, many at once, a script, and a parked chain that is answered at its own replica and at another."""
    with (
        redis_running() as redis,
        gateways(REPLICAS, {"url": "memory:"}) as alone,
        gateways(REPLICAS, redis.config) as together,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        memory, shared = _clients(alone), _clients(together)
        beside = SessionClient(together[1], "s0")

        def crowd(clients: list[SessionClient]) -> None:
            list(pool.map(lambda client: [client.ask(JSON_CALL) for _ in range(EACH)], clients))

        single: dict[str, Run] = {
            "memory, one-call chain": lambda: memory[0].ask(JSON_CALL),
            "Redis, one-call chain": lambda: shared[0].ask(JSON_CALL),
            "memory, script of one call": lambda: memory[0].ask(ONE),
            "Redis, script of one call": lambda: shared[0].ask(ONE),
        }
        many: dict[str, Run] = {
            f"{REPLICAS} with memory, {AT_ONCE * EACH} calls": lambda: crowd(memory),
            f"{REPLICAS} with Redis, {AT_ONCE * EACH} calls": lambda: crowd(shared),
        }
        parked: dict[str, Run] = {
            "answered at its own replica": lambda: _answered(shared[0], shared[0]),
            "answered at another replica": lambda: _answered(shared[0], beside),
        }
        figures = take_turns("replicas", single, rounds, repeat=SHORT)
        crowds = take_turns("replicas", many, rounds)
        answers = take_turns("replicas", parked, rounds)
    one, one_shared, script, script_shared = (figures[name].median_ms for name in single)
    crowd_alone, crowd_shared = (crowds[name].median_ms for name in many)
    own, other = (answers[name].median_ms for name in parked)
    compared = [
        ("one-call chain, Redis / memory", one_shared / one),
        ("script, Redis / memory", script_shared / script),
        (f"{REPLICAS} replicas at once, Redis / memory", crowd_shared / crowd_alone),
    ]
    ratios = [Ratio("replicas", what, round(value, 2), "<= 1.3", value <= 1.3) for what, value in compared]
    added = round(other - own, 2)
    ratios.append(Ratio("replicas", "relay of a parked chain adds, ms", added, "<= 10", added <= 10))
    return Outcome((*figures.values(), *crowds.values(), *answers.values()), tuple(ratios))
