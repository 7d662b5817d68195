"""Each fault of a backend in turn, and after each of them the same: nobody else notices, nothing is left, the state is
true, the error has a cause and a remedy, and what writes was sent once. Odder details of the single faults are tested
where they belong (`test_calls.py`, `test_stream_faults.py`, `test_http.py`, `test_processes.py`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from fixtures.backend_bench import Bench, odd_config
from fixtures.odd_http import Handler, OddHttp, Request, serving
from gatemini.backends.base import State
from gatemini.config.schema import BackendConfig
from gatemini.errors import BackendError

pytestmark = pytest.mark.anyio

IN_CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "exits": ("die", {"code": 7, "stderr": "disk on fire\n"}, "backend.crashed"),
    "exits within its reply": (
        "raw",
        {"text": '{"jsonrpc":"2.0","id":ID,"result":{"con', "exit": True},
        "backend.crashed",
    ),
    "never answers": ("hang", {}, "backend.timeout"),
    "answers after the timeout": ("late", {"seconds": 0.6}, "backend.timeout"),
    "answers what is no JSON": (
        "raw",
        {"text": '{"jsonrpc":"2.0","id":ID,"result":nonsense}\n'},
        "backend.protocol",
    ),
    "answers with neither result nor error": (
        "raw",
        {"text": '{"jsonrpc":"2.0","id":ID}\n'},
        "backend.protocol",
    ),
    "writes a line beyond the limit": ("stream", {"blocks": 40}, "backend.too_large"),
}

AT_START: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "exits with a word on stderr": ({"exit_code": 1, "stderr": "no licence\n"}, {}, "no licence"),
    "exits on the probe and on the handshake": (
        {"on_discover": "exit", "on_initialize": "exit"},
        {},
        "exited with code 4",
    ),
    "exits when it is asked for its tools": ({"on_list": "exit"}, {}, "no tools today"),
    "stays silent": (
        {"on_discover": "silent", "on_initialize": "silent"},
        {"connect_timeout": 0.3},
        "connect_timeout",
    ),
    "is no command": ({}, {"command": "no-such-command"}, "command not found"),
}


async def held(bench: Bench) -> tuple[int, int, int]:
    """Tasks, descriptors and children of this process, once what ends has ended."""
    await bench.until_true(lambda: bench.manager.status("ill").calls_open == 0)
    me = psutil.Process()
    return len(asyncio.all_tasks()), me.num_fds(), len(me.children(recursive=True))


async def others_answer(bench: Bench) -> None:
    assert await bench.value("echo", {"n": 1}, name="well") == {"n": 1}


def says_cause_and_remedy(error: BackendError, cause: str) -> None:
    assert "ill" in error.message
    assert cause in error.message
    assert error.hint


@pytest.mark.parametrize("fault", IN_CALLS)
async def test_after_a_fault_within_a_call_all_is_as_before(bench: Bench, tmp_path: Path, fault: str) -> None:
    tool, arguments, code = IN_CALLS[fault]
    journal = tmp_path / "journal"
    await bench.odd("well")
    await bench.odd("ill", options={"journal": str(journal)}, max_message_mb=1)
    before = await held(bench)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others_answer, bench)
        with pytest.raises(BackendError) as failed:
            await bench.call(tool, arguments, name="ill", timeout=0.4)
    assert failed.value.code == code
    says_cause_and_remedy(failed.value, "")
    status = bench.manager.status("ill")
    assert status.state is (State.STOPPED if code == "backend.crashed" else State.HEALTHY)
    assert (status.error is None) is (status.state is State.HEALTHY)
    await others_answer(bench)
    assert await bench.value("echo", {"again": 1}, name="ill") == {"again": 1}
    assert [line.split()[0] for line in journal.read_text().splitlines()] == [tool, "echo"]
    assert bench.manager.status("ill").state is State.HEALTHY
    assert await held(bench) == before


@pytest.mark.parametrize("fault", AT_START)
async def test_a_backend_that_does_not_start_says_why_and_leaves_nothing(bench: Bench, fault: str) -> None:
    options, keys, cause = AT_START[fault]
    await bench.odd("well")
    before = len(psutil.Process().children(recursive=True)), psutil.Process().num_fds()
    config = odd_config("ill", options=options, **{k: v for k, v in keys.items() if k != "command"})
    bench.manager.add(config.model_copy(update={k: v for k, v in keys.items() if k == "command"}))
    with pytest.raises(BackendError) as failed:
        await bench.call("echo", name="ill")
    says_cause_and_remedy(failed.value, cause)
    assert bench.manager.status("ill").state is State.STOPPED
    assert cause in (bench.manager.error("ill") or "")
    await others_answer(bench)
    await bench.manager.remove("ill")
    assert (len(psutil.Process().children(recursive=True)), psutil.Process().num_fds()) == before


def answering(status: int, body: bytes = b"", **rest: str) -> Handler:
    async def handler(request: Request) -> None:
        await request.answer(status, body, **rest)

    return handler


async def reset(request: Request) -> None:
    await request.stream.aclose()


async def drip(request: Request) -> None:
    await request.begin_events()
    while True:
        await request.write(b": still here\n")
        await anyio.sleep(0.02)


OVER_HTTP: dict[str, tuple[Handler, str]] = {
    "401": (answering(401, www_authenticate="Bearer"), "HTTP 401"),
    "403": (answering(403), "HTTP 403"),
    "429 for a long time": (answering(429, retry_after="60"), "HTTP 429"),
    "500": (answering(500, b"oops"), "HTTP 500"),
    "502": (answering(502), "HTTP 502"),
    "a redirect elsewhere": (answering(307, location="http://elsewhere.invalid/"), "redirected to"),
    "a web page": (answering(200, b"<html>hello</html>", kind="text/html"), "text/html"),
    "a connection reset": (reset, "broke before the answer"),
    "a slow drip": (drip, "did not answer"),
}


@pytest.mark.parametrize("fault", OVER_HTTP)
async def test_after_a_fault_of_an_http_backend_all_is_as_before(bench: Bench, fault: str) -> None:
    handler, cause = OVER_HTTP[fault]
    async with serving(OddHttp()) as server:
        await bench.odd("well")
        bench.manager.add(BackendConfig(name="ill", url=server.url))
        await bench.manager.wait_ready("ill", 10)
        children = len(psutil.Process().children(recursive=True))
        server.handlers["other"] = handler
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others_answer, bench)
            with pytest.raises(BackendError) as failed:
                await bench.call("other", name="ill", timeout=0.5)
        says_cause_and_remedy(failed.value, cause)
        assert server.calls("other") == 1, "what may have run is not sent again"
        assert bench.manager.status("ill").state is State.HEALTHY
        assert await bench.value("echo", {"again": 1}, name="ill") == {"again": 1}
        await others_answer(bench)
        await bench.until_true(lambda: bench.manager.status("ill").calls_open == 0)
        assert len(psutil.Process().children(recursive=True)) == children
