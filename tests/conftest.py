"""What every test shares: anyio's plugin runs async tests on asyncio; a disk that is full on demand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import HealthCheck, settings

from fixtures import disk

# How long an example takes, or its making, is the machine's affair.
settings.register_profile("gatemini", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gatemini")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def full_disk() -> Callable[[], AbstractContextManager[None]]:
    """While it is entered, the operating system refuses to make any file of this process longer."""
    return disk.full_disk
