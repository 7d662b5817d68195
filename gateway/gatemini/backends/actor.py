"""One backend: the task that owns its connection from start to stop.

`Backend.run` is that task: it connects, shakes hands, lists, follows changes and health, and starts again by the rules
of `health.py`. Calls (`fallback_chain.py`) run in their callers' tasks, wait for a healthy session and use it; they
never open or close one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import anyio
import anyio.abc
import anyio.lowlevel

from gatemini.backends.calls.call_limits import CallLimits
from gatemini.backends.calls.failures import (
    circuit_open,
    copied,
    not_ready,
    not_started,
    not_started_yet,
    only_backend_error,
)
from gatemini.backends.health import Breaker, MemoryWatch
from gatemini.backends.mcp_session import McpSession
from gatemini.backends.oauth.interface import TokenSource
from gatemini.backends.restarts import Restarts, state_after, worth_starting_again
from gatemini.backends.status import SILENT, Era, Events, ServerFacts, State
from gatemini.backends.transports.interface import Link, OpenLink
from gatemini.config.model.schema import BackendConfig, HealthConfig
from gatemini.errors import BackendCrashed, BackendError, BackendStopped, BackendTimeout
from gatemini.model import Offer, Tool

logger = logging.getLogger(__name__)


class Backend:
    """One configured backend; it does nothing unless `run` is running."""

    def __init__(
        self,
        config: BackendConfig,
        *,
        open_link: OpenLink,
        new_session: Callable[..., McpSession],
        events: Events,
        health: HealthConfig,
        dynamic: bool = False,
        era: Era | None = None,
        log_level: str | None = None,
        login: TokenSource | None = None,
    ) -> None:
        self.config = config
        self.login = login
        self.dynamic = dynamic
        self.era = era
        """The era of the last handshake, perhaps in an earlier process."""
        self.facts: ServerFacts | None = None
        self.tools: dict[str, Tool] = {}
        self.repairs: list[str] = []
        self.offers: list[Offer] = []
        self.memory = MemoryWatch(health, config.max_memory_mb)
        self.limits = CallLimits(config)
        self.restarts = Restarts(health)
        self.breaker = Breaker(health)
        self.session: McpSession | None = None
        self.link: Link | None = None
        self.skipped = self.stray = 0
        """Skipped lines, and stray replies, of connections that have ended."""
        self.finished = anyio.Event()
        self._open_link = open_link
        self._events = events
        self._new_session = new_session
        self._log_level = log_level
        self._health = health
        self._state = State.STARTING if not config.lazy else State.STOPPED
        self._error: BackendError | None = None
        self._changed = anyio.Event()
        self._stderr: list[str] = []
        self._demanded = anyio.Event()
        """Set when a call wants the backend started."""
        self._over = anyio.Event()
        """Set when the present connection has to end."""
        self._scope = anyio.CancelScope()
        self._restart_reason: str | None = None
        self._by_itself = False
        """Whether the present start is a restart that no call demanded."""

    # -- the owner task ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Own the backend until it is stopped; then nothing of it runs any more."""
        try:
            with self._scope:
                if self.config.lazy:
                    await self._demanded.wait()
                while True:
                    await self._one_life()
                    await self._wait_for_restart()
        finally:
            self.session = None
            self._set(State.STOPPED, self.error)
            self.finished.set()

    def stop(self) -> None:
        """End `run`; wait for `finished`."""
        self._scope.cancel()

    async def retire(self) -> None:
        """Wait (bounded) for open calls to end, then stop; a replaced backend reports no more events."""
        self._events = SILENT
        with anyio.move_on_after(self._health.drain_timeout):
            await self.limits.idle()
        self.stop()
        await self.finished.wait()

    def restart(self, reason: str) -> None:
        """Wait (bounded) for open calls to end, then stop and start again."""
        if self.session is not None and self._restart_reason is None:
            logger.warning("%s is restarted: %s", self.config.name, reason)
            self._restart_reason = reason
            self._over.set()

    async def _wait_for_restart(self) -> None:
        """Return when it is time to start again: at once, after a back-off, or when a call demands it."""
        delay: float | None = None
        if self.login is not None and self._state is State.LOGIN_REQUIRED:
            await self.login.until_login()
            delay = 0.0
        elif self._restart_reason is not None:
            self._restart_reason = None
            delay = 0.0
        elif worth_starting_again(self.error, connected=self.facts is not None):
            delay = self.restarts.automatic(anyio.current_time())
        if delay != 0.0:
            with anyio.move_on_after(delay):
                await self._demanded.wait()
        self._by_itself = not self._demanded.is_set()
        self.restarts.restarted(anyio.current_time(), by_itself=self._by_itself)

    async def _one_life(self) -> None:
        """Start, live, end; a server that exits on the probe is started again with the older handshake."""
        self._demanded = anyio.Event()
        self.facts = None
        self._set(State.STARTING, None)
        # After a failed start the server may be another one than the one whose era is known.
        known: Era | None = None if self.restarts.failures else self.era
        if self.config.transport in ("sse", "cli-adapter"):
            known = "legacy"  # the old transport has one era, and command lines have none
        error = await self._connected(known)
        if isinstance(error, BackendCrashed) and self.facts is None and known != "legacy":
            error = await self._connected("legacy")
        if self.facts is None and state_after(error) is State.STOPPED:
            self.restarts.start_failed(anyio.current_time())
        if error is not None:
            said = error.message.removeprefix(f"{self.config.name} ")
            logger.warning("backend %s: %s", self.config.name, said)
        if self._restart_reason is None and self._state is not state_after(error):
            self._set(state_after(error), error)

    async def _connected(self, era: Era | None) -> BackendError | None:
        """Open a connection and use it until it ends; the error that ended it, None for a wanted restart."""
        session = self._new_session(stopped=self.finished)
        self._over = anyio.Event()
        error: BackendError | None = None
        try:
            async with self._open_link(session.peer) as link:
                self.link = link
                session.peer.attach(link)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(session.peer.run)
                    try:
                        await self._live(session, link, era, tasks)
                    except BackendError as ended:
                        error = ended
                    await self._drain()
                    tasks.cancel_scope.cancel()
        except BackendError as failed:
            error = failed
        except Exception as fault:  # even a fault of ours must not affect other backends
            error = only_backend_error(fault)
            if error is None:
                logger.exception("backend %s ended by an internal fault", self.config.name)
                error = BackendCrashed(f"{self.config.name} ended by an internal fault: {fault!r}", sent=True)
        finally:
            session.peer.fail(
                error or BackendStopped(f"{self.config.name} was stopped while the call was open")
            )
            self.session = None
            self._keep_traces(session)
        return error

    async def _live(
        self, session: McpSession, link: Link, era: Era | None, tasks: anyio.abc.TaskGroup
    ) -> None:
        await self._get_ready(session, link, era, tasks)
        link.renew = partial(self._renew, session)
        tasks.start_soon(session.follow_changes, partial(self._listed, link))
        if self._events is not SILENT:
            tasks.start_soon(session.follow_offers, self._offered)
        tasks.start_soon(self._follow_health, session)
        tasks.start_soon(self._follow_link, link)
        if self._log_level is not None:
            tasks.start_soon(self.set_log_level, self._log_level)
        await self._over.wait()
        if link.closed.is_set():
            failure = link.failure or BackendCrashed(f"{self.config.name} closed the connection", sent=True)
            if self._restart_reason is None:  # set now, because ending its processes may take a while
                self._set(state_after(failure), failure)
            raise failure

    async def _get_ready(
        self, session: McpSession, link: Link, era: Era | None, tasks: anyio.abc.TaskGroup
    ) -> None:
        """Shake hands and list the tools, within the timeout of a start."""
        limit, named = self.config.connect_timeout, "connect_timeout"
        if self._by_itself and self._health.restart_timeout < limit:
            limit, named = self._health.restart_timeout, "health.restart_timeout"
        deadline = anyio.current_time() + limit
        try:
            await session.negotiate(timeout=limit, known=era)
            if session.must_listen:
                tasks.start_soon(session.listen)  # before listing, so that no change is missed
                await anyio.lowlevel.checkpoint()
            tools, repairs = await session.list_tools(timeout=max(0.1, deadline - anyio.current_time()))
        except BackendTimeout as slow:
            raise not_ready(self.config.name, limit, named, slow, link.stderr_tail()) from slow
        self.facts = session.facts
        self.restarts.healthy()
        self.breaker = Breaker(self._health)
        if self.facts is not None and self.era != self.facts.era:
            self.era = self.facts.era
            self._events.era(self.config.name, self.facts.era)
        self.session = session
        self._listed(link, tools, repairs)
        self._set(State.HEALTHY, None)

    async def _renew(self, session: McpSession) -> None:
        """Open a new session on the same connection, at a server that forgot the one before."""
        self.facts = await session.renew(timeout=self.config.connect_timeout)
        if self._log_level is not None:
            await session.set_log_level(self._log_level, timeout=self._health.timeout)

    async def _drain(self) -> None:
        """Before a restart: take no new calls, and wait a bounded time for running ones."""
        if self._restart_reason is None or self.session is None:
            return
        session, self.session = self.session, None
        self._set(State.STARTING, None)
        with anyio.move_on_after(self._health.drain_timeout):
            await self.limits.idle()
        session.peer.fail(BackendStopped(f"{self.config.name} was restarted while the call was open"))

    def _listed(self, link: Link, tools: list[Tool], repairs: list[str]) -> None:
        link.learn(tools)
        self.tools = {tool.name: tool for tool in tools}
        self.repairs = repairs
        self._events.tools(self.config.name, tools)

    def _offered(self, offers: list[Offer]) -> None:
        self.offers = offers
        self._events.offers(self.config.name, offers)

    async def _follow_link(self, link: Link) -> None:
        await link.closed.wait()
        self._over.set()

    async def _follow_health(self, session: McpSession) -> None:
        """Probe while no call is open: a server at work may be too busy to answer."""
        while True:
            await anyio.sleep(self.breaker.next_probe(anyio.current_time()))
            if self.limits.open and self.breaker.circuit == "closed":
                continue
            self.breaker.probing()
            try:
                await session.ping(timeout=self._health.timeout)
            except BackendError as error:
                self._probe_failed(error)
            else:
                self.answered()

    def answered(self) -> None:
        """Note that the backend answered a probe or a call."""
        self.breaker.success()
        if self.state is State.UNHEALTHY:
            self._set(State.HEALTHY, None)

    def unreachable(self, down: BackendError) -> None:
        """Note that a call did not reach the backend; the next answer makes it healthy again."""
        if self._state is State.HEALTHY and not down.sent:
            self._set(State.UNHEALTHY, down)

    def _probe_failed(self, error: BackendError) -> None:
        now = anyio.current_time()
        # A CLI adapter has no process to restart: its health check is about something else.
        restartable = self.config.transport != "cli-adapter"
        may_restart = restartable and self.restarts.automatic(now) is not None
        verdict = self.breaker.failure(now, may_restart=may_restart)
        if verdict == "wait":
            return
        error.hint = error.hint or "it is probed again automatically; see what keeps it busy, or restart it"
        self._set(State.UNHEALTHY, error)
        if verdict == "restart":
            self.restart(f"{self.breaker.misses} health probes failed: {error.message}")

    # -- calls -------------------------------------------------------------------------------------

    def repeatable(self, name: str) -> bool:
        """Whether a second call of the tool has no further effect, by its annotations."""
        tool = self.tools.get(name)
        return tool is not None and tool.repeatable

    async def ready(self, deadline: float) -> McpSession:
        """The live session; starts a stopped backend and waits for it until `deadline`."""
        demanded = False
        while True:
            changed = self._changed
            if self.session is not None and not self.session.peer.gone:
                if self.breaker.circuit != "closed":
                    raise circuit_open(self.config.name, self.breaker.next_probe(anyio.current_time()))
                return self.session
            if self.finished.is_set() or self._scope.cancel_called:
                raise BackendStopped(f"{self.config.name} was stopped")
            needed = self._state is State.LOGIN_REQUIRED and (self.login is None or self.login.is_lacking)
            if needed and self._error is not None:
                raise copied(self._error, sent=False)
            if self._state is State.STOPPED:
                blocked = self.restarts.blocked(anyio.current_time())
                if demanded or blocked > 0:
                    raise not_started(self.config.name, self.error, blocked)
                self._demanded.set()
                demanded = True
            with anyio.move_on_at(deadline) as wait:
                await changed.wait()
            if wait.cancelled_caught:
                raise not_started_yet(self.config.name, self.stderr_tail())

    async def set_log_level(self, level: str) -> None:
        """Set the lowest level of log messages, now and after each start; the backend may refuse."""
        self._log_level = level
        if self.session is not None:
            with suppress(BackendError):
                await self.session.set_log_level(level, timeout=self._health.timeout)

    async def roots_changed(self) -> None:
        """Notify a connected backend that the client's roots have changed."""
        if self.session is not None:
            with suppress(BackendError):
                await self.session.roots_changed()

    async def until_changed(self, seconds: float) -> None:
        """Wait until the backend's state changes, at most `seconds`."""
        changed = self._changed
        with anyio.move_on_after(seconds):
            await changed.wait()

    # -- state -------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The present state; a connection that just ended counts before `run` has noticed."""
        return self._state if self._ended is None else state_after(self._ended)

    @property
    def error(self) -> BackendError | None:
        return self._ended or self._error

    @property
    def _ended(self) -> BackendError | None:
        return None if self.session is None else self.session.peer.failure

    @property
    def pid(self) -> int | None:
        return self.link.pid if self.link is not None else None

    def stderr_tail(self) -> list[str]:
        return self.link.stderr_tail() if self.link is not None else self._stderr

    def _keep_traces(self, session: McpSession) -> None:
        """Keep what the status shows of a connection that has ended."""
        if self.link is not None:
            self._stderr = self.link.stderr_tail()
            self.skipped += self.link.skipped
        self.stray += session.peer.stray
        self.link = None
        self.memory.rss = None

    def _set(self, state: State, error: BackendError | None) -> None:
        changed = state is not self._state
        self._state, self._error = state, error
        previous, self._changed = self._changed, anyio.Event()
        previous.set()
        if changed:
            self._events.state(self.config.name, state)
