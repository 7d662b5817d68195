"""`gatemini top`: the running daemon as a live view; plain lines where stdout is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.running_daemon import ask_daemon, own_place
from gatemini.errors import DaemonRefused
from gatemini.text.escape import visible
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

MEGABYTE = 1 << 20
_STATES = {
    "healthy": "green",
    "starting": "yellow",
    "unhealthy": "red",
    "stopped": "red",
    "login_required": "yellow",
}


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
    with Live(
        view(found, ""), console=shell.stdout_console(), screen=count is None, auto_refresh=False
    ) as screen:
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
            screen.update(view(found, note), refresh=True)
    return shell.OK


def view(found: Sample, note: str) -> RenderableType:
    """The whole screen: figures, then a table of clients and one of backends."""
    from rich.console import Group
    from rich.text import Text

    status, load = found.status, found.load
    minutes = int(status["uptime_seconds"] // 60)
    head = Text(f"gatemini {status['version']}", style="bold")
    head.append(
        f"  {status['config'] or 'the embedded demo backends'}  process {status['pid']}, {minutes} min, "
        f"{status['rss_bytes'] / MEGABYTE:.0f} MB",
        style="dim",
    )
    figures = Text(
        f"{found.rate:.1f} calls/s   p95 {load['p95_ms']:.0f} ms   {found.in_flight} in flight   "
        f"{load['calls']:,} calls   {load['answers']:,} answers   "
    )
    figures.append(f"{load['failed']:,} failed", style="red" if load["failed"] else "")
    figures.append(f"   {load['estimated_tokens_saved']:,} tokens saved", style="green")
    notes = [*([note] if note else []), *status["trouble"], *status.get("problems", ())]
    return Group(
        head,
        figures,
        Text(),
        _clients(status["sessions"]),
        Text(),
        _backends(status.get("backends", ())),
        *(Text(f"! {visible(text)}", style="yellow") for text in notes),
    )


def _table(*columns: str, right: int) -> Any:
    """A table without lines whose last columns, from `right` on, are numbers."""
    from rich.table import Column, Table

    made = [
        Column(name, justify="right" if at >= right else "left", no_wrap=True, overflow="ellipsis")
        for at, name in enumerate(columns)
    ]
    return Table(*made, box=None, pad_edge=False, header_style="bold")


def _clients(sessions: Any) -> Any:
    table = _table("client", "folder", "process", "requests", "in flight", right=2)
    for each in sessions:
        name = visible(each["client"] or "(no handshake yet)")
        table.add_row(
            name, visible(each["cwd"]), str(each["pid"]), str(each["requests"]), str(each["in_flight"])
        )
    if not sessions:
        table.add_row("none is connected", "", "", "", "")
    return table


def _backends(backends: Any) -> Any:
    from rich.text import Text

    table = _table("backend", "state", "calls", "open", "p50 ms", "p95 ms", "MB", "restarts", right=2)
    for each in backends:
        state = Text(each["state"], style=_STATES.get(each["state"], ""))
        size = f"{each['rss_bytes'] / MEGABYTE:.0f}" if each["rss_bytes"] else ""
        table.add_row(
            visible(each["name"]), state, str(each["calls"]), str(each["calls_open"]),
            f"{each['p50_ms']:.0f}", f"{each['p95_ms']:.0f}", size, str(each["restarts"]),
        )  # fmt: skip
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
