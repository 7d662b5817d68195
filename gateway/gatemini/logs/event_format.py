"""One line for each event of the log, as text or JSON, without secrets."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from gatemini.config.variables.redaction import Redactor
from gatemini.errors import GateminiError
from gatemini.logs.context import CHAIN, SESSION
from gatemini.text.escape import visible

Form = Literal["text", "json"]

_BACKEND_LOGGERS = ("gatemini.backends.", "gatemini.parts")
"""Loggers whose first argument is the name of a backend."""


def backend_of(record: logging.LogRecord) -> str | None:
    """Return the backend that a record is about, if it is about one."""
    about = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return about if isinstance(about, str) and record.name.startswith(_BACKEND_LOGGERS) else None


class EventFormat(logging.Formatter):
    """Formats time, level, logger and message, and session, chain, backend and the error's code if there are any."""

    def __init__(self, redactor: Redactor, form: Form) -> None:
        super().__init__()
        self._redactor = redactor
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; secrets are replaced before anything is escaped."""
        redact = self._redactor.redact
        message = redact(record.getMessage())
        if record.exc_info:
            message += "\n" + redact(self.formatException(record.exc_info))
        about = {name: redact(value) for name, value in _about(record).items() if value}
        if self._form == "text":
            named = "".join(f" {name}={value}" for name, value in about.items())
            message = visible(message.replace("\n", "\\n"))
            return f"{self.formatTime(record)} {record.levelname} {record.name}{named}: {message}"
        event: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **about,
            "message": message,
        }
        return orjson.dumps(event).decode()


def _about(record: logging.LogRecord) -> dict[str, str | None]:
    error = record.exc_info[1] if record.exc_info else None
    code = error.code if isinstance(error, GateminiError) else getattr(record, "code", None)
    return {"session": SESSION.get(), "chain": CHAIN.get(), "backend": backend_of(record), "code": code}
