"""The running daemon of the proxy's configuration, which keeps handles and totals beyond the proxy's own life."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from gatemini.context import SessionStore
from gatemini.daemon.client import Unanswered, ask
from gatemini.daemon.llm_proxies import COMMAND
from gatemini.proxy.places import Place

ANSWER_SECONDS = 2.0
MOST_WAITING_BYTES = 32 << 20
"""Of all results that wait to be sent; further ones stay with the proxy alone."""
MOST_BYTES = 3_000_000
"""Of a result that is sent: a command to the daemon has at most 4 MiB, and base64 takes a third more."""


class SharedStore(SessionStore):
    """The bodies of one session, of which the daemon gets each once."""

    def __init__(
        self, secret: bytes, session_key: str, send: Callable[[str, str, bytes, bool], bool]
    ) -> None:
        session = session_key.encode("utf-8", "surrogatepass")
        super().__init__(key=blake2b(session, key=secret, digest_size=16).digest())
        self.session = blake2b(session, digest_size=16).hexdigest()
        self._send = send
        self._sent: set[str] = set()

    def keep(self, call_id: str, body: bytes, *, is_text: bool = False) -> str:
        handle = super().keep(call_id, body, is_text=is_text)
        if handle not in self._sent and self._send(self.session, handle, body, is_text):
            self._sent.add(handle)
        return handle


class DaemonLink:
    """Commands to the daemon at one place; without one, or where it is silent, nothing is sent and None answered."""

    def __init__(self, place: Place | None, tasks: TaskGroup) -> None:
        self._place = place
        self._tasks = tasks
        self._turn = anyio.Lock()
        self._waiting_bytes = 0

    @property
    def run_of_daemon(self) -> int | None:
        """A number that differs from daemon to daemon; None where none runs."""
        try:
            return os.stat(self._place.sock).st_ino if self._place is not None else None
        except OSError:
            return None

    def send_soon(self, session: str, handle: str, body: bytes, is_text: bool) -> bool:
        """Send a result while the request goes on, and return whether it will be; `is_text`: not to be read as JSON."""
        waiting = self._waiting_bytes + len(body)
        if len(body) > MOST_BYTES or waiting > MOST_WAITING_BYTES or self.run_of_daemon is None:
            return False
        self._waiting_bytes = waiting
        self._tasks.start_soon(self._keep, session, handle, body, is_text)
        return True

    async def rows(self, session: str, arguments: Any) -> str | None:
        """The daemon's answer to a call of `fetch_rows`."""
        answer = await self._ask(do="rows", session=session, arguments=arguments)
        return str(answer["text"]) if answer is not None else None

    async def count(self, account: dict[str, Any]) -> bool:
        """Give the daemon this proxy's totals; whether it has them."""
        return await self._ask(do="totals", account=account) is not None

    async def _keep(self, session: str, handle: str, body: bytes, is_text: bool) -> None:
        try:
            async with self._turn:
                text = b64encode(body).decode()
                await self._ask(do="keep", session=session, handle=handle, body=text, is_text=is_text)
        finally:
            self._waiting_bytes -= len(body)

    async def _ask(self, **arguments: Any) -> dict[str, Any] | None:
        if self._place is None or self.run_of_daemon is None:
            return None
        command = partial(ask, self._place, COMMAND, seconds=ANSWER_SECONDS, **arguments)
        try:
            answer = await anyio.to_thread.run_sync(command, abandon_on_cancel=True)
        except Unanswered:
            return None
        return answer if answer is not None and answer.get("ok") else None
