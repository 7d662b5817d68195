"""A backend as a child process: MCP on its stdin and stdout, one JSON message a line.

The child leads its own process group, sees a clean environment, and is gone with all it started when the
link is left. Its stderr is kept in a ring of lines. Above: `actor.py` (owns the link), `peer.py` (writes
through it). Below: `wire.py` for lines, `children.py` for the end of processes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from subprocess import PIPE

import anyio
import anyio.abc
import anyio.lowlevel

from gatemini.backends.base import Link, Receiver
from gatemini.backends.children import Children
from gatemini.backends.environment import child_environment, find_program, working_directory
from gatemini.backends.process import describe_exit
from gatemini.backends.wire import LineReader, encode
from gatemini.config.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendStopped
from gatemini.model import Json, Tool

STDERR_LINES = 200
STDERR_LINE_CHARS = 2000
SHOWN_STDERR_LINES = 10
"""Lines of stderr that an error text carries."""

READ_BYTES = 1 << 16
BREATHE_BYTES = 1 << 20
"""After so much read at a stretch other tasks get their turn."""

EXIT_DRAIN_SECONDS = 0.5
"""How long output is still read after the process ended (a grandchild may hold the pipe open)."""

EXIT_WAIT_SECONDS = 1.0
"""How long a process that closed its stdout may take to end before it is stopped."""

KILL_SHIELD_SECONDS = 5.0
"""Beyond the grace period: the most that stopping a child may take."""

logger = logging.getLogger(__name__)


class StdioLink:
    """The open connection to one child process."""

    def __init__(self, config: BackendConfig, process: anyio.abc.Process, receiver: Receiver) -> None:
        self.closed = anyio.Event()
        self.failure: BackendCrashed | None = None
        self._name = config.name
        self._process = process
        self._receiver = receiver
        self._reader = LineReader(config.max_message_mb << 20, on_junk=self._junk)
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._writing = anyio.Lock()
        self._output_over = anyio.Event()
        self._errors_over = anyio.Event()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def skipped(self) -> int:
        return self._reader.skipped

    def stderr_tail(self) -> list[str]:
        return list(self._stderr)

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        """Write one line; waits (cancellably) while the child does not read."""
        del ident
        if self.failure is not None or self._process.stdin is None:
            raise BackendCrashed(f"{self._name} is gone", sent=False)
        data = encode(message) + b"\n"
        async with self._writing:
            try:
                await self._process.stdin.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                raise await self._write_failed() from error

    def abandon(self, ident: int) -> bool:
        del ident
        return False

    def learn(self, tools: Sequence[Tool]) -> None:
        del tools

    async def watch(self, tasks: anyio.abc.TaskGroup) -> None:
        """Follow the process to its end; returns after `closed` is set."""
        tasks.start_soon(self._read_output)
        tasks.start_soon(self._read_errors)
        tasks.start_soon(self._wait_exit)
        await self._output_over.wait()
        with anyio.move_on_after(EXIT_WAIT_SECONDS):
            await self._process.wait()
        with anyio.move_on_after(EXIT_DRAIN_SECONDS):
            await self._errors_over.wait()
        self.failure = self._crashed(sent=True)
        self._receiver.fail(self.failure)
        self.closed.set()

    async def _wait_exit(self) -> None:
        await self._process.wait()
        with anyio.move_on_after(EXIT_DRAIN_SECONDS):
            await self._output_over.wait()
        self._output_over.set()

    async def _read_output(self) -> None:
        stream = self._process.stdout
        since_pause = 0
        try:
            while stream is not None:
                chunk = await stream.receive(READ_BYTES)
                for piece in self._reader.feed(chunk):
                    self._receiver.receive(piece)
                since_pause += len(chunk)
                if since_pause >= BREATHE_BYTES:
                    since_pause = 0
                    await anyio.lowlevel.checkpoint()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            for piece in self._reader.end():
                self._receiver.receive(piece)
        self._output_over.set()

    async def _read_errors(self) -> None:
        stream = self._process.stderr
        rest = b""
        try:
            while stream is not None:
                *lines, rest = (rest + await stream.receive(READ_BYTES)).split(b"\n")
                for line in lines[-STDERR_LINES:]:
                    self._keep(line)
                rest = rest[-STDERR_LINE_CHARS * 4 :]
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            if rest.strip():
                self._keep(rest)
        self._errors_over.set()

    def _keep(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")[:STDERR_LINE_CHARS]
        self._stderr.append(text)
        logger.debug("%s: %s", self._name, text)

    def _junk(self, line: bytes) -> None:
        logger.debug("%s wrote a line that is no JSON-RPC: %r", self._name, line[:200])

    async def _write_failed(self) -> BackendCrashed:
        """The pipe broke: give the watcher a moment to learn why."""
        with anyio.move_on_after(EXIT_WAIT_SECONDS + EXIT_DRAIN_SECONDS):
            await self.closed.wait()
        return self._crashed(sent=False)

    def _crashed(self, *, sent: bool) -> BackendCrashed:
        code = self._process.returncode
        how = "closed its output" if code is None else describe_exit(code)
        return BackendCrashed(
            f"{self._name} {how}{stderr_text(self.stderr_tail())}",
            sent=sent,
            hint="it is started again by the next call; if it keeps ending, its stderr says why",
            details={"exit_code": code, "stderr": self.stderr_tail()[-SHOWN_STDERR_LINES:]},
        )


@asynccontextmanager
async def open_stdio(config: BackendConfig, receiver: Receiver, children: Children) -> AsyncIterator[Link]:
    """Start the child and keep it for the length of the context."""
    process = await _spawn(config)
    children.started(process.pid)
    link = StdioLink(config, process, receiver)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.watch, tasks)
            try:
                yield link
            finally:
                grace = config.shutdown_grace_period
                with anyio.move_on_after(grace + KILL_SHIELD_SECONDS, shield=True):
                    await children.stop(process.pid, grace=grace)
                tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(KILL_SHIELD_SECONDS, shield=True):
            await process.aclose()


async def _spawn(config: BackendConfig) -> anyio.abc.Process:
    environment = child_environment(config.env, inherit=config.inherit_env)
    cwd = working_directory(config.cwd)
    program = find_program(config.command or "", environment, cwd)
    try:
        return await anyio.open_process(
            [program, *config.args],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise BackendStopped(
            f"{config.name} could not be started: {error}", hint="correct `command` and `args` in its config"
        ) from error


def stderr_text(lines: list[str]) -> str:
    """The last lines of stderr as the end of an error message; empty without any."""
    last = [line for line in lines if line.strip()][-SHOWN_STDERR_LINES:]
    return "; its last stderr lines:\n" + "\n".join(f"  {line}" for line in last) if last else ""
