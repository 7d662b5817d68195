"""One HTTP server as one of several replicas: shared sessions, results and journals, and forwarded requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import anyio
import anyio.abc

from gatemini.chain.replay.shared_journals import SessionSharedJournals, SharedJournals
from gatemini.http.replicas.claims import Claims
from gatemini.http.replicas.forwarding import Relay, Serve
from gatemini.http.replicas.homes import Homes
from gatemini.http.replicas.session_ids import SessionIds
from gatemini.http.replicas.shared_changes import SharedChanges
from gatemini.http.replicas.shared_console import SharedConsole
from gatemini.http.replicas.shared_sessions import SharedSessions
from gatemini.protocol.sessions.client_session import Session
from gatemini.state.blobs import INLINE_BYTES
from gatemini.state.session_labels import SessionLabels
from gatemini.state.session_results import SessionResults

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.http.sdk_sessions import SessionManager
    from gatemini.http.sessions import HttpSession, HttpSessions

SETTLE_SECONDS = 5.0
"""How long journals may take to reach the store when the server stops."""


class Replicas:
    """The parts of this replica that communicate with the others over the store."""

    def __init__(self, app: App) -> None:
        self.peers = app.peers
        self.name = self.peers.replica
        self._app = app
        self.claims = Claims(app.state, self.name)
        self._homes = Homes(app.state, self.name, self.peers.alive, app.loaded.config.http.sessions.idle)
        self._journals = SharedJournals(app.state, self.name, self.peers.alive)
        self.console = SharedConsole(app.state, self.name, app.approvals, app.chain.redactor)
        self.sessions: SharedSessions | None = None
        """Sessions of the handshake eras; None where they stay at the replica that has opened them."""
        self.relay: Relay

    def connect(self, manager: SessionManager, sessions: HttpSessions, serve: Serve) -> None:
        """Set what this replica serves; `serve` answers a request that another one has forwarded."""
        config, keys = self._app.loaded.config.http.sessions, self._app.loaded.state_keys
        self.relay = Relay(self.peers, serve)
        self._app.parking.share(self._app.state, self.name)
        if config.mode == "adopt":
            ids = SessionIds(self.name, keys)
            self.sessions = SharedSessions(self._app.state, ids, self.name, manager, sessions, config.idle)

    async def home(self, session: HttpSession) -> str | None:
        """Return the other replica that is the home of a session; None where this one may run its chains.

        Raises StateUnavailable.
        """
        backends = self._app.loaded.config.backends.values()
        if all(each.instance_mode != "dedicated" for each in backends):
            return None
        home = await self._homes.of(session.session.id)
        return None if home == self.name else home

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Receive and apply what other replicas send and publish, until cancelled."""
        async with anyio.create_task_group() as tasks:
            for part in (self._journals.run, self.relay.run):
                await tasks.start(part)
            tasks.start_soon(SharedChanges(self._app.state, self.name, self._app.changes).run)
            tasks.start_soon(self.console.run)
            if self.sessions is not None:
                tasks.start_soon(self.sessions.run)
            task_status.started()

    async def drop_copies(self, idle: Iterable[HttpSession]) -> None:
        """Drop this replica's copies of sessions that it has ended because they were idle."""
        for session in idle:
            if self.sessions is not None and session.ident:
                await self.sessions.leave(session)

    async def leave(self) -> None:
        """Finish writing journals, and leave the replicas."""
        with anyio.move_on_after(SETTLE_SECONDS):
            await self._journals.settled()
        await self.peers.leave()

    def share(self, session: Session) -> None:
        """Let a session keep its results, labels and journals in the store, where other replicas find them."""
        app, config = self._app, self._app.loaded.config
        most = None if config.state.blobs is not None else INLINE_BYTES
        results = SessionResults(app.state, session.id, session.results, config.results.idle, most)
        if session.reads is not None:
            idle = config.http.sessions.idle
            results.labels = SessionLabels(
                app.state, session.id, session.reads, self._gathers_labels, idle=idle
            )
        session.results.replicas = results
        journals = SessionSharedJournals(self._journals, session.id)
        session.journals.new_file, session.journals.load = journals.file, journals.load

    def _gathers_labels(self) -> bool:
        door = self._app.chain.door
        return door is not None and door.flow.on
