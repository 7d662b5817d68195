"""Warm sandboxes for all tests of this folder; what runs chains on them is fixtures/guest.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import engine_cache
from fixtures.guest import Runner
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits


@pytest.fixture(scope="session")
def module_cache() -> Path:
    return engine_cache.compiled()


def warm(module_cache: Path, isolation: str, limits: Limits | None = None) -> Iterator[Sandbox]:
    made = Sandbox(limits, cache_dir=module_cache, isolation=isolation)
    made.warm()
    yield made
    made.close()


@pytest.fixture(scope="session")
def sandbox(module_cache: Path) -> Iterator[Sandbox]:
    yield from warm(module_cache, "thread")


TIGHT = Limits(cpu_seconds=0.1, wall_seconds=20, memory_mb=48, calls=20)
"""Limits that tests reach quickly."""
SMALL = Limits(cpu_seconds=5, memory_mb=32, calls=500)
"""Little memory, and time enough to use it up."""


@pytest.fixture(scope="session")
def tight(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    yield from warm(module_cache, "thread", TIGHT)


@pytest.fixture(scope="session")
def small(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    yield from warm(module_cache, "thread", SMALL)


@pytest.fixture(scope="session")
def tight_process(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    yield from warm(module_cache, "process", TIGHT)


@pytest.fixture(scope="session")
def small_process(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    yield from warm(module_cache, "process", SMALL)


@pytest.fixture(scope="session")
def in_process(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    """For tests that leave its process as it is."""
    yield from warm(module_cache, "process")


@pytest.fixture
def run(sandbox: Sandbox) -> Runner:
    return Runner(sandbox)


@pytest.fixture
def run_tight(tight: Sandbox) -> Runner:
    return Runner(tight)
