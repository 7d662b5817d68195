"""Levels of parts of the log hold for their time, and are those of the configuration otherwise."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from gatemini.daemon.terminal.logs import Levels


@pytest.fixture
def root_level() -> Iterator[None]:
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def record(logger: str, level: int, *about: object) -> logging.LogRecord:
    return logging.LogRecord(logger, level, "", 0, "%s", about, None)


@pytest.mark.usefixtures("root_level")
def test_a_level_of_one_backend_or_part_ends_by_itself() -> None:
    now = [0.0]
    levels = Levels(lambda: now[0])
    levels.set_base("warning")
    of_shop = record("gatemini.backends.actor", logging.DEBUG, "shop")
    of_clock = record("gatemini.backends.actor", logging.DEBUG, "clock")
    of_daemon = record("gatemini.daemon.server", logging.INFO)
    assert not any(map(levels.filter, (of_shop, of_clock, of_daemon)))
    levels.set("backend.shop", "debug", 60)
    levels.set("daemon", "info", 10)
    assert [levels.filter(each) for each in (of_shop, of_clock, of_daemon)] == [True, False, True]
    assert logging.getLogger().level == logging.DEBUG
    now[0] = 30
    levels.expire()
    assert [levels.filter(each) for each in (of_shop, of_daemon)] == [True, False]
    now[0] = 61
    assert not levels.filter(of_shop)
    levels.expire()
    assert logging.getLogger().level == logging.WARNING
    levels.set("daemon", "error", 10)
    assert not levels.filter(record("gatemini.daemon.server", logging.WARNING))
    assert levels.filter(record("gatemini.config.load", logging.WARNING))
