"""Guests in processes of their own, behind the interface of guest.Guest: one worker per chain, replaced when lost.

Cancelling or an overrun kills the worker; a chain that ends leaves it for the next. Blocking, called on the sandbox's
worker threads. Above: session.py. Below: frames.py, and worker.py on the other end of the pipes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import orjson
import psutil

if sys.platform.startswith("linux"):
    import resource

from gatemini_sandbox import frames
from gatemini_sandbox.budget import Ledger
from gatemini_sandbox.errors import (
    GuestFault,
    GuestMissing,
    GuestTampered,
    HostExhausted,
    WorkerLost,
)
from gatemini_sandbox.limits import MIB, TOTAL_MEMORY, Limits
from gatemini_sandbox.messages import PROTOCOL, End, Raw
from gatemini_sandbox.wasi import MOST_READINGS

START_SECONDS = 60.0
"""A worker's start: a second of compiling without a cache, on a loaded machine."""
GRACE_SECONDS = 5.0
"""What a step may take beyond the chain's CPU limit before its worker counts as wedged, unless it still computes: on
a loaded machine CPU time takes longer than its number."""
IDLE_SECONDS = 0.5
"""A worker over its time that has used no CPU time for this long is wedged, and no victim of a loaded machine."""
PROBE_SECONDS = 0.4
"""How soon an idle worker must take up a chain; one that is stopped or stuck is replaced, and the chain is not lost."""
KILLED_SECONDS = 5.0
"""How long the end of a process that was sent SIGKILL is waited for; one that hangs in the kernel is left behind."""
UNFIT = (GuestMissing, GuestTampered, HostExhausted)
"""What may keep a worker from being ready."""
MOST_SPARE = 4
"""Idle workers kept for the next chains."""
MOST_MEMORY = 4096 * MIB
"""All that 32 bits can address."""
ENDS = frozenset({None, "done", "failed", "deadlock", "trapped", "broken"})


class Process:
    """One worker process and its pipes."""

    def __init__(self, limits: Limits, cache_dir: Path | None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "gatemini_sandbox.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            close_fds=True,
            cwd="/" if sys.platform != "win32" else None,
            # A group, so that no key of a terminal reaches it. Not a session: a stopped group whose parent dies in its own
            # session is woken by the kernel (SIGHUP, SIGCONT), and finds that the parent is gone.
            process_group=None if sys.platform == "win32" else 0,
            bufsize=0,
        )
        take_own_limits(self._process.pid)
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        os.set_blocking(
            self._input.fileno(), False
        )  # a stopped worker must not stop a thread of this process
        self.confinement: list[str] = []
        self.cache_problem = ""
        self.limits = limits
        self._settings = orjson.dumps(
            {"limits": dataclasses.asdict(limits), "cache_dir": None if cache_dir is None else str(cache_dir)}
        )

    def make_ready(self) -> None:
        """Sends the settings and waits for the worker to have shut itself in. Raises WorkerLost, or what it met."""
        operation, parts = self.exchange(frames.SETTINGS, [self._settings], START_SECONDS)
        if operation == frames.UNFIT and len(parts) == 2:
            self.kill()
            code, text = (part.decode("utf-8", "replace") for part in parts)
            raise next((kind for kind in UNFIT if kind.code == code), WorkerLost)(text)
        told: Any = None
        if operation == frames.READY and len(parts) == 2:
            with contextlib.suppress(orjson.JSONDecodeError):
                told = orjson.loads(parts[0])
        if not isinstance(told, list):
            self.kill()
            raise WorkerLost("a sandbox worker did not start")
        self.confinement = [str(wall) for wall in told]
        self.cache_problem = parts[1].decode("utf-8", "replace")

    def take_up(self, parts: list[bytes], seconds: float, *, longer: bool = True) -> None:
        """Gives it a chain and waits for it to say so, not for the chain. Raises WorkerLost."""
        operation, _ = self.exchange(frames.START, parts, seconds, longer=longer)
        if operation != frames.TAKEN:
            self.kill()
            raise WorkerLost("a sandbox worker did not take up its chain")

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, operation: int, parts: list[bytes], seconds: float) -> None:
        """A frame there. Raises WorkerLost; the worker is then of no more use."""
        until = time.monotonic() + seconds
        left = memoryview(frames.pack(operation, parts))
        try:
            while left:
                _wait(self._input, select.POLLOUT, until)
                left = left[self._input.write(left) or 0 :]
        except (OSError, ValueError):
            raise WorkerLost("the sandbox worker of this chain is gone") from None

    def exchange(
        self, operation: int, parts: list[bytes], seconds: float, *, longer: bool = True
    ) -> tuple[int, list[bytes]]:
        """A frame there, a frame back. Anything wrong kills the worker and raises WorkerLost."""
        until = time.monotonic() + seconds
        try:
            self.send(operation, parts, seconds)
        except WorkerLost:
            self.kill()
            raise
        return self.receive(until - time.monotonic(), longer=longer)

    def receive(self, seconds: float, *, longer: bool = True) -> tuple[int, list[bytes]]:
        """A frame back; `longer` waits on while it computes. Anything wrong kills the worker and raises WorkerLost."""
        patience = _Patience(self.pid, seconds, longer)
        try:
            return frames.read(lambda size: self._receive(size, patience))
        except (GuestFault, OSError, ValueError) as exc:
            self.kill()
            raise WorkerLost(f"the sandbox worker of this chain ended: {exc}") from None
        except WorkerLost:
            self.kill()
            raise

    def _receive(self, size: int, patience: _Patience) -> bytes:
        parts = []
        while size > 0:
            patience.wait(self._output)
            part = self._output.read(min(size, 1 << 20))
            if not part:
                raise WorkerLost("the sandbox worker of this chain ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def end(self) -> None:
        """Ends the process, from any thread. Whoever waits for what it says finds it gone, and tidies up by `kill`:
        the pipes must not be closed under them."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def kill(self) -> None:
        """Ends the process and closes its pipes; idempotent. Not while another thread uses them."""
        self.end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_SECONDS)
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()


class _Patience:
    """How long a process is waited for: `seconds`, and if `longer` on while it computes, until it has used them up
    once more."""

    def __init__(self, pid: int, seconds: float, longer: bool) -> None:
        self._pid = pid
        self._longer = longer
        self._until = time.monotonic() + seconds
        self._left = seconds  # of CPU time, once the time is over
        self._used: float | None = None

    def wait(self, pipe: IO[bytes]) -> None:
        """Until there is something to read."""
        while True:
            try:
                return _wait(pipe, select.POLLIN, self._until)
            except WorkerLost:
                if not (self._longer and self._goes_on()):
                    raise
                self._until = time.monotonic() + IDLE_SECONDS

    def _goes_on(self) -> bool:
        before, self._used = self._used, _cpu_seconds(self._pid)
        if before is None:
            return True
        self._left -= self._used - before
        return self._used > before and self._left > 0


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def take_own_limits(pid: int) -> None:
    """A process that starts others may lower one of its limits for them, to know them by. A worker started at the
    same moment is none of them."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):  # it has ended already
            hard = resource.prlimit(pid, resource.RLIMIT_RTTIME)[1]
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (hard, hard))


def _wait(pipe: IO[bytes], event: int, until: float) -> None:
    """Until the pipe is ready; `select` would take no descriptor above 1,023."""
    watch = select.poll()
    watch.register(pipe, event)
    left = until - time.monotonic()
    if left <= 0 or not watch.poll(left * 1000):
        raise WorkerLost("the sandbox worker of this chain did not answer in time")


class Workers:
    """The processes of one sandbox: idle ones, and how to get one."""

    def __init__(self, limits: Limits, cache_dir: Path | None) -> None:
        self._limits = limits
        self._cache_dir = cache_dir
        self._idle: list[Process] = []
        self._lock = threading.Lock()
        self._closed = False
        self.confinement: list[str] = []
        self.cache_problem = ""

    def set_limits(self, limits: Limits) -> None:
        """For workers that start from now on; idle ones have the former limits and end, the others after their chain."""
        with self._lock:
            self._limits = limits
            idle, self._idle = self._idle, []
        for process in idle:
            process.kill()

    def warm(self) -> None:
        """One worker ready, idempotent."""
        if not self._idle and not self._closed:
            self.give_back(self.take())

    def take(self) -> Process:
        """An idle worker or a new one. Raises WorkerLost."""
        return self._spare() or self._new()

    def start(self, parts: list[bytes]) -> Process:
        """A worker that has taken up the chain of this START frame: one that does not is replaced."""
        while (process := self._spare()) is not None:
            with contextlib.suppress(WorkerLost):
                process.take_up(parts, PROBE_SECONDS, longer=False)
                return process
        process = self._new()
        process.take_up(parts, GRACE_SECONDS)
        return process

    def _spare(self) -> Process | None:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.alive():
                    return process
        return None

    def _new(self) -> Process:
        try:
            process = Process(self._limits, self._cache_dir)
        except OSError as exc:  # no more processes, or descriptors for its pipes
            raise WorkerLost(f"no sandbox worker can be started: {exc.strerror or exc}") from None
        process.make_ready()
        self.confinement, self.cache_problem = process.confinement, process.cache_problem
        return process

    def give_back(self, process: Process) -> None:
        """For the next chain; one too many is ended."""
        with self._lock:
            keep = (
                not self._closed
                and process.limits == self._limits
                and len(self._idle) < MOST_SPARE
                and process.alive()
            )
            if keep:
                self._idle.append(process)
        if not keep:
            process.kill()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.kill()


class RemoteGuest:
    """A guest in a worker process, with the interface of guest.Guest."""

    def __init__(
        self, workers: Workers, limits: Limits, ledger: Ledger, now_ms: float, clock: Sequence[int]
    ) -> None:
        self._workers = workers
        self._limits = limits
        self._ledger = ledger
        self._now_ms = now_ms
        self._given = clock
        self._readings: list[int] = []
        self._process: Process | None = None
        self._stopped = False
        self._busy = False
        self._lock = threading.Lock()

    @property
    def memory_bytes(self) -> int:
        return 0  # not in this process

    def begin(self, start: bytes, source: bytes) -> Raw:
        head = orjson.dumps([self._limits.wall_seconds, self._now_ms])
        given = struct.pack(f"<{len(self._given)}Q", *self._given)
        process = self._workers.start([head, start, source, given])
        with self._lock:
            self._process = process
            stopped, self._busy = self._stopped, True
        if stopped:
            process.kill()
            raise WorkerLost("the chain was cancelled")
        return self._read(process, *process.receive(self._step_seconds))

    def resume(self, replies: bytes) -> Raw:
        return self._step(frames.REPLIES, [replies])

    def outcome(self) -> Raw:
        return self._step(frames.OUTCOME, [])

    @property
    def _step_seconds(self) -> float:
        return self._limits.cpu_seconds + GRACE_SECONDS

    def _step(self, operation: int, parts: list[bytes]) -> Raw:
        process = self._process
        if process is None:
            raise WorkerLost("the sandbox worker of this chain is gone")
        self._busy = True
        return self._read(process, *process.exchange(operation, parts, self._step_seconds))

    def _read(self, process: Process, answer: int, got: list[bytes]) -> Raw:
        self._busy = False
        try:
            raw = unpack_raw(answer, got, self._limits.console_bytes)
            self._readings += raw.readings
            if len(self._readings) > MOST_READINGS:
                raise GuestFault("more clock readings than are kept")
            raw.readings = self._readings
        except GuestFault as exc:
            process.kill()
            raise WorkerLost(f"the sandbox worker of this chain said nonsense: {exc}") from None
        if raw.end is None and self._ledger.over(id(self), raw.memory):
            process.kill()
            return Raw(
                raw.outboxes, "trapped", console=raw.console, reason=TOTAL_MEMORY, readings=raw.readings
            )
        return raw

    def stop(self) -> None:
        """Ends a guest that is running, by ending its process; one that is idle is left for `close`."""
        with self._lock:
            self._stopped = True
            process = self._process if self._busy else None
        if process is not None:
            process.end()

    def close(self) -> None:
        self._ledger.forget(id(self))
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        if self._busy:
            process.kill()
            return
        try:
            process.send(frames.DROP, [], PROBE_SECONDS)
        except WorkerLost:
            process.kill()
            return
        self._workers.give_back(process)


def unpack_raw(operation: int, parts: list[bytes], console_bytes: int = PROTOCOL["console"]["bytes"]) -> Raw:
    """A step from a worker's frame; raises GuestFault for anything else."""
    if operation != frames.RAW or len(parts) < 5:
        raise GuestFault("not a step")
    try:
        head: Any = orjson.loads(parts[0])
    except orjson.JSONDecodeError:
        raise GuestFault("a step without a head") from None
    if not isinstance(head, dict) or head.get("end") not in ENDS:
        raise GuestFault("a step with a wrong head")
    reason, detail, full = head.get("reason"), head.get("detail"), head.get("full")
    if not isinstance(reason, str) or not isinstance(detail, str) or not isinstance(full, bool):
        raise GuestFault("a step with wrong fields")
    memory = head.get("memory")
    if type(memory) is not int or not 0 <= memory <= MOST_MEMORY:
        raise GuestFault("a guest larger than its address space")
    if len(parts[3]) > console_bytes + 16:
        raise GuestFault("a console larger than its buffer")
    if len(parts[4]) % 8 or len(parts[4]) > 8 * MOST_READINGS:
        raise GuestFault("clock readings that are none")
    readings = [reading for (reading,) in struct.iter_unpack("<Q", parts[4])]
    end = cast("End | None", head["end"])
    return Raw(parts[5:], end, parts[1], parts[2], parts[3], reason, detail, full, readings, memory)
