"""What a gateway counted, in one small private file for each gateway, so that `gatemini stats` and `recent` can read it.

A file has names of tools, times and byte counts; no argument, no result, no secret.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field

from gatemini.model import Json
from gatemini.upkeep.process_records import ProcessRecord, RecordFiles

KIND = "gateway"
USAGE_KEPT = 500
"""Tools whose use is written, the most used first."""
NAME_CHARS = 200
"""Of a tool's name; longer ones are cut, so that the file stays small whatever a backend calls its tools."""

logger = logging.getLogger(__name__)


class Account(ProcessRecord):
    """One gateway's account. `config` is the file it serves, None for the demo; `client` its client's name."""

    config: str | None = None
    client: str | None = None
    stats: dict[str, Any]
    recent: list[dict[str, Any]] = Field(default_factory=list)
    backends: list[dict[str, Any]] = Field(default_factory=list)
    usage: dict[str, int] = Field(default_factory=dict)

    def last_active(self) -> str:
        """Return when it last answered or called."""
        times = [str(row.get("when", "")) for row in (*self.stats.get("per_call", ())[-1:], *self.recent[:1])]
        return max([str(self.stats.get("started", "")), *times])


class AccountBook:
    """The folder of accounts; this process writes one of them."""

    def __init__(self, folder: Path) -> None:
        self._files = RecordFiles(folder, KIND, Account)

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
        """Write this gateway's account as a whole (mode 0600); return False where it cannot."""
        body = {
            "pid": os.getpid(),
            "process_started": self._files.started,
            "ended": ended,
            "config": config,
            "client": client[:NAME_CHARS] if client else None,
            "stats": stats,
            "recent": [{**row, "tool": str(row["tool"])[:NAME_CHARS]} for row in recent],
            "backends": list(backends),
            "usage": dict(sorted(usage.items(), key=lambda pair: -pair[1])[:USAGE_KEPT]),
        }
        try:
            self._files.write(orjson.dumps(body, default=str))
        except (OSError, TypeError) as error:
            logger.warning("the account in %s could not be written: %s", self._files.folder, error)
            return False
        return True


def read_accounts(folder: Path) -> list[Account]:
    """Return every readable account, the latest activity first."""
    return RecordFiles(folder, KIND, Account).read()
