"""Requests of a backend to the client: passed on to the client behind its open calls, or refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
from cachetools import TTLCache

from gatemini.backends.calls.callers import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    AskFn,
    Caller,
    ProgressFn,
    RpcError,
)
from gatemini.backends.conversation.call_clock import CallClock
from gatemini.errors import BackendError
from gatemini.model import Json

ASK_SECONDS = 600.0
"""How long the client may take to answer one question."""

MOST_QUESTIONS = 32
"""Questions of one backend that may be open at the same time; more are refused."""

LEFT_SECONDS = 60.0
"""How long a call that was given up still counts: its backend may ask for it, and no other client must be asked."""

MOST_LEFT = 256
"""Such calls that are remembered."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Waiter:
    """One open request."""

    method: str
    done: bool = False
    """Whether it has its answer, or an error."""
    wake: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Has a result when it is done, or timed out. A future: an event costs three times as much."""
    result: Any = None
    notes: tuple[str, ...] = ()
    size: int = 0
    error: BackendError | None = None
    on_progress: ProgressFn | None = None
    caller: Caller | None = None
    sent: bool = False
    clock: CallClock | None = None
    sending: anyio.CancelScope | None = None
    asking: list[anyio.CancelScope] = field(default_factory=list)

    def finish(self) -> None:
        self.done = True
        self._wake_up()

    def give_up(self) -> None:
        """End the wait: the request timed out."""
        if self.sending is not None:
            self.sending.cancel()
        self._wake_up()

    def _wake_up(self) -> None:
        if not self.wake.done():
            self.wake.set_result(None)

    def progressed(self) -> None:
        """Start the timeout anew, within the time of the caller: the backend is at work."""
        if self.clock is not None and self.caller is not None and self.caller.time_left is not None:
            self.clock.restart(self.caller.time_left())

    def pause(self, ask: anyio.CancelScope) -> None:
        """Stop the timeout while the client answers a question for this request."""
        if self.clock is not None and not self.asking:
            self.clock.pause()
        self.asking.append(ask)

    def resume(self, ask: anyio.CancelScope) -> None:
        self.asking.remove(ask)
        if self.clock is not None and not self.asking:
            self.clock.resume()


ROOTS_LIST = "roots/list"


class BackendRequests:
    """The requests of one backend. `open_calls` are the gateway's open requests, `reply` answers the backend."""

    def __init__(
        self,
        name: str,
        open_calls: Mapping[int, Waiter],
        reply: Callable[..., None],
        on_ask_outside: AskFn,
    ) -> None:
        self._name = name
        self._open = open_calls
        self._reply = reply
        self._on_ask_outside = on_ask_outside
        self._left: TTLCache[int, Caller] = TTLCache(MOST_LEFT, LEFT_SECONDS, timer=anyio.current_time)
        """Callers of calls that were given up and have no answer yet."""
        self._asking = 0
        self.tasks: anyio.abc.TaskGroup | None = None
        """Set while the connection can be used."""

    def given_up(self, ident: int, waiter: Waiter) -> None:
        """Remember a call that its caller does not wait for any more."""
        if waiter.caller is not None and waiter.sent and not waiter.done:
            self._left[ident] = waiter.caller

    def answered(self, ident: int) -> None:
        """Forget a call that was given up: its answer has arrived."""
        self._left.pop(ident, None)

    def call_ended(self, waiter: Waiter) -> None:
        """Cancel questions that were asked only for this call."""
        if not any(other.caller is waiter.caller for other in self._open.values()):
            for scope in waiter.asking:
                scope.cancel()

    def caller_of(self, during: int | None) -> Caller | None:
        """The only caller that a message of the backend can be for, None if there are none or several."""
        callers = self._callers(during)
        return callers[-1] if len({caller.owner for caller in callers}) == 1 else None

    def _callers(self, during: int | None) -> list[Caller]:
        """The callers of open calls, the latest last; only that of the call `during` which a message came, if known."""
        waiter = self._open.get(during) if during is not None else None
        if waiter is not None:
            return [] if waiter.caller is None else [waiter.caller]
        open_now = (w for w in self._open.values() if not w.done)
        callers = [waiter.caller for waiter in open_now if waiter.caller is not None]
        return [*self._left.values(), *callers] if callers else []

    def receive(self, ident: Any, method: str, params: Json, during: int | None) -> None:
        """Take a request of the backend: pass it on to the client that it can only be for, or refuse it."""
        callers = self._callers(during)
        if self.tasks is None:
            self._refuse(ident, INTERNAL_ERROR, "the connection is only being made, or ends")
        elif not callers:
            self.tasks.start_soon(self._ask, ident, method, params, None)
        elif len({caller.owner for caller in callers}) > 1:
            text = f"several clients have calls open at this server, so none can be asked {method}"
            self._refuse(ident, INTERNAL_ERROR, text)
        elif callers[-1].ask is None:
            self._refuse(ident, METHOD_NOT_FOUND, f"the gateway's client does not answer {method}")
        else:
            self.tasks.start_soon(self._ask, ident, method, params, callers[-1])

    async def _ask(self, ident: Any, method: str, params: Json, caller: Caller | None) -> None:
        """Ask the client; the timeouts of its open calls pause meanwhile."""
        if self._asking >= MOST_QUESTIONS:
            self._refuse(ident, INTERNAL_ERROR, f"{MOST_QUESTIONS} questions are open already")
            return
        waiters = [w for w in self._open.values() if not w.done and caller is not None and w.caller is caller]
        on_ask = self._on_ask_outside if caller is None or caller.ask is None or not waiters else caller.ask
        self._asking += 1
        with anyio.move_on_after(ASK_SECONDS) as scope:
            for waiter in waiters:
                waiter.pause(scope)
            try:
                await self._answer(ident, method, params, on_ask)
            finally:
                self._asking -= 1
                for waiter in waiters:
                    waiter.resume(scope)
        if scope.cancelled_caught and waiters and method == ROOTS_LIST:
            # Roots are the client's, not the call's: a call that ended meanwhile is no reason to refuse them.
            await self._ask(ident, method, params, None)
        elif scope.cancelled_caught:
            self._refuse(ident, INTERNAL_ERROR, f"{method} was not answered in time, or its call has ended")

    async def _answer(self, ident: Any, method: str, params: Json, on_ask: AskFn) -> None:
        try:
            self._reply(ident, result=await on_ask(method, params))
        except RpcError as error:
            self._refuse(ident, error.code, error.message)
        except Exception:  # a fault of a client must not end the connection of the backend
            logger.exception("%s asked %s, which failed", self._name, method)
            self._refuse(ident, INTERNAL_ERROR, f"{method} could not be passed on")

    def _refuse(self, ident: Any, code: int, message: str) -> None:
        self._reply(ident, error={"code": code, "message": message})
