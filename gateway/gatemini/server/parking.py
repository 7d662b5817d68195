"""Chains that wait for the user of a client that answers by calling again (2026-07-28; spec 2.6).

Such a client gets `input_required` as the answer to its call, and sends the same call once more with the
answers. Meanwhile the chain is parked: guest, open backend call and all stay as they are, and the second call
takes up that very chain. Above: gateway.py, asking.py. Below: anyio.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio
import anyio.abc
from anyio.abc import TaskStatus
from mcp.server.request_state import AESGCMRequestStateCodec

from gatemini.backends.base import RpcError
from gatemini.chain.invoke import CallRecord
from gatemini.model import Json

logger = logging.getLogger(__name__)

PARKED_SECONDS = 300.0
"""How long a chain waits for an answer; then it is cancelled."""

MOST_PARKED = 16
"""Chains of one process that may wait at once; a question beyond is refused."""

STOP_SECONDS = 5.0
"""How long a cancelled chain may take to close its journal and let go of its calls."""

INTERNAL_ERROR = -32603

OnCallDone = Callable[[CallRecord], None]
Ask = Callable[[str, Json], Awaitable[Json]]
RunChain = Callable[[Ask, OnCallDone], Awaitable[Json]]
"""Runs one chain to its MCP result, given how to ask the user and whom to tell of finished calls."""


@dataclass(slots=True)
class Question:
    """One request of a backend to the user."""

    method: str
    params: Json
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Json | None = None


@dataclass(slots=True)
class Stay:
    """One chain, from its first call to the answer of the last."""

    session: str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    questions: dict[str, Question] = field(default_factory=dict)
    listener: OnCallDone | None = None
    result: Json | None = None
    finished: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)
    asked: int = 0

    def on_call_done(self, record: CallRecord) -> None:
        """Progress goes to whichever call of the client is open now."""
        if self.listener is not None:
            self.listener(record)

    def give(self, answers: Mapping[str, Json]) -> None:
        """The user's answers by question; what is not among them stays open."""
        for key, answer in answers.items():
            question = self.questions.pop(key, None)
            if question is not None:
                question.answer = answer
                question.answered.set()

    async def until_asked(self, listener: OnCallDone | None) -> Json | dict[str, Question]:
        """The chain's result, or what it wants to know. Cancelling this cancels the chain."""
        self.listener = listener
        try:
            while self.result is None and not self.questions and not self.finished.is_set():
                self.changed = anyio.Event()
                await self.changed.wait()
        except anyio.get_cancelled_exc_class():
            self.scope.cancel()
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                await self.finished.wait()
            raise
        finally:
            self.listener = None
        if self.result is not None:
            return self.result
        if self.finished.is_set():
            raise RpcError(INTERNAL_ERROR, "the chain was stopped")
        return dict(self.questions)


class Parking:
    """All chains of one process that may be parked. `run` owns their tasks."""

    def __init__(self) -> None:
        self.codec = AESGCMRequestStateCodec([secrets.token_bytes(32)])
        """Seals what a client brings along; of this process only, as the chains are."""
        self._tasks: anyio.abc.TaskGroup | None = None
        self._parked: dict[str, Stay] = {}
        self._waiting: set[int] = set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the chains until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                task_status.started()
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    @property
    def waiting(self) -> int:
        """Chains that wait for their user now."""
        return len(self._waiting)

    def start(self, session: str, chain: RunChain) -> Stay:
        """Run a chain beside the call that asked for it."""
        if self._tasks is None:
            raise RpcError(INTERNAL_ERROR, "the gateway is stopping")
        stay = Stay(session)
        self._tasks.start_soon(self._live, stay, chain)
        return stay

    def park(self, stay: Stay) -> str:
        """Keep it until its client calls again; what the call must bring along."""
        token = secrets.token_urlsafe(16)
        self._parked[token] = stay
        return token

    def take_up(self, token: str, session: str) -> Stay | None:
        """The parked chain of that session, once; None if there is none (any more)."""
        stay = self._parked.get(token)
        if stay is None or stay.session != session:
            return None
        del self._parked[token]
        return None if stay.finished.is_set() else stay

    async def _live(self, stay: Stay, chain: RunChain) -> None:
        async def ask(method: str, params: Json) -> Json:
            return await self._ask(stay, method, params)

        try:
            with stay.scope:
                stay.result = await chain(ask, stay.on_call_done)
        except Exception:  # one chain must not take the others along
            logger.exception("a chain that may be parked failed")
        finally:
            stay.finished.set()
            stay.changed.set()
            self._waiting.discard(id(stay))
            for token in [token for token, parked in self._parked.items() if parked is stay]:
                del self._parked[token]

    async def _ask(self, stay: Stay, method: str, params: Json) -> Json:
        if id(stay) not in self._waiting and len(self._waiting) >= MOST_PARKED:
            raise RpcError(INTERNAL_ERROR, f"{MOST_PARKED} chains wait for their users already")
        stay.asked += 1
        key = f"q{stay.asked}"
        question = stay.questions[key] = Question(method, params)
        self._waiting.add(id(stay))
        stay.changed.set()
        try:
            with anyio.move_on_after(PARKED_SECONDS):
                await question.answered.wait()
        finally:
            stay.questions.pop(key, None)
            if not stay.questions:
                self._waiting.discard(id(stay))
        if question.answer is None:
            stay.scope.cancel()
            await anyio.lowlevel.checkpoint()  # in the chain's own task this is its end
            raise RpcError(INTERNAL_ERROR, f"nobody answered within {PARKED_SECONDS:.0f} s")
        return question.answer
