"""`gatemini serve`: listen first, import what is heavy afterwards; what clients send meanwhile waits in the socket."""

import argparse
import os
import sys
from importlib import import_module

from gatemini.daemon.listener import Listener
from gatemini.proxy.places import STARTED, PlaceRefused, config_file, place_of, take_lock

USAGE, FAILED = 2, 1
NEEDS_UNIX = (
    "the daemon and its clients need Unix sockets, which this system has not: use `gatemini --direct`"
)


def main(words: list[str]) -> int:
    """Serve until stopped or idle; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gatemini serve", allow_abbrev=False, description=main.__doc__)
    parser.add_argument("--config", "-c", metavar="PATH", help="configuration file")
    parser.add_argument("--http", nargs="?", metavar="HOST:PORT", help="serve clients over HTTP instead")
    parser.add_argument("--lock-fd", type=int, help=argparse.SUPPRESS)
    try:
        options = parser.parse_args(words)
    except SystemExit as leave:
        return int(leave.code or 0)
    if sys.platform == "win32":
        sys.stderr.write(f"gatemini: {NEEDS_UNIX}\n")
        return USAGE
    environ = dict(os.environ)
    config = config_file(options.config, environ)
    try:
        place = place_of(config, environ)
        lock = options.lock_fd if options.lock_fd is not None else take_lock(place.lock)
    except (PlaceRefused, OSError) as error:
        sys.stderr.write(f"gatemini: {error}\n")
        return FAILED
    if lock is None:
        sys.stderr.write(f"gatemini: a daemon of this configuration runs already: {_pid(place.pid)}\n")
        return FAILED
    os.set_inheritable(lock, False)
    listener = Listener(place, lock)
    try:
        listener.open()
    except OSError as error:  # the proxy shows what the log has behind the line of a start
        sys.stderr.write(f"{STARTED}as process {os.getpid()}\n{error}\n")
        return FAILED
    import_module("gatemini_sandbox.processes.spawn").start_early()
    spawned = options.lock_fd is not None
    code = int(import_module("gatemini.daemon.server").run(listener, config, spawned=spawned))
    sys.stderr.flush()
    # Everything is closed; a worker thread that was given up must not delay the exit.
    os._exit(code)


def _pid(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return f"process {file.read().split()[0]}"
    except (OSError, IndexError):
        return "its process id is not known"
