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
