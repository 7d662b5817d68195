"""The pool of worker processes: answers, loss, cancellation, and processes that are let go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from gatemini.processes.workers import worker_pool
from gatemini.processes.workers.worker_pool import WorkerFailed, WorkerLost, WorkerPool

WORK = """
import os, sys, time
def answer(request):
    word, _, rest = bytes(request).partition(b" ")
    if word == b"echo": return rest
    if word == b"pid": return str(os.getpid()).encode()
    if word == b"sleep": time.sleep(float(rest)); return b"slept"
    if word == b"modules": return " ".join(sys.modules).encode()
    if word == b"die": os._exit(3)
    raise ValueError(f"no such word: {word.decode()}")
"""
pytestmark = pytest.mark.anyio

SECONDS = 60.0
"""For what takes milliseconds on a quiet machine."""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "pool_test_work.py").write_text(WORK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    return "pool_test_work"


@asynccontextmanager
async def pool_of(module: str, *, idle_seconds: float = 60.0) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(module, idle_seconds=idle_seconds)
    try:
        with anyio.fail_after(SECONDS):
            yield pool
    finally:
        await pool.close()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - a process's state has no event
        await anyio.sleep(0.01)


async def pid(pool: WorkerPool) -> int:
    return int(await pool.ask(b"pid"))


@pytest.mark.parametrize("size", [0, 1, 100_000, 40_000_000])
async def test_an_answer_of_any_size_comes_back_as_it_was_sent(module: str, size: int) -> None:
    async with pool_of(module) as pool:
        data = os.urandom(min(size, 1000)) * -(-size // 1000)
        assert await pool.ask(b"echo " + data) == data


async def test_one_process_serves_request_after_request(module: str) -> None:
    async with pool_of(module) as pool:
        assert await pid(pool) == await pid(pool) != os.getpid()


async def test_an_exception_of_the_module_is_raised_with_its_type_and_text(module: str) -> None:
    async with pool_of(module) as pool:
        before = await pid(pool)
        with pytest.raises(WorkerFailed, match="ValueError: no such word: nonsense"):
            await pool.ask(b"nonsense")
        assert await pid(pool) == before


async def test_a_lost_process_is_named_with_its_end_and_replaced(module: str) -> None:
    async with pool_of(module) as pool:
        with pytest.raises(WorkerLost, match="exited with code 3"):
            await pool.ask(b"die")
        before = await pid(pool)
        os.kill(before, signal.SIGKILL)
        await until(lambda: before not in pool.pids)
        assert await pid(pool) != before


async def test_the_process_of_a_cancelled_request_is_kept_when_it_ends_soon(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "CANCELLED_SECONDS", 2.0)  # after which it is looked for, too
    async with pool_of(module) as pool:
        before = await pid(pool)
        with anyio.move_on_after(0.05):
            await pool.ask(b"sleep 0.1")
        await until(lambda: pool._idle is not None)
        assert await pid(pool) == before


async def test_the_process_of_a_cancelled_request_is_killed_when_it_goes_on(module: str) -> None:
    async with pool_of(module) as pool:
        before = await pid(pool)
        with anyio.move_on_after(0.05):
            await pool.ask(b"sleep 1000")
        assert await pid(pool) != before  # no request waits for the busy one
        await until(lambda: not psutil.pid_exists(before) or psutil.Process(before).status() == "zombie")


async def test_an_idle_process_is_ended(module: str) -> None:
    async with pool_of(module, idle_seconds=0.05) as pool:
        await pid(pool)
        await until(lambda: not pool.pids)


async def test_requests_after_the_end_are_refused_and_those_in_flight_end(module: str) -> None:
    async with pool_of(module) as pool:
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(WorkerLost):
                    await pool.ask(b"sleep 1000")

            tasks.start_soon(ask)
            await until(lambda: bool(pool.pids))
            await pool.close()
        with pytest.raises(WorkerLost, match="closed"):
            await pool.ask(b"pid")


async def test_where_no_process_can_be_started_a_thread_answers(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    async with pool_of(module) as pool:
        assert await pid(pool) == os.getpid()
        with pytest.raises(WorkerFailed, match="ValueError"):
            await pool.ask(b"nonsense")


async def test_a_worker_imports_nothing_but_its_module(module: str) -> None:
    async with pool_of(module) as pool:
        loaded = set(bytes(await pool.ask(b"modules")).decode().split())
    assert not loaded & {"asyncio", "anyio", "orjson", "pydantic", "mcp", "wasmtime", "numpy"}


@pytest.mark.parametrize("work", ["b'pid'", "b'sleep 1000'"])
def test_a_process_ends_with_its_parent_also_while_it_computes(module: str, work: str) -> None:
    program = f"""
import anyio, os, signal
from gatemini.processes.workers.worker_pool import WorkerPool
async def main():
    pool = WorkerPool({module!r})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.ask, {work})
        while not pool.pids:
            await anyio.sleep(0.01)
        print(pool.pids[0], flush=True)
        await anyio.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main)
"""
    parent = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)
    child, until_then = int(parent.stdout), time.monotonic() + SECONDS
    while psutil.pid_exists(child) and psutil.Process(child).status() != "zombie":
        assert time.monotonic() < until_then
        time.sleep(0.01)
