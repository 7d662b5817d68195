"""The handlers that write the log of a serving gateway."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from gatemini.config.model.log import LogConfig
from gatemini.config.variables.redaction import Redactor, start_log
from gatemini.folders import state_folder
from gatemini.logs.event_format import EventFormat, backend_of
from gatemini.logs.flood import SECONDS, Flood
from gatemini.logs.rotating_file import RotatingFile
from gatemini.proxy.places import LOG_GOES_ON

logger = logging.getLogger(__name__)


class LogFile(logging.Handler):
    """Writes each event as one line, as far as `Flood` takes it."""

    def __init__(self, file: RotatingFile) -> None:
        super().__init__()
        self.file = file
        self._flood = Flood()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. A full disk loses it and ends nothing."""
        with suppress(OSError):
            self._note_dropped()
            if self._flood.takes(_source(record)):
                self.file.append(self.format(record))

    def reopen(self) -> None:
        """Open the path again, which may name another file now."""
        self.acquire()
        try:
            self.file.reopen()
        finally:
            self.release()

    def close(self) -> None:
        with suppress(OSError):
            self._note_dropped(closing=True)
        self.file.close()
        super().close()

    def _note_dropped(self, *, closing: bool = False) -> None:
        for source, count in self._flood.dropped(closing=closing):
            note = f"{count} further lines of {source} within {SECONDS:g} s were dropped"
            self.file.append(
                self.format(logging.LogRecord(__name__, logging.WARNING, "", 0, note, None, None))
            )


def _source(record: logging.LogRecord) -> str:
    backend = backend_of(record)
    return f"{record.name} ({backend})" if backend else record.name


class GatewayLog:
    """The log of this process: to `streams` and to a file, as far as there is one."""

    def __init__(
        self,
        redactor: Redactor,
        form: str,
        *streams: logging.Handler,
        own: RotatingFile | None = None,
        level: logging.Filter | None = None,
    ) -> None:
        """`own` is a file that the process writes until `follow` names another; `level` filters each record."""
        self._redactor = redactor
        self._streams = streams
        self._level = level
        self.file = self._own = LogFile(own) if own is not None else None
        start_log(redactor, form, *streams, *self._files())
        for handler in (*streams, *self._files()):
            self._prepare(handler)
        if self.file is not None:
            self.file.setFormatter(EventFormat(redactor, "text"))

    @property
    def path(self) -> str | None:
        """The file that is written now, None where only stderr is."""
        return self.file.file.path if self.file is not None else None

    def follow(self, config: LogConfig) -> None:
        """Log as the configuration says. If its file cannot be written, log that and keep the present one."""
        path = log_path(config)
        if path is not None:
            self._go_on_in(path, config)
        elif self.file is not None:
            self.file.file.limit, self.file.file.keep = _bytes(config), config.keep
        if config.format == "json":
            for handler in (*self._streams, *self._files()):
                handler.setFormatter(EventFormat(self._redactor, "json"))

    def _go_on_in(self, path: Path, config: LogConfig) -> None:
        opened = LogFile(RotatingFile(str(path), limit=_bytes(config), keep=config.keep))
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened.reopen()
        except OSError as error:
            logger.error("log.file: %s cannot be written: %s", path, error.strerror)
            return
        logger.info("%s%s", LOG_GOES_ON, path)
        opened.setFormatter(EventFormat(self._redactor, "text"))
        self._prepare(opened)
        logging.getLogger().addHandler(opened)
        if self.file is not None:
            logging.getLogger().removeHandler(self.file)
        self.file = opened

    def reopen(self) -> bool:
        """Open the file again, which a program such as logrotate has renamed; False if only a terminal shows the log."""
        if self.file is None or (self._streams and self.file is self._own):
            return False
        with suppress(OSError):
            self.file.reopen()
        return True

    def _files(self) -> list[LogFile]:
        return [self.file] if self.file is not None else []

    def _prepare(self, handler: logging.Handler) -> None:
        if self._level is not None:
            handler.addFilter(self._level)


def log_path(config: LogConfig) -> Path | None:
    """Return the configured file; a relative one is in the state folder."""
    return state_folder() / config.file if config.file is not None else None


def _bytes(config: LogConfig) -> int:
    return int(config.rotate_mb * (1 << 20))
