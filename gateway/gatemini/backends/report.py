"""The status of a backend, from what its owner task knows."""

from __future__ import annotations

from gatemini.backends.actor import Backend
from gatemini.backends.calls.failures import remedy_of
from gatemini.backends.status import BackendStatus


def status_of(backend: Backend) -> BackendStatus:
    """A snapshot of the backend as it is now."""
    facts, link, session, error = backend.facts, backend.link, backend.session, backend.error
    return BackendStatus(
        name=backend.config.name,
        state=backend.state,
        transport=backend.config.transport,
        dynamic=backend.dynamic,
        era=backend.era,
        protocol_version=facts.protocol_version if facts else None,
        server_info=facts.server_info if facts else None,
        instructions=facts.instructions if facts else None,
        capabilities=facts.capabilities if facts else {},
        pid=backend.pid,
        tools=len(backend.tools),
        error=error.message if error else None,
        remedy=remedy_of(error),
        stderr_tail=backend.stderr_tail(),
        repairs=list(backend.repairs),
        skipped_lines=backend.skipped + (link.skipped if link else 0),
        stray_replies=backend.stray + (session.peer.stray if session else 0),
        restarts=backend.restarts.total,
        calls_open=backend.limits.open,
        rss=backend.memory.rss,
        peak_rss=backend.memory.peak,
        max_memory_mb=backend.config.max_memory_mb,
        circuit=backend.breaker.circuit,
        since=backend.since,
    )
