"""Commands to the server of the Redis store: those of all tasks share one connection, which answers them in order.

A connection for each command in progress, as redis-py's client has it, takes four times the CPU time of a command.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import MasterDownError, NoScriptError, ReadOnlyError, RedisError, ResponseError

from gatemini.state.scripts import Script

OPERATION_SECONDS = 2.0
"""How long one command may take, with the wait for a connection."""
RECONNECT_SECONDS = 0.05
"""Between a connection that broke and the next attempt."""
FAILED = (RedisError, OSError, TimeoutError)
SETTLED_SECONDS = 1.0
"""A refusal over a younger connection is final: it leads to the server that the address stands for now."""


class Demoted(Disconnected):
    """The server has become a replica, and keeps its connections open; the new primary may be at its address now."""


class _Command:
    """One command and its answer; `again`: whether it may be sent a second time."""

    __slots__ = ("again", "answer", "words")

    def __init__(self, words: tuple[Any, ...], again: bool) -> None:
        self.words, self.again = words, again
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Commands:
    """The connection of one process. `run` opens it, and opens it again when it breaks."""

    def __init__(self, pool: ConnectionPool, demoted: Callable[[], Awaitable[None]]) -> None:
        """`pool` knows how to connect; its connections must have no time limit of their own. `demoted` is called when the
        server has become a replica, to close other connections to it.
        """
        self._pool, self._demoted = pool, demoted
        self._settled_at = 0.0
        self._queue: deque[_Command] = deque()
        self._sent: deque[_Command] = deque()
        """Commands that wait for their answers."""
        self._queued = asyncio.Event()
        self._connected = anyio.CancelScope()
        """Cancelled when the connection is no longer used."""

    async def call(self, *words: Any, again: bool = True) -> Any:
        """Send a command and return its answer. Raises one of `FAILED`.

        `again`: a command that may have been executed is sent once more when its connection breaks before the answer. One
        that was not sent waits for a connection in any case.
        """
        command = _Command(words, again)
        self._queue.append(command)
        self._queued.set()
        timer = asyncio.get_running_loop().call_later(OPERATION_SECONDS, self._expire, command)
        try:
            return await command.answer
        finally:
            timer.cancel()

    async def script(self, script: Script, key: str, *arguments: Any, again: bool = True) -> Any:
        """Run a script on one key and return its answer. Raises one of `FAILED`."""
        try:
            return await self.call("EVALSHA", script.sha, 1, key, *arguments, again=again)
        except NoScriptError:  # the server is new, or has started again
            return await self.call("EVAL", script.text, 1, key, *arguments, again=again)

    def fail(self, error: Exception) -> None:
        """Fail all commands that wait for a connection."""
        while self._queue:
            self._queue.popleft().fail(error)

    def _expire(self, command: _Command) -> None:
        command.fail(TimeoutError(f"no answer within {OPERATION_SECONDS:g} s"))
        if command in self._sent:
            self._connected.cancel()

    async def run(self) -> None:
        """Send commands and receive their answers, until cancelled."""
        while True:
            await self._queued.wait()
            connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
            try:
                with anyio.fail_after(OPERATION_SECONDS):
                    await connection.send_command("PING")  # connects; refused while the server loads its data
                    await connection.read_response()
                self._settled_at = anyio.current_time() + SETTLED_SECONDS
                with anyio.CancelScope() as self._connected:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(self._receive, connection)
                        tasks.start_soon(self._send, connection)
            except* Demoted:
                with suppress(*FAILED):
                    await self._demoted()
            except* FAILED:
                await anyio.sleep(RECONNECT_SECONDS)
            finally:
                with suppress(*FAILED):
                    await connection.disconnect(nowait=True)
                self._requeue()

    async def _send(self, connection: AbstractConnection) -> None:
        while True:
            await self._queued.wait()
            self._queued.clear()
            packed: list[bytes] = []
            while self._queue:
                command = self._queue.popleft()
                if not command.answer.done():
                    packed += connection.pack_command(*command.words)
                    self._sent.append(command)
            if packed:
                await connection.send_packed_command(packed, check_health=False)

    async def _receive(self, connection: AbstractConnection) -> None:
        while True:
            answer: Any
            try:
                answer = await connection.read_response(disable_decoding=True)
            except ResponseError as error:
                answer = error
            if not self._sent:  # then no answer could be assigned to its command any more
                raise Disconnected("the server has answered without a command")
            if _is_demoted(answer) and anyio.current_time() >= self._settled_at:
                self._sent[0].again = True  # it was not executed
                raise Demoted("the server is a replica now") from answer
            command = self._sent.popleft()
            if isinstance(answer, ResponseError):
                command.fail(answer)
            elif not command.answer.done():
                command.answer.set_result(answer)

    def _requeue(self) -> None:
        """Queue the commands without an answer again, in order, after the connection broke."""
        while self._sent:
            command = self._sent.pop()
            if command.again:
                self._queue.appendleft(command)
            else:
                command.fail(Disconnected("the connection broke before the answer"))
        self._queue = deque(command for command in self._queue if not command.answer.done())
        if self._queue:
            self._queued.set()
        else:
            self._queued.clear()


def _is_demoted(answer: Any) -> bool:
    """Whether a server refuses a command because it is a replica; up to 7.0 a script's error begins otherwise."""
    if isinstance(answer, ReadOnlyError | MasterDownError):
        return True
    return isinstance(answer, ResponseError) and "-READONLY " in str(answer)
