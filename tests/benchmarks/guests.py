"""Measure the sandbox in this process: chains without a client, guests without a gateway, quickjs-rs as the rival."""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import psutil
import quickjs_rs
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse
from tests.benchmarks.contestants import PYTHON_BACKEND
from tests.benchmarks.measure import Figure, Outcome, Ratio

from gatemini.app import App
from gatemini.backends.transports.python import load_server
from gatemini.model import Tool
from gatemini.protocol.sessions.client_session import Session as ClientSession
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import Calls, Done, Reply, Start

Isolation = Literal["thread", "process"]
BOTH: tuple[Isolation, ...] = ("thread", "process")
SHORT = 20
CALLS = 1000
BUSY = 8
SEARCHES = 200
IDLE = 30
MANY_TOOLS = 10_000
INDEXED_SECONDS = 2.0
CLIENTS_TURN_SECONDS = 0.002
"""Between two chains of one client: it reads the answer, writes the next request, and both cross a pipe."""
SETTLE_SECONDS = 2.0
"""The gateway loads its search model in the background meanwhile."""
FAIR_SECONDS = 8.0
"""CPU time of the busy guests: more than the searches beside them take."""


def figure(scenario: str, contestant: str, times: list[float]) -> Figure:
    ordered = sorted(times)
    p95 = ordered[round(0.95 * (len(ordered) - 1))]
    return Figure(
        scenario,
        contestant,
        round(statistics.median(ordered), 3),
        round(ordered[0], 3),
        round(p95, 3),
        len(times),
    )


def at_most(scenario: str, meaning: str, value: float, bound: float) -> Ratio:
    return Ratio(scenario, meaning, round(value, 3), f"<= {bound:g}", value <= bound)


@asynccontextmanager
async def running_app(
    folder: Path, backend: dict[str, Any] = PYTHON_BACKEND, **sandbox: object
) -> AsyncIterator[App]:
    """A gateway in this process with the backend `demo`: the fixture in this process, if no other is given."""
    config = folder / "gatemini.json"
    config.write_text(
        json.dumps({"backends": {"demo": backend}, "cache_path": str(folder / "cache"), "sandbox": sandbox})
    )
    async with App.open(config, environ={}) as app:
        if not await app.settled(20):
            raise SystemExit("the backend did not start")
        await anyio.sleep(SETTLE_SECONDS)
        yield app


async def answer(app: App, code: str, client: ClientSession | None = None) -> tuple[str, bool]:
    """A chain's answer, within the stay of `client`, or in one of its own."""
    result = await app.call_meta_tool("call_tool_chain", {"code": code}, client)
    return "\n".join(block.get("text", "") for block in result["content"]), result["isError"]


async def timed(
    work: Callable[[int], Awaitable[object]], rounds: int, repeat: int = 1, pause: float = 0.0
) -> list[float]:
    """Milliseconds of each operation, `repeat` of them a round; the first rounds are thrown away.

    `pause`: seconds between two operations, not counted."""
    times = []
    for n in range((rounds + 3) * repeat):
        if pause:
            await anyio.sleep(pause)
        started = time.perf_counter()
        await work(n)
        times.append((time.perf_counter() - started) * 1000)
    return times[3 * repeat :]


async def value(app: App, code: str, expected: str, client: ClientSession | None = None) -> None:
    text, is_error = await answer(app, code, client)
    if is_error or text != expected:
        raise SystemExit(f"wrong answer: {text[:200]}")


async def server_alone(rounds: int) -> list[float]:
    """Milliseconds the fixture's own server takes to answer one call over the same memory streams, without a gateway."""
    server = load_server(PYTHON_BACKEND["module"])
    async with (
        create_client_server_memory_streams() as ((incoming, outgoing), (server_read, server_write)),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(server.run, server_read, server_write, server.create_initialization_options())

        async def ask(ident: int, method: str, params: dict[str, Any]) -> None:
            message = JSONRPCRequest(jsonrpc="2.0", id=ident, method=method, params=params)
            await outgoing.send(SessionMessage(message))
            answer: Any = await incoming.receive()
            if not isinstance(answer.message, JSONRPCResponse):
                raise SystemExit(f"no answer: {answer.message}")

        key = "io.modelcontextprotocol/"
        meta = {
            f"{key}protocolVersion": "2026-07-28",
            f"{key}clientInfo": {"name": "benchmark", "version": "1"},
            f"{key}clientCapabilities": {},
        }
        await ask(0, "server/discover", {"_meta": meta})
        call = {"name": "echo", "arguments": {"n": 7}, "_meta": meta}
        times = await timed(lambda n: ask(n + 1, "tools/call", call), rounds, SHORT)
        tasks.cancel_scope.cancel()
    return times


def internal(rounds: int) -> Outcome:
    """Chains of one client inside the gateway: known code (its TypeScript step is kept) beside code never seen.

    The goals are for one after the other, the time of the backend's own server included; with the pause that a client's
    turn is, processor and caches are colder, and the second chain need not wait for the first one's guest."""
    return anyio.run(_internal, rounds)


async def _internal(rounds: int) -> Outcome:
    figures = [figure("internal: 1 call", "the backend's own server", await server_alone(rounds))]
    ratios: list[Ratio] = []
    programs = {
        "empty": ("if (1) {{ return {n}; }}", 1.0),
        "1 call": ("const r = await demo.echo({{ n: {n} }});\nif (r) {{ return r.n; }}", 1.5),
    }
    for isolation in BOTH:
        with tempfile.TemporaryDirectory() as folder:
            async with running_app(Path(folder), isolation=isolation) as app:
                asked = partial(value, app, client=app.new_session())
                unseen = itertools.count(1000)
                for name, (code, bound) in programs.items():
                    for step, most, numbers in (
                        ("known code", bound, itertools.repeat(7)),
                        ("new code", 2.5, unseen),
                    ):

                        async def ask(_: int, code: str = code, numbers: Iterator[int] = numbers) -> None:
                            n = next(numbers)
                            await asked(code.format(n=n), str(n))  # noqa: B023 - awaited within its turn

                        for pause, how in ((0.0, ""), (CLIENTS_TURN_SECONDS, ", with pauses")):
                            times = await timed(ask, rounds, SHORT, pause)
                            made = figure(f"internal: {name}", f"{isolation}, {step}{how}", times)
                            figures.append(made)
                            if isolation == "thread" and not pause:
                                ratios.append(
                                    at_most(made.scenario, f"median ms, {step}", made.median_ms, most)
                                )
    return Outcome(tuple(figures), tuple(ratios))


@contextmanager
def sandboxes(isolation: Isolation, limits: Limits | None = None) -> Iterator[Sandbox]:
    with tempfile.TemporaryDirectory() as folder:
        made = Sandbox(limits or Limits(calls=2 * CALLS), cache_dir=Path(folder), isolation=isolation)
        made.warm()
        try:
            yield made
        finally:
            made.close()


SEQUENTIAL = f"let s = 0; for (let n = 0; n < {CALLS}; n++) s += (await demo.echo({{ n }})).n; return s"
PARALLEL = (
    f"const all = await Promise.all(Array.from({{ length: {CALLS} }}, (_, n) => demo.echo({{ n }})));"
    " return all.reduce((s, r) => s + r.n, 0)"
)


def calls(rounds: int) -> Outcome:
    """A thousand calls answered at once by the host: what crossing costs, in both modes."""
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    for isolation in BOTH:
        with sandboxes(isolation) as sandbox:
            for name, code, each in (("sequential", SEQUENTIAL, CALLS), ("parallel", PARALLEL, 1)):
                times = anyio.run(timed, lambda _, code=code: _answered(sandbox, code), min(rounds, 10))
                made = figure(f"{CALLS} calls: {name}", isolation, times)
                figures.append(made)
                if isolation == "thread":
                    bound = 0.15 if each > 1 else 60.0
                    ratios.append(
                        at_most(
                            made.scenario,
                            "ms for each" if each > 1 else "ms in all",
                            made.median_ms / each,
                            bound,
                        )
                    )
    return Outcome(tuple(figures), tuple(ratios))


LOOP_CALLS = 50
LOOP = SEQUENTIAL.replace(str(CALLS), str(LOOP_CALLS))
THEIR_LOOP = LOOP.replace("(await demo.echo({ n })).n", "await echo(n)").replace("return s", "s")
LOOP_VALUE = str(LOOP_CALLS * (LOOP_CALLS - 1) // 2)


async def _answered(sandbox: Sandbox, code: str, expected: str = str(CALLS * (CALLS - 1) // 2)) -> None:
    session = sandbox.session(code, ("demo",))
    step = await session.start(begin())
    while isinstance(step, Calls):
        step = await session.resume([Reply(c.id, True, c.text) for c in step.calls])
    session.close()
    if not isinstance(step, Done) or step.text != expected:
        raise SystemExit(f"wrong answer: {step}")


def begin() -> Start:
    return Start(backends=[("demo", "demo")], seed=bytes(32), now_ms=time.time() * 1000)


def rival(rounds: int) -> Outcome:
    """An empty program and a loop of awaited calls, each in a fresh guest, beside quickjs-rs' own runtime."""
    with sandboxes("thread") as sandbox:
        ours = figure(
            "fresh guest",
            "gatemini",
            anyio.run(timed, lambda _: _answered(sandbox, "return 2", "2"), rounds, SHORT),
        )
    times = []
    for _ in range(rounds * SHORT):
        began = time.perf_counter()
        with quickjs_rs.Runtime() as runtime, runtime.new_context() as context:
            if context.eval("(() => { return 2 })()") != 2:
                raise SystemExit("wrong answer")
        times.append((time.perf_counter() - began) * 1000)
    theirs = figure("fresh guest", "quickjs-rs", times)
    with sandboxes("thread") as sandbox:
        work = lambda _: _answered(sandbox, LOOP, LOOP_VALUE)  # noqa: E731
        ours_loop = figure("50 awaited calls", "gatemini", anyio.run(timed, work, rounds))
    theirs_loop = figure("50 awaited calls", "quickjs-rs", anyio.run(timed, _their_loop, rounds))
    pairs = ((ours, theirs), (ours_loop, theirs_loop))
    ratios = tuple(_times_faster(ours, theirs) for ours, theirs in pairs)
    return Outcome(tuple(figure for pair in pairs for figure in pair), ratios)


def _times_faster(ours: Figure, theirs: Figure) -> Ratio:
    ratio = theirs.median_ms / ours.median_ms
    return Ratio(ours.scenario, "times faster than quickjs-rs", round(ratio, 2), ">= 3", ratio >= 3)


async def _their_loop(_: int) -> None:
    async def echo(n: int) -> int:
        return n

    with quickjs_rs.Runtime() as runtime, runtime.new_context() as context:
        context.register("echo", echo)
        if str(await context.eval_async(THEIR_LOOP)) != LOOP_VALUE:
            raise SystemExit("wrong answer")


def idle(rounds: int) -> Outcome:
    """Resident memory of guests that wait for an answer."""
    return anyio.run(_idle)


async def _idle() -> Outcome:
    with sandboxes("thread", Limits(guests=8)) as sandbox:
        await _answered(sandbox, "return 1", "1")
        process = psutil.Process()
        before = process.memory_info().rss
        open_ = [sandbox.session("return await demo.echo({})", ("demo",)) for _ in range(IDLE)]
        for session in open_:
            await session.start(begin())
        each = (process.memory_info().rss - before) / IDLE / (1 << 20)
        for session in open_:
            session.close()
    return Outcome((), (at_most("idle guests", f"MiB resident for each of {IDLE}", each, 2.0),))


def tools(rounds: int) -> Outcome:
    """A chain with one call while 10 tools are registered, and while 10,000 are, in turns."""
    return anyio.run(_tools, rounds)


async def _tools(rounds: int) -> Outcome:
    times: dict[str, list[float]] = {"10 tools": [], f"{MANY_TOOLS} tools": []}
    code = "const r = await demo.echo({ n: 7 });\nif (r) { return r.n; }"
    with tempfile.TemporaryDirectory() as folder:
        async with running_app(Path(folder)) as app:
            schema = {"type": "object", "properties": {"x": {"type": "string"}}}
            many = [
                Tool(backend="many", name=f"tool_{n}", description="", input_schema=schema)
                for n in range(MANY_TOOLS)
            ]
            for _ in range(5):
                for name, registered in ((next(iter(times)), many[:3]), (f"{MANY_TOOLS} tools", many)):
                    app.registry.replace("many", registered)
                    await anyio.sleep(
                        INDEXED_SECONDS
                    )  # the index takes them in beside what is measured, else
                    times[name] += await timed(lambda _: value(app, code, "7"), max(3, rounds // 5), SHORT)
    figures = [figure("registered tools", name, spent) for name, spent in times.items()]
    ratio = figures[1].median_ms / figures[0].median_ms
    return Outcome(tuple(figures), (at_most("registered tools", "time with many / with few", ratio, 1.1),))


def busy(rounds: int) -> Outcome:
    """`search_tools` while eight guests compute without end, in both modes."""
    return anyio.run(_busy)


async def _busy() -> Outcome:
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    for isolation in BOTH:
        with tempfile.TemporaryDirectory() as folder:
            async with running_app(
                Path(folder), isolation=isolation, cpu_seconds=FAIR_SECONDS, memory_mb=64
            ) as app:
                await value(app, "if (1) { return 1; }", "1")
                async with anyio.create_task_group() as group:
                    for n in range(BUSY):
                        group.start_soon(answer, app, f"for (let n = {n};;) {{ n++; }}")
                    await anyio.sleep(0.5)
                    times = await timed(
                        lambda n: app.call_meta_tool("search_tools", {"task_description": f"echo {n}"}),
                        SEARCHES,
                    )
                    group.cancel_scope.cancel()
        made = figure("search beside 8 busy guests", isolation, times)
        figures.append(made)
        p99 = sorted(times)[round(0.99 * (len(times) - 1))]
        ratios.append(at_most(made.scenario, f"p99 ms, {isolation}", p99, 50.0))
    return Outcome(tuple(figures), tuple(ratios))
