"""Our half of a JSON-RPC conversation: requests with ids, replies in any order, lenient about both.

Works on plain dicts and knows nothing of MCP but progress and cancellation. Sends through a `Link` in the
caller's own task; what arrives is handed in by the link's reader, synchronously. Above: `session.py`.
Below: `wire.py`'s pieces, and a link.
"""

from __future__ import annotations

import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc

from gatemini.backends.callers import INTERNAL_ERROR, METHOD_NOT_FOUND, AskFn, Caller, ProgressFn, RpcError
from gatemini.backends.calls.call_clock import CallClock
from gatemini.backends.calls.rpc_errors import error_code, error_text
from gatemini.backends.transports.link import Link
from gatemini.backends.wire import Broken, Piece, request_id
from gatemini.errors import BackendError, BackendProtocol, BackendTimeout, ResultTooLarge
from gatemini.model import Json

logger = logging.getLogger(__name__)

CANCEL_WRITE_SECONDS = 0.2
"""How long a caller that gave up waits for its "cancelled" to be written; then others see to it."""

QUEUED_WRITE_SECONDS = 5.0
"""How long writing a message that nobody waits for may take before it is dropped."""

MAX_QUEUED = 1000
"""Such messages kept while a backend does not read; more are dropped."""

ASK_SECONDS = 600.0
"""How long the client may take over one question of a backend."""

MOST_QUESTIONS = 32
"""Questions of one backend that may be open at once; more are refused."""

LEFT_SECONDS = 60.0
"""How long after a call was given up its backend may still ask for it; a question is then no other client's."""

MOST_LEFT = 256
"""Such calls remembered; the oldest are forgotten first."""

HANDSHAKE = ("server/discover", "initialize")
"""No server asks these of its client."""

CANCELLED = "notifications/cancelled"
LISTEN = "subscriptions/listen"
"""The one request that is meant to stay open."""

UNCANCELLABLE = frozenset({"initialize", "server/discover"})
"""Requests the protocol forbids to cancel."""

Notify = Callable[[str, Json, Caller | None], None]
"""Takes a notification: method, params, and whose it must be (None where that cannot be told)."""


@dataclass(slots=True)
class _Waiter:
    """One open request."""

    method: str
    done: bool = False
    """It has its answer, or the error that ended it."""
    wake: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is done, or its time is over."""
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
        self.wake.set()

    def give_up(self) -> None:
        """Its time is over."""
        if self.sending is not None:
            self.sending.cancel()
        self.wake.set()

    def pause(self, ask: anyio.CancelScope) -> None:
        """Stop the request's clock while the client is asked something for it."""
        if self.clock is not None and not self.asking:
            self.clock.pause()
        self.asking.append(ask)

    def resume(self, ask: anyio.CancelScope) -> None:
        self.asking.remove(ask)
        if self.clock is not None and not self.asking:
            self.clock.resume()


@dataclass(frozen=True, slots=True)
class Reply:
    """The `result` of a request, of whatever JSON type; what was mended to read it; its bytes on the wire."""

    result: Any
    notes: tuple[str, ...]
    size: int = 0


class Peer:
    """One conversation over one link; made before the link, which needs somebody to feed."""

    def __init__(self, name: str, *, on_notification: Notify, on_ask_outside: AskFn) -> None:
        self._name = name
        self._on_notification = on_notification
        self._on_ask_outside = on_ask_outside
        self._ids = itertools.count(1)
        self._open: dict[int, _Waiter] = {}
        self._left: OrderedDict[int, tuple[Caller, float]] = OrderedDict()
        """Calls nobody waits for any more whose answer has not come: whose they were, and since when."""
        self._link: Link | None = None
        self._queue: list[Json] = []
        self._queued = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._gone: BackendError | None = None
        self._asking = 0
        self.stray = 0
        """Replies nobody waits for: late, doubled or made up."""

    @property
    def gone(self) -> bool:
        """Whether the connection has ended; its owner may not have taken note yet."""
        return self._gone is not None

    @property
    def failure(self) -> BackendError | None:
        """What ended the connection."""
        return self._gone

    def attach(self, link: Link) -> None:
        self._link = link

    async def request(
        self,
        method: str,
        params: Json,
        *,
        timeout: float,
        on_progress: ProgressFn | None = None,
        caller: Caller | None = None,
    ) -> Reply:
        """Send a request and wait for its reply, at most `timeout` seconds.

        What the backend asks meanwhile goes to the `caller`, while the time stands still. Raises `BackendTimeout`,
        `BackendProtocol` (a JSON-RPC error), `ResultTooLarge`, or whatever the link failed with. Timeout and cancellation tell the backend.
        """
        if self._gone is not None:
            raise _copy(self._gone, sent=False)
        link = self._require_link()
        ident = next(self._ids)
        waiter = _Waiter(method, on_progress=on_progress, caller=caller)
        self._open[ident] = waiter
        if on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": ident}}
        message: Json = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        clock = waiter.clock = CallClock(timeout, waiter.give_up)
        try:
            await self._send(link, message, ident, waiter)
            await waiter.wake.wait()
            if not waiter.done:
                self._leave(ident, waiter)
                await self._cancel(link, ident, waiter, "timeout")
                raise BackendTimeout(
                    f"{self._name} did not answer {method} within {timeout:.3g} s", sent=waiter.sent
                )
        except anyio.get_cancelled_exc_class():
            self._leave(ident, waiter)
            await self._cancel(link, ident, waiter, "cancelled by the caller")
            raise
        finally:
            clock.stop()
            waiter.clock = None
            self._open.pop(ident, None)
            self._stop_asking(waiter)
        if waiter.error is not None:
            raise waiter.error
        return Reply(waiter.result, waiter.notes, waiter.size)

    @staticmethod
    async def _send(link: Link, message: Json, ident: int, waiter: _Waiter) -> None:
        """Have it written, for as long as there is time."""
        if not link.post(message, ident=ident):
            waiter.sent = not link.all_or_nothing
            try:
                with anyio.CancelScope() as waiter.sending:
                    await link.send(message, ident=ident)
                    waiter.sent = True
            finally:
                waiter.sending = None
        else:
            waiter.sent = True
        if waiter.error is not None:  # the connection ended while this was written: it may have gone out
            waiter.error.sent = waiter.sent

    async def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = params
        await self._require_link().send(message)

    async def run(self) -> None:
        """Send what nobody waits for, such as answers to the backend; runs as long as the connection."""
        link = self._require_link()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            while True:
                await self._queued.wait()
                self._queued = anyio.Event()
                batch, self._queue = self._queue, []
                for message in batch:
                    with anyio.move_on_after(QUEUED_WRITE_SECONDS):
                        try:
                            await link.send(message)
                        except BackendError:
                            break  # the connection is gone; its owner has been told

    def receive(self, piece: Piece, during: int | None = None) -> None:
        """Take one message off the wire; `during` is the request it came along with, where that is known."""
        if isinstance(piece, Broken):
            self._broken(piece)
            return
        message = piece.message
        method = message.get("method")
        if isinstance(method, str):
            params = message.get("params")
            params = params if isinstance(params, dict) else {}
            if message.get("id") is None:
                self._notification(method, params, during)
            else:
                self._answer(message["id"], method, params, during)
            return
        waiter = self._waiter(message.get("id"))
        if waiter is None:
            self.stray += 1
            ident = message.get("id")
            if isinstance(ident, int):
                self._left.pop(ident, None)
            return
        error = message.get("error")
        if error is not None:
            waiter.error = self._rpc_error(error, waiter.method)
        else:
            waiter.result = message.get("result")
            waiter.notes = piece.notes
            waiter.size = piece.size
        waiter.finish()

    def fail(self, error: BackendError) -> None:
        """The connection is gone; open requests end with `error`, later ones are not sent."""
        if self._gone is None:
            self._gone = error
        for waiter in self._open.values():
            if not waiter.done:
                waiter.error = _copy(error, sent=waiter.sent)
                waiter.finish()

    def fail_one(self, ident: int, error: BackendError) -> None:
        waiter = self._open.get(ident)
        if waiter is not None and not waiter.done:
            waiter.error = error
            waiter.finish()

    def waiting(self, ident: int) -> bool:
        waiter = self._open.get(ident)
        return waiter is not None and not waiter.done

    def _require_link(self) -> Link:
        if self._link is None:
            raise RuntimeError("the peer has no link yet")
        return self._link

    async def _cancel(self, link: Link, ident: int, waiter: _Waiter, reason: str) -> None:
        """Tell the backend that nobody waits any more; bounded, and shielded from the cancel itself."""
        needless = link.abandon(ident) or waiter.method in UNCANCELLABLE
        if needless or not waiter.sent or waiter.done or self._gone is not None:
            return
        params = {"requestId": ident, "reason": reason}
        with anyio.move_on_after(CANCEL_WRITE_SECONDS, shield=True) as writing:
            try:
                await self.notify(CANCELLED, params)
            except BackendError:
                return  # the connection ended in the meantime: there is nobody left to tell
        if writing.cancelled_caught:  # the caller does not wait for a backend that is slow to listen
            self._enqueue({"jsonrpc": "2.0", "method": CANCELLED, "params": params})

    def _waiter(self, ident: object) -> _Waiter | None:
        """The request a reply belongs to."""
        key = request_id(ident)
        if key is not None:
            waiter = self._open.get(key)
        else:
            # An error without an id can only be about the one request that is open.
            open_now = [w for w in self._open.values() if w.method != LISTEN] if ident is None else []
            waiter = open_now[0] if len(open_now) == 1 else None
        return None if waiter is None or waiter.done else waiter

    def _broken(self, piece: Broken) -> None:
        waiter = self._waiter(piece.ident)
        if waiter is None:
            self.stray += 1
            return
        kind = ResultTooLarge if piece.too_large else BackendProtocol
        remedy = (
            "ask for less (a filter, a page), or raise max_message_mb of this backend"
            if piece.too_large
            else "the call ran and its answer is lost: look what it did before you repeat it"
        )
        waiter.error = kind(f"{self._name}: {piece.reason}", sent=True, hint=remedy)
        waiter.finish()

    def _notification(self, method: str, params: Json, during: int | None) -> None:
        if method == "notifications/progress":
            waiter = self._waiter(params.get("progressToken"))
            progress, total, text = params.get("progress"), params.get("total"), params.get("message")
            if waiter is not None and waiter.on_progress is not None and isinstance(progress, int | float):
                waiter.on_progress(
                    float(progress),
                    float(total) if isinstance(total, int | float) else None,
                    text if isinstance(text, str) else None,
                )
            return
        callers = self._callers(during)
        alone = len({caller.owner for caller in callers}) == 1
        self._on_notification(method, params, callers[-1] if alone else None)

    def _callers(self, during: int | None) -> list[Caller]:
        """Whose calls are open, the latest last; only the one a message came along with, where that is known."""
        waiter = self._open.get(during) if during is not None else None
        if waiter is not None:
            return [] if waiter.caller is None else [waiter.caller]
        open_now = (w for w in self._open.values() if not w.done)
        callers = [waiter.caller for waiter in open_now if waiter.caller is not None]
        return [*self._late(), *callers] if callers else []

    def _leave(self, ident: int, waiter: _Waiter) -> None:
        """Its caller has gone, but the backend may still ask for it: that must not reach another client."""
        if waiter.caller is not None and waiter.sent and not waiter.done:
            self._left[ident] = (waiter.caller, anyio.current_time())
            if len(self._left) > MOST_LEFT:
                self._left.popitem(last=False)

    def _late(self) -> list[Caller]:
        """Whose calls the backend may still be busy with though nobody waits for them."""
        since = anyio.current_time() - LEFT_SECONDS
        while self._left and next(iter(self._left.values()))[1] < since:
            self._left.popitem(last=False)
        return [caller for caller, _ in self._left.values()]

    def _answer(self, ident: Any, method: str, params: Json, during: int | None) -> None:
        """A request of the backend: pinged at once, passed on to the client it can only be for, or refused."""
        if method == "ping":
            self._reply(ident, result={})
            return
        if method in HANDSHAKE and (waiter := self._waiter(ident)) is not None and waiter.method == method:
            waiter.error = BackendProtocol(
                f"{self._name} sends back what it is sent: it is no MCP server",
                hint="check `command` and `args`",
                sent=True,
            )
            waiter.finish()
            return
        callers = self._callers(during)
        if self._tasks is None:
            self._refuse(ident, INTERNAL_ERROR, "the connection is only being made")
        elif not callers:
            self._tasks.start_soon(self._ask, ident, method, params, None)
        elif len({caller.owner for caller in callers}) > 1:
            text = f"several clients have calls open here, so nobody can be asked {method}"
            self._refuse(ident, INTERNAL_ERROR, text)
        elif callers[-1].ask is None:
            self._refuse(ident, METHOD_NOT_FOUND, f"the gateway's client does not answer {method}")
        else:
            self._tasks.start_soon(self._ask, ident, method, params, callers[-1])

    async def _ask(self, ident: Any, method: str, params: Json, caller: Caller | None) -> None:
        """Ask the client for the backend; the calls it has open wait without their time running."""
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
                await self._asked(ident, method, params, on_ask)
            finally:
                self._asking -= 1
                for waiter in waiters:
                    waiter.resume(scope)
        if not scope.cancelled_caught:
            return
        with anyio.move_on_after(ASK_SECONDS) as scope:  # the call is over; some things are known without one
            await self._asked(ident, method, params, self._on_ask_outside)
        if scope.cancelled_caught:
            self._refuse(ident, INTERNAL_ERROR, f"nobody answered {method}")

    async def _asked(self, ident: Any, method: str, params: Json, on_ask: AskFn) -> None:
        try:
            self._reply(ident, result=await on_ask(method, params))
        except RpcError as error:
            self._refuse(ident, error.code, error.message)
        except Exception:  # a client's trouble is not the backend's
            logger.exception("%s asked %s, which failed", self._name, method)
            self._refuse(ident, INTERNAL_ERROR, f"{method} could not be passed on")

    def _stop_asking(self, waiter: _Waiter) -> None:
        """The call is over; what was asked only for it need not be answered any more."""
        if not any(other.caller is waiter.caller for other in self._open.values()):
            for scope in waiter.asking:
                scope.cancel()

    def _refuse(self, ident: Any, code: int, message: str) -> None:
        self._reply(ident, error={"code": code, "message": message})

    def _reply(self, ident: Any, **body: Any) -> None:
        self._enqueue({"jsonrpc": "2.0", "id": ident, **body})

    def _enqueue(self, message: Json) -> None:
        """Have `run` send a message that nobody waits for."""
        if len(self._queue) < MAX_QUEUED:
            self._queue.append(message)
            self._queued.set()

    def _rpc_error(self, error: object, method: str) -> BackendProtocol:
        told = error if isinstance(error, dict) else {"message": error}
        shown = error_text(told)
        return BackendProtocol(
            shown if method == "tools/call" else f"{self._name} answered {method} with: {shown}",
            hint="it is up and refuses this: its own log or manual says why" if method in HANDSHAKE else None,
            rpc_code=error_code(told.get("code")),
            rpc_data=told.get("data"),
            sent=True,
        )


def _copy(error: BackendError, *, sent: bool) -> BackendError:
    """The same failure for one request; an exception raised in several tasks would share its traceback."""
    return type(error)(error.message, sent=sent, hint=error.hint, details=error.details)
