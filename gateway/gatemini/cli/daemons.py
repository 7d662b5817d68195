"""`gatemini status`, `stop`, `restart`, `logs`: the running daemons."""

from __future__ import annotations

import os
import re
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.running_daemon import ask_daemon, own_place, own_places, require_sockets
from gatemini.errors import DaemonRefused
from gatemini.proxy.places import LOG_GOES_ON
from gatemini.text.escape import visible
from gatemini.text.shorten import counted, elapsed, listed

if TYPE_CHECKING:
    from gatemini.proxy.places import Place

STOP_MARGIN_SECONDS = 60.0
"""Beyond `client_drain_timeout`, what stopping the backends may take."""
DRAIN_SECONDS = 30.0
"""The least time for open calls to finish: a daemon that still starts does not know its configuration."""
FOLLOW_SECONDS = 0.2


def _places(config: Path | None, *, every: bool) -> list[Place]:
    """The places of one configuration, its daemon's first, or all with a socket. Raises DaemonRefused."""
    from gatemini.daemon.client import all_places

    if not every:
        return own_places(config)
    require_sockets()
    return list(all_places(os.environ))


def status(*, config: Path | None, every: bool, as_json: bool) -> int:
    """Show the running daemon of this configuration, or all daemons of this user."""
    answers = [answer for _, answer in _answers(config, "status", every=every)]
    found = [answer for answer in answers if answer is not None]
    if as_json:
        shell.emit({"daemons": found})
    elif found:
        for answer in found:
            _show(answer)
    elif not answers:
        shell.note("no daemon runs; a client that starts `gatemini` starts one")
    return shell.FAILED if None in answers or not (found or every) else shell.OK


def _answers(
    config: Path | None, command: str, *, every: bool, **arguments: Any
) -> Iterator[tuple[Place, dict[str, Any] | None]]:
    """Yield each daemon that runs with its answer, None for one of all (`every`) that gives none.

    Raises DaemonRefused where only those of one configuration were wanted.
    """
    for place in _places(config, every=every):
        try:
            answer = ask_daemon(place, command, **arguments)
        except DaemonRefused as refused:
            if not every:
                raise
            shell.note(str(refused))
            yield place, None
            continue
        if answer is not None:
            yield place, answer


def _show(answer: dict[str, Any]) -> None:
    installed = answer["installed"]
    version = answer["version"] + (
        f" (installed: {installed}, used after a restart)" if installed != answer["version"] else ""
    )
    config = answer["config"] or "the embedded demo backends"
    if not answer.get("config_current", True):
        config += " (the file has changed, and is not in force)"
    up, rss = elapsed(answer["uptime_seconds"]), answer["rss_bytes"] / (1 << 20)
    shell.say(config)
    shell.say(f"  {answer['state']}: process {answer['pid']}, version {version}, for {up}, {rss:.0f} MB")
    over_http = answer.get("http")
    if over_http:
        counts = [
            f"{over_http[key]} {key.replace('_', ' ')}" for key in ("connections", "sessions", "in_flight")
        ]
        shell.say(f"  {over_http['url']}: {', '.join(counts)}")
    for each in answer["sessions"]:
        shell.say(f"  client {_client(each, over_http=bool(over_http))}")
    for each in answer.get("backends", ()):
        size = f", {each['rss_bytes'] / (1 << 20):.0f} MB" if each["rss_bytes"] else ""
        users = f", {counted(each['users'], 'user')}" if each.get("users") else ""
        error = f": {visible(each['error'])}" if each["error"] else ""
        restarts = f", {counted(each['restarts'], 'restart')}" if each["restarts"] else ""
        login = each.get("login") or {}
        until = f", login until {login['expires']}" if login.get("expires") else ""
        renewed = " (renewed by itself)" if until and login["renewable"] else ""
        shell.say(f"  backend {each['name']}: {each['state']}{size}{users}{restarts}{until}{renewed}{error}")
    if answer.get("variables_differ"):
        shell.say(
            f"  other values came with later clients: {', '.join(answer['variables_differ'])}; "
            "the first ones hold until a restart"
        )
    for line in [*answer["trouble"], *answer.get("problems", ())]:
        shell.say(f"  note: {line}")


def _client(session: dict[str, Any], *, over_http: bool) -> str:
    """What one line says of a client; a daemon of an earlier version does not name the backends."""
    name = visible(session["client"] or "") or ("(not named)" if over_http else "(no handshake yet)")
    facts = [
        f"as {session['principal']}" if over_http else f"process {session['pid']}",
        f"for {elapsed(time.time() - session['since'])}",
        counted(session["requests"], "request"),
        f"{session['in_flight']} in flight",
    ]
    facts += [] if over_http else [f"in {visible(session['cwd'])}"]
    used = session.get("backends")
    return f"{name}: {', '.join(facts)}" + (f"; uses {listed(used)}" if used else "")


def stop(*, config: Path | None, every: bool, now: bool, as_json: bool) -> int:
    """Stop a daemon: its open calls may finish first."""
    from gatemini.daemon.client import ended

    stopped: list[dict[str, Any]] = []
    silent = False
    for place, answer in _answers(config, "stop", every=every, now=now):
        if answer is None:
            silent = True
            continue
        lock = ended(place, _longest_stop(answer))
        if lock is not None:
            os.close(lock)
        stopped.append({"pid": answer["pid"], "key": place.key, "ended": lock is not None})
    if as_json:
        shell.emit({"stopped": stopped})
    elif stopped:
        for each in stopped:
            shell.say(f"process {each['pid']} " + ("has ended" if each["ended"] else "is still draining"))
    elif not silent:
        shell.note("no daemon runs")
    ended_all = bool(stopped) and all(each["ended"] for each in stopped)
    return shell.OK if ended_all and not silent else shell.FAILED


def _longest_stop(answer: dict[str, Any]) -> float:
    """How long a daemon that answered `stop` or `restart` may take to end."""
    return max(DRAIN_SECONDS, float(answer.get("drain_seconds", 0.0))) + STOP_MARGIN_SECONDS


def restart(*, config: Path | None, now: bool, as_json: bool) -> int:
    """Stop the daemon and start a new one; clients stay connected."""
    place = own_place(config)
    before = ask_daemon(place, "restart", now=now)
    after = _next_daemon(place, config, before)
    if after is None:
        raise DaemonRefused("the daemon did not start again", hint="`gatemini logs` says why")
    result = {"before": before and before["pid"], "pid": after["pid"], "version": after["version"]}
    shell.result(result, f"process {after['pid']} serves, version {after['version']}", as_json=as_json)
    return shell.OK


def _next_daemon(place: Place, config: Path | None, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Wait until another daemon than that of `before` serves, and return its status; starts one unless a client does."""
    from gatemini.proxy.places import config_file, spawn_daemon, take_lock

    environ = dict(os.environ)
    started = False
    until = time.monotonic() + _longest_stop(before or {})
    while time.monotonic() < until:
        lock = take_lock(place.lock)
        if lock is not None:
            if not started:
                spawn_daemon(place, config_file(str(config) if config else None, environ), lock, environ)
            os.close(lock)
            if started:
                return None
            started = True
        try:
            answer = ask_daemon(place, "status", environ=environ)
        except DaemonRefused:
            answer = None  # it ended during the request
        if answer and answer["state"] == "serving" and answer["pid"] != (before and before["pid"]):
            return answer
        time.sleep(FOLLOW_SECONDS / 4)
    return None


def logs(
    *,
    backend: str | None,
    follow: bool,
    lines: int,
    level: tuple[str, str] | None,
    seconds: float,
    config: Path | None,
    as_json: bool,
) -> int:
    """Print the log of the daemon of this configuration, or what a backend wrote to stderr."""
    place = own_place(config)
    if level is not None:
        return _set_level(place, *level, seconds, as_json)
    path = Path(place.stderr(backend) if backend else _log_of(place))
    if not path.exists():
        raise _no_log(place, path, backend)
    with path.open(encoding="utf-8", errors="replace") as file:
        last = file.read().splitlines()[-lines:]
        if as_json:
            shell.emit({"log": str(path), "lines": last})
            return shell.OK
        for line in last:
            shell.say(line)
        at, inode = file.tell(), os.fstat(file.fileno()).st_ino
    while follow:
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)
        at, inode = _more(path, at, inode)
    return shell.OK


def _log_of(place: Place) -> str:
    """Return the path of the daemon's log; without a daemon, that of the last one.

    That is its own file, or the configured one, which the own file names.
    """
    try:
        answer = ask_daemon(place, "status")
    except DaemonRefused:
        answer = None  # its log may say why it does not answer
    if answer is not None and answer.get("log"):
        return str(answer["log"])
    own = Path(place.log)
    with suppress(OSError):
        *_, named = re.findall(rf"{LOG_GOES_ON}(.+)$", own.read_text("utf-8", "replace"), re.M) or [""]
        if named and Path(named).stat().st_mtime > own.stat().st_mtime:
            return str(named)
    return place.log


def _more(path: Path, at: int, inode: int) -> tuple[int, int]:
    """Print what was written since; the whole file if it was truncated or replaced. Return position and inode."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            facts = os.fstat(file.fileno())
            file.seek(at if facts.st_ino == inode and facts.st_size >= at else 0)
            sys.stdout.write(file.read())
            return file.tell(), facts.st_ino
    except FileNotFoundError:
        return at, inode


def _no_log(place: Place, path: Path, backend: str | None) -> DaemonRefused:
    if backend is None:
        return DaemonRefused(
            f"there is no log of a daemon: {path}", hint="none has run with this configuration"
        )
    answer = ask_daemon(place, "status")
    if answer is None:
        return DaemonRefused(f"no daemon runs, and none has left a log of {backend}")
    names = [each["name"] for each in answer.get("backends", ())]
    if backend in names:
        return DaemonRefused(f"{backend} has written nothing to stderr", hint="only processes have a stderr")
    return DaemonRefused(f"there is no backend {backend}", hint=f"the backends are {', '.join(names)}")


def _set_level(place: Place, part: str, level: str, seconds: float, as_json: bool) -> int:
    answer = ask_daemon(place, "level", part=part, level=level, lasting=seconds)
    if answer is None:
        raise DaemonRefused("no daemon runs", hint="a client that starts `gatemini` starts one")
    if not answer["ok"]:
        parts = answer.get("parts")
        raise DaemonRefused(answer["error"], hint=f"the parts are {', '.join(parts)}" if parts else None)
    shell.result(
        answer, f"{part} logs at {level} for {seconds:g} s; `gatemini logs -f` shows it", as_json=as_json
    )
    return shell.OK


def _part_and_level(text: str) -> tuple[str, str]:
    part, equals, level = text.partition("=")
    if not equals or level not in ("debug", "info", "warning", "error"):
        raise ArgumentTypeError(f"{text}: PART=debug, info, warning or error")
    return part, level


_EVERY = shell.argument("--all", dest="every", action="store_true", help="every daemon of this user")
_NOW = shell.argument("--now", action="store_true", help="do not wait for open calls")
COMMANDS = (
    shell.Command("status", status, [_EVERY], config="place"),
    shell.Command("stop", stop, [_EVERY, _NOW], config="place"),
    shell.Command("restart", restart, [_NOW], config="place"),
    shell.Command(
        "logs",
        logs,
        [
            shell.argument("backend", nargs="?", help="what this backend wrote to stderr"),
            shell.argument(
                "--level",
                type=_part_and_level,
                metavar="PART=LEVEL",
                help="print nothing: log backend.NAME, or a part of the daemon, at debug, info, warning or error",
            ),
            shell.argument(
                "--for",
                dest="seconds",
                type=shell.duration("a time such as 30s, 10m or 1h"),
                default=600.0,
                metavar="TIME",
                help="of --level: 10m",
            ),
            shell.argument(
                "--follow", "-f", action="store_true", help="go on with what is written from now on"
            ),
            shell.argument(
                "--lines", "-n", type=shell.between(1, 100_000), default=50, metavar="N", help="last lines"
            ),
        ],
        config="place",
    ),
)
