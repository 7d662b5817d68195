"""What every test shares: anyio's plugin runs async tests on asyncio."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
