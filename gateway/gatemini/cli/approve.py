"""`gatemini approve`: the calls that wait for a person, and a person's decisions about them."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gatemini.cli import shell
from gatemini.cli.running_daemon import ask_daemon, own_places, require_sockets
from gatemini.errors import InvalidRequest

if TYPE_CHECKING:
    from gatemini.proxy.places import Place

LOOK_SECONDS = 0.5
"""How often `--watch` looks."""

READING_SECONDS = 1.0
"""After a question is shown, until an answer to it is read."""

PROMPT = "approve? y: all, n: none, numbers: only these, empty: later > "


class Open(NamedTuple):
    """One open approval and the gateway that waits for it."""

    place: Place
    row: dict[str, Any]
    """What the gateway says of it: id, session, chain, text, …"""

    @property
    def group(self) -> tuple[str, str]:
        return self.row["session"], self.row["chain"]


def approve(
    *, ids: Sequence[str], deny: bool, whole: bool, watch: bool, config: Path | None, as_json: bool
) -> int:
    """List the calls that wait for an approval, approve or deny them, or watch for more."""
    if watch and (ids or as_json or deny):
        raise shell.UsageError("gatemini approve: --watch takes no ID, --deny or --json")
    if deny and not ids:
        raise shell.UsageError("gatemini approve: --deny needs an ID")
    if watch:
        return _watch(config, whole=whole)
    places = _places(config)
    found, reached = _opened(places, watch=False, whole=whole)
    if not ids:
        return _list(found, reached, as_json=as_json)
    chosen = [_named(found, ident) for ident in ids]
    if whole:
        _show(chosen)
        return shell.OK
    decided = [_decide(each, granted=not deny) for each in chosen]
    if as_json:
        shell.emit({"ok": True, "denied" if deny else "approved": decided})
    else:
        for row in decided:
            shell.say(f"{'denied' if deny else 'approved'} {row['id']}: {row['text']}")
    return shell.OK


def _places(config: Path | None) -> list[Place]:
    """The daemon of this configuration, its HTTP servers, and the gateways that serve one client without it."""
    from gatemini.daemon.console import direct_places

    require_sockets("approvals")
    places = own_places(config)
    return [*places, *direct_places(places[0])]


def _opened(places: Sequence[Place], *, watch: bool, whole: bool) -> tuple[list[Open], bool]:
    """All open approvals, those of one chain together; and whether any gateway was reached."""
    found: list[Open] = []
    reached = False
    for place in places:
        answer = ask_daemon(place, "approvals", hint=None, watch=watch, whole=whole)
        if answer is None:
            continue
        reached = True
        known = {each.row["id"] for each in found}  # replicas list the approvals of all
        found += [Open(place, row) for row in answer.get("approvals", ()) if row["id"] not in known]
    return sorted(found, key=lambda each: each.group), reached


def _list(found: list[Open], reached: bool, *, as_json: bool) -> int:
    if as_json:
        shell.emit({"approvals": [each.row for each in found]})
    elif found:
        _show(found)
        shell.note("approve with `gatemini approve ID`, deny with `gatemini approve ID --deny`")
    elif reached:
        shell.note("no call waits for an approval")
    else:
        shell.note("no gateway runs with this configuration")
    return shell.OK if reached else shell.FAILED


def _show(found: Sequence[Open]) -> None:
    """Print approvals; those of one chain have one heading, with numbers."""
    for _, group in groupby(found, key=lambda each: each.group):
        calls = list(group)
        chain = calls[0].row["chain"] or "a call"
        waits = "waits" if any(each.row["waiting"] for each in calls) else "ended, and can be resumed"
        shell.say(f"{chain} {waits}:")
        for number, each in enumerate(calls, 1):
            shell.say(f"{number}. {each.row['id']}: {each.row['text']}")
            if not each.row["complete"]:
                shell.say(f"  all of it: gatemini approve {each.row['id']} --whole")


def _named(found: Sequence[Open], ident: str) -> Open:
    for each in found:
        if each.row["id"] == ident:
            return each
    raise InvalidRequest(
        f"there is no open approval {ident}",
        hint="`gatemini approve` lists them; it may have been decided, used, or expired",
    )


def _decide(each: Open, *, granted: bool) -> dict[str, Any]:
    """Decide about the arguments that were listed. Raises InvalidRequest where that has no effect."""
    answer = ask_daemon(
        each.place,
        "approve",
        hint=None,
        id=each.row["id"],
        arguments_sha256=each.row["arguments_sha256"],
        granted=granted,
    )
    if answer is None:
        raise InvalidRequest("the gateway has ended")
    if not answer["ok"]:
        raise InvalidRequest(answer["error"])
    decided: dict[str, Any] = answer["approval"]
    return decided


# -- watching ----------------------------------------------------------------------------------------------


def _watch(config: Path | None, *, whole: bool) -> int:
    """Show calls as they come, and read a decision about each chain's from stdin, until its end."""
    shell.note("watching for calls that need an approval; Ctrl-C ends it")
    lines = _Lines()
    later: set[str] = set()
    while True:
        found, _ = _opened(_places(config), watch=True, whole=whole)
        new = [each for each in found if each.row["id"] not in later]
        if not new:
            if lines.ended:
                return shell.OK
            lines.wait(LOOK_SECONDS)
            continue
        calls = [each for each in new if each.group == new[0].group]
        _show(calls)
        lines.forget()
        shell.say(PROMPT)
        sys.stdout.flush()
        answer = _answer(lines, config, calls)
        if answer is None:
            return shell.OK
        chosen = _chosen(answer, len(calls))
        if chosen is None:
            later.update(each.row["id"] for each in calls)
            continue
        for number, each in enumerate(calls, 1):
            _decide_shown(each, granted=number in chosen)


def _answer(lines: _Lines, config: Path | None, calls: Sequence[Open]) -> str | None:
    """The line that a person types; meanwhile the gateways see that the console is watched. None at the end of stdin."""
    shown = {each.row["id"] for each in calls}
    while (line := lines.next()) is None:
        if lines.ended:
            return None
        lines.wait(LOOK_SECONDS)
        found, _ = _opened(_places(config), watch=True, whole=False)
        if not shown & {each.row["id"] for each in found}:
            shell.say("decided elsewhere")
            return ""
    return line


def _chosen(answer: str, count: int) -> set[int] | None:
    """The numbers that are approved, of all that are shown; None for a decision that is left for later."""
    words = answer.replace(",", " ").split()
    if words == ["y"]:
        return set(range(1, count + 1))
    if words == ["n"]:
        return set()
    numbers = {int(word) for word in words if word.isdecimal()}
    if not words or len(numbers) != len(words) or not numbers <= set(range(1, count + 1)):
        return None
    return numbers


def _decide_shown(each: Open, *, granted: bool) -> None:
    try:
        _decide(each, granted=granted)
    except InvalidRequest as refused:
        shell.say(refused.text())
    else:
        shell.say(f"{'approved' if granted else 'denied'} {each.row['id']}")


class _Lines:
    """Lines of stdin, read without blocking for longer than a given time."""

    def __init__(self) -> None:
        self.ended = False
        self._data = b""

    def forget(self) -> None:
        """At a terminal, leave time for reading, and forget what was typed before: it was about another question."""
        if not sys.stdin.isatty():
            return
        import termios

        sys.stdout.flush()
        time.sleep(READING_SECONDS)
        termios.tcflush(0, termios.TCIFLUSH)
        self._data = b""

    def wait(self, seconds: float) -> None:
        """Wait until there is something to read, at most that long."""
        if self.ended:
            time.sleep(seconds)
            return
        ready, _, _ = select.select([0], [], [], seconds)
        if ready:
            data = os.read(0, 4096)
            self.ended = not data
            self._data += data

    def next(self) -> str | None:
        """The next whole line, if it is there."""
        line, end, rest = self._data.partition(b"\n")
        if not end:
            return None
        self._data = rest
        return line.decode("utf-8", "replace").strip()


COMMANDS = (
    shell.Command(
        "approve",
        approve,
        [
            shell.argument("ids", nargs="*", metavar="ID", help="the approvals to grant"),
            shell.argument("--deny", action="store_true", help="deny them instead"),
            shell.argument(
                "--whole", action="store_true", help="show long arguments whole; with an ID, only show"
            ),
            shell.argument(
                "--watch", action="store_true", help="show calls as they come, and ask about each chain's"
            ),
        ],
        config="place",
    ),
)
