"""Settings and fixtures that every test shares: hypothesis profiles, a time budget, asyncio for async tests, a full disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from hypothesis import HealthCheck, settings

from fixtures import disk, engine_cache

# Examples are derived from the test's source, not drawn at random, so that a run fails for what was changed and for
# nothing else. No deadline: how long an example takes depends on what else the machine does.
settings.register_profile(
    "few",
    derandomize=True,
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.register_profile("many", parent=settings.get_profile("few"), max_examples=300)
settings.register_profile(
    "explore", parent=settings.get_profile("many"), derandomize=False, max_examples=2_000
)
# `--hypothesis-profile NAME` on the command line overrides this.
settings.load_profile("few")

STARTED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--budget",
        type=float,
        metavar="SECONDS",
        help="skip the tests that have not been started after this many seconds",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    budget = item.config.getoption("budget")
    if budget is not None and time.monotonic() - item.config.stash[STARTED] > budget:
        pytest.skip("the time budget of this run is used up")


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests off the user's own state and cache: how often a tool was used there changes what a search ranks first."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setattr(engine_cache, "of_this_run", cache / "gatemini" / "engine")
        if "PYTEST_XDIST_WORKER" in os.environ:
            engine_cache.take_from(tmp_path_factory.getbasetemp().parent / "engine")
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def full_disk() -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager in which the operating system refuses to make any file of this process longer."""
    return disk.full_disk
