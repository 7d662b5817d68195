"""The daemon's life: accept clients, load the configuration, serve until stopped or idle, drain, end."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.abc

from gatemini import __version__
from gatemini.app import App, freeze_start
from gatemini.config.documents.find import config_directory
from gatemini.config.load import load_config
from gatemini.config.variables.redaction import Redactor
from gatemini.config.variables.references import SecretAnswers
from gatemini.daemon.connection import Connection
from gatemini.daemon.control import answer_control, config_current
from gatemini.daemon.hello import Hello, Variables
from gatemini.daemon.listener import SPARE_DESCRIPTORS, Listener, LockLost, SpareDescriptors
from gatemini.daemon.llm_proxies import LlmProxies
from gatemini.daemon.saved_answers import SavedAnswers, Stamp, stamps_of
from gatemini.daemon.sessions.sessions import Sessions
from gatemini.daemon.socket_streams import HELLO_SECONDS, read_greeting
from gatemini.daemon.terminal.logs import LOG_FORMAT, BackendStderr, Levels
from gatemini.daemon.turns import Turns
from gatemini.errors import ConfigError, config_reason
from gatemini.folders import home_folder
from gatemini.logs.log_file import GatewayLog
from gatemini.logs.rotating_file import RotatingFile
from gatemini.proxy.places import STARTED, PlaceRefused

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
TURN_AWAY_SECONDS = 4.0
"""How long clients that cannot be served may take to say who they are; a command waits 10 s for its answer."""
STOP_SECONDS = 5.0
"""How long connections that are cut off may take to end."""
LOG_BYTES = 4 << 20
"""The size of the log until the configuration is read."""


def run(listener: Listener, config: str | None, *, spawned: bool) -> int:
    """Serve until the end; returns the exit code. `spawned`: by a proxy, which brings the variables."""
    redactor, levels = Redactor(), Levels()
    streams = () if spawned else (logging.StreamHandler(sys.stderr),)
    own = RotatingFile(listener.place.log, limit=LOG_BYTES, keep=1, descriptors=(1, 2) if spawned else ())
    log = GatewayLog(redactor, LOG_FORMAT, *streams, own=own, level=levels)
    BackendStderr(listener.place, redactor).attach()
    started = f"{STARTED}{__version__} as process {os.getpid()} for {config or 'the demo'}"
    logger.info("%s", started)
    daemon = Daemon(listener, config, redactor, levels, log, spawned=spawned)
    anyio.run(daemon.serve)
    return daemon.code


class Daemon:
    """One daemon. `app` is None until the configuration is loaded."""

    def __init__(
        self,
        listener: Listener,
        config: str | None,
        redactor: Redactor,
        levels: Levels,
        log: GatewayLog,
        *,
        spawned: bool,
    ) -> None:
        self.listener = listener
        self.place = listener.place
        self.config = Path(config) if config else None
        self.redactor = redactor
        self.levels = levels
        self.log = log
        self.spawned = spawned
        self.started = time.time()
        self.code = 0
        self.app: App | None = None
        self.failure = ""
        self.trouble: dict[str, str] = {}
        """What keeps the daemon from working as it should, by kind; `status` shows it."""
        if self.place.fallback:
            self.trouble["socket"] = self.place.fallback
        self.variables = Variables()
        self.connections: list[Connection] = []
        self.turns = Turns()
        self.llm_proxies = LlmProxies()
        self.outdated = ""
        """The version that is installed, where it is not the running one."""
        self.restarting = False
        self._given = dict(os.environ)
        self._spare = SpareDescriptors()
        self._heard = anyio.Event()
        self.ready = anyio.Event()
        self._stop = anyio.Event()
        self._now = False
        self._idle_since = time.monotonic()
        self._tasks: anyio.abc.TaskGroup | None = None

    # -- life ----------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve until stopped or idle."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._signals)
            tasks.start_soon(self._accept)
            if self.spawned:
                with anyio.move_on_after(HELLO_SECONDS):
                    await self._heard.wait()
            try:
                await self._serve_app()
            except (ConfigError, BaseExceptionGroup) as error:
                if (reason := config_reason(error)) is None:
                    raise
                self._fail(reason)
            self.listener.close()
            with anyio.move_on_after(TICK_SECONDS):
                for connection in [*self.connections]:
                    await connection.ended.wait()
            tasks.cancel_scope.cancel()

    def _fail(self, reason: str) -> None:
        self.code, self.failure = 1, self.redactor.redact(reason)
        print(self.failure, file=sys.stderr)
        self.ready.set()

    async def _serve_app(self) -> None:
        environ = await anyio.to_thread.run_sync(self._environ)
        async with App.open(
            self.config, environ=environ, redactor=self.redactor, serving=self.spawned, shared=True
        ) as app:
            self.app = app
            freeze_start()
            self.levels.set_base(app.loaded.config.least_level)
            self.log.follow(app.loaded.config.log)
            app.approvals.console = True
            for problem in app.problems():
                logger.warning("%s", problem)
            self.answers = SavedAnswers(self.place.hello, app)
            self.sessions = Sessions(app, self.place, self._report_journals)
            self.ready.set()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._upkeep)
                await self._stop.wait()
                tasks.cancel_scope.cancel()
            self.listener.close()
            if not self._now:
                await self._drain()
            for connection in self.connections:
                connection.end()
            with anyio.move_on_after(STOP_SECONDS):  # chains that are cut off leave their journals
                for connection in [*self.connections]:
                    await connection.ended.wait()
            await self.sessions.close()
        await self._write_answers()

    def _environ(self) -> dict[str, str]:
        """The variables of the daemon, and those of the first client that the configuration names."""
        environ, given = dict(os.environ), self._given
        if self.config is None:
            return environ
        if not self.spawned:
            given = {}
        loaded = load_config(self.config, environ={**given, **environ}, answers=SecretAnswers())
        words: set[str] = set()
        for path in loaded.files:
            with suppress(OSError):
                words.update(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", path.read_text("utf-8", "replace")))
        of_sessions = set(loaded.config.daemon.session_env)
        for name in of_sessions & environ.keys():  # a client that brings none must not get the daemon's
            del environ[name], os.environ[name]
        words -= of_sessions
        held = {name: value for name, value in given.items() if name in words and name not in environ}
        names = {word for word in words if word.isupper() or word in held or word in environ}
        known = {**environ, **held}
        self.variables = Variables(frozenset(names), {name: known[name] for name in names & known.keys()})
        os.environ.update(held)  # `inherit_env` takes them from there
        self._given = {}
        return {**environ, **held}

    async def _signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP and self.log.reopen():
                    continue
                if self._stop.is_set() or self.app is None:
                    self.listener.close()
                    os._exit(1)  # the watchdog ends the children
                self.stop()

    def stop(self, *, restart: bool = False, now: bool = False) -> None:
        """Begin the end: drain, then stop. `restart`: proxies start the next daemon at once."""
        self.restarting, self._now = restart, now
        self._stop.set()

    @property
    def drain_seconds(self) -> float:
        """How long open calls may finish when it stops."""
        return 0.0 if self.app is None else self.app.loaded.config.daemon.client_drain_timeout

    async def _drain(self) -> None:
        """Let calls finish; the proxies hold what comes meanwhile."""
        for connection in self.connections:
            connection.tell("draining", restart=self.restarting)
        with anyio.move_on_after(self.drain_seconds):
            while not all(each.settled or each.ended.is_set() for each in self.connections):  # noqa: ASYNC110
                await anyio.sleep(0.02)

    # -- clients -------------------------------------------------------------------------------------

    async def _accept(self) -> None:
        assert self._tasks is not None  # noqa: S101 - set by the only caller
        while not self._stop.is_set():
            listening = self.listener.sock
            try:
                with anyio.move_on_after(TICK_SECONDS):  # the socket may have been bound anew
                    await anyio.wait_readable(listening)
                    sock, _ = listening.accept()
                    sock.setblocking(False)
                    self._tasks.start_soon(self._client, sock)
                    self.trouble.pop("accept", None)
            except (
                BlockingIOError,
                InterruptedError,
                ValueError,
                anyio.ClosedResourceError,
                anyio.BusyResourceError,
            ):
                await anyio.sleep(0.01)
            except OSError as error:
                if not self._stop.is_set():
                    if "accept" not in self.trouble:
                        logger.warning("a client could not be accepted: %s", error)
                    self.trouble["accept"] = f"no new clients: {error.strerror}"
                    await self._turn_away(listening)
                    await anyio.sleep(TICK_SECONDS)

    async def _turn_away(self, listening: socket.socket) -> None:
        """Answer commands, and give clients the reason, where no descriptor is left to serve them."""
        self._spare.release()
        try:
            with anyio.move_on_after(TURN_AWAY_SECONDS):
                async with anyio.create_task_group() as tasks:
                    with suppress(OSError):
                        for _ in range(SPARE_DESCRIPTORS // 2):
                            sock, _ = listening.accept()
                            sock.setblocking(False)
                            tasks.start_soon(self._client, sock, self.trouble["accept"])
        finally:
            self._spare.take()

    async def _client(self, sock: socket.socket, refusal: str = "") -> None:
        with sock:
            hello, begun = await read_greeting(sock)
            if hello is None:
                return
            if refusal and not hello.control:
                Connection(sock, hello).tell("failed", reason=refusal)
                return
            if hello.environ and not self._heard.is_set():
                self._given = dict(hello.environ)
                self._heard.set()
            try:
                if hello.control:
                    await answer_control(self, sock, hello)
                else:
                    await self._mcp(sock, hello, begun)
            except Exception:
                logger.exception("a client's connection failed")

    async def _mcp(self, sock: socket.socket, hello: Hello, begun: bytes) -> None:
        connection = Connection(sock, hello)
        self.connections.append(connection)
        try:
            await self.ready.wait()
            most = self.app.loaded.config.daemon.max_sessions if self.app is not None else 0
            if self.app is None or len(self.connections) > most:
                connection.tell(
                    "failed", reason=self.failure or f"daemon.max_sessions ({most}) are connected already"
                )
                return
            self.variables.compare(hello.environ)
            self.outdated = _installed_version(hello.version)
            session = await self.sessions.attach(hello)
            hello.environ.clear()  # what the configuration does not name is not kept
            limit = self.app.loaded.config.daemon.max_requests_per_session
            try:
                await connection.serve(self.app, session, limit, self.turns, self.answers, begun)
            finally:
                self.sessions.detach(hello.token, session, forget=connection.bye)
        finally:
            connection.ended.set()
            self.connections.remove(connection)
            self._idle_since = time.monotonic()

    # -- upkeep --------------------------------------------------------------------------------------

    async def _upkeep(self) -> None:
        while True:
            await anyio.sleep(TICK_SECONDS)
            self._keep_socket()
            try:
                await self._write_answers()
                await self.sessions.sweep()
                self.trouble.pop("upkeep", None)
            except OSError as error:  # a full disk, or no descriptor left
                self.trouble["upkeep"] = f"files of sessions are not looked after: {error}"
            if self.app is not None:
                self.levels.set_base(self.app.loaded.config.least_level)
            if self._may_end():
                self.stop(restart=bool(self.outdated))

    def _keep_socket(self) -> None:
        try:
            if self.listener.missing():
                self.listener.repair()
                logger.warning("the socket was deleted and is bound again")
            self.trouble.pop("bind", None)
        except LockLost:
            logger.warning("another daemon has taken the place of this one")
            self.stop()
        except (OSError, PlaceRefused) as error:
            self.trouble["bind"] = f"no new clients: the socket cannot be bound again: {error}"

    def _report_journals(self, problem: str | None) -> None:
        if problem is None:
            self.trouble.pop("journals", None)
        else:
            self.trouble["journals"] = problem

    @property
    def in_flight(self) -> int:
        return sum(connection.in_flight for connection in self.connections)

    def _may_end(self) -> bool:
        if self.app is None or self.in_flight or self.app.parking.waiting or self.app.approvals.opened():
            return False
        if self.outdated:
            return True
        settings = self.app.loaded.config.daemon
        idle = time.monotonic() - self._idle_since
        return not self.connections and not settings.linger and idle >= settings.idle_timeout

    async def _write_answers(self) -> None:
        if self.app is None:
            return
        loaded = self.app.loaded
        stamps = await anyio.to_thread.run_sync(self._stamps, self.app)
        if stamps is None or self.app.loaded is not loaded:
            return  # changed files are not in force yet, or just are
        # Later than the stamps: what changes meanwhile makes them old, and the answers unused.
        settings = loaded.config.daemon
        document = self.answers.document(
            stamps, self.variables.names, os.environ, settings.start_timeout, instant=settings.instant
        )
        if document is not None:
            await anyio.to_thread.run_sync(self.answers.write, document)

    def _stamps(self, app: App) -> list[Stamp] | None:
        """What answers depend on: the configuration's files, the cache, .env files; None while changes are not in force."""
        files = {*app.loaded.files, app.cache.path}
        if self.config is not None:
            folders = (home_folder(), config_directory(), self.config.parent)
            files |= {folder / ".env" for folder in folders}
        stamps = stamps_of(files)
        return stamps if config_current(app) else None


def _installed_version(of_client: str) -> str:
    """The version on the disk where it is not the running one; looked for when a client of another version comes."""
    if of_client == __version__:
        return ""
    with suppress(OSError):
        text = Path(__file__).parent.with_name("__init__.py").read_text("utf-8")
        found = re.search(r'__version__ = "([^"]+)"', text)
        if found and found[1] != __version__:
            return found[1]
    return ""
