"""What a client may see of the gateway (`View`), and its backends and their health as JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from gatemini.backends.status import BackendStatus
from gatemini.model import Json, Tool
from gatemini.output.store.results import ResultStore
from gatemini.policy.client_grant import may_reach
from gatemini.policy.principal import Principal
from gatemini.protocol.answers.backend_facts import NO_FACTS, Facts
from gatemini.protocol.answers.fitting import fit_names, shown, size_of
from gatemini.protocol.sessions.budgets import UNKNOWN
from gatemini.registry import Registry
from gatemini.text.escape import visible
from gatemini.text.size_limit import SizeLimit
from gatemini.tracker import Tracker

DISABLED = "disabled"
"""State of a configured backend that is not started."""
NOTE_BYTES = 200
"""Reserved for a note on what was cut."""


@dataclass(frozen=True, slots=True)
class View:
    """Everything that resources and prompts are made from; reading changes nothing."""

    registry: Registry
    statuses: Sequence[BackendStatus]
    numbers: Tracker
    results: ResultStore
    problems: Sequence[str] = ()
    """Problems of the configuration, one sentence each."""
    disabled: Mapping[str, str] = field(default_factory=dict)
    """Configured backends that are not started, each with the reason."""
    facts: Facts = NO_FACTS
    catalog_bytes: int = 0
    redact: Callable[[str], str] | None = None
    """Removes secrets from a text before a part of it is shown: half a secret is one too."""
    room: SizeLimit = UNKNOWN.result
    """Size of a result that the client takes, and of any resource."""
    shows: Callable[[Tool], bool] | None = None
    """Whether the client finds a tool, resource or prompt of a backend; `registry` holds only tools that it finds."""
    hidden: Collection[str] = frozenset()
    """Names of the tools that the client does not find; what others have called is left out by them."""
    own: str | None = None
    """The session of which alone calls and answers are shown; None: those of all."""


def seen_by(who: Principal, session: str, view: View, everything: Registry) -> View:
    """Return what a client may see of a view: over HTTP its own calls, and no backend that it cannot reach."""
    if who.transport != "http":
        return view
    hidden = {
        name
        for name in everything.backends()
        if everything.backend_tools(name) and not view.registry.backend_tools(name)
    }
    statuses = [
        status for status in view.statuses if status.name not in hidden and may_reach(who.grant, status.name)
    ]
    if who.grant is None:
        return replace(view, statuses=statuses, own=session)
    return replace(view, statuses=statuses, own=session, problems=(), disabled={})


def sees_backend(who: Principal, name: str, shown: Registry, everything: Registry) -> bool:
    """Whether a client is told that there is this backend: over HTTP, only if it could call something of it."""
    if who.transport != "http" or shown.backend_tools(name):
        return True
    return not everything.backend_tools(name) and may_reach(who.grant, name)


def backend_rows(view: View) -> list[Json]:
    """Return one row per backend, by name: state, tools, latency, calls."""
    statuses = {status.name: status for status in view.statuses}
    return [backend_row(view, name, statuses.get(name)) for name in backend_names(view)]


def backend_row(view: View, name: str, status: BackendStatus | None) -> Json:
    latency = view.numbers.latency(name)
    off = view.disabled.get(name) if status is None else None
    row: Json = {
        "name": visible(name),
        "state": str(status.state) if status is not None else DISABLED if off is not None else "unknown",
        "available": status is not None and str(status.state) == "healthy",
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
    if status is not None and status.login is not None:
        row["login"] = status.login
    if off is not None:
        row["error"] = visible(off, lines=True)
    return row


def health(view: View) -> str:
    """Return the health of all backends; where that is too long, without stderr and repairs, and only what fits."""
    room = view.room.plain
    problems = [visible(problem, lines=True) for problem in view.problems]
    first = fit_names(problems, room // 2)
    notes: list[str] = []
    if len(first) < len(problems):
        notes.append(f"{len(first)} of {len(problems)} config_problems: `gatemini config check` has all")
    off = {
        name: {"state": DISABLED, "error": visible(why, lines=True)} for name, why in view.disabled.items()
    }
    rows: dict[str, Json] = {visible(name): row for name, row in off.items()}
    rows |= {visible(status.name): _health_row(status) for status in view.statuses}
    body: Json = {"backends": rows, "config_problems": first}
    if size_of(body) > room - NOTE_BYTES:
        ranked = sorted(rows.items(), key=lambda pair: pair[1]["state"] == "healthy")
        short = [(name, row | {"repairs": [], "stderr": []}) for name, row in ranked]
        kept = fit_names(short, room - size_of({**body, "backends": {}}) - NOTE_BYTES)
        body["backends"] = dict(kept)
        notes.append(
            f"{len(kept)} of {len(rows)} backends, without stderr and repairs: `gatemini doctor` has more"
        )
    return as_json(body | ({"note": "; ".join(notes)} if notes else {}))


def _health_row(status: BackendStatus) -> Json:
    return {
        "state": str(status.state),
        "error": visible(status.error, lines=True) if status.error else None,
        "remedy": visible(status.remedy) if status.remedy else None,
        "pid": status.pid,
        "rss_bytes": status.rss,
        "peak_rss_bytes": status.peak_rss,
        "memory_limit_mb": status.max_memory_mb,
        "restarts": status.restarts,
        "repairs": list(map(visible, status.repairs)),
        "skipped_lines": status.skipped_lines,
        "stderr": list(map(visible, status.stderr_tail)),
    }


def backend_names(view: View) -> list[str]:
    listed = view.registry.backends()
    if view.own is not None:
        listed = [name for name in listed if view.registry.backend_tools(name)]
    return sorted({s.name for s in view.statuses} | set(listed) | set(view.disabled))


def as_json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # lone surrogates and integers beyond 64 bits
        return orjson.dumps(shown(value), default=str).decode()
