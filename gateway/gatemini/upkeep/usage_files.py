"""What a gateway counted, in one small private file for each gateway, so that `gatemini stats` and `recent` can read it.

A file has names of tools, times and byte counts; no argument, no result, no secret.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gatemini.model import Json
from gatemini.processes.own_files import read_own, replace_own
from gatemini.processes.process_facts import same_process, start_time

FILES_KEPT = 20
"""Accounts of gateways that have ended; the oldest go when another gateway writes its first."""
MAX_BYTES = 1 << 20
"""A larger file is not ours; 200 answers and 500 calls take about 150 KB."""
USAGE_KEPT = 500
"""Tools whose use is written, the most used first."""
NAME_CHARS = 200
"""Of a tool's name; longer ones are cut, so that the file stays small whatever a backend calls its tools."""

logger = logging.getLogger(__name__)


class Account(BaseModel):
    """One gateway's account. `config` is the file it serves, None for the demo; `client` its client's name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pid: int
    process_started: float
    ended: bool = False
    config: str | None = None
    client: str | None = None
    stats: dict[str, Any]
    recent: list[dict[str, Any]] = Field(default_factory=list)
    backends: list[dict[str, Any]] = Field(default_factory=list)
    usage: dict[str, int] = Field(default_factory=dict)

    @property
    def running(self) -> bool:
        return not self.ended and same_process(self.pid, self.process_started)

    @property
    def last(self) -> str:
        """When it last answered or called; sorts as text."""
        times = [str(row.get("when", "")) for row in (*self.stats.get("per_call", ())[-1:], *self.recent[:1])]
        return max([str(self.stats.get("started", "")), *times])


class AccountBook:
    """The folder of accounts; this process writes one of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = start_time(os.getpid())
        self._path = _path(folder, os.getpid(), self._started)
        self._written = False

    def write(
        self,
        *,
        config: str | None,
        client: str | None,
        stats: Json,
        recent: Sequence[Json],
        backends: Sequence[Json],
        usage: dict[str, int],
        ended: bool,
    ) -> bool:
        """Writes this gateway's account as a whole (mode 0600). False where it cannot."""
        body = {
            "pid": os.getpid(),
            "process_started": self._started,
            "ended": ended,
            "config": config,
            "client": client[:NAME_CHARS] if client else None,
            "stats": stats,
            "recent": [{**row, "tool": str(row["tool"])[:NAME_CHARS]} for row in recent],
            "backends": list(backends),
            "usage": dict(sorted(usage.items(), key=lambda pair: -pair[1])[:USAGE_KEPT]),
        }
        try:
            replace_own(self._path, orjson.dumps(body, default=str))
        except (OSError, TypeError) as error:
            logger.warning("the account %s could not be written: %s", self._path, error)
            return False
        if not self._written:
            self._written = True
            self._prune()
        return True

    def _prune(self) -> None:
        """Forgets the oldest accounts of gateways that are gone."""
        ended = sorted((a for a in read_accounts(self.folder) if not a.running), key=lambda a: a.last)
        for account in ended[: max(0, len(ended) - FILES_KEPT)]:
            path = _path(self.folder, account.pid, account.process_started)
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _path(folder: Path, pid: int, started: float) -> Path:
    return folder / f"gateway-{pid}-{round(started * 1000)}.json"


def read_accounts(folder: Path) -> list[Account]:
    """Every readable account, newest activity first; files that hold something else are left alone."""
    found: list[Account] = []
    try:
        paths = sorted(folder.glob("gateway-*.json"))
    except OSError:
        return []
    for path in paths:
        try:
            found.append(Account.model_validate_json(read_own(path, MAX_BYTES)))
        except (OSError, ValidationError):
            continue  # removed meanwhile, or not ours
    return sorted(found, key=lambda account: account.last, reverse=True)
