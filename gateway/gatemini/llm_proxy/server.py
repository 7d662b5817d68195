"""Run the proxy: one loopback socket, the server, and the totals in the state directory."""

from __future__ import annotations

import gc
import json
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import uvicorn

from gatemini.config.model.context import ContextConfig, ToolsConfig
from gatemini.context import Predictor, Steps
from gatemini.errors import ConfigError
from gatemini.llm_proxy.app import ProxyApp
from gatemini.llm_proxy.daemon_link import DaemonLink
from gatemini.llm_proxy.exchange import Exchange
from gatemini.llm_proxy.meaning import MeaningOfTools
from gatemini.llm_proxy.predicting import Predicting
from gatemini.llm_proxy.totals import Totals, TotalsFile
from gatemini.llm_proxy.upstream import Upstream
from gatemini.proxy.places import Place

LOOPBACK = {"127.0.0.1": socket.AF_INET, "localhost": socket.AF_INET, "::1": socket.AF_INET6}
BACKLOG = 512
WRITE_SECONDS = 2.0
"""Between two writes of the totals."""
KEEP_ALIVE_SECONDS = 600
"""Clients keep connections for minutes; one that closes under a client costs it a retry."""
STOP_SECONDS = 2
"""What answers in flight are given when the proxy ends."""


def serve(
    upstream_url: str,
    listen: str,
    config: ContextConfig,
    model: str,
    announce: Callable[[str], None],
    predictor: Predictor | None = None,
    daemon: Place | None = None,
) -> None:
    """Serve until a signal ends the process; `announce` gets the line with the address.

    A daemon that runs at its place keeps handles and totals.
    """
    opened = listening(listen)
    anyio.run(_serve, upstream_url, opened, config, model, announce, predictor, daemon)


async def _serve(
    upstream_url: str,
    opened: socket.socket,
    config: ContextConfig,
    model: str,
    announce: Callable[[str], None],
    predictor: Predictor | None,
    daemon: Place | None,
) -> None:
    upstream = Upstream(upstream_url)
    totals = Totals(upstream.shown)
    file = TotalsFile(totals)
    tools = config.tools or ToolsConfig()
    if tools.predictor == "callable" and predictor is None:
        raise ConfigError(
            "context.tools.predictor: found callable, allowed in a configuration are search and llm"
        )
    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        steps = Steps(config)  # `Predicting` predicts for them, which may have to wait
        predicting = Predicting(tools, upstream, predictor=predictor)
        if steps.filter is not None and tools.use_prediction and tools.predictor == "search":
            predicting.meaning = await stack.enter_async_context(MeaningOfTools.open(model))

        async def stop() -> None:
            tasks.cancel_scope.cancel()
            await upstream.close()
            file.write(ended=True)

        def start() -> None:  # not before, since the server has to handle signals by then
            gc.freeze()  # a pass over what the imports have left would hold a stream up for 30 ms
            announce(json.dumps({"address": address_of(opened), "upstream": upstream.shown}))

        link = DaemonLink(daemon, tasks)
        exchange = Exchange(steps, predicting, upstream, totals, link)
        server = _server(ProxyApp(upstream, exchange, start, stop))
        tasks.start_soon(_keep_totals, totals, file, link)
        await server.serve(sockets=[opened])


async def _keep_totals(totals: Totals, file: TotalsFile, link: DaemonLink) -> None:
    """Give the totals to the daemon when they have changed, or write them to the file where none runs."""
    given: tuple[Any, int | None] | None = None
    while True:
        await anyio.sleep(WRITE_SECONDS)
        state = totals.version, link.run_of_daemon
        if state != given and await link.count(totals.account(ended=False).model_dump()):
            given = state
        if state != given:
            file.write()


def _server(app: Any) -> uvicorn.Server:
    """Make the HTTP server: it logs nothing and adds no header of its own."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )


def listening(listen: str) -> socket.socket:
    """A socket that listens at `HOST:PORT`; port 0 is any free one. Only this machine can reach it."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if host not in LOOPBACK:
        raise ConfigError(
            f"--listen: found {listen}, allowed are the hosts 127.0.0.1, localhost and [::1]",
            hint="the proxy passes keys on: only programs of this machine may reach it",
        )
    if not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"--listen: found {listen}, allowed is HOST:PORT with a port from 0 to 65535")
    # With the protocol named, asyncio turns Nagle's algorithm off: else a stream's first part waits 40 ms.
    opened = socket.socket(LOOPBACK[host], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(("127.0.0.1" if host == "localhost" else host, int(port)))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise ConfigError(f"--listen: {listen} cannot be used: {error.strerror}") from None
    return opened


def address_of(opened: socket.socket) -> str:
    """The base URL of what listens there."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
