"""One backend: the task that owns its connection from start to stop, and the calls that reach it.

`run` is that task: it starts the backend, shakes hands, lists, follows changes and health, and starts again
by the rules of `health.py`. Calls come from other tasks, wait for a healthy session and use it; they never
open or close anything. Above: `manager.py`. Below: `session.py`, a transport, `limits.py`, `health.py`.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from functools import partial

import anyio
import anyio.abc
import anyio.lowlevel

from gatemini.backends.callers import NOBODY, Caller, Clients, ProgressFn
from gatemini.backends.calls.call_limits import CallLimits
from gatemini.backends.calls.failures import (
    circuit_open,
    not_answered,
    not_ready,
    not_started,
    not_started_yet,
    only_backend_error,
    remedy_of,
    worth_starting_again,
)
from gatemini.backends.calls.retry import sent
from gatemini.backends.health import Breaker, MemoryWatch, Restarts, Verdict
from gatemini.backends.session import McpSession, SavedFacts
from gatemini.backends.status import SILENT, BackendStatus, Era, Events, ServerFacts, State
from gatemini.backends.transports.link import Link, OpenLink
from gatemini.config.schema import BackendConfig, HealthConfig
from gatemini.errors import (
    BackendCrashed,
    BackendError,
    BackendStopped,
    BackendTimeout,
    BackendUnreachable,
)
from gatemini.model import CallOutcome, Json, Tool

REFRESH_DEBOUNCE_SECONDS = 0.2
"""A burst of `list_changed` within this time leads to one new listing."""

LISTEN_AGAIN_SECONDS = 5.0
"""Pause before a change stream that ended is opened again."""

logger = logging.getLogger(__name__)


class Backend:
    """One configured backend; `run` must be running for anything to happen."""

    def __init__(
        self,
        config: BackendConfig,
        *,
        open_link: OpenLink,
        events: Events,
        client_info: Json,
        clients: Clients,
        health: HealthConfig,
        dynamic: bool = False,
        era: Era | None = None,
        log_level: str | None = None,
    ) -> None:
        self.config = config
        self.dynamic = dynamic
        self.era = era
        self._era_doubted = False
        self._state = State.STARTING if not config.lazy else State.STOPPED
        self._error: BackendError | None = None
        self.facts: ServerFacts | None = None
        self._saved = SavedFacts()
        self.tools: dict[str, Tool] = {}
        self.repairs: list[str] = []
        self.memory = MemoryWatch(health, config.max_memory_mb)
        self.finished = anyio.Event()
        self._open_link = open_link
        self._events = events
        self._client_info = client_info
        self._clients = clients
        self._log_level = log_level
        self._health = health
        self._limits = CallLimits(config)
        self._restarts = Restarts(health)
        self._breaker = Breaker(health)
        self._session: McpSession | None = None
        self._link: Link | None = None
        self._stderr: list[str] = []
        self._skipped = 0
        self._stray = 0
        self._since = time.time()
        self._changed = anyio.Event()
        self._demanded = anyio.Event()
        self._over = anyio.Event()
        self._scope = anyio.CancelScope()
        self._restart_reason: str | None = None
        self._by_itself = False
        """Whether the present start is a restart that no call asked for."""
        self._last_logged: str | None = None

    # -- the owner task ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Own the backend until it is stopped; ends with nothing of it left."""
        try:
            with self._scope:
                await self._wait_for_start(first=True)
                while True:
                    await self._one_life()
                    await self._wait_for_start(first=False)
        finally:
            self._session = None
            self._set(State.STOPPED, self.error)
            self.finished.set()

    def stop(self) -> None:
        """End `run`; wait for `finished`."""
        self._scope.cancel()

    async def retire(self) -> None:
        """Let open calls end (bounded), then stop; another backend has taken its place."""
        self._events = SILENT
        with anyio.move_on_after(self._health.drain_timeout):
            await self._limits.idle()
        self.stop()
        await self.finished.wait()

    def restart(self, reason: str) -> None:
        """Let open calls end (bounded), then stop and start again."""
        if self._session is not None and self._restart_reason is None:
            logger.warning("%s is restarted: %s", self.config.name, reason)
            self._restart_reason = reason
            self._over.set()

    async def _wait_for_start(self, *, first: bool) -> None:
        """Return when it is time to start: at once, after a back-off, or when a call asks for it."""
        if first and not self.config.lazy:
            return
        delay: float | None = None
        if self._restart_reason is not None:
            self._restart_reason = None
            delay = 0.0
        elif not first and worth_starting_again(self.error, connected=self.facts is not None):
            delay = self._restarts.automatic(anyio.current_time())
        if delay != 0.0:
            with anyio.move_on_after(delay):
                await self._demanded.wait()
        if not first:
            self._by_itself = not self._demanded.is_set()
            self._restarts.restarted(anyio.current_time(), by_itself=self._by_itself)

    async def _one_life(self) -> None:
        """From start to stop, once; a backend that went away on the probe is tried the old way."""
        self._demanded = anyio.Event()
        self.facts = None
        self._set(State.STARTING, None)
        known = self._known_era()
        error = await self._connected(known)
        if isinstance(error, BackendCrashed) and self.facts is None and known != "legacy":
            error = await self._connected("legacy")
        self._era_doubted = self.facts is None
        if self.facts is None:
            self._restarts.start_failed(anyio.current_time())
        if error is not None:
            said = error.message.removeprefix(f"{self.config.name} ")
            level = logging.DEBUG if error.message == self._last_logged else logging.WARNING
            logger.log(level, "backend %s: %s", self.config.name, said)
            self._last_logged = error.message
        if self._restart_reason is None and self._state is not State.STOPPED:
            self._set(State.STOPPED, error)

    def _known_era(self) -> Era | None:
        """What needs no probe: the old transport has one era, and commands have none.

        A verdict of before is no longer trusted after a start that came to nothing: the server may be another one now.
        """
        if self.config.transport in ("sse", "cli-adapter"):
            return "legacy"
        return None if self._era_doubted else self.era

    async def _connected(self, era: Era | None) -> BackendError | None:
        """Open a connection and live on it; what ended it, None for a restart that was asked for."""
        session = McpSession(
            self.config,
            client_info=self._client_info,
            clients=self._clients,
            saved=self._saved,
            stopped=self.finished,
        )
        self._over = anyio.Event()
        error: BackendError | None = None
        try:
            async with self._open_link(session.peer) as link:
                self._link = link
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
        except Exception as fault:  # one backend's trouble, even a fault of ours, must stay its own
            error = only_backend_error(fault)
            if error is None:
                logger.exception("backend %s ended by an internal fault", self.config.name)
                error = BackendCrashed(f"{self.config.name} ended by an internal fault: {fault!r}", sent=True)
        finally:
            # Who waits for an answer is told, be it that this backend was taken out while the call was open.
            session.peer.fail(
                error or BackendStopped(f"{self.config.name} was stopped while the call was open")
            )
            self._session = None
            self._keep_traces(session)
        return error

    async def _live(
        self, session: McpSession, link: Link, era: Era | None, tasks: anyio.abc.TaskGroup
    ) -> None:
        limit, named = self.config.connect_timeout, "connect_timeout"
        if self._by_itself and self._health.restart_timeout < limit:
            limit, named = self._health.restart_timeout, "health.restart_timeout"
        deadline = anyio.current_time() + limit
        try:
            facts = await session.negotiate(timeout=limit, known=era)
            if facts.era == "modern" and session.announces_changes:
                tasks.start_soon(self._listen, session)  # before listing: no change falls in between
                await anyio.lowlevel.checkpoint()
            left = max(0.1, deadline - anyio.current_time())
            tools, repairs = await session.list_tools(timeout=left)
        except BackendTimeout as slow:
            raise not_ready(self.config.name, limit, named, slow, link.stderr_tail()) from slow
        self.facts = facts = session.facts or facts
        self._restarts.healthy()
        self._breaker = Breaker(self._health)
        if self.era != facts.era:
            self.era = facts.era
            self._events.era(self.config.name, facts.era)
        self._session = session
        link.learn(tools)
        self._listed(tools, repairs)
        self._set(State.HEALTHY, None)
        tasks.start_soon(self._follow_changes, session, link)
        tasks.start_soon(self._follow_health, session)
        tasks.start_soon(self._follow_link, link)
        if self._log_level is not None:
            tasks.start_soon(self.set_log_level, self._log_level)
        await self._over.wait()
        if link.closed.is_set():
            failure = link.failure or BackendCrashed(f"{self.config.name} closed the connection", sent=True)
            if self._restart_reason is None:  # said now: ending what is left of it may take a while
                self._set(State.STOPPED, failure)
            raise failure

    async def _drain(self) -> None:
        """Before a restart: no new calls, and a bounded time for those that run."""
        if self._restart_reason is None or self._session is None:
            return
        session, self._session = self._session, None
        self._set(State.STARTING, None)
        with anyio.move_on_after(self._health.drain_timeout):
            await self._limits.idle()
        session.peer.fail(BackendStopped(f"{self.config.name} was restarted while the call was open"))

    def _listed(self, tools: list[Tool], repairs: list[str]) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.repairs = repairs
        self._events.tools(self.config.name, tools)

    async def _follow_link(self, link: Link) -> None:
        await link.closed.wait()
        self._over.set()

    async def _follow_changes(self, session: McpSession, link: Link) -> None:
        while True:
            await session.changed.wait()
            await anyio.sleep(REFRESH_DEBOUNCE_SECONDS)
            session.changed = anyio.Event()
            try:
                tools, repairs = await session.list_tools(timeout=self.config.timeout)
            except BackendError as error:
                logger.warning("%s: new tool list not read: %s", self.config.name, error.message)
                continue
            link.learn(tools)
            self._listed(tools, repairs)

    async def _listen(self, session: McpSession) -> None:
        """Keep a change stream open; each time it had to be opened again the list may have changed."""
        while True:
            try:
                await session.listen_for_changes()
            except BackendError as error:
                logger.debug("%s: change stream ended: %s", self.config.name, error.message)
                if not isinstance(error, BackendCrashed | BackendUnreachable):
                    return
            await anyio.sleep(LISTEN_AGAIN_SECONDS)
            session.changed.set()

    async def _follow_health(self, session: McpSession) -> None:
        """Probe while no call is open: a backend at work may be too busy to answer, and is not ill."""
        while True:
            await anyio.sleep(self._breaker.next_probe(anyio.current_time()))
            if self._limits.open and self._breaker.circuit == "closed":
                continue
            self._breaker.probing()
            try:
                await session.ping(timeout=self._health.timeout)
            except BackendError as error:
                self._probe_failed(error)
            else:
                self._answered()

    def _answered(self) -> None:
        """It is well, whatever its probes say: a call that is answered shows as much as a probe."""
        self._breaker.success()
        if self.state is State.UNHEALTHY:
            self._set(State.HEALTHY, None)

    def _probe_failed(self, error: BackendError) -> None:
        now = anyio.current_time()
        # Of a CLI adapter there is nothing to restart: what its check is about is something else.
        restartable = self.config.transport != "cli-adapter"
        may_restart = restartable and self._restarts.automatic(now) is not None
        verdict = self._breaker.failure(now, may_restart=may_restart)
        if verdict is Verdict.WAIT:
            return
        error.hint = error.hint or "it is asked again by itself; see what keeps it busy, or restart it"
        self._set(State.UNHEALTHY, error)
        if verdict is Verdict.RESTART:
            self.restart(f"{self._breaker.misses} health probes failed: {error.message}")

    # -- calls -------------------------------------------------------------------------------------

    def repeatable(self, name: str) -> bool:
        """Whether calling the tool twice does no more than calling it once, as far as it says."""
        tool = self.tools.get(name)
        return tool is not None and tool.repeatable

    async def call_tool(
        self,
        name: str,
        arguments: Json,
        *,
        timeout: float,
        share: float = 1.0,
        on_progress: ProgressFn | None = None,
        caller: Caller = NOBODY,
    ) -> CallOutcome:
        """Call a tool within `timeout` seconds, start and waiting included; these may take a `share` of what is left.

        Sent again only if it certainly was not sent, or if the tool is marked as repeatable.
        """
        deadline = anyio.current_time() + timeout
        params: Json = {"name": name, "arguments": arguments}
        return await sent(
            partial(self._call_once, params, timeout, deadline, share, on_progress, caller),
            self.config.retry,
            deadline,
            repeatable=self.repeatable(name),
            pause=self._pause,
        )

    async def read_resource(self, uri: str, *, timeout: float, caller: Caller = NOBODY) -> Json:
        """Sent again like a tool that may be called twice."""
        deadline = anyio.current_time() + timeout
        read = partial(self._read_once, uri, deadline, caller)
        return await sent(read, self.config.retry, deadline, repeatable=True, pause=self._pause)

    async def set_log_level(self, level: str) -> None:
        """What the backend is to log from now on, and after each start; it may refuse."""
        self._log_level = level
        if self._session is not None:
            with suppress(BackendError):
                await self._session.set_log_level(level, timeout=self._health.timeout)

    async def roots_changed(self) -> None:
        """The client's roots are others now; a backend that is not there asks for them when it is."""
        if self._session is not None:
            with suppress(BackendError):
                await self._session.roots_changed()

    async def ping(self, *, timeout: float) -> None:
        session = await self.ready(anyio.current_time() + timeout)
        await session.ping(timeout=timeout)

    async def ready(self, deadline: float) -> McpSession:
        """The live session; starts a stopped backend and waits for it until `deadline`."""
        asked = False
        while True:
            changed = self._changed
            if self._session is not None and not self._session.peer.gone:
                if self._breaker.circuit != "closed":
                    raise circuit_open(self.config.name, self._breaker.next_probe(anyio.current_time()))
                return self._session
            if self.finished.is_set() or self._scope.cancel_called:
                raise BackendStopped(f"{self.config.name} was stopped")
            if self._state is State.STOPPED:
                blocked = self._restarts.blocked(anyio.current_time())
                if asked or blocked > 0:
                    raise not_started(self.config.name, self.error, blocked)
                self._demanded.set()
                asked = True
            with anyio.move_on_at(deadline) as wait:
                await changed.wait()
            if wait.cancelled_caught:
                raise not_started_yet(self.config.name, self.stderr_tail())

    async def _call_once(
        self,
        params: Json,
        timeout: float,
        deadline: float,
        share: float,
        on_progress: ProgressFn | None,
        caller: Caller,
    ) -> CallOutcome:
        now = anyio.current_time()
        begin_by = now + (deadline - now) * share  # anew for each try
        session = await self.ready(begin_by)
        async with self._limits.place(begin_by):
            left = max(0.001, deadline - anyio.current_time())
            try:
                answer = await session.call_tool(params, timeout=left, on_progress=on_progress, caller=caller)
                self._answered()
                return answer
            except BackendUnreachable as down:
                if self._state is State.HEALTHY and not down.sent:
                    self._set(State.UNHEALTHY, down)  # until a call or a probe gets through
                raise
            except BackendTimeout as slow:
                if anyio.current_time() < deadline:
                    raise  # a limit of its own, which its message names
                own = self.config.timeout if timeout >= self.config.timeout else None
                told = not_answered(self.config.name, params["name"], own, slow, self.stderr_tail())
                raise told from slow

    async def _read_once(self, uri: str, deadline: float, caller: Caller) -> Json:
        session = await self.ready(deadline)
        async with self._limits.place(deadline):
            left = max(0.001, deadline - anyio.current_time())
            contents = await session.read_resource(uri, timeout=left, caller=caller)
            self._answered()
            return contents

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the backend's state changes."""
        changed = self._changed
        with anyio.move_on_after(seconds):
            await changed.wait()

    # -- what others see ---------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """As it is now: a connection that just ended counts before its owner has taken note."""
        return self._state if self._ended is None else State.STOPPED

    @property
    def error(self) -> BackendError | None:
        return self._ended or self._error

    @property
    def _ended(self) -> BackendError | None:
        return None if self._session is None else self._session.peer.failure

    def stderr_tail(self) -> list[str]:
        return self._link.stderr_tail() if self._link is not None else self._stderr

    def sampled(self, rss: int, now: float) -> None:
        """Resident bytes of its processes, as the manager measured them."""
        verdict = self.memory.sample(rss, now)
        if verdict == "ok" or self._restart_reason is not None:  # it is let go already
            return
        text = f"it uses {rss >> 20} MB, max_memory_mb is {self.config.max_memory_mb}"
        if verdict == "restart":
            self.restart(text)
        else:
            logger.warning("%s: %s", self.config.name, text)

    @property
    def pid(self) -> int | None:
        return self._link.pid if self._link is not None else None

    def status(self) -> BackendStatus:
        facts, link, session = self.facts, self._link, self._session
        return BackendStatus(
            name=self.config.name,
            state=self.state,
            transport=self.config.transport,
            dynamic=self.dynamic,
            era=self.era,
            protocol_version=facts.protocol_version if facts else None,
            server_info=facts.server_info if facts else None,
            instructions=facts.instructions if facts else None,
            capabilities=facts.capabilities if facts else {},
            pid=self.pid,
            tools=len(self.tools),
            error=self.error.message if self.error else None,
            remedy=remedy_of(self.error),
            stderr_tail=self.stderr_tail(),
            repairs=list(self.repairs),
            skipped_lines=self._skipped + (link.skipped if link else 0),
            stray_replies=self._stray + (session.peer.stray if session else 0),
            restarts=self._restarts.total,
            calls_open=self._limits.open,
            rss=self.memory.rss,
            peak_rss=self.memory.peak,
            max_memory_mb=self.config.max_memory_mb,
            circuit=self._breaker.circuit,
            since=self._since,
        )

    def _keep_traces(self, session: McpSession) -> None:
        """What is known of a connection outlives it."""
        if self._link is not None:
            self._stderr = self._link.stderr_tail()
            self._skipped += self._link.skipped
        self._stray += session.peer.stray
        self._link = None
        self.memory.rss = None  # of a process that is gone

    def _set(self, state: State, error: BackendError | None) -> None:
        changed = state is not self._state
        self._state, self._error = state, error
        if changed:
            self._since = time.time()
        previous, self._changed = self._changed, anyio.Event()
        previous.set()
        if changed:
            self._events.state(self.config.name, state)
