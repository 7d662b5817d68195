"""The gateway's side of a JSON-RPC conversation with a backend: requests, replies in any order, notifications.

Works on plain dicts and knows of MCP only progress and cancellation. Requests are sent through a `Link` in the caller's
task; the link's reader passes received messages in, synchronously.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc

from gatemini.backends.calls.callers import AskFn, Caller, ProgressFn
from gatemini.backends.calls.failures import copied
from gatemini.backends.conversation.backend_requests import BackendRequests, Waiter
from gatemini.backends.conversation.call_clock import CallClock
from gatemini.backends.conversation.rpc_errors import error_code, error_text
from gatemini.backends.transports.interface import Link
from gatemini.backends.wire import Broken, Piece, request_id
from gatemini.errors import BackendError, BackendProtocol, BackendTimeout, ResultTooLarge
from gatemini.model import Json

logger = logging.getLogger(__name__)

CANCEL_WRITE_SECONDS = 0.2
"""How long a caller that gave up waits until its cancel notification is written; then it is queued."""

QUEUED_WRITE_SECONDS = 5.0
"""How long writing a queued message may take before it is dropped."""

MAX_QUEUED = 1000
"""Queued messages while a backend does not read; more are dropped."""

HANDSHAKE = ("server/discover", "initialize")
"""Requests that the protocol forbids to cancel."""

CANCELLED = "notifications/cancelled"
LISTEN = "subscriptions/listen"
"""The request that stays open on purpose."""

Notify = Callable[[str, Json, Caller | None], None]
"""Takes a notification: method, params, and its caller (None where that is not clear)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The `result` of a request, of any JSON type; notes on what was repaired; its bytes on the wire."""

    result: Any
    notes: tuple[str, ...]
    size: int = 0


class Peer:
    """One conversation over one link. It exists before the link, which needs a receiver."""

    def __init__(self, name: str, *, on_notification: Notify, on_ask_outside: AskFn) -> None:
        self._name = name
        self._on_notification = on_notification
        self._ids = itertools.count(1)
        self._open: dict[int, Waiter] = {}
        self._link: Link | None = None
        self._queue: list[Json] = []
        self._queued = anyio.Event()
        self._gone: BackendError | None = None
        self._requests = BackendRequests(name, self._open, self._reply, on_ask_outside)
        self.stray = 0
        """Replies that no caller waits for: late, doubled or made up."""

    @property
    def gone(self) -> bool:
        """Whether the connection has ended; its owner may not have noticed yet."""
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
        """Send a request and wait for its reply, at most `timeout` seconds; else cancel it at the backend.

        The timeout pauses while the `caller` answers questions of the backend. Raises `BackendTimeout`,
        `BackendProtocol` (a JSON-RPC error), `ResultTooLarge`, or the error of the link.
        """
        if self._gone is not None:
            raise copied(self._gone, sent=False)
        link = self._require_link()
        ident = next(self._ids)
        waiter = Waiter(method, on_progress=on_progress, caller=caller)
        self._open[ident] = waiter
        if on_progress is not None or (caller is not None and caller.time_left is not None):
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": ident}}
        message: Json = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        clock = waiter.clock = CallClock(timeout, waiter.give_up)
        try:
            # Most messages can be written at once: a lock and a cancel scope would cost more than the write.
            if link.send_now(message):
                waiter.sent = True
            else:
                await self._send(link, message, ident, waiter)
            await waiter.wake
            if not waiter.done:
                self._requests.given_up(ident, waiter)
                await self._cancel(link, ident, waiter, "timeout")
                raise BackendTimeout(
                    f"{self._name} did not answer {method} within {timeout:.3g} s", sent=waiter.sent
                )
        except anyio.get_cancelled_exc_class():
            self._requests.given_up(ident, waiter)
            await self._cancel(link, ident, waiter, "cancelled by the caller")
            raise
        finally:
            clock.stop()
            waiter.clock = None
            self._open.pop(ident, None)
            self._requests.call_ended(waiter)
        if waiter.error is not None:
            raise waiter.error
        return Reply(waiter.result, waiter.notes, waiter.size)

    @staticmethod
    async def _send(link: Link, message: Json, ident: int, waiter: Waiter) -> None:
        """Write a request, within its timeout."""
        waiter.sent = not link.all_or_nothing
        try:
            with anyio.CancelScope() as waiter.sending:
                await link.send(message, ident=ident)
                waiter.sent = True
        finally:
            waiter.sending = None
        if waiter.error is not None:  # the connection ended during the write
            waiter.error.sent = waiter.sent

    async def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = params
        await self._require_link().send(message)

    async def run(self) -> None:
        """Send queued messages, such as answers to the backend; runs as long as the connection."""
        link = self._require_link()
        async with anyio.create_task_group() as self._requests.tasks:
            try:
                await self._send_queued(link)
            finally:
                self._requests.tasks = None

    async def _send_queued(self, link: Link) -> None:
        while True:
            await self._queued.wait()
            self._queued = anyio.Event()
            batch, self._queue = self._queue, []
            for message in batch:
                with anyio.move_on_after(QUEUED_WRITE_SECONDS):
                    try:
                        await link.send(message)
                    except BackendError:
                        break  # the connection is gone; its owner handles that

    def receive(self, piece: Piece, during: int | None = None) -> None:
        """Take one message; `during` is the request in whose response it came, if that is known."""
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
                self._backend_request(message["id"], method, params, during)
            return
        waiter = self._waiter(message.get("id"), during)
        if waiter is None:
            self.stray += 1
            ident = message.get("id")
            if isinstance(ident, int):
                self._requests.answered(ident)
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
        """End all open requests with `error`; later ones are not sent."""
        if self._gone is None:
            self._gone = error
        for waiter in self._open.values():
            if not waiter.done:
                waiter.error = copied(error, sent=waiter.sent)
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

    async def _cancel(self, link: Link, ident: int, waiter: Waiter, reason: str) -> None:
        """Send a cancel notification; bounded, and shielded from the cancellation itself."""
        needless = link.abandon(ident) or waiter.method in HANDSHAKE
        if needless or not waiter.sent or waiter.done or self._gone is not None:
            return
        params = {"requestId": ident, "reason": reason}
        with anyio.move_on_after(CANCEL_WRITE_SECONDS, shield=True) as writing:
            try:
                await self.notify(CANCELLED, params)
            except BackendError:
                return  # the connection has ended
        if writing.cancelled_caught:
            self._enqueue({"jsonrpc": "2.0", "method": CANCELLED, "params": params})

    def _waiter(self, ident: object, during: int | None = None) -> Waiter | None:
        """The request a reply belongs to: one without a usable id to that of its response, or to the only open one."""
        key = request_id(ident)
        key = during if key is None else key
        if key is not None:
            waiter = self._open.get(key)
        else:
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
            else "the call ran and its answer is lost: check its effect before you repeat it"
        )
        waiter.error = kind(f"{self._name}: {piece.reason}", sent=True, hint=remedy)
        waiter.finish()

    def _notification(self, method: str, params: Json, during: int | None) -> None:
        if method == "notifications/progress":
            waiter = self._waiter(params.get("progressToken"))
            if waiter is None:
                return
            waiter.progressed()
            progress, total, text = params.get("progress"), params.get("total"), params.get("message")
            if waiter.on_progress is not None and isinstance(progress, int | float):
                waiter.on_progress(
                    float(progress),
                    float(total) if isinstance(total, int | float) else None,
                    text if isinstance(text, str) else None,
                )
            return
        self._on_notification(method, params, self._requests.caller_of(during))

    def _backend_request(self, ident: Any, method: str, params: Json, during: int | None) -> None:
        if method == "ping":
            self._reply(ident, result={})
            return
        self._requests.receive(ident, method, params, during)

    def _reply(self, ident: Any, **body: Any) -> None:
        self._enqueue({"jsonrpc": "2.0", "id": ident, **body})

    def _enqueue(self, message: Json) -> None:
        """Have `run` send a message."""
        if len(self._queue) < MAX_QUEUED:
            self._queue.append(message)
            self._queued.set()

    def _rpc_error(self, error: object, method: str) -> BackendProtocol:
        fields = error if isinstance(error, dict) else {"message": error}
        shown = error_text(fields)
        return BackendProtocol(
            shown if method == "tools/call" else f"{self._name} answered {method} with: {shown}",
            hint="it is up and refuses this: its own log or manual says why" if method in HANDSHAKE else None,
            rpc_code=error_code(fields.get("code")),
            rpc_data=fields.get("data"),
            sent=True,
        )
