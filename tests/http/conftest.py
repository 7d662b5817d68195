"""One folder a test for servers that are processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.daemons import Home
from fixtures.daemons import home as made


@pytest.fixture
def home() -> Iterator[Home]:
    with made() as found:
        yield found
