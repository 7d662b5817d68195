"""`gatemini serve --http [HOST:PORT]`: check that the configuration may be served there, listen, and run until stopped."""

from __future__ import annotations

import argparse
import functools
import json
import logging
import os
import resource
import signal
import socket
import sys
from pathlib import Path

import anyio
import anyio.to_thread

from gatemini.app import App, freeze_start
from gatemini.config.load import load_config
from gatemini.config.model.http.server import HttpConfig, split_address
from gatemini.config.variables.redaction import Redactor
from gatemini.config.variables.references import SecretAnswers
from gatemini.daemon.listener import Listener
from gatemini.daemon.terminal.commands import serve_commands
from gatemini.daemon.terminal.logs import LOG_FORMAT
from gatemini.errors import ConfigError, config_reason
from gatemini.http.control import answer_control
from gatemini.http.network.exposure import check_exposure
from gatemini.http.server import HttpServer
from gatemini.logs.log_file import GatewayLog
from gatemini.proxy.places import Place, PlaceRefused, config_file, http_place, take_lock

logger = logging.getLogger(__name__)

USAGE, FAILED = 2, 1
BACKLOG = 2048
SPARE_FILES = 512
"""Descriptors for everything but clients: backends, files, sandboxes."""


def main(words: list[str]) -> int:
    """Serve MCP over HTTP until stopped; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gatemini serve", allow_abbrev=False, description=main.__doc__)
    parser.add_argument("--config", "-c", metavar="PATH", help="configuration file")
    parser.add_argument(
        "--http", nargs="?", const="", metavar="HOST:PORT", help="where to listen; else http.listen"
    )
    try:
        options = parser.parse_args(words)
    except SystemExit as leave:
        return int(leave.code or 0)
    config = config_file(options.config, os.environ)
    redactor = Redactor()
    log = GatewayLog(redactor, LOG_FORMAT, logging.StreamHandler(sys.stderr))
    try:
        anyio.run(_serve, Path(config) if config else None, options.http or None, redactor, log)
    except (ConfigError, BaseExceptionGroup) as error:
        if (reason := config_reason(error)) is None:
            raise
        return _failed(redactor.redact(reason))
    except PlaceRefused as error:
        return _failed(str(error))
    sys.stderr.flush()
    # Everything is closed; a worker thread that was given up must not delay the exit.
    os._exit(0)


def _failed(text: str) -> int:
    sys.stderr.write(f"gatemini: {text}\n")
    return FAILED


async def _serve(config: Path | None, address: str | None, redactor: Redactor, log: GatewayLog) -> None:
    load = functools.partial(load_config, config, environ=os.environ, answers=SecretAnswers())
    http = (await anyio.to_thread.run_sync(load)).config.http
    try:
        host, port = split_address(address or http.listen)
    except ValueError as error:
        raise ConfigError(f"--http: found {address}, allowed is {error}") from error
    warning = check_exposure(http, host)
    with listening(host, port) as sock:
        room_for(http)
        place = http_place(str(config) if config else None, sock.getsockname()[1], dict(os.environ))
        lock = take_lock(place.lock)
        if lock is None:
            raise ConfigError(f"http: another process holds {place.lock}")
        listener = Listener(place, lock)
        async with App.open(config, redactor=redactor, serving=None) as app:
            freeze_start()
            logging.getLogger().setLevel(app.loaded.config.least_level.upper())
            log.follow(app.loaded.config.log)
            for problem in [*app.problems(), *filter(None, [warning, place.fallback])]:
                logger.warning("%s", problem)
            folder = config.parent if config else Path.cwd()
            kept = Place(place.folder, f"{place.key.partition('-')[0]}-http")  # whatever the port is
            server = HttpServer(app, sock, host, folder, kept)
            server.trouble += filter(None, [warning, place.fallback])
            listener.open()
            try:
                sys.stdout.write(json.dumps({"url": server.url, "pid": os.getpid()}) + "\n")
                sys.stdout.flush()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_follow_signals, server, listener, log)
                    app.approvals.console = True
                    answer = functools.partial(answer_control, server, place.sock)
                    tasks.start_soon(serve_commands, listener.sock, answer)
                    await server.run()
                    tasks.cancel_scope.cancel()
            finally:
                listener.close()


async def _follow_signals(server: HttpServer, listener: Listener, log: GatewayLog) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            if number == signal.SIGHUP and log.reopen():
                continue
            if server.stopping:
                listener.close()
                os._exit(1)  # the watchdog ends the children
            server.stop()


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address. Raises ConfigError."""
    try:
        [(family, kind, protocol, _, found), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        # asyncio sets TCP_NODELAY only where the protocol is named, and without it an answer waits 40 ms for an ACK.
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"http.listen: {host} is no address of this machine: {error.strerror}") from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(found)
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        raise ConfigError(f"http.listen: {host}:{port} cannot be used: {error.strerror}") from error
    return opened


def room_for(http: HttpConfig) -> None:
    """Raise the limit of open files as far as the connections need it and the system allows."""
    wanted = 2 * http.max_connections + SPARE_FILES  # a refused connection has a descriptor for a moment
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < http.max_connections + SPARE_FILES:
        logger.warning("only %d files may be open: fewer than http.max_connections can be served", most)
