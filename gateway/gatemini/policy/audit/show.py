"""Read records of an audit log, and choose among them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from gatemini.config.model.values.durations import seconds_of
from gatemini.policy.audit.record import is_too_deep, lines_of


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are wanted; None of a field takes all. `tool` is a glob, `since` an ISO time in UTC."""

    tool: str | None = None
    session: str | None = None
    kind: str | None = None
    since: str | None = None

    def takes(self, record: dict[str, Any]) -> bool:
        """Whether the record is wanted."""
        return (
            (self.kind is None or record.get("kind") == self.kind)
            and (self.session is None or record.get("session") == self.session)
            and (self.since is None or str(record.get("time", "")) >= self.since)
            and (self.tool is None or fnmatch.fnmatchcase(str(record.get("tool", "")), self.tool))
        )


def since(text: str, now: datetime) -> str:
    """Return the time that `1h` or an ISO time means, as records write it. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        moment = now - timedelta(seconds=seconds_of(text))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")


def records(files: Iterable[Path], wanted: Filter = Filter()) -> Iterator[dict[str, Any]]:
    """Yield the records of these files in their order; lines that are none are left to `verify`."""
    for path in files:
        with path.open("rb") as file:
            for line in lines_of(file):
                if not line.endswith(b"\n") or is_too_deep(line):
                    continue  # a piece of a line, or one that no program prints
                try:
                    record = orjson.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict) and wanted.takes(record):
                    yield record
