"""What a client may see of the gateway (`View`), and its backends and their health as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gatemini.backends.status import BackendStatus
from gatemini.discovery.types.wording import visible
from gatemini.model import Json
from gatemini.output.results import ResultStore
from gatemini.output.room import Room
from gatemini.protocol.answers.fitting import fit_names, shown, size_of
from gatemini.protocol.budgets import UNKNOWN
from gatemini.registry import Registry
from gatemini.tracker import Tracker

NOTE_BYTES = 200
"""Reserved for a note on what was cut."""
_LINES_SHOWN = (None, 5, 1, 0)
"""Lines of stderr and repairs per backend in `gatemini://health`: the next number is tried while all does not fit."""


@dataclass(frozen=True, slots=True)
class View:
    """Everything that resources and prompts are made from; reading changes nothing."""

    registry: Registry
    statuses: Sequence[BackendStatus]
    numbers: Tracker
    results: ResultStore
    problems: Sequence[str] = ()
    """Problems of the configuration, one sentence each."""
    catalog_bytes: int = 0
    redact: Callable[[str], str] | None = None
    """Removes secrets from a text before a part of it is shown: half a secret is one too."""
    room: Room = UNKNOWN.result
    """Size of a result that the client takes, and of any resource."""


def backend_rows(view: View) -> list[Json]:
    """Return one row per backend, by name: state, tools, latency, calls."""
    statuses = {status.name: status for status in view.statuses}
    return [backend_row(view, name, statuses.get(name)) for name in backend_names(view)]


def backend_row(view: View, name: str, status: BackendStatus | None) -> Json:
    latency = view.numbers.latency(name)
    row: Json = {
        "name": visible(name),
        "state": str(status.state) if status is not None else "unknown",
        "available": _is_available(status),
        "transport": status.transport if status is not None else None,
        "tools": len(view.registry.backend_tools(name)),
        "calls": latency.get("calls", 0),
        "p50_ms": latency.get("p50_ms"),
        "p95_ms": latency.get("p95_ms"),
    }
    if status is not None and status.error:
        row["error"] = visible(status.error, lines=True)
        if status.remedy:
            row["remedy"] = visible(status.remedy)
    return row


def _is_available(status: BackendStatus | None) -> bool:
    return status is not None and str(status.state) == "healthy"


def health(view: View) -> str:
    """Return the health of all backends; where that is too long, fewer lines of stderr, then only backends in trouble."""
    room = view.room.plain
    problems = [visible(problem, lines=True) for problem in view.problems]
    first = fit_names(problems, room // 2)
    some = f"{len(first)} of {len(problems)} config_problems: `gatemini config check` has all"
    body: Json = {}
    for lines in _LINES_SHOWN:
        rows = {visible(status.name): _health_row(status, lines) for status in view.statuses}
        body = {"backends": rows, "config_problems": first}
        notes = [some] if len(first) < len(problems) else []
        if lines is not None:
            notes.append(f"stderr and repairs: the last {lines} of each backend; `gatemini doctor` has more")
        if notes:
            body["note"] = "; ".join(notes)
        if size_of(body) <= room:
            return as_json(body)
    ranked = sorted(rows.items(), key=lambda pair: pair[1]["state"] == "healthy")
    kept = fit_names(ranked, room - size_of({**body, "backends": {}}) - NOTE_BYTES)
    body["backends"] = dict(kept)
    body["note"] += (
        f"; {len(kept)} of {len(rows)} backends, those in trouble first: gatemini://backends has all"
    )
    return as_json(body)


def _last(lines: Sequence[str], count: int | None) -> list[str]:
    start = 0 if count is None else max(0, len(lines) - count)
    return [visible(line) for line in lines[start:]]


def _health_row(status: BackendStatus, lines: int | None) -> Json:
    return {
        "state": str(status.state),
        "error": visible(status.error, lines=True) if status.error else None,
        "remedy": visible(status.remedy) if status.remedy else None,
        "pid": status.pid,
        "rss_bytes": status.rss,
        "peak_rss_bytes": status.peak_rss,
        "memory_limit_mb": status.max_memory_mb,
        "restarts": status.restarts,
        "repairs": _last(status.repairs, lines),
        "skipped_lines": status.skipped_lines,
        "stderr": _last(status.stderr_tail, lines),
    }


def backend_names(view: View) -> list[str]:
    return sorted({status.name for status in view.statuses} | set(view.registry.backends()))


def as_json(value: Any) -> str:
    return _dump(value).decode()


def _dump(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates and integers beyond 64 bits
        return orjson.dumps(shown(value), default=str)
