"""What every test shares: anyio's plugin runs async tests on asyncio; a disk that is full on demand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import settings

from fixtures import disk

settings.register_profile("gatemini", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("gatemini")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def full_disk() -> Callable[[], AbstractContextManager[None]]:
    """While it is entered, the operating system refuses to make any file of this process longer."""
    return disk.full_disk
