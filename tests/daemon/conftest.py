"""One runtime folder a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.daemons import Home
from fixtures.daemons import home as made


@pytest.fixture
def home() -> Iterator[Home]:
    with made() as found:
        yield found


@pytest.fixture(scope="package")
def lasting() -> Iterator[Home]:
    """One daemon for tests that only come and go as clients of it."""
    with made() as found:
        found.write_config(daemon={"idle_timeout": "10m"})
        found.client().greet()
        found.serving()
        yield found
