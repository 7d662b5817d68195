"""`gatemini top`: the running daemon as a live view; plain lines where stdout is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.running_daemon import ask_daemon, own_place
from gatemini.errors import DaemonRefused
from gatemini.text.escape import visible
from gatemini.text.shorten import counted, elapsed

if TYPE_CHECKING:
    from rich.console import RenderableType

MEGABYTE = 1 << 20
WIDE = 80
"""Columns of a terminal from which on folders, process ids and p50 are shown."""
FRAME_ROWS = 4
"""Two empty lines and the heads of both tables."""
MOST_WARNINGS = 5
_STATES = {
    "healthy": "green",
    "starting": "yellow",
    "unhealthy": "red",
    "stopped": "red",
    "login_required": "yellow",
}
_NUMBERS = (
    (WIDE, ("calls", "open", "p50 ms", "p95 ms", "MB", "users", "restarts")),
    (60, ("calls", "open", "p95 ms", "MB", "users")),
    (0, ("calls", "p95 ms")),
)
"""The figures of a backend, by the least width of the terminal."""


@dataclass(slots=True)
class Sample:
    """The status of the daemon at one moment, and the calls a second since the sample before."""

    status: dict[str, Any]
    at: float
    rate: float = 0.0

    @property
    def load(self) -> dict[str, Any]:
        empty = {"calls": 0, "failed": 0, "p95_ms": 0.0, "answers": 0, "estimated_tokens_saved": 0}
        return {**empty, **self.status.get("load", {})}

    @property
    def in_flight(self) -> int:
        return sum(each["in_flight"] for each in self.status["sessions"])

    def to_json(self) -> dict[str, Any]:
        """The figures of one line, and the daemon's status."""
        return {
            "calls_per_second": round(self.rate, 2),
            "in_flight": self.in_flight,
            **self.load,
            "status": self.status,
        }


def sample(status: dict[str, Any], before: Sample | None, now: float) -> Sample:
    """A sample with its rate: 0 for the first of a daemon."""
    made = Sample(status, now)
    if before is not None and before.status["pid"] == status["pid"] and now > before.at:
        made.rate = max(0.0, (made.load["calls"] - before.load["calls"]) / (now - before.at))
    return made


def top(*, interval: float, count: int | None, config: Path | None, as_json: bool) -> int:
    """Show sessions, backends, calls a second, p95, tokens saved and errors, until interrupted."""
    place = own_place(config)

    def ask() -> dict[str, Any] | None:
        return ask_daemon(place, "status")

    first = ask()
    if first is None:
        raise DaemonRefused("no daemon runs", hint="a client that starts `gatemini` starts one")
    before = sample(first, None, time.monotonic())
    live = sys.stdout.isatty() and not as_json
    if live:
        return _live(ask, before, interval, count)
    shown = 0
    while count is None or shown < count:
        if shown:
            time.sleep(interval)
            status = ask()
            if status is None:
                raise DaemonRefused("the daemon has ended")
            before = sample(status, before, time.monotonic())
        shown += 1
        if as_json:
            shell.emit(before.to_json())
            count = count or 1
        else:
            shell.say(line(before))
        sys.stdout.flush()
    return shell.OK


def line(found: Sample) -> str:
    """One sample as a line."""
    load, status = found.load, found.status
    bad = [
        each["name"] for each in status.get("backends", ()) if each["state"] not in ("healthy", "starting")
    ]
    return (
        f"{time.strftime('%H:%M:%S')}  {counted(len(status['sessions']), 'session')}  {found.in_flight} in flight  "
        f"{counted(load['calls'], 'call')}  {found.rate:.1f}/s  p95 {load['p95_ms']:.0f} ms  {load['failed']} failed  "
        f"{load['estimated_tokens_saved']:,} tokens saved  {status['rss_bytes'] / MEGABYTE:.0f} MB"
        + (f"  down: {', '.join(bad)}" if bad else "")
    )


def _live(ask: Callable[[], dict[str, Any] | None], first: Sample, interval: float, count: int | None) -> int:
    """Redraw the view until interrupted; a daemon that ends is waited for."""
    from rich.live import Live

    found, shown = first, 1
    console = shell.stdout_console()

    def drawn(note: str) -> RenderableType:
        return view(found, note, console.width, console.height)

    with Live(drawn(""), console=console, screen=count is None, auto_refresh=False) as screen:
        while count is None or shown < count:
            time.sleep(interval)
            shown += 1
            note = ""
            try:
                status = ask()
                note = "" if status else "no daemon runs: the next client starts one"
            except DaemonRefused as silent:
                status, note = None, silent.message
            if status:
                found = sample(status, found, time.monotonic())
            else:
                found.rate = 0.0
            screen.update(drawn(note), refresh=True)
    return shell.OK


def view(found: Sample, note: str, width: int, height: int) -> RenderableType:
    """The whole screen: figures, a table of clients, one of backends, and what is wrong."""
    from rich.console import Group
    from rich.text import Text

    status, load = found.status, found.load
    config = visible(status["config"] or "the embedded demo backends")
    process = f"process {status['pid']}, {elapsed(status['uptime_seconds'])}, {status['rss_bytes'] / MEGABYTE:.0f} MB"
    head = Text(f"gatemini {status['version']}  ", style="bold", no_wrap=True, overflow="ellipsis")
    head.append(f"{process}  {config}", style="dim")
    figures = Text(
        f"{found.rate:.1f} calls/s   p95 {load['p95_ms']:.0f} ms   {found.in_flight} in flight   "
        f"{load['calls']:,} calls   {load['answers']:,} answers   "
    )
    figures.append(f"{load['failed']:,} failed", style="red" if load["failed"] else "")
    figures.append(f"   {load['estimated_tokens_saved']:,} tokens saved", style="green")
    backends = list(status.get("backends", ()))
    notes = [*([note] if note else []), *status["trouble"], *status.get("problems", ())]
    notes += [f"{each['name']}: {each['error']}" for each in backends if each["error"]]
    warnings = [
        Text(f"! {visible(text)}", style="yellow", no_wrap=True, overflow="ellipsis") for text in notes
    ]
    sessions = sorted(status["sessions"], key=lambda each: (-each["in_flight"], -each["requests"]))
    rows = height - 1 - ceil(len(figures) / width) - FRAME_ROWS
    warnings = warnings[: max(1, min(MOST_WARNINGS, rows // 3))]
    for_clients, for_backends = shares(rows - len(warnings), len(sessions), len(backends))
    return Group(
        head,
        figures,
        Text(),
        _clients(sessions, for_clients, width),
        Text(),
        _backends(backends, for_backends, width),
        *warnings,
    )


def shares(rows: int, clients: int, backends: int) -> tuple[int, int]:
    """Divide rows between clients and backends: each gets at least half of them, unless it needs fewer."""
    half = max(1, rows // 2)
    for_backends = min(backends, max(half, rows - clients))
    return min(max(1, clients), max(1, rows - for_backends)), max(1, for_backends)


def _table(*columns: str, right: int) -> Any:
    """A table without lines whose last columns, from `right` on, are numbers and never cut."""
    from rich.table import Column, Table

    made = [
        Column(name, justify="right", no_wrap=True, min_width=len(name)) if at >= right else Column(name)
        for at, name in enumerate(columns)
    ]
    return Table(*made, box=None, pad_edge=False, header_style="bold")


def _cell(text: str, style: str = "") -> Any:
    """A text that is cut where its column is too narrow for it."""
    from rich.text import Text

    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


def _clients(sessions: list[Any], rows: int, width: int) -> Any:
    wide = width >= WIDE
    names = (
        ("client", "folder", "process", "requests", "in flight") if wide else ("client", "requests", "open")
    )
    table = _table(*names, right=2 if wide else 1)
    shown = _cut(sessions, rows)
    for each in shown:
        name, counts = each["client"] or "(no handshake yet)", (str(each["requests"]), str(each["in_flight"]))
        more = (_cell(each["cwd"]), str(each["pid"])) if wide else ()
        table.add_row(_cell(name), *more, *counts)
    if not sessions:
        table.add_row("none is connected")
    return _with_rest(table, len(sessions) - len(shown))


def _backends(backends: list[Any], rows: int, width: int) -> Any:
    columns = next(names for least, names in _NUMBERS if width >= least)
    table = _table("backend", "state", *columns, right=2)
    bad_first = sorted(backends, key=lambda each: each["state"] == "healthy")
    shown = _cut(bad_first, rows)
    for each in shown:
        numbers = {
            "calls": str(each["calls"]),
            "open": str(each["calls_open"]),
            "p50 ms": f"{each['p50_ms']:.0f}",
            "p95 ms": f"{each['p95_ms']:.0f}",
            "MB": f"{each['rss_bytes'] / MEGABYTE:.0f}" if each["rss_bytes"] else "",
            "users": str(each.get("users", "")),
            "restarts": str(each["restarts"]),
        }
        state = _cell(each["state"].replace("_", " "), _STATES.get(each["state"], ""))
        table.add_row(_cell(each["name"]), state, *(numbers[name] for name in columns))
    return _with_rest(table, len(backends) - len(shown))


def _cut(rows: list[Any], most: int) -> list[Any]:
    """The rows that are shown; where they are too many, the last of `most` rows counts the others."""
    return rows if len(rows) <= most else rows[: most - 1]


def _with_rest(table: Any, hidden: int) -> Any:
    if hidden:
        table.add_row(_cell(f"… and {hidden} more", "dim"))
    return table


COMMANDS = (
    shell.Command(
        "top",
        top,
        [
            shell.argument(
                "--interval",
                type=shell.duration("a time such as 500ms, 1s or 1m"),
                default=1.0,
                metavar="TIME",
                help="between two looks: 1s",
            ),
            shell.argument(
                "--count", type=shell.between(1, 1_000_000), metavar="N", help="end after N looks"
            ),
        ],
        config="place",
    ),
)
