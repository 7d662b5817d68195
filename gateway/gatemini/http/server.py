"""The life of an HTTP server: listen, serve, drain, end."""

from __future__ import annotations

import functools
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from starlette.requests import Request

from gatemini import __version__
from gatemini.app import App
from gatemini.config.model.policy import PolicyConfig
from gatemini.config.model.values.hosts import is_loopback
from gatemini.daemon.control import app_facts, process_facts
from gatemini.http.auth.challenge import metadata
from gatemini.http.auth.login import Login, Logins
from gatemini.http.auth.revocations import Revocations
from gatemini.http.endpoint import Endpoint
from gatemini.http.network.connections import BoundedConnection
from gatemini.http.network.guard import Guard
from gatemini.http.network.tls import Tls
from gatemini.http.replicas.this_replica import Replicas
from gatemini.http.routes import PATH, http_app
from gatemini.http.sdk_sessions import SessionManager
from gatemini.http.sessions import HttpSessions
from gatemini.model import Json
from gatemini.policy.door import Door
from gatemini.proxy.places import Place

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.5
"""Between two checks for logins that do not hold any more, idle sessions and changed certificates."""
SETTLE_SECONDS = 0.02
KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: balancers close theirs after 60 s."""
SHOWN_SESSIONS = 100
"""Sessions that `status` lists, the latest used first."""
STOP_SECONDS = 5
"""How long connections may take to close once their requests have ended."""


class HttpServer:
    """One server on one listening socket."""

    def __init__(self, app: App, sock: socket.socket, host: str, folder: Path, place: Place) -> None:
        """`host` is as configured, `folder` that of the configuration; sessions are kept on the disk under `place`."""
        config = app.loaded.config.http
        self.app = app
        self.started = time.time()
        self.trouble: list[str] = []
        self.tls = Tls(config.tls, folder) if config.tls is not None else None
        port = sock.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if self.tls else 'http'}://{shown}:{port}{PATH}"
        self._sock = sock
        self._stop = anyio.Event()
        self._ended = anyio.Event()
        """Set when it does not listen any more."""
        self._now = False
        # Clients have grants, and registrations of their own, also where no policy is configured.
        door = app.chain.door = app.chain.door or Door(PolicyConfig(), app.approvals, limits=app.limits)
        door.always, door.owners = True, app.manager.owners
        self.revocations = Revocations(app.state) if app.state.shared else None
        self.logins = Logins(
            lambda: app.loaded.config.http,
            folder,
            self._login_refused,
            began=lambda address, login: self._record_login("accepted", login, address=address),
            accepted=app.manager.client_token,
            revoked=self.revocations.ids if self.revocations is not None else frozenset(),
            local_only=is_loopback(host),
        )
        self.manager = SessionManager(
            Server("gatemini", version=__version__),
            json_response=config.response == "json",
            stateless=config.sessions.mode == "stateless",
            session_idle_timeout=config.sessions.idle,
            max_request_body_size=config.max_body,
            max_sessions=None,  # `HttpSessions` counts those of both eras
        )
        self.replicas = Replicas(app) if app.state.shared else None
        self.sessions = HttpSessions(app, place, self.replicas.share if self.replicas else None)
        self.endpoint = Endpoint(
            config,
            self.manager,
            self.sessions,
            self.logins,
            app.parking,
            self.replicas,
            functools.partial(self._record_login, "ended"),
        )
        routes = http_app(config, Guard(config, host), self.endpoint, self._unready, self._metadata)
        self._uvicorn = _Uvicorn(_settings(routes, config.max_connections, self.tls))

    @property
    def drain_seconds(self) -> float:
        """How long it may take to stop while calls are open."""
        config = self.app.loaded.config
        return config.http.drain_delay + config.daemon.client_drain_timeout

    @property
    def connections(self) -> int:
        return len(self._uvicorn.server_state.connections)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self, now: bool = False) -> float:
        """Begin to drain and then stop; `now` skips the draining. Returns how many seconds that may take."""
        self._now = self._now or now
        self._stop.set()
        return self.drain_seconds

    def status(self) -> dict[str, Any]:
        """Return what `gatemini status` shows: the keys of a daemon, and `http`."""
        app = self.app
        sessions = sorted(self.sessions, key=lambda each: each.used, reverse=True)
        return {
            **process_facts(self.started),
            **app_facts(app),
            "state": self._unready() or "serving",
            "installed": __version__,
            "config": str(app.loaded.source) if app.loaded.source else None,
            "log": None,
            "http": {
                "url": self.url,
                "connections": self.connections,
                "sessions": len(sessions),
                "in_flight": self.endpoint.in_flight,
            },
            "sessions": [
                {
                    "client": each.session.client,
                    "principal": each.key[0],
                    "since": round(each.since, 1),
                    "in_flight": each.in_flight,
                    "requests": each.requests,
                    "backends": app.tracker.used_by(each.session.id),
                }
                for each in sessions[:SHOWN_SESSIONS]
            ],
            "trouble": [*self.trouble, *self.logins.problems()],
        }

    async def run(self) -> None:
        """Serve until stopped."""
        async with anyio.create_task_group() as tasks, self.manager.run():
            await tasks.start(self.sessions.run)
            await tasks.start(self.endpoint.run)
            if self.replicas is not None:
                await tasks.start(self.replicas.run)
            tasks.start_soon(self._tick)
            tasks.start_soon(self._renew_logins)
            if self.revocations is not None:
                tasks.start_soon(self.revocations.run)
            tasks.start_soon(self._serve)
            await self._stop.wait()
            if not self._now:
                await self._drain()
            self.endpoint.draining = True
            self.endpoint.stop()
            await self._settled(STOP_SECONDS)  # chains that are cut off leave their journals
            if not self._now:
                await self.app.manager.singletons.hand_over()
            self._uvicorn.should_exit = True
            with anyio.move_on_after(2 * STOP_SECONDS):
                await self._ended.wait()
            await self.sessions.close()
            if self.replicas is not None:
                await self.replicas.leave()
            tasks.cancel_scope.cancel()
        await self.logins.close()  # no task asks an issuer any more, so no connection is left open

    async def _serve(self) -> None:
        try:
            await self._uvicorn.serve(sockets=[self._sock])
        finally:
            self._ended.set()
            self._stop.set()

    async def _drain(self) -> None:
        logger.info("draining: %d requests in progress", self.endpoint.in_flight)
        with anyio.move_on_after(self.app.loaded.config.http.drain_delay):
            await self._ended.wait()
        self.endpoint.draining = True
        await self._settled(self.app.loaded.config.daemon.client_drain_timeout)

    async def _settled(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self.endpoint.in_flight:  # noqa: ASYNC110 - requests end in many places
                await anyio.sleep(SETTLE_SECONDS)

    async def _tick(self) -> None:
        while True:
            with anyio.move_on_after(TICK_SECONDS):
                await (
                    self.revocations.changed.wait() if self.revocations is not None else anyio.sleep_forever()
                )
            if self.revocations is not None:
                await self.revocations.share(self.logins.revoked())
            self.endpoint.end_invalid()
            idle = self.sessions.sweep()
            if self.replicas is not None:
                await self.replicas.drop_copies(idle)
            if self.tls is not None:
                self.tls.renew()

    async def _renew_logins(self) -> None:
        """Ask about open logins apart from `_tick`: a slow issuer delays nothing of what this process knows."""
        while True:
            await anyio.sleep(TICK_SECONDS)
            await self.endpoint.renew_logins()

    def _login_refused(self, address: str, reason: str) -> None:
        self._record("refused", address=address, reason=reason)

    def _record_login(self, outcome: str, login: Login, **more: Any) -> None:
        who = login.principal
        about: Json = {"client": who.client, "token": login.token_id, "scopes": sorted(who.scopes), **more}
        self._record(outcome, principal=who.id, transport="http", **about)

    def _record(self, outcome: str, **about: Any) -> None:
        """Record a login, or the refusal of one, in the audit log if there is one."""
        door = self.app.chain.door
        if door is not None and door.audit is not None:
            door.audit.event("login", outcome=outcome, **about)

    def _unready(self) -> str:
        """Return why balancers should send no requests, "" where they should."""
        if self._stop.is_set():
            return "draining"
        if self.app.state.problem is not None and self.app.loaded.config.state.on_failure == "refuse":
            return "the state store cannot be reached"
        if not self.app.warmed.is_set():
            return "starting"
        return ""

    def _metadata(self, request: Request) -> dict[str, object] | None:
        return metadata(self.app.loaded.config.http, request.scope)


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers of its own: the gateway drains first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _settings(app: Any, most: int, tls: Tls | None) -> uvicorn.Config:
    """Return uvicorn's settings: it logs no requests and adds no headers."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    made = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=most,
        backlog=2048,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    made.load()
    made.ssl = tls.context if tls is not None else None
    return made
