"""Choose the transport of a backend, with its prerequisite in front."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio

from gatemini.backends.oauth.interface import TokenSource
from gatemini.backends.transports.cli_adapter import open_cli
from gatemini.backends.transports.http import open_streamable
from gatemini.backends.transports.http_link import Permitted
from gatemini.backends.transports.interface import Link, OpenLink, Receiver
from gatemini.backends.transports.python import open_python
from gatemini.backends.transports.sse import open_sse
from gatemini.backends.transports.stdio import open_stdio
from gatemini.config.model.schema import BackendConfig
from gatemini.processes.children import Children
from gatemini.processes.prerequisites import Prerequisites


def opener(
    config: BackendConfig,
    children: Children,
    prerequisites: Prerequisites,
    permitted: Permitted | None,
    login: TokenSource | None = None,
) -> OpenLink:
    """The function that opens a connection; `permitted` limits the addresses that it may connect to."""
    plain = _plain_opener(config, children, permitted, login)
    if config.prerequisite is None:
        return plain
    return partial(_open_with_prerequisite, config, prerequisites, plain)


def _plain_opener(
    config: BackendConfig,
    children: Children,
    permitted: Permitted | None,
    login: TokenSource | None,
) -> OpenLink:
    match config.transport:
        case "stdio":
            return partial(open_stdio, config, children=children)
        case "python":
            return partial(open_python, config)
        case "streamable-http":
            return partial(open_streamable, config, permitted=permitted, login=login)
        case "sse":
            return partial(open_sse, config, permitted=permitted, login=login)
        case "cli-adapter":
            return partial(open_cli, config, children=children)


@asynccontextmanager
async def _open_with_prerequisite(
    config: BackendConfig, prerequisites: Prerequisites, open_link: OpenLink, receiver: Receiver
) -> AsyncIterator[Link]:
    async with prerequisites.running(config), open_link(receiver) as link:
        yield link


@asynccontextmanager
async def open_never(receiver: Receiver) -> AsyncIterator[Link]:
    """For a backend whose configuration is not complete yet: it stays starting until another one replaces it."""
    del receiver
    await anyio.sleep_forever()
    raise AssertionError("unreachable")
    yield
