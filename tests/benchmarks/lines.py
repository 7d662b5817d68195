"""A line of 40 MiB through the proxy, each way, beside `socat` between the same pipes and socket.

`socat` has to be on the path. It is measured with its own buffer (8 KiB) and with one as large as the proxy's (256 KiB).
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from functools import partial
from pathlib import Path

from tests.benchmarks.measure import Outcome, Ratio, take_turns
from tests.fixtures.daemons import GATEMINI, Home, home

from gatemini.proxy.places import take_lock
from gatemini.proxy.wire import CHUNK

LINE = b'{"jsonrpc":"2.0","method":"x","params":"' + b"y" * (40 << 20) + b'"}\n'
MOST = 1.5


class Ends:
    """The pipes of a process that joins them to a socket, and the socket's other end."""

    def __init__(self, place: Home, command: list[str], path: str) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.environ
            )
            self.sock, _ = listener.accept()

    def up(self) -> None:
        """Write the line as the client and read it as the daemon."""
        assert self.process.stdin is not None
        self._pass_on(partial(_write, self.process.stdin.fileno()), self.sock.fileno())

    def down(self) -> None:
        """Write the line as the daemon and read it as the client."""
        assert self.process.stdout is not None
        self._pass_on(partial(_write, self.sock.fileno()), self.process.stdout.fileno())

    def _pass_on(self, write: partial[None], source: int) -> None:
        writer = threading.Thread(target=write)
        writer.start()
        left = len(LINE)
        while left:
            left -= len(os.read(source, CHUNK))
        writer.join()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.process.stdin, self.process.stdout, self.sock):
            assert each is not None
            each.close()


def _write(number: int) -> None:
    view = memoryview(LINE)
    while view:
        view = view[os.write(number, view) :]


def lines(rounds: int) -> Outcome:
    """Milliseconds of wall time for the line; every one of the contestants has both ways of its own."""
    socat = shutil.which("socat")
    if socat is None:
        raise SystemExit("lines: socat is not on the path")
    with home() as place:
        where = place.place
        lock = take_lock(where.lock)
        assert lock is not None
        proxy = Ends(place, [*GATEMINI, "-c", str(place.config)], where.sock)
        while not proxy.sock.recv(CHUNK).endswith(b"\n"):  # its hello
            pass
        proxy.sock.sendall(b'{"gatemini":1,"version":"0","features":["sessions","drain"]}\n')
        ends = {"proxy": proxy}
        for size in (8192, CHUNK):
            path = Path(where.folder, f"{size}.sock")
            command = [socat, f"-b{size}", "STDIO", f"UNIX-CONNECT:{path}"]
            ends[f"socat -b{size}"] = Ends(place, command, str(path))
        try:
            ways = {"up": Ends.up, "down": Ends.down}
            turns = {
                f"{name}, {way}": partial(run, each)
                for name, each in ends.items()
                for way, run in ways.items()
            }
            figures = take_turns("line of 40 MiB", turns, rounds)
        finally:
            for each in ends.values():
                each.end()
            os.close(lock)
    ratios = []
    for way in ways:
        for name in list(ends)[1:]:
            times = figures[f"proxy, {way}"].median_ms / figures[f"{name}, {way}"].median_ms
            bound = f"≤ {MOST}" if "8192" in name else ""
            ratios.append(
                Ratio("lines", f"{way}: proxy / {name}", times, bound, times <= MOST if bound else None)
            )
    return Outcome(tuple(figures.values()), tuple(ratios))
