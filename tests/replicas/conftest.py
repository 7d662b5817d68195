"""One cluster of two replicas for all tests that end none of them: each costs four processes and their start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.replicas import Cluster, cluster

ASKING = str(Path(__file__).parents[1] / "fixtures" / "asking_server.py")


@pytest.fixture(scope="package")  # not longer: each is asked for its health ten times a second
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    asking = {"command": sys.executable, "args": ["-P", ASKING]}
    with cluster(tmp_path_factory.mktemp("two"), backends={"ask": asking}) as found:
        yield found


@pytest.fixture
def own_two(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of the test's own, which it may end replicas of."""
    asking = {"command": sys.executable, "args": ["-P", ASKING]}
    with cluster(tmp_path, backends={"ask": asking}) as found:
        yield found
