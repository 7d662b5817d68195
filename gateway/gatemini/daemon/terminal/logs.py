"""The daemon's log: levels that hold for a while, and a file for what each backend writes to stderr."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from gatemini.backends.transports.stdio import STDERR_LOG
from gatemini.config.variables.redaction import RedactingFormatter, Redactor
from gatemini.logs.event_format import backend_of
from gatemini.logs.flood import SECONDS, Flood
from gatemini.logs.rotating_file import RotatingFile
from gatemini.proxy.places import Place

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
    return backend_of(record) == part.removeprefix(_BACKEND)


class BackendStderr(logging.Handler):
    """Appends the lines of each backend's stderr to a file of its own, private and without secrets."""

    def __init__(self, place: Place, redactor: Redactor) -> None:
        super().__init__()
        self._place = place
        self._files: dict[str, RotatingFile] = {}
        self._flood = Flood()
        self.setFormatter(RedactingFormatter(redactor, "%(asctime)s %(message)s"))

    def attach(self) -> None:
        STDERR_LOG.addHandler(self)
        STDERR_LOG.setLevel(logging.DEBUG)
        STDERR_LOG.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, unless the backend writes too many; a full disk must not end it."""
        name, text = record.args  # type: ignore[misc] # as stdio.py logs them
        with suppress(OSError):
            for backend, count in self._flood.dropped():
                self._write(backend, f"({count} further lines within {SECONDS:g} s were dropped)")
            if self._flood.takes(str(name)):
                self._write(str(name), str(text))

    def _write(self, backend: str, text: str) -> None:
        if backend not in self._files:
            self._files[backend] = RotatingFile(self._place.stderr(backend), limit=STDERR_BYTES, keep=1)
        self._files[backend].append(self.format(logging.makeLogRecord({"msg": "%s", "args": (text,)})))
