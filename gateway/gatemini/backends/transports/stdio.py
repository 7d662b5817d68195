"""The stdio transport: a child process with MCP on its stdin and stdout, one JSON message a line.

The child leads a process group, sees a clean environment, and ends with all that it started when the connection is
closed. The last lines of its stderr are kept.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from gatemini.backends.calls.failures import SHOWN_STDERR_LINES, stderr_text
from gatemini.backends.calls.large_messages import read_large
from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.transports.line_reader import LineReader
from gatemini.backends.wire import Frame, encode
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendStopped
from gatemini.model import Json
from gatemini.processes.child_environment import child_environment, find_program, working_directory
from gatemini.processes.children import KILL_SHIELD_SECONDS, Children
from gatemini.processes.command import describe_exit
from gatemini.processes.pipes import STDOUT, ChildPipes
from gatemini.text.shorten import shorten

STDERR_LINES = 200
STDERR_LINE_CHARS = 2000
EXIT_DRAIN_SECONDS = 0.5
"""How long output is still read after the process ended (a grandchild may hold the pipe open)."""

EXIT_WAIT_SECONDS = 1.0
"""How long a process that closed its stdout may take to end before it is stopped."""

DECODE_SECONDS = 30.0
"""How long the end of a connection waits for the decoding of a large message before it."""

INPUT_CLOSED_SECONDS = 1.0
"""How long a child whose stdin was closed may take to end before SIGTERM; at most half of its grace period. MCP clients
give the gateway itself two seconds."""

logger = logging.getLogger(__name__)
STDERR_LOG = logging.getLogger("gatemini.backends.stderr")
"""Has each line that a backend writes to stderr: the backend's name, the text."""


class StdioLink(Link):
    """The connection to one child process."""

    def __init__(self, config: BackendConfig, receiver: Receiver) -> None:
        super().__init__(config.name, receiver)
        self.child = ChildPipes(config.name, self._take_output, self._take_errors)
        self._reader = LineReader(config.max_message_mb << 20, on_junk=self._junk, on_large=self._take_large)
        self._tasks: anyio.abc.TaskGroup | None = None
        self._decoding: anyio.Event | None = None
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._rest = b""  # of stderr: the line that has not ended

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def skipped(self) -> int:
        return self._reader.skipped

    def stderr_tail(self) -> list[str]:
        return list(self._stderr)

    def send_now(self, message: Json) -> bool:
        return self.failure is None and self.child.write_now(encode(message) + b"\n")

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        """Write one line; waits while the child does not read."""
        del ident
        if self.failure is not None:
            raise BackendCrashed(f"{self._name} is gone", sent=False)
        data = encode(message) + b"\n"
        try:
            await self.child.write(data)
        except anyio.BrokenResourceError as error:
            raise await self._write_failed() from error

    async def watch(self, tasks: anyio.abc.TaskGroup) -> None:
        """Follow the process to its end; returns after `closed` is set."""
        child = self.child
        self._tasks = tasks
        tasks.start_soon(self._wait_exit)
        await child.output_over.wait()
        await self._decoded()
        for piece in self._reader.end():
            if isinstance(piece, Frame) or piece.too_large:  # anything else was cut off by the exit
                self._receiver.receive(piece)
        await self._decoded()
        with anyio.move_on_after(EXIT_WAIT_SECONDS):
            await child.exited.wait()
        with anyio.move_on_after(EXIT_DRAIN_SECONDS):
            await child.errors_over.wait()
        if self._rest.strip():
            self._keep(self._rest)
        self.failure = self._crashed(sent=True)
        self._receiver.fail(self.failure)
        self.closed.set()

    async def _wait_exit(self) -> None:
        await self.child.exited.wait()
        await self._decoded()
        with anyio.move_on_after(EXIT_DRAIN_SECONDS):
            await self.child.output_over.wait()
        self.child.output_over.set()

    def _take_output(self, data: bytes) -> bool:
        answered = False
        for piece in self._reader.feed(data):
            answered = answered or self._answers(piece)
            self._receiver.receive(piece)
        return answered

    def _take_large(self, parts: list[bytes]) -> None:
        """Read a large line in the compute process; what the child writes meanwhile waits in its pipe."""
        if self._tasks is None:  # nothing was asked of it yet
            for piece in self._reader.read(parts):
                self._receiver.receive(piece)
            return
        self.child.hold_output()
        self._tasks.start_soon(self._decode, parts)
        self._decoding = anyio.Event()

    async def _decode(self, parts: list[bytes]) -> None:
        begun, answered = time.perf_counter(), False
        try:
            pieces = await read_large(parts)
            if not pieces:
                self._reader.skip(parts[0])
            for piece in pieces:
                answered = answered or self._answers(piece)
                self._receiver.receive(piece)
            if not answered:
                self.child.charge(STDOUT, time.perf_counter() - begun)
        finally:
            if self._decoding is not None:
                self._decoding.set()
            self._decoding = None
            self.child.release_output()

    async def _decoded(self) -> None:
        """Until what has come is decoded: the end of the connection must not overtake an answer."""
        with anyio.move_on_after(DECODE_SECONDS):
            while self._decoding is not None:
                await self._decoding.wait()

    def _take_errors(self, data: bytes) -> bool:
        *lines, rest = (self._rest + data).rsplit(b"\n", STDERR_LINES + 1)
        for line in lines[-STDERR_LINES:]:
            self._keep(line)
        self._rest = rest[: STDERR_LINE_CHARS * 4 + 1]  # one more, so that a longer line is marked as cut
        return False

    def _keep(self, line: bytes) -> None:
        text = shorten(line.decode("utf-8", "replace").rstrip("\r"), STDERR_LINE_CHARS)
        self._stderr.append(text)
        STDERR_LOG.debug("%s: %s", self._name, text)

    def _junk(self, line: bytes) -> None:
        logger.debug("%s wrote a line that is no JSON-RPC: %r", self._name, line[:200])

    async def _write_failed(self) -> BackendCrashed:
        """The error of a broken pipe, after `watch` had time to find the cause."""
        with anyio.move_on_after(EXIT_WAIT_SECONDS + EXIT_DRAIN_SECONDS):
            await self.closed.wait()
        return self._crashed(sent=False)

    def _crashed(self, *, sent: bool) -> BackendCrashed:
        code = self.child.returncode
        how = "closed its output" if code is None else describe_exit(code)
        return BackendCrashed(
            f"{self._name} {how}{stderr_text(self.stderr_tail())}",
            sent=sent,
            hint="the next call starts it again; look whether this one took effect before you repeat it"
            if sent
            else "it was not sent: call again, which starts the backend",
            details={"exit_code": code, "stderr": self.stderr_tail()[-SHOWN_STDERR_LINES:]},
        )


@asynccontextmanager
async def open_stdio(config: BackendConfig, receiver: Receiver, children: Children) -> AsyncIterator[Link]:
    """Start the child and keep it for the length of the context."""
    link = StdioLink(config, receiver)
    child = link.child
    async with children.starting():
        await _spawn(config, child)
        children.started(child.pid, child.mark)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.watch, tasks)
            try:
                yield link
            finally:
                await _end(child, children, config.shutdown_grace_period)
                tasks.cancel_scope.cancel()
    finally:
        child.close()
        with anyio.move_on_after(KILL_SHIELD_SECONDS, shield=True):
            await child.exited.wait()


async def _end(child: ChildPipes, children: Children, grace: float) -> None:
    """Close stdin, wait, SIGTERM, wait, SIGKILL, as MCP requires; all within the grace period."""
    until = anyio.current_time() + grace
    with anyio.move_on_after(grace + KILL_SHIELD_SECONDS, shield=True):
        child.end_input()
        with anyio.move_on_after(min(INPUT_CLOSED_SECONDS, grace / 2)):
            await child.exited.wait()
        await children.stop(child.pid, child.name, grace=max(0.0, until - anyio.current_time()))


async def _spawn(config: BackendConfig, child: ChildPipes) -> None:
    environment = child_environment(config.env, inherit=config.inherit_env)
    cwd = working_directory(config.cwd)
    program = find_program(config.command or "", environment, cwd)
    try:
        await child.start([program, *config.args], cwd=cwd, env=environment)
    except (OSError, ValueError) as error:
        raise BackendStopped(
            f"{config.name} could not be started: {error}", hint="correct `command` and `args` in its config"
        ) from error
