"""Statistics: answers and their bytes, calls, latency per backend, uses per tool.

All in memory, and cheap enough for every call. Only the uses per tool outlive the process, in the cache.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from gatemini.model import Json

RECENT_CALLS = 500
ANSWERS_KEPT = 200
BYTES_PER_TOKEN = 4
"""An estimate, labelled as one wherever it is shown."""
LOWEST_US = 1
HIGHEST_US = 600_000_000
"""10 minutes; slower calls count as this."""
_SUB_BUCKETS = 2048
"""Resolution within one power of two: one in 1,024, which is three significant digits."""
_SUB_BITS = 11
PERCENTILES = {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0}
_MAX_USAGE = 10_000_000


class Histogram:
    """High dynamic range histogram (HDR layout) of times from 1 µs to 10 min with three significant digits.

    Our own: hdrhistogram is a C extension for what takes twenty lines.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.total = 0

    def record(self, ms: float) -> None:
        value = min(max(round(ms * 1000), LOWEST_US), HIGHEST_US)
        slot = _slot(value)
        self._counts[slot] = self._counts.get(slot, 0) + 1
        self.total += 1

    def percentile(self, percent: float) -> float:
        """Milliseconds at or below which `percent` of the values lie; 0 when there are none."""
        if not self.total:
            return 0.0
        rank = max(1, -(-self.total * percent // 100))
        seen = 0
        for slot in sorted(self._counts):
            seen += self._counts[slot]
            if seen >= rank:
                return _highest_of(slot) / 1000
        raise AssertionError("counts do not add up to the total")


def _slot(value: int) -> int:
    """The slot of a value: one for each below 2,048 µs, above one for 2, 4, 8 … µs."""
    shift = max(0, value.bit_length() - _SUB_BITS)
    return (shift << _SUB_BITS) | (value >> shift)


def _highest_of(slot: int) -> int:
    shift, sub = slot >> _SUB_BITS, slot & (_SUB_BUCKETS - 1)
    return ((sub + 1) << shift) - 1


@dataclass(slots=True)
class _Totals:
    answers: int = 0
    processed: int = 0
    returned: int = 0

    def add(self, processed: int, returned: int) -> None:
        self.answers += 1
        self.processed += processed
        self.returned += returned


@dataclass(slots=True)
class _Session:
    started: str
    totals: _Totals = field(default_factory=_Totals)
    calls: int = 0
    """Answers to tool calls among the answers."""
    per_tool: dict[str, _Totals] = field(default_factory=dict)


class _Recent(NamedTuple):
    """One call to a backend; turned into JSON only when it is read, so that recording is cheap."""

    tool: str
    backend: str
    when: datetime
    ms: float
    ok: bool
    bytes: int
    session: str | None = None

    def as_json(self) -> Json:
        own = {key: value for key, value in self._asdict().items() if key != "session"}
        return {**own, "when": _stamp(self.when), "ms": round(self.ms, 3)}


class Tracker:
    """The statistics of one process, in total and by session."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_call: Callable[[str], None] = lambda backend: None,
    ) -> None:
        self._clock = clock
        self._now = now
        self._on_call = on_call
        self._born = clock()
        self._all = _Session(_stamp(now()))
        self._sessions: dict[str, _Session] = {}
        self._answers: deque[Json] = deque(maxlen=ANSWERS_KEPT)
        self._recent: deque[_Recent] = deque(maxlen=RECENT_CALLS)
        self._latency: dict[str, Histogram] = {}
        self._users: dict[str, set[str]] = {}
        """Backends, each with the sessions that have called it."""
        self._usage: dict[str, int] = {}
        self._earlier: dict[str, int] = {}
        self._catalog_bytes = 0
        self._order = 0
        self._called = 0
        self._failed = 0

    # ---------------------------------------------------------------------------------------- recording

    def record_call(
        self,
        tool: str,
        backend: str,
        ms: float,
        ok: bool,
        bytes_processed: int = 0,
        session: str | None = None,
    ) -> None:
        """Record one call to a backend; `tool` is the qualified name."""
        self._called += 1
        self._recent.append(_Recent(tool, backend, self._now(), ms, ok, bytes_processed, session))
        latency = self._latency.get(backend)
        if latency is None:
            latency = self._latency[backend] = Histogram()
        latency.record(ms)
        if session is not None:
            self._users.setdefault(backend, set()).add(session)
        if ok:
            self._usage[tool] = self._usage.get(tool, 0) + 1
        else:
            self._failed += 1
        self._on_call(backend)

    def record_answer(
        self, name: str, bytes_processed: int, bytes_returned: int, session: str = "", *, called: bool = True
    ) -> None:
        """Record one answer to a client: the bytes that it was made from, and the bytes that the model gets.

        `called`: it answers a tool call, and not a list, a resource, a prompt or the handshake.
        """
        own = self._sessions.get(session)
        if own is None:
            own = self._sessions[session] = _Session(_stamp(self._now()))
        for counted in (self._all, own):
            counted.totals.add(bytes_processed, bytes_returned)
            counted.calls += called
            counted.per_tool.setdefault(name, _Totals()).add(bytes_processed, bytes_returned)
        self._order += 1
        self._answers.append(
            {
                "n": self._order,
                "tool": name,
                "session": session,
                "when": self._now(),
                "processed": bytes_processed,
                "returned": bytes_returned,
                "context": own.totals.returned,
            }
        )

    def set_catalog_bytes(self, count: int) -> None:
        """Set the size of all tools' full definitions, which a client without a gateway would load."""
        self._catalog_bytes = count

    def end_session(self, session: str) -> None:
        """Drop the counts of a session; the totals keep them."""
        self._sessions.pop(session, None)
        for users in self._users.values():
            users.discard(session)

    @property
    def recorded(self) -> int:
        """Grows with everything recorded, so that a reader can see whether there is something new."""
        return self._order + self._called

    # ------------------------------------------------------------------------------------------ telling

    def stats(self, session: str | None = None) -> Json:
        """The content of `gatemini://stats`, for one session or for all since the start."""
        counted = self._all if session is None else self._sessions.get(session, _Session(_stamp(self._now())))
        totals = counted.totals
        answers = [
            {**entry, "when": _stamp(entry["when"])}
            for entry in self._answers
            if session is None or entry["session"] == session
        ]
        saved = max(0, totals.processed - totals.returned)
        return {
            "started": counted.started,
            "uptime_seconds": round(self._clock() - self._born, 1),
            "total_calls": counted.calls,
            "total_answers": totals.answers,
            "total_bytes_returned": totals.returned,
            "total_bytes_processed": totals.processed,
            "savings_ratio": round(totals.processed / totals.returned, 2) if totals.returned else 0.0,
            "reduction_pct": _percent(saved, totals.processed),
            "estimated_tokens_saved": saved // BYTES_PER_TOKEN,
            "estimate": f"tokens are bytes / {BYTES_PER_TOKEN}",
            "full_tool_list": {
                "bytes": self._catalog_bytes,
                "estimated_tokens": self._catalog_bytes // BYTES_PER_TOKEN,
            },
            "sessions": len(self._sessions),
            "per_tool": [
                {"tool": name, "calls": t.answers, "processed": t.processed, "returned": t.returned}
                for name, t in sorted(counted.per_tool.items())
            ],
            "per_call": answers,
            "backends": {name: self.latency(name) for name in sorted(self._latency)},
        }

    def recent(self, limit: int = 50, session: str | None = None) -> list[Json]:
        """The last calls to backends, newest first; of one session, if it is given."""
        newest = [call for call in reversed(self._recent) if session is None or call.session == session]
        return [call.as_json() for call in newest[: max(0, limit)]]

    def load(self, seconds: float) -> Json:
        """Calls to backends and failed ones since the start, p95 of the calls of the last `seconds`, tokens saved."""
        since = self._now() - timedelta(seconds=seconds)
        latest = Histogram()
        for call in self._recent:
            if call.when >= since:
                latest.record(call.ms)
        totals = self._all.totals
        return {
            "calls": self._called,
            "failed": self._failed,
            "p95_ms": round(latest.percentile(95.0), 3),
            "answers": totals.answers,
            "estimated_tokens_saved": max(0, totals.processed - totals.returned) // BYTES_PER_TOKEN,
        }

    def users(self, backend: str) -> int:
        """How many sessions have called a backend and have not ended."""
        return len(self._users.get(backend, ()))

    def used_by(self, session: str) -> list[str]:
        """The backends that a session has called."""
        return sorted(backend for backend, sessions in self._users.items() if session in sessions)

    def latency(self, backend: str) -> Json:
        """`{"calls", "p50_ms", "p95_ms", "p99_ms"}`; zeros before the first call."""
        histogram = self._latency.get(backend, Histogram())
        return {
            "calls": histogram.total,
            **{name: round(histogram.percentile(at), 3) for name, at in PERCENTILES.items()},
        }

    # -------------------------------------------------------------------------------------------- usage

    @property
    def usage(self) -> Mapping[str, int]:
        """Successful uses by qualified tool name, earlier processes included; ranks search results."""
        return self._usage

    def dump_usage(self) -> dict[str, int]:
        return dict(self._usage)

    def own_usage(self) -> dict[str, int]:
        """The uses of this process alone; the cache adds those of other configurations."""
        own = {tool: uses - self._earlier.get(tool, 0) for tool, uses in self._usage.items()}
        return {tool: uses for tool, uses in own.items() if uses}

    def load_usage(self, saved: Mapping[str, Any]) -> None:
        """Add the counts of earlier processes; implausible ones are left out."""
        for tool, uses in saved.items():
            if isinstance(tool, str) and type(uses) is int and 0 < uses <= _MAX_USAGE:
                self._usage[tool] = self._usage.get(tool, 0) + uses
                self._earlier[tool] = self._earlier.get(tool, 0) + uses

    def set_usage(self, totals: Mapping[str, int]) -> None:
        """Replace the counts by those of all replicas, in which the uses of this process are included."""
        own = self.own_usage()
        self._usage = {tool: max(totals.get(tool, 0), own.get(tool, 0)) for tool in {*totals, *own}}
        self._earlier = {tool: uses - own.get(tool, 0) for tool, uses in self._usage.items()}


def _percent(part: int, whole: int) -> float:
    """Rounded to one decimal, but 100 only if it is exactly all."""
    return min(round(100 * part / whole, 1), 100.0 if part == whole else 99.9) if whole else 0.0


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
