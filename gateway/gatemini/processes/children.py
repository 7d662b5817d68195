"""The child processes of one gateway: recorded when they start, ended with all that they started.

Each child leads a process group. The group is reported to one watchdog process, which kills it when the gateway is
gone, even by SIGKILL; and recorded in a file, so that the next gateway kills what is left if the watchdog was killed
too. A parent-death signal would reach only the direct child, not what `npx` started.
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
from gatemini.processes.own_files import read_own, replace_own
from gatemini.processes.process_facts import same_process, start_time
from gatemini.processes.process_mark import MARK_FLOOR, clear_mark

TERM_POLL_SECONDS = 0.02
"""Pause between two checks whether a group has ended."""

POLLS_PER_SCAN = 10
"""Cheap checks (signal 0) between two readings of the process table."""

KILL_WAIT_SECONDS = 2.0
"""How long killed processes may take to disappear; then their group is logged as not killed."""

WATCHDOG_EXIT_SECONDS = 3.0
"""How long the watchdog may take to end after its pipe was closed."""

MAX_RECORD_BYTES = 1 << 20
"""A larger record is not ours; a hundred children take about 10 KB."""

START_GAP_SECONDS = 0.005
"""Pause before each start: it blocks the event loop for milliseconds, and a gateway may start thirty at once."""

KILL_SHIELD_SECONDS = 5.0
"""The most that ending a child may take beyond its grace period."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Group:
    """A process group: the start time of its leader, and its mark (0: none)."""

    created: float
    mark: int

    def line(self, pid: int) -> str:
        """The watchdog's line for this group."""
        return f"+{pid} {self.created:.3f} {self.mark}\n"


class Children:
    """The process groups of one gateway. Not thread-safe: used on the event loop only."""

    def __init__(self, record_dir: Path | None = None) -> None:
        self._groups: dict[int, _Group] = {}
        self._starts = anyio.Lock()
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._dir = record_dir
        self._record = record_dir / f"children-{os.getpid()}.json" if record_dir else None

    @contextlib.asynccontextmanager
    async def starting(self) -> AsyncIterator[None]:
        """Hold while one child is started: they start one at a time, with other work in between."""
        async with self._starts:
            await anyio.sleep(START_GAP_SECONDS)
            yield

    def started(self, pid: int, mark: int) -> None:
        """Watch a new child, the leader of its group."""
        group = self._groups[pid] = _Group(start_time(pid), mark)
        self._report(group.line(pid))
        self._save()

    def ended(self, pid: int) -> None:
        """Stop watching a group that is empty."""
        if self._groups.pop(pid, None) is not None:
            self._report(f"-{pid}\n")
            self._save()

    async def stop(self, pid: int, name: str, *, grace: float) -> None:
        """Send SIGTERM to a group, wait up to `grace` seconds, send SIGKILL to what is left.

        Also reaches members of its session, descendants that left the group, and processes with its mark. `name` is
        for the log.
        """
        group = self._groups.get(pid)
        find = partial(watchdog.family, pid, group.mark if group else 0)
        # Reading the process table takes milliseconds, in which other backends' calls would wait.
        others = await anyio.to_thread.run_sync(find)
        watchdog.send_signal(pid, others, signal.SIGTERM)
        ended = await _gone(pid, others, grace)
        for _ in range(watchdog.KILL_ROUNDS):  # processes forked meanwhile may have left group and session
            others = await anyio.to_thread.run_sync(find)
            if ended and not others:
                break
            watchdog.send_signal(pid, others, signal.SIGKILL)
            ended = await _gone(pid, others, KILL_WAIT_SECONDS)
        else:
            logger.error("%s (process group %d) could not be killed", name, pid)
        self.ended(pid)

    async def strays(self, pid: int) -> bool:
        """Whether a command that has ended left processes running, in its group or with its mark."""
        group = self._groups.get(pid)
        if _reachable(pid, set()):
            return True
        if group is None or not group.mark:
            return False
        return bool(await anyio.to_thread.run_sync(partial(watchdog.marked, group.mark, after=pid)))

    async def close(self) -> None:
        """End the watchdog, which kills the groups that were not stopped before."""
        process, self._watchdog = self._watchdog, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            with anyio.move_on_after(WATCHDOG_EXIT_SECONDS, shield=True):
                while process.poll() is None:  # noqa: ASYNC110 - the end of a Popen is no event
                    await anyio.sleep(TERM_POLL_SECONDS)
            if process.poll() is None:
                process.kill()
                process.wait()
        self._groups.clear()
        self._save()

    def sweep(self) -> int:
        """Kill what gateways left that are gone, if its start times match; the number of groups killed."""
        if self._dir is None or not self._dir.is_dir():
            return 0
        swept = 0
        for path in self._dir.glob("children-*.json"):
            try:
                record = orjson.loads(read_own(path, MAX_RECORD_BYTES))
                owner, owner_started = int(record["gateway"]), float(record["started"])
                groups = {int(p): (float(g["created"]), int(g["mark"])) for p, g in record["groups"].items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue  # not ours, or just being written by a gateway that runs
            if same_process(owner, owner_started):
                continue
            for pid, (created, mark) in groups.items():
                if pid <= 1 or (mark and mark < MARK_FLOOR):
                    continue  # a damaged record: these numbers mean processes that are not ours
                swept += watchdog.kill_group(pid, created, mark, grace=0.0)
            with contextlib.suppress(OSError):
                path.unlink()
        return swept

    def _report(self, line: str) -> None:
        """Write a line to the watchdog, which is started with the first child and again if it has ended."""
        if sys.platform == "win32":
            return  # there are no process groups to watch
        if self._watchdog is None or self._watchdog.poll() is not None:
            self._watchdog = start_watchdog()
            clear_mark(self._watchdog.pid)
            if self._watchdog.stdin is not None:
                os.set_blocking(self._watchdog.stdin.fileno(), False)  # a stopped watchdog must not stop us
            line = "".join(group.line(pid) for pid, group in self._groups.items())
        try:
            if self._watchdog.stdin is not None:
                os.write(self._watchdog.stdin.fileno(), line.encode())
        except OSError as error:
            logger.warning("the watchdog of child processes does not read: %s", error)

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
            replace_own(self._record, orjson.dumps(body))
        except OSError as error:
            logger.warning("child processes could not be recorded in %s: %s", self._record, error)


def start_watchdog() -> subprocess.Popen[bytes]:
    """Start a watchdog that reads its list of process groups from a pipe on its stdin. Raises OSError."""
    # Isolated and without site-packages: it needs nothing but the standard library.
    return subprocess.Popen(  # noqa: S603 - our own file, no shell
        [sys.executable, "-I", "-S", watchdog.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Not a session: a stopped group whose parent dies in its own session is woken by the kernel (SIGHUP, SIGCONT).
        process_group=0,
        bufsize=0,
        env={},
    )


async def _gone(group: int, others: set[int], timeout: float) -> bool:
    """Wait until neither the group nor the others run any more; False after `timeout` seconds.

    Signal 0 costs microseconds, but counts zombies that nobody reaps as alive; only for those is /proc read.
    """
    with anyio.move_on_after(timeout):
        polls = 0
        while _reachable(group, others):
            polls += 1
            if polls % POLLS_PER_SCAN == 0 and not await anyio.to_thread.run_sync(
                watchdog.running, group, others
            ):
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
