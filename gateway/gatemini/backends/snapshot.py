"""The status of backends, and the memory of their processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import anyio

from gatemini.backends.actor import Backend
from gatemini.backends.calls.failures import remedy_of
from gatemini.backends.status import BackendStatus
from gatemini.processes.process_facts import resident_sizes

logger = logging.getLogger(__name__)


def status_of(backend: Backend) -> BackendStatus:
    """A snapshot of the backend as it is now."""
    facts, link, session, error = backend.facts, backend.link, backend.session, backend.error
    return BackendStatus(
        name=backend.config.name,
        state=backend.state,
        transport=backend.config.transport,
        era=backend.era,
        protocol_version=facts.protocol_version if facts else None,
        server_info=facts.server_info if facts else None,
        instructions=facts.instructions if facts else None,
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
        offers=tuple(backend.offers),
        login=backend.login.facts if backend.login is not None else None,
    )


async def measure_memory(backends: Iterable[Backend]) -> None:
    """Measure the processes of all backends in one pass, on a worker thread; those over their limit restart."""
    pids = {b.pid: b for b in backends if b.pid is not None}
    if pids:
        sizes = await anyio.to_thread.run_sync(resident_sizes, list(pids))
        for pid, backend in pids.items():
            if pid in sizes and backend.pid == pid:
                _sampled(backend, sizes[pid])


def _sampled(backend: Backend, rss: int) -> None:
    """Take the measured resident bytes of a backend's processes, and warn or restart it."""
    verdict = backend.memory.sample(rss, anyio.current_time())
    if backend.session is None:  # it is being restarted already
        return
    text = f"it uses {rss >> 20} MB, max_memory_mb is {backend.config.max_memory_mb}"
    if verdict == "restart":
        backend.restart(text)
    elif verdict != "ok":
        logger.warning("%s: %s", backend.config.name, text)


async def watch_memory(seconds: float, running: Callable[[], Iterable[Backend]]) -> None:
    """Measure the memory of the backends that run, again and again."""
    while True:
        await anyio.sleep(seconds)
        await measure_memory(running())
