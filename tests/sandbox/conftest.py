"""Warm sandboxes for all tests of this folder; what runs chains on them is fixtures/guest.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.guest import Runner
from gatemini_sandbox.host import Sandbox
from gatemini_sandbox.limits import Limits


@pytest.fixture(scope="session")
def module_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="session")
def sandbox(module_cache: Path) -> Iterator[Sandbox]:
    made = Sandbox(cache_dir=module_cache, isolation="thread")
    made.warm()
    yield made
    made.close()


@pytest.fixture(scope="session")
def tight(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    """A sandbox with limits that tests reach quickly."""
    made = Sandbox(
        Limits(cpu_seconds=0.15, wall_seconds=20, memory_mb=48, calls=20),
        cache_dir=module_cache,
        isolation="thread",
    )
    made.warm()
    yield made
    made.close()


@pytest.fixture(scope="session")
def small(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    """A sandbox with little memory and time enough to use it up."""
    made = Sandbox(Limits(cpu_seconds=5, memory_mb=32, calls=500), cache_dir=module_cache, isolation="thread")
    made.warm()
    yield made
    made.close()


@pytest.fixture(scope="session")
def tight_process(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    """As `tight`, in sandbox processes."""
    made = Sandbox(
        Limits(cpu_seconds=0.15, wall_seconds=20, memory_mb=48, calls=20),
        cache_dir=module_cache,
        isolation="process",
    )
    made.warm()
    yield made
    made.close()


@pytest.fixture(scope="session")
def small_process(module_cache: Path, sandbox: Sandbox) -> Iterator[Sandbox]:
    """As `small`, in sandbox processes."""
    limits = Limits(cpu_seconds=5, memory_mb=32, calls=500)
    made = Sandbox(limits, cache_dir=module_cache, isolation="process")
    made.warm()
    yield made
    made.close()


@pytest.fixture
def run(sandbox: Sandbox) -> Runner:
    return Runner(sandbox)


@pytest.fixture
def run_tight(tight: Sandbox) -> Runner:
    return Runner(tight)
