"""The daemon's log: levels that hold for a while, and a file for what each backend writes to stderr."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress

from gatemini.backends.transports.stdio import STDERR_LOG
from gatemini.config.variables.redaction import RedactingFormatter, Redactor
from gatemini.proxy.places import Place, private_opener

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
STDERR_BYTES = 1 << 20
"""A longer file of a backend becomes `.1`, which an earlier one makes way for."""
PARTS = (
    "app",
    "backends",
    "chain",
    "config",
    "daemon",
    "discovery",
    "output",
    "policy",
    "processes",
    "protocol",
    "upkeep",
)
"""Parts of this package that log in a daemon: each can have a level of its own, as `backend.NAME` can."""
_BACKEND = "backend."
_OF_BACKENDS = ("gatemini.backends.", "gatemini.app")
"""Loggers whose first argument is the name of a backend."""


class Levels(logging.Filter):
    """Lets records of some parts through at a level of their own until a time; others at that of the configuration."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._base = logging.INFO
        self._own: dict[str, tuple[int, float]] = {}

    def set_base(self, level: str) -> None:
        """Set the level of the configuration."""
        self._base = logging.getLevelNamesMapping()[level.upper()]
        self.expire()

    def set(self, part: str, level: str, seconds: float) -> None:
        self._own[part] = (logging.getLevelNamesMapping()[level.upper()], self._clock() + seconds)
        self.expire()

    def expire(self) -> None:
        """Forget levels whose time is over. Records below all levels are not even made."""
        now = self._clock()
        self._own = {part: held for part, held in self._own.items() if held[1] > now}
        logging.getLogger().setLevel(min([self._base, *(level for level, _ in self._own.values())]))

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        levels = [level for part, (level, end) in self._own.items() if end > now and _is_of(record, part)]
        return record.levelno >= min(levels, default=self._base)


def _is_of(record: logging.LogRecord, part: str) -> bool:
    if not part.startswith(_BACKEND):
        return record.name == f"gatemini.{part}" or record.name.startswith(f"gatemini.{part}.")
    about = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return record.name.startswith(_OF_BACKENDS) and about == part.removeprefix(_BACKEND)


class BackendStderr(logging.Handler):
    """Appends the lines of each backend's stderr to a file of its own, private and without secrets."""

    def __init__(self, place: Place, redactor: Redactor) -> None:
        super().__init__()
        self._place = place
        self.setFormatter(RedactingFormatter(redactor, "%(asctime)s %(message)s"))

    def attach(self) -> None:
        STDERR_LOG.addHandler(self)
        STDERR_LOG.setLevel(logging.DEBUG)
        STDERR_LOG.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        name, text = record.args  # type: ignore[misc] # as stdio.py logs them
        path = self._place.stderr(str(name))
        line = logging.makeLogRecord({**vars(record), "msg": "%s", "args": (text,)})
        with suppress(OSError):  # a full disk must not end a backend
            with suppress(FileNotFoundError):
                if os.path.getsize(path) > STDERR_BYTES:
                    os.replace(path, f"{path}.1")
            with open(path, "a", encoding="utf-8", errors="replace", opener=private_opener) as file:
                file.write(self.format(line) + "\n")
