"""A child process whose output goes to callbacks on the event loop, with no task and no buffer between.

anyio's streams cost two more turns of the event loop for each message, which is a tenth of what a call costs;
so this file uses asyncio's own protocol for subprocesses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from subprocess import DEVNULL, PIPE

import anyio

from gatemini.processes import process_mark
from gatemini.processes.throttle import READ_SECONDS, Throttle

STDIN, STDOUT, STDERR = 0, 1, 2

logger = logging.getLogger(__name__)


class _Straight(asyncio.Protocol):
    """Passes on the bytes of one pipe in the turn in which they are read; asyncio's own protocol takes one turn more."""

    def __init__(self, take: Callable[[bytes], None], usual: asyncio.BaseProtocol) -> None:
        self._take = take
        self._usual = usual

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._usual.connection_lost(exc)


class ChildPipes(asyncio.SubprocessProtocol):
    """One child: `on_output` and `on_errors` get its bytes as they arrive, and return whether they were awaited.

    Unsolicited output is read within a share of the loop's time (`Throttle`); a child that writes more waits on its
    full pipe.
    """

    def __init__(
        self, name: str, on_output: Callable[[bytes], bool], on_errors: Callable[[bytes], bool]
    ) -> None:
        self.output_over = anyio.Event()
        self.errors_over = anyio.Event()
        self.exited = anyio.Event()
        self.mark = 0
        """The mark of the child and its descendants (`process_mark.py`)."""
        self.name = name
        """For the log."""
        self._sinks = {STDOUT: on_output, STDERR: on_errors}
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._readers: dict[int, asyncio.ReadTransport] = {}
        self._shares = {STDOUT: Throttle(), STDERR: Throttle()}
        self._resting: set[int] = set()
        self._held = False
        self._context = copy_context()
        self._writing = anyio.Lock(fast_acquire=True)
        self._drained = anyio.Event()
        self._full = False

    async def start(
        self, command: Sequence[str], *, cwd: str | None, env: Mapping[str, str], stdin: bool = True
    ) -> None:
        """Start the child; without `stdin` it reads an empty input. Raises OSError or ValueError."""
        await asyncio.get_running_loop().subprocess_exec(
            self._marked,
            *command,
            stdin=PIPE if stdin else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        process_mark.put_mark(self.pid, self.mark)

    def _marked(self) -> ChildPipes:
        """Set the mark: asyncio calls this factory in the turn of the loop in which it starts the child."""
        self.mark = process_mark.set_mark()
        return self

    @property
    def pid(self) -> int:
        return 0 if self._transport is None else self._transport.get_pid()

    @property
    def returncode(self) -> int | None:
        return None if self._transport is None else self._transport.get_returncode()

    async def write(self, data: bytes) -> None:
        """Write all of `data`, once the child has read most of what was written before.

        Cancelled while it waits, it has written nothing. Raises anyio.BrokenResourceError when the child does not
        read any more.
        """
        async with self._writing:
            while self._full:
                self._drained = anyio.Event()
                await self._drained.wait()
            stdin = self._stdin
            if stdin is None or stdin.is_closing():
                raise anyio.BrokenResourceError
            stdin.write(data)
            if stdin.is_closing():
                raise anyio.BrokenResourceError

    def write_now(self, data: bytes) -> bool:
        """Write all of `data` if no write waits and the child has read most of what was written; else write nothing."""
        stdin = self._stdin
        if self._full or self._writing.locked() or stdin is None or stdin.is_closing():
            return False
        stdin.write(data)
        return not stdin.is_closing()

    def end_input(self) -> None:
        """Close stdin: the child sees the end once it has read the rest."""
        if self._stdin is not None:
            self._stdin.close()

    def hold_output(self) -> None:
        """Read no more of stdout until `release_output`."""
        self._held = True
        self._read_or_not(STDOUT)

    def release_output(self) -> None:
        self._held = False
        self._read_or_not(STDOUT)

    def charge(self, fd: int, seconds: float) -> None:
        """Account for time spent on unsolicited output; a child over its share is not read for a while."""
        rest = self._shares[fd].charge(seconds)
        if rest > 0 and self.returncode is None and fd not in self._resting:
            self._resting.add(fd)
            self._read_or_not(fd)
            asyncio.get_running_loop().call_later(rest, self._rested, fd)

    def _rested(self, fd: int) -> None:
        self._resting.discard(fd)
        self._read_or_not(fd)

    def _read_or_not(self, fd: int) -> None:
        reader = self._readers.get(fd)
        if reader is None or reader.is_closing():
            return
        if fd in self._resting or (self._held and fd == STDOUT):
            reader.pause_reading()
        else:
            reader.resume_reading()

    def close(self) -> None:
        """Close the pipes; a child that still runs is killed."""
        if self._transport is not None:
            self._transport.close()

    # -- what asyncio calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.SubprocessTransport):
            raise TypeError(f"{transport!r} is no subprocess")
        self._transport = transport
        stdin = transport.get_pipe_transport(STDIN)
        self._stdin = stdin if isinstance(stdin, asyncio.WriteTransport) else None
        for fd in (STDOUT, STDERR):
            reader = transport.get_pipe_transport(fd)
            if isinstance(reader, asyncio.ReadTransport):
                self._readers[fd] = reader
                reader.set_protocol(_Straight(partial(self._take, fd), reader.get_protocol()))

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Take bytes that arrived before the pipe got its own protocol."""
        self._take(fd, data if isinstance(data, bytes) else data.encode())

    def _take(self, fd: int, data: bytes) -> None:
        begun = time.perf_counter()
        try:
            awaited = self._sinks[fd](data)
        except Exception:  # a fault of ours must end this child and nothing else
            logger.exception("output of %s could not be taken", self.name)
            self.close()
            return
        if not awaited:
            self.charge(fd, time.perf_counter() - begun + READ_SECONDS)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        if fd == STDIN:
            self.resume_writing()
        elif fd == STDOUT:
            self.output_over.set()
        else:
            self.errors_over.set()

    def process_exited(self) -> None:
        for fd in tuple(self._resting):
            # The last output is read at once, however much came before. asyncio calls this outside any task, where
            # anyio does not know its event loop.
            self._context.run(self._rested, fd)
        self.exited.set()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._drained.set()
