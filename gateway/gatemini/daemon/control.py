"""Answer commands of the terminal in a running daemon: status, stop, restart, search, log levels, approvals."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any

import psutil

from gatemini import __version__
from gatemini.daemon import console, llm_proxies
from gatemini.daemon.hello import Hello
from gatemini.daemon.terminal.catalog import CATALOG
from gatemini.daemon.terminal.commands import send_answer
from gatemini.daemon.terminal.logs import PARTS
from gatemini.daemon.terminal.search import SETTLE_SECONDS, terminal_search
from gatemini.errors import GateminiError
from gatemini.upkeep.reload import file_state

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.daemon.connection import Connection
    from gatemini.daemon.server import Daemon

LOAD_SECONDS = 60.0
"""The calls of this time are in the p95 that `gatemini top` shows."""
LEVELS = ("debug", "info", "warning", "error")
LONGEST_SECONDS = 24 * 3600.0


async def answer_control(daemon: Daemon, sock: socket.socket, hello: Hello) -> None:
    """Answer one command with one line."""
    match hello.control:
        case "status":
            answer = status(daemon)
        case "stop" | "restart":
            answer = {"ok": True, "pid": os.getpid(), "drain_seconds": daemon.drain_seconds}
        case "search":
            answer = await search(daemon, hello.arguments)
        case "tools" | "info" | "types" as command:
            answer = await catalog(daemon, command, hello.arguments)
        case "level":
            answer = set_level(daemon, hello.arguments)
        case llm_proxies.COMMAND:
            answer = await daemon.llm_proxies.answer(hello.arguments)
        case console.LIST | console.DECIDE:
            answer = await _approvals(daemon, hello)
        case other:
            answer = {"ok": False, "error": f"the daemon ({__version__}) does not know the command {other}"}
    await send_answer(sock, answer)
    if hello.control in ("stop", "restart"):
        daemon.stop(restart=hello.control == "restart", now=bool(hello.arguments.get("now")))


def set_level(daemon: Daemon, arguments: dict[str, Any]) -> dict[str, Any]:
    """Log a part of the daemon at another level for a while: `{part, level, lasting}` (seconds)."""
    part, level, seconds = arguments.get("part"), arguments.get("level"), arguments.get("lasting")
    known = [f"backend.{each.name}" for each in daemon.app.manager.statuses()] if daemon.app else []
    known += PARTS
    if part not in known:
        return {"ok": False, "error": f"there is no part {part}", "parts": known}
    if level not in LEVELS or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_SECONDS:
        return {"ok": False, "error": f"a level is one of {', '.join(LEVELS)}, a time at most 24h"}
    daemon.levels.set(str(part), str(level), float(seconds))
    return {"ok": True, "part": part, "level": level, "seconds": seconds}


async def search(daemon: Daemon, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer to `gatemini search`, without secrets."""
    await daemon.ready.wait()
    app = daemon.app
    if app is None:
        return {"ok": False, "error": daemon.failure}
    await app.settled(timeout=SETTLE_SECONDS)
    answer: dict[str, Any] = daemon.redactor.value(await terminal_search(app, **arguments))
    return {"ok": True, **answer}


async def catalog(daemon: Daemon, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer to `gatemini tools`, `info` or `types`; an error is in `refused`: kind, message, hint."""
    await daemon.ready.wait()
    app = daemon.app
    if app is None:
        return {"ok": False, "error": daemon.failure}
    await app.settled(timeout=SETTLE_SECONDS)
    try:
        answer: dict[str, Any] = daemon.redactor.value(await CATALOG[command](app, **arguments))
    except GateminiError as error:
        return {"ok": True, "refused": daemon.redactor.value([error.kind, error.message, error.hint])}
    return {"ok": True, **answer}


async def _approvals(daemon: Daemon, hello: Hello) -> dict[str, Any]:
    await daemon.ready.wait()
    if daemon.app is None:
        return {"ok": False, "error": daemon.failure}
    return await console.answer(daemon.app.approvals, daemon.redactor, hello)


def status(daemon: Daemon) -> dict[str, Any]:
    """What `gatemini status` shows of this daemon."""
    app = daemon.app
    answer: dict[str, Any] = {
        **process_facts(daemon.started),
        "state": "serving" if app is not None else "starting",
        "installed": daemon.outdated or __version__,
        "config": str(daemon.config) if daemon.config else None,
        "socket": daemon.place.sock,
        "log": daemon.log.path,
        "sessions": [_session(connection, app) for connection in daemon.connections],
        "trouble": list(daemon.trouble.values()),
    }
    if app is not None:
        answer |= app_facts(app)
        answer["load"] = app.tracker.load(LOAD_SECONDS)
        answer["variables_differ"] = sorted(daemon.variables.differing)
    return answer


def process_facts(started: float) -> dict[str, Any]:
    """What `status` shows of every process that serves clients; `started` is in seconds since the epoch."""
    return {
        "ok": True,
        "pid": os.getpid(),
        "version": __version__,
        "uptime_seconds": round(time.time() - started, 1),
        "rss_bytes": psutil.Process().memory_info().rss,
    }


def app_facts(app: App) -> dict[str, Any]:
    """What `status` shows of the gateway in such a process: its configuration, problems and backends."""
    redact = app.chain.redactor.redact
    backends = [
        {
            "name": each.name,
            "state": str(each.state),
            "rss_bytes": each.rss,
            "restarts": each.restarts,
            "calls_open": each.calls_open,
            "users": app.tracker.users(each.name),
            **app.tracker.latency(each.name),
            "error": redact(each.error) if each.error else None,
            "login": each.login,
        }
        for each in app.manager.statuses()
    ]
    problems = [redact(problem) for problem in app.problems()]
    return {"config_current": config_current(app), "problems": problems, "backends": backends}


def config_current(app: App) -> bool:
    """Whether the files of the configuration are in force as they are now."""
    return not app.reload_problem and app.files_read == file_state(app.loaded.files)


def _session(connection: Connection, app: App | None) -> dict[str, Any]:
    session = connection.session
    return {
        "client": session.client if session is not None else None,
        "pid": connection.hello.pid,
        "version": connection.hello.version,
        "cwd": connection.hello.cwd,
        "since": round(connection.since, 1),
        "in_flight": connection.in_flight,
        "requests": connection.exchange.requests if connection.exchange is not None else 0,
        "backends": app.tracker.used_by(session.id) if app is not None and session is not None else [],
    }
