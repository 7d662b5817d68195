"""A running manager for each test, and a health loop fast enough to watch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.backend_bench import Bench, running_bench
from gatemini.config.model.schema import HealthConfig


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running_bench(tmp_path) as bench:
        yield bench


@pytest.fixture
def quick_health() -> HealthConfig:
    return HealthConfig(
        interval=0.1,
        timeout=0.2,
        failure_threshold=2,
        backoff_initial=0.05,
        backoff_max=0.2,
        memory_check_interval=0.1,
        memory_restart_cooldown=60.0,
        drain_timeout=1.0,
    )
