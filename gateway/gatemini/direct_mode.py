"""`gatemini --direct`: the stdio server in one process, with one session, and no socket but one for approvals."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from gatemini.app import App, freeze_start
from gatemini.config.variables.redaction import Redactor
from gatemini.errors import ConfigError
from gatemini.logs.log_file import GatewayLog
from gatemini.policy.approvals.asking import Approvals
from gatemini.protocol.mcp_server import build_server
from gatemini.protocol.stdio.descriptors import Wire, claim_stdio
from gatemini.protocol.stdio.shortcut import Shortcut
from gatemini.protocol.stdio.stdio_streams import serve_wire

LOG_FORMAT = "gatemini: %(levelname)s %(name)s: %(message)s"


Console = Callable[[Approvals, Redactor], Awaitable[None]]
"""Lets commands of the terminal approve calls, for as long as it runs."""


def main(config_path: Path | None, wire: Wire | None = None, console: Console | None = None) -> int:
    """Serve until the client closes stdin or a signal comes; return exit code 1 when the config cannot be used.

    `wire` is stdin and stdout where the caller has claimed them already, before the heavy imports. `console` is run
    once something can ask for an approval.
    """
    wire = wire or claim_stdio()
    redactor = Redactor()
    log = GatewayLog(redactor, LOG_FORMAT, logging.StreamHandler(sys.stderr))
    try:
        anyio.run(_serve, wire, config_path, redactor, console, log)
    except ConfigError as exc:
        print(exc.text(), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


async def _serve(
    wire: Wire, config_path: Path | None, redactor: Redactor, console: Console | None, log: GatewayLog
) -> None:
    opened = App.open(config_path, redactor=redactor, serving=True)
    async with opened as app, anyio.create_task_group() as group:
        freeze_start()
        logging.getLogger().setLevel(app.loaded.config.least_level.upper())
        log.follow(app.loaded.config.log)
        for problem in app.problems():
            logging.getLogger("gatemini.config").warning("%s", problem)
        group.start_soon(_stop_on_signal, group.cancel_scope)
        if console is not None and os.name != "nt":
            group.start_soon(_approvals, app.approvals, redactor, console)
        session = app.new_session()
        try:
            surface = app.surface(session)
            shortcut = Shortcut(surface)
            server = build_server(surface, shortcut)
            async with serve_wire(wire, shortcut) as (read_stream, write_stream):
                await server.run(read_stream, write_stream, server.create_initialization_options())
        finally:
            app.end_session(session)
        group.cancel_scope.cancel()


async def _approvals(approvals: Approvals, redactor: Redactor, console: Console) -> None:
    await approvals.needed.wait()
    await console(approvals, redactor)


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    if os.name == "nt":
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            logging.getLogger(__name__).info("stopping on %s", signal.Signals(number).name)
            scope.cancel()
            return
