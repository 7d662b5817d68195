"""One provider, and one proxy for each way of running it, for all tests of a file."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures.llm_clients import OPENED
from fixtures.llm_proxy import NO_PREDICTION, Proxy, running_proxy
from fixtures.llm_upstream import FakeProvider, running_provider


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the clients of the test."""
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def provider(upstream: FakeProvider) -> FakeProvider:
    """The provider, without what other tests left."""
    upstream.answers, upstream.got = [], []
    upstream.hung_up.clear()
    upstream.go_on.clear()
    return upstream


@pytest.fixture(scope="module")
def plain(upstream: FakeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy that only marks prompt caches."""
    with running_proxy(upstream.url, tmp_path_factory.mktemp("plain")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def filtering(upstream: FakeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy that leaves out tools which are neither always included nor used."""
    folder = tmp_path_factory.mktemp("filtering")
    with running_proxy(upstream.url, folder, config=NO_PREDICTION) as proxy:
        yield proxy


@pytest.fixture
def silent_socket() -> Iterator[Callable[[Path], None]]:
    """Listen at a path as a daemon does that answers nobody."""
    with ExitStack() as stack:

        def listen(path: Path) -> None:
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.bind(str(path))
            sock.listen()

        yield listen
