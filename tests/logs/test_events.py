"""Each event is one line with what it is about, without secrets; a flood is cut and counted."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from gatemini.config.variables.redaction import Redactor
from gatemini.errors import BackendNotFound
from gatemini.logs.context import CHAIN, SESSION, logged_as
from gatemini.logs.event_format import EventFormat, Form
from gatemini.logs.flood import LINES, Flood
from gatemini.logs.log_file import LogFile
from gatemini.logs.rotating_file import RotatingFile

SECRET = 'quo"ted-secret\nwith a line'


def record(
    text: str, *about: Any, name: str = "gatemini.backends.actor", error: bool = False
) -> logging.LogRecord:
    info: Any = None
    if error:
        try:
            raise BackendNotFound(f"no {SECRET}")
        except BackendNotFound:
            info = sys.exc_info()
    return logging.LogRecord(name, logging.WARNING, "", 0, text, about, info)


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_event_is_one_line_without_secrets(form: Form) -> None:
    format_ = EventFormat(Redactor([("KEY", SECRET)]), form)
    line = format_.format(record("%s said\r\n\x1b[2J" + SECRET, "shop", error=True))
    assert line.isprintable()
    assert "quo" not in line
    assert "with a line" not in line
    assert "«secret KEY»" in line


def test_a_json_event_names_what_it_is_about() -> None:
    with logged_as(SESSION, "s1"), logged_as(CHAIN, "c1"):
        event = json.loads(EventFormat(Redactor(), "json").format(record("%s is gone", "shop", error=True)))
    about = {name: event[name] for name in ("level", "logger", "session", "chain", "backend", "code")}
    assert about == {
        "level": "warning",
        "logger": "gatemini.backends.actor",
        "session": "s1",
        "chain": "c1",
        "backend": "shop",
        "code": "backend.not_found",
    }
    assert "session" not in json.loads(EventFormat(Redactor(), "json").format(record("%s is gone", "shop")))


def test_a_flood_of_one_source_is_cut_and_counted_and_others_are_heard(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogFile(RotatingFile(str(path), limit=10 << 20, keep=1))
    log.setFormatter(EventFormat(Redactor(), "text"))
    for _ in range(LINES + 300):
        log.emit(record("%s is mad", "mad"))
    log.emit(record("%s is heard", "quiet"))
    log.close()
    lines = path.read_text().splitlines()
    assert sum("is mad" in line for line in lines) == LINES
    assert "quiet is heard" in lines[LINES]
    assert "300 further lines of gatemini.backends.actor (mad)" in lines[-1]


def test_a_source_is_heard_again_after_the_time_of_a_flood() -> None:
    now = [0.0]
    flood = Flood(lambda: now[0])
    assert list(flood.dropped()) == []
    assert [flood.takes("a") for _ in range(LINES + 2)].count(False) == 2
    now[0] = 6.0
    assert list(flood.dropped()) == [("a", 2)]
    assert flood.takes("a")
