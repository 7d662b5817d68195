"""The children of this gateway: every process group it started, and what sees to their end.

Each group is reported to one watchdog process, which kills what is left when the gateway goes away however
it does, and recorded in a file, so that the next start can sweep up if the watchdog was killed as well. A
parent-death signal would reach only the direct child, not what `npx` started. Above: `stdio.py`,
`cli_adapter.py`, `manager.py`. Below: `watching.py`, `watchdog.py` (run as a process of its own), `liveness.py`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import anyio
import orjson

from gatemini.processes import watchdog
from gatemini.processes.liveness import same_process, start_time
from gatemini.processes.mark import MARK_FLOOR, spare
from gatemini.processes.own_files import read_own, replace_own
from gatemini.processes.watchdog_start import start_watchdog

TERM_POLL_SECONDS = 0.02
"""Pause between two looks at whether a group that was told to end is gone."""

POLLS_PER_SCAN = 10
"""How many cheap looks lie between two readings of the process table."""

KILL_WAIT_SECONDS = 2.0
"""How long killed processes may take to disappear before they are given up (and logged)."""

WATCHDOG_EXIT_SECONDS = 3.0
"""How long the watchdog may take to end after its pipe was closed."""

MAX_RECORD_BYTES = 1 << 20
"""A larger record is not ours; a hundred children take about 10 KB."""

START_GAP_SECONDS = 0.005
"""Pause before each start. Starting a process holds up the event loop for milliseconds; with thirty of them in a row,
a client that has just connected would wait for all."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Group:
    """A child that leads a group: when it was created, and the mark it shares with all it starts (0: none)."""

    created: float
    mark: int

    def line(self, pid: int) -> str:
        return f"+{pid} {self.created:.3f} {self.mark}\n"


class Children:
    """Registry of the process groups of one gateway. Not thread-safe: used on the event loop only."""

    def __init__(self, record_dir: Path | None = None) -> None:
        self._groups: dict[int, _Group] = {}
        self._starts = anyio.Lock()
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._dir = record_dir
        self._record = record_dir / f"children-{os.getpid()}.json" if record_dir else None

    @contextlib.asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        """Around the start of one child: one at a time, so that others are served in between."""
        async with self._starts:
            await anyio.sleep(START_GAP_SECONDS)
            yield

    def started(self, pid: int, mark: int) -> None:
        """A new child leads a group of its own and wears a mark (0: none): watch it."""
        group = self._groups[pid] = _Group(start_time(pid), mark)
        self._tell(group.line(pid))
        self._save()

    def ended(self, pid: int) -> None:
        """The group is empty: stop watching it."""
        if self._groups.pop(pid, None) is not None:
            self._tell(f"-{pid}\n")
            self._save()

    async def stop(self, pid: int, name: str, *, grace: float) -> None:
        """SIGTERM to the group, wait up to `grace` seconds, SIGKILL to all that is left; then forget it.

        `name` is for the log. Also reaches members of its session, descendants that left the group, and whatever bears its mark.
        """
        group = self._groups.get(pid)
        find = partial(watchdog.family, pid, group.mark if group else 0)
        # Reading the process table takes milliseconds: not on the event loop, where other backends' calls wait.
        others = await anyio.to_thread.run_sync(find)
        _signal_all(pid, others, signal.SIGTERM)
        ended = await _gone(pid, others, grace)
        for _ in range(watchdog.KILL_ROUNDS):  # what was forked meanwhile may have left group and session
            others = await anyio.to_thread.run_sync(find)
            if ended and not others:
                break
            _signal_all(pid, others, signal.SIGKILL)
            ended = await _gone(pid, others, KILL_WAIT_SECONDS)
        else:
            logger.error("%s (process group %d) could not be killed", name, pid)
        self.ended(pid)

    async def strays(self, pid: int) -> bool:
        """Whether a command that has ended left anything running: in its group, or bearing its mark."""
        group = self._groups.get(pid)
        if _reachable(pid, set()):
            return True
        if group is None or not group.mark:
            return False
        return bool(await anyio.to_thread.run_sync(partial(watchdog.bearers, group.mark, after=pid)))

    async def close(self) -> None:
        """End the watchdog; it kills whatever was not stopped before."""
        process, self._watchdog = self._watchdog, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            with anyio.move_on_after(WATCHDOG_EXIT_SECONDS):
                while process.poll() is None:  # noqa: ASYNC110 - another process's end is no event of ours
                    await anyio.sleep(TERM_POLL_SECONDS)
            if process.poll() is None:
                process.kill()
                process.wait()
        self._groups.clear()
        self._save()

    def sweep(self) -> int:
        """Kill what earlier gateways left behind; how many groups that were. Start times must match."""
        if self._dir is None or not self._dir.is_dir():
            return 0
        swept = 0
        for path in self._dir.glob("children-*.json"):
            try:
                record = orjson.loads(read_own(path, MAX_RECORD_BYTES))
                owner, owner_started = int(record["gateway"]), float(record["started"])
                groups = {int(p): (float(g["created"]), int(g["mark"])) for p, g in record["groups"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue  # not ours to read, or half written by a gateway that is writing it now
            if same_process(owner, owner_started):
                continue
            for pid, (created, mark) in groups.items():
                if pid <= 1 or (mark and mark < MARK_FLOOR):
                    continue  # a damaged record: these numbers stand for processes that are not ours
                swept += watchdog.kill_group(pid, created, mark, grace=0.0)
            with contextlib.suppress(OSError):
                path.unlink()
        return swept

    def _tell(self, line: str) -> None:
        if sys.platform == "win32":
            return  # no process groups to watch over: children are in the gateway's job object
        if self._watchdog is None or self._watchdog.poll() is not None:
            self._watchdog = _nobodys_watchdog()
            line = "".join(group.line(pid) for pid, group in self._groups.items())
        try:
            if self._watchdog.stdin is not None:
                os.write(self._watchdog.stdin.fileno(), line.encode())
        except OSError as error:
            logger.warning("the watchdog of child processes does not listen: %s", error)

    def _save(self) -> None:
        if self._record is None:
            return
        try:
            if not self._groups:
                self._record.unlink(missing_ok=True)
                return
            body = {
                "gateway": os.getpid(),
                "started": start_time(os.getpid()),
                "groups": {str(pid): asdict(group) for pid, group in self._groups.items()},
            }
            replace_own(self._record, orjson.dumps(body), at_once=True)
        except OSError as error:
            logger.warning("child processes could not be recorded in %s: %s", self._record, error)


def _nobodys_watchdog() -> subprocess.Popen[bytes]:
    """A watchdog that wears no mark of a child, and that cannot hold the gateway up."""
    process = start_watchdog()
    spare(process.pid)
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)  # a stopped watchdog must not stop the gateway
    return process


def _signal_all(group: int, others: set[int], number: int) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in others:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


async def _gone(group: int, others: set[int], timeout: float) -> bool:
    """Wait until neither the group nor the others run any more; zombies count as gone.

    Signal 0 is asked first: it costs microseconds, but counts zombies that nobody reaps as alive; only for
    those that stay is /proc read.
    """
    with anyio.move_on_after(timeout):
        polls = 0
        while _reachable(group, others):
            polls += 1
            if polls % POLLS_PER_SCAN == 0:
                running = await anyio.to_thread.run_sync(watchdog.running, group, others)
                if not running:
                    return True
            await anyio.sleep(TERM_POLL_SECONDS)
        return True
    return False


def _reachable(group: int, others: set[int]) -> bool:
    for send, number in ((os.killpg, group), *((os.kill, pid) for pid in others)):
        try:
            send(number, 0)
        except OSError:
            continue
        return True
    return False
