"""Keys of processes and connections: how they start, are waited for, watched, started again and stopped."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import Popen
from threading import Thread
from typing import Any

import anyio
import psutil
import pytest

from fixtures.backend_bench import ODD
from fixtures.config_keys import changed_app
from fixtures.running import answer
from gatemini.app import App
from gatemini.backends.calls.callers import Caller
from gatemini.backends.status import State
from gatemini.errors import BackendBusy, BackendError

pytestmark = [pytest.mark.anyio, pytest.mark.long]

FLAGS = ["-I", "-S"]
WAIT_SECONDS = 60.0
"""No single wait of these tests takes longer; what a key as shipped would delay takes longer still."""
QUICK = {
    "interval": "30ms",
    "timeout": "500ms",
    "backoff_initial": "10ms",
    "backoff_max": "20ms",
    "failure_threshold": 1,
}


def odd(options: dict[str, Any] | None = None, *, health: dict[str, Any] | None = None, **keys: Any) -> Any:
    """A configuration with the odd server and these options as its backend."""
    backend = {"command": sys.executable, "args": [*FLAGS, str(ODD), json.dumps(options or {})], **keys}
    return {"backends": {"demo": backend}, **({"health": health} if health else {})}


async def until(holds: Callable[[], bool]) -> None:
    """Poll for something that sends no event; bounded."""
    with anyio.fail_after(WAIT_SECONDS):
        while not holds():  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.005)


# -- connections -----------------------------------------------------------------------------------------


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """An HTTP server that refuses everybody, its port, and what it was sent: method, path, one header."""
    seen: list[str] = []

    class Refuses(BaseHTTPRequestHandler):
        def refuse(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append(f"{self.command} {self.path} {self.headers.get('X-Own')}")
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_DELETE = refuse

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.proves("backends.*.url", "backends.*.headers", "backends.*.transport")
async def test_a_remote_backend_is_called_as_its_keys_say(tmp_path: Path) -> None:
    with listening() as (port, seen):
        there = f"http://127.0.0.1:{port}"
        base = {"backends": {"demo": {"url": f"{there}/first"}}}
        for key, value, sent in (
            ("log_level", "error", "POST /first None"),
            ("backends.*.url", f"{there}/second", "POST /second None"),
            ("backends.*.headers", {"X-Own": "yes"}, "POST /first yes"),
            ("backends.*.transport", "sse", "GET /first None"),
        ):
            seen.clear()
            async with changed_app(tmp_path, key, value, base):
                assert seen[0] == sent


# -- starting and stopping -------------------------------------------------------------------------------


@pytest.mark.proves("backends.*.cwd")
async def test_a_backend_runs_in_its_configured_directory(tmp_path: Path) -> None:
    base = {"backends": {"demo": {"command": sys.executable, "args": [*FLAGS, Path(ODD).name]}}}
    async with changed_app(tmp_path, "backends.*.cwd", str(Path(ODD).parent), base) as app:
        assert app.manager.state("demo") is State.HEALTHY
    async with changed_app(tmp_path, "log_level", "error", base) as app:
        assert app.manager.state("demo") is not State.HEALTHY


@pytest.mark.proves("backends.*.lazy")
async def test_a_lazy_backend_is_not_started_with_the_gateway(tmp_path: Path) -> None:
    async with changed_app(tmp_path, "backends.*.lazy", True, odd()) as app:
        assert app.manager.status("demo").pid is None
    async with changed_app(tmp_path, "log_level", "error", odd()) as app:
        assert app.manager.status("demo").pid is not None


@pytest.mark.proves("backends.*.shutdown_grace_period")
async def test_a_backend_is_killed_after_its_grace_period(tmp_path: Path) -> None:
    code = (
        "import os, runpy, signal, sys, time\n"
        "def leave(*_):\n"
        "    time.sleep(1); open(sys.orig_argv[-1], 'w').close(); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, leave)\n"
        f"sys.argv = ['odd', '{{\"ignore_end\": true}}']; runpy.run_path({str(ODD)!r}, run_name='__main__')"
    )
    for name, key, value, said_goodbye in (
        ("long", "log_level", "error", True),
        ("short", "backends.*.shutdown_grace_period", "10ms", False),
    ):
        goodbye = tmp_path / name / "goodbye"
        backend = {"command": sys.executable, "args": [*FLAGS, "-c", code, str(goodbye)]}
        async with changed_app(tmp_path / name, key, value, {"backends": {"demo": backend}}) as app:
            assert app.manager.state("demo") is State.HEALTHY
        assert goodbye.exists() is said_goodbye, name


@pytest.mark.proves("health.drain_timeout")
async def test_open_calls_of_a_replaced_backend_end_after_drain_timeout(tmp_path: Path) -> None:
    for drain, ends in (("10s", True), ("1ms", False)):
        async with changed_app(tmp_path, "health.drain_timeout", drain, odd()) as app:
            told: list[str] = []

            async def call(app: App = app, told: list[str] = told) -> None:
                told.append((await answer(app, "return await demo.late({ seconds: 0.5 });"))[0])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda app=app: app.manager.status("demo").calls_open == 1)  # type: ignore[misc]
                changed = app.loaded.config.backends["demo"].model_copy(update={"tags": ("new",)})
                await app.manager.apply({"demo": changed})
            assert ("0.5" in told[0] and "Error" not in told[0]) is ends, told


# -- what must run beside it -----------------------------------------------------------------------------

WRITES = "import os, sys; open(sys.argv[1], 'w').write(os.environ.get('NOTE', 'empty')); "


def beside(folder: Path, **keys: Any) -> Any:
    """A backend with a prerequisite that writes a file in its working folder and then stays."""
    args = [*FLAGS, "-c", WRITES + "import time; time.sleep(600)", str(folder / "note")]
    wanted = {"command": sys.executable, "args": args, "startup_delay": "300ms", **keys}
    return odd(prerequisite=wanted)


@pytest.mark.proves(
    "backends.*.prerequisite.command",
    "backends.*.prerequisite.args",
    "backends.*.prerequisite.env",
    "backends.*.prerequisite.cwd",
)
async def test_a_prerequisite_is_started_as_its_keys_say(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    relative = [*FLAGS, "-c", WRITES, "here"]
    for key, value, file, content in (
        ("env", {"NOTE": "filled"}, "note", "filled"),
        ("args", [*FLAGS, "-c", WRITES, str(tmp_path / "other")], "other", "empty"),
        ("cwd", str(tmp_path / "there"), "there/here", "empty"),
    ):
        base = beside(tmp_path, **({"args": relative} if key == "cwd" else {}))
        async with changed_app(tmp_path, f"backends.*.prerequisite.{key}", value, base) as app:
            assert app.manager.state("demo") is State.HEALTHY
            await until((tmp_path / file).exists)
            await until(lambda file=file, content=content: (tmp_path / file).read_text() == content)  # type: ignore[misc]
    key = "backends.*.prerequisite.command"
    async with changed_app(tmp_path, key, "no-such-program-here", beside(tmp_path)) as app:
        assert "prerequisite" in (app.manager.error("demo") or "")


@pytest.mark.proves("backends.*.prerequisite.process_match", "backends.*.prerequisite.managed")
async def test_a_running_prerequisite_is_recognised_by_process_match(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-of-this-test"
    already = Popen([sys.executable, *FLAGS, "-c", "import time; time.sleep(600)", mark])  # noqa: ASYNC220 - forks at once
    try:
        key = "backends.*.prerequisite.process_match"
        async with changed_app(tmp_path, key, mark, beside(tmp_path)) as app:
            assert app.manager.state("demo") is State.HEALTHY
            assert not (tmp_path / "note").exists(), "it runs already"
    finally:
        already.kill()
        already.wait()

    def running() -> list[psutil.Process]:
        found = psutil.process_iter(["cmdline"])
        return [p for p in found if str(tmp_path / "note") in (p.info["cmdline"] or ())]

    for managed, left in ((True, 0), (False, 1)):
        async with changed_app(tmp_path, "backends.*.prerequisite.managed", managed, beside(tmp_path)) as app:
            assert app.manager.state("demo") is State.HEALTHY
            await until(lambda: len(running()) == 1)
        assert len(running()) == left
    for process in running():
        process.kill()
    psutil.wait_procs(running(), timeout=WAIT_SECONDS)


@pytest.mark.proves("backends.*.prerequisite.startup_delay")
async def test_a_backend_starts_after_the_startup_delay_of_its_prerequisite(tmp_path: Path) -> None:
    failing = [*FLAGS, "-c", "raise SystemExit(3)"]
    going_on = [*FLAGS, "-c", "import time; time.sleep(600)"]
    key = "backends.*.prerequisite.startup_delay"
    async with changed_app(tmp_path, key, "10s", beside(tmp_path, args=failing)) as app:
        assert "prerequisite" in (app.manager.error("demo") or "")
    async with changed_app(tmp_path, key, "1ms", beside(tmp_path, args=going_on)) as app:
        assert app.manager.state("demo") is State.HEALTHY


# -- instances -------------------------------------------------------------------------------------------

PID = "return await demo.pid({});"


async def pid_of(app: App, session: Any) -> str:
    result = await app.call_meta_tool("call_tool_chain", {"code": PID}, session)
    return str(result["content"][0]["text"])


@pytest.mark.proves("backends.*.instance_mode", "backends.*.pool.min_idle")
async def test_sessions_share_or_own_processes_by_instance_mode(tmp_path: Path) -> None:
    for mode, processes in (("shared", 1), ("dedicated", 2), ("singleton", 1)):
        async with changed_app(tmp_path, "backends.*.instance_mode", mode, odd()) as app:
            assert len({await pid_of(app, app.new_session()) for _ in range(2)}) == processes
    base = odd(instance_mode="dedicated")
    async with changed_app(tmp_path, "backends.*.pool.min_idle", 3, base) as app:
        assert app.manager.status("demo").idle_instances == 3


@pytest.mark.proves("backends.*.pool.max_instances", "backends.*.pool.acquire_timeout")
async def test_a_session_waits_acquire_timeout_for_one_of_max_instances(tmp_path: Path) -> None:
    pool = {"max_instances": 1, "acquire_timeout": "50ms"}
    base = odd(instance_mode="dedicated", timeout="1h", pool=pool)
    async with changed_app(tmp_path, "log_level", "error", base) as app:
        await app.manager.call_tool("demo", "pid", {}, timeout=WAIT_SECONDS, caller=Caller(session="one"))
        with anyio.fail_after(WAIT_SECONDS), pytest.raises(BackendBusy, match="all 1 instances"):
            await app.manager.call_tool("demo", "pid", {}, timeout=3600, caller=Caller(session="two"))


@pytest.mark.proves("backends.*.pool.replenish_delay")
async def test_a_taken_instance_is_replaced_after_replenish_delay(tmp_path: Path) -> None:
    pool = {"max_instances": 1, "replenish_delay": "1h"}
    base, slow = (odd(instance_mode="dedicated", pool=dict(pool)) for _ in range(2))
    base["backends"]["slow"] = slow["backends"]["demo"]
    key = "backends.*.pool.replenish_delay"
    async with changed_app(tmp_path, key, "1ms", base) as app:
        for name in ("slow", "demo"):
            await app.manager.call_tool(name, "pid", {}, timeout=WAIT_SECONDS, caller=Caller(session="one"))
        app.manager.end_session("one")
        await until(lambda: app.manager.status("slow").instances == 0)
        await until(lambda: app.manager.status("demo").idle_instances == 1)
        assert app.manager.status("slow").instances == 0


# -- repeats ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "shared", "shipped", "changed"),
    [
        pytest.param("max_retries", 1, {}, 4, 2, id="max_retries"),
        pytest.param("initial_delay", "1h", {"max_retries": 2}, 3, 1, id="initial_delay"),
        pytest.param("multiplier", 10, {"max_retries": 3, "max_delay": "1h"}, 4, 3, id="multiplier"),
        pytest.param("max_delay", "1h", {"max_retries": 3, "multiplier": 10}, 4, 3, id="max"),
    ],
)
@pytest.mark.proves(
    "backends.*.retry.max_retries",
    "backends.*.retry.initial_delay",
    "backends.*.retry.multiplier",
    "backends.*.retry.max_delay",
)
async def test_a_call_is_repeated_as_often_and_after_the_pauses_configured(
    tmp_path: Path, key: str, value: Any, shared: dict[str, Any], shipped: int, changed: int
) -> None:
    for folder, at, what, times in (
        ("shipped", "log_level", "error", shipped),
        ("changed", f"backends.*.retry.{key}", value, changed),
    ):
        journal = tmp_path / folder / "journal"
        retry = {"initial_delay": "200ms", **shared} if key != "max_retries" else {"initial_delay": "10ms"}
        health = {**QUICK, "interval": "1h", "max_restarts": 100}
        if key == "initial_delay" and folder == "shipped":
            retry["initial_delay"] = "10ms"
        base = odd({"journal": str(journal)}, health=health, retry=retry)
        async with changed_app(tmp_path / folder, at, what, base) as app:
            with pytest.raises(BackendError):
                # Enough for pauses of 200 ms that double, too little for one of 20 s.
                await app.manager.call_tool("demo", "read_die", {}, timeout=15)
        assert journal.read_text().count("read_die") == times, folder


# -- health ----------------------------------------------------------------------------------------------


@asynccontextmanager
async def ill(folder: Path, key: str, value: Any, **health: Any) -> AsyncIterator[App]:
    """A gateway whose backend answers no probe, with this key of `health`."""
    base = odd({"silent_ping": True}, health={**QUICK, "timeout": "30ms", **health})
    async with changed_app(folder, f"health.{key}", value, base) as app:
        yield app


@pytest.mark.proves("health.interval", "health.timeout", "health.failure_threshold")
async def test_a_backend_counts_as_unhealthy_by_its_health_keys(tmp_path: Path) -> None:
    # As shipped each of the three alone would make it last far longer than is waited here.
    for key, value, others in (
        ("interval", "20ms", {}),
        ("timeout", "20ms", {"timeout": "1h"}),
        ("failure_threshold", 1, {"failure_threshold": 10_000}),
    ):
        async with ill(tmp_path, key, value, max_restarts=0, **others) as app:
            await until(lambda app=app: app.manager.state("demo") is State.UNHEALTHY)  # type: ignore[misc]
    async with ill(tmp_path, "failure_threshold", 10_000, max_restarts=0) as app:
        await until(lambda: app.manager.status("demo").restarts == 0)
        assert app.manager.state("demo") is State.HEALTHY


@pytest.mark.proves("health.max_restarts", "health.recovery_multiplier")
async def test_an_unhealthy_backend_is_restarted_and_probed_by_its_health_keys(tmp_path: Path) -> None:
    async with ill(tmp_path, "max_restarts", 2) as app:
        await until(lambda: app.manager.status("demo").restarts == 2)
        await until(lambda: app.manager.status("demo").circuit == "open")
        assert app.manager.status("demo").restarts == 2
    async with ill(tmp_path, "recovery_multiplier", 100_000, max_restarts=0) as app:
        await until(lambda: app.manager.status("demo").circuit == "open")
        assert re.search("due in (3000|299[0-9]) s", (await answer(app, "return await demo.echo({});"))[0])


@pytest.mark.proves("health.restart_window", "health.backoff_initial", "health.backoff_max")
async def test_a_backend_that_fails_to_start_is_retried_after_the_configured_delay(tmp_path: Path) -> None:
    fails = {"exit_code": 1}
    quick = {"backoff_initial": "1ms", "backoff_max": "1ms", "max_restarts": 1}
    # More automatic restarts than one within any window: they were in different ones.
    base = odd({"silent_ping": True}, health={**QUICK, **quick, "timeout": "30ms"})
    async with changed_app(tmp_path, "health.restart_window", "1ms", base) as app:
        await until(lambda: app.manager.status("demo").restarts >= 3)
    for key, other in (("backoff_initial", "backoff_max"), ("backoff_max", "backoff_initial")):
        # The smaller of the two counts for a first failure: as shipped it would be a second.
        health = {**quick, "max_restarts": 50, other: "1h"}
        async with changed_app(tmp_path, f"health.{key}", "1ms", odd(fails, health=health)) as app:
            await until(lambda app=app: app.manager.status("demo").restarts >= 1)  # type: ignore[misc]


@pytest.mark.proves("health.restart_timeout")
async def test_an_automatic_restart_ends_at_its_configured_limit(tmp_path: Path) -> None:
    base = odd(
        {"ready_once": str(tmp_path / "started")}, health={**QUICK, "interval": "1h", "max_restarts": 1}
    )
    async with changed_app(tmp_path, "health.restart_timeout", "200ms", base) as app:
        with pytest.raises(BackendError):
            await app.manager.call_tool("demo", "die", {"code": 1}, timeout=WAIT_SECONDS)
        await until(lambda: "(health.restart_timeout)" in (app.manager.error("demo") or ""))


@pytest.mark.proves(
    "backends.*.max_memory_mb", "health.memory_check_interval", "health.memory_restart_cooldown"
)
async def test_a_backend_is_restarted_over_its_memory_limit(tmp_path: Path) -> None:
    base = odd(health={"memory_check_interval": "20ms", "memory_restart_cooldown": "1ms"})
    async with changed_app(tmp_path, "backends.*.max_memory_mb", 1, base) as app:
        await until(lambda: app.manager.status("demo").restarts >= 2)  # both pauses are short
