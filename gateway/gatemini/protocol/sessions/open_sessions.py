"""The sessions of one gateway that are open: how one begins, and what ends with it."""

from __future__ import annotations

from collections.abc import Callable

from gatemini.protocol.sessions.client_session import Session


class OpenSessions:
    """Sessions from `begin` to `end`."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        """Drops what is kept elsewhere for the session of this id."""
        self._open: list[Session] = []
        self._last_client: str | None = None

    def begin(self, session: Session) -> None:
        self._open.append(session)

    def end(self, session: Session) -> None:
        """Drop all that is kept for the session."""
        self._on_end(session.id)
        session.close()
        self._open.remove(session)
        self._last_client = session.client or self._last_client

    def close(self) -> None:
        """Close what the sessions hold, at the end of the gateway."""
        for session in self._open:
            session.close()

    def latest_client(self) -> str | None:
        """Return the name of the connected client that connected last; if none is, of the one that left last."""
        clients = [self._last_client, *(session.client for session in self._open)]
        return next((name for name in reversed(clients) if name), None)
