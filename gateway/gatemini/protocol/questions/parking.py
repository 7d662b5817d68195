"""Parked chains: they wait for the user of a client that answers requests by calling again (2026-07-28).

Such a client gets `input_required` as the answer to its call, and sends the same call again with the user's answers.
Meanwhile the chain is parked: its guest and open backend call stay as they are, and the second call resumes it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
from anyio.abc import TaskStatus
from mcp.server.request_state import AESGCMRequestStateCodec, RequestStateCodec

from gatemini.backends.calls.callers import INTERNAL_ERROR, RpcError
from gatemini.model import Json
from gatemini.policy.principal import Behalf
from gatemini.protocol.questions.shared_parking import DirectedCodec, SharedParking
from gatemini.protocol.relay import Relay
from gatemini.state.store import StateStore

logger = logging.getLogger(__name__)

PARKED_SECONDS = 300.0
"""How long a chain waits for an answer before it is cancelled."""

MOST_PARKED = 16
"""Chains of one process that may wait at once; further requests are refused."""

STOP_SECONDS = 5.0
"""How long a cancelled chain may take to close its journal and cancel its calls."""

RunChain = Callable[[], Awaitable[Json]]
"""Runs one chain and returns its MCP result."""


@dataclass(slots=True)
class Question:
    """One request of a backend to the user."""

    method: str
    params: Json
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Any = None


@dataclass(slots=True)
class Stay:
    """One chain, from the client's first call to the answer of the last."""

    session: str
    behalf: Behalf
    """On whose behalf the chain calls."""
    login: object = None
    """The login of the request that it began with or that has continued it, where requests log in one by one."""
    chain: str = ""
    """Its id, once it has begun."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    questions: dict[str, Question] = field(default_factory=dict)
    relay: Relay | None = None
    """Sends notifications to the client's call that is open now, if any."""
    result: Json | None = None
    finished: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)
    taken_up: anyio.Event = field(default_factory=anyio.Event)
    """Set while a call of the client waits for the chain, not while it is parked."""
    questions_sent: int = 0

    def give(self, answers: Mapping[str, Any]) -> None:
        """Pass on the user's answers by request; requests without one stay open."""
        for key, answer in answers.items():
            question = self.questions.pop(key, None)
            if question is not None:
                question.answer = answer
                question.answered.set()

    async def until_asked(self, call: Relay) -> dict[str, Question]:
        """Wait for and return the chain's requests; none once it has its `result`. Cancelling this cancels the chain."""
        if self.relay is None:
            self.relay = call
        else:
            self.relay.follow(call)
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
            self.relay.follow(None)
        if self.result is not None:
            return {}
        if self.finished.is_set():
            raise RpcError(INTERNAL_ERROR, "the chain was stopped")
        return dict(self.questions)


class Parking:
    """All chains of one process that may be parked. `run` owns their tasks."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self.codec: RequestStateCodec = AESGCMRequestStateCodec(keys or [secrets.token_bytes(32)])
        """Seals the request state, with the keys of all replicas, or with one of this process."""
        self.shared: SharedParking | None = None
        """What other replicas know of parked chains."""
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

    def share(self, store: StateStore, replica: str) -> None:
        """Have other replicas know what is parked from now on."""
        self.shared = SharedParking(store, replica, PARKED_SECONDS)
        self.codec = DirectedCodec(replica, self.codec)

    @property
    def waiting(self) -> int:
        """Number of chains that wait for their user."""
        return len(self._waiting)

    def start(self, stay: Stay, chain: RunChain) -> None:
        """Run a chain in a task of its own, beside the call that started it."""
        if self._tasks is None:
            raise RpcError(INTERNAL_ERROR, "the gateway is stopping")
        stay.taken_up.set()
        self._tasks.start_soon(self._live, stay, chain)

    def park(self, stay: Stay) -> str:
        """Park an unfinished chain until its client calls again; return the token that call must carry."""
        token = self.shared.new_token() if self.shared is not None else secrets.token_urlsafe(16)
        stay.taken_up = anyio.Event()
        self._parked[token] = stay
        return token

    def parked(self) -> list[Stay]:
        """Return the chains that wait for their client."""
        return list(self._parked.values())

    def take_up(self, token: str, session: str) -> Stay | None:
        """Return the parked chain of that session, once; None if there is none any more."""
        stay = self._parked.get(token)
        if stay is None or stay.session != session:
            return None
        del self._parked[token]
        stay.taken_up.set()
        return stay

    async def _live(self, stay: Stay, chain: RunChain) -> None:
        try:
            with stay.scope:
                stay.result = await chain()
        except Exception:  # a failing chain must not end the others
            logger.exception("a chain that may be parked failed")
        finally:
            stay.finished.set()
            stay.changed.set()
            self._waiting.discard(id(stay))
            if stay.result is None:
                self._forget(stay)
        # A parked chain may end without its answer, as when a backend does not wait for it. Keep its result for the
        # next call.
        if not stay.taken_up.is_set():
            with anyio.move_on_after(PARKED_SECONDS):
                await stay.taken_up.wait()
            self._forget(stay)

    def end_session(self, session: str) -> None:
        """Cancel the parked chains of a session that has ended."""
        for stay in [stay for stay in self._parked.values() if stay.session == session]:
            stay.scope.cancel()
            stay.taken_up.set()

    def _forget(self, stay: Stay) -> None:
        for token in [token for token, parked in self._parked.items() if parked is stay]:
            del self._parked[token]

    async def ask(self, stay: Stay, method: str, params: Json) -> Any:
        """Send a request to the client with the answer to its call; return what it answers when it calls again."""
        if id(stay) not in self._waiting and len(self._waiting) >= MOST_PARKED:
            raise RpcError(INTERNAL_ERROR, f"{MOST_PARKED} chains wait for their users already")
        stay.questions_sent += 1
        key = f"q{stay.questions_sent}"
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
            await anyio.lowlevel.checkpoint()  # ends the chain here, if this is its own task
            raise RpcError(INTERNAL_ERROR, f"no answer within {PARKED_SECONDS:.0f} s")
        return question.answer
