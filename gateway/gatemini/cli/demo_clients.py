"""`gatemini demo --clients N`: N clients on one daemon beside N direct gateways, started and measured here."""

from __future__ import annotations

import json
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import psutil

from gatemini.cli import shell
from gatemini.daemon.client import ask, ended
from gatemini.errors import DaemonRefused
from gatemini.proxy.places import Place, place_of
from gatemini.text.shorten import counted

BACKENDS = 5
ANSWER_SECONDS = 60.0
END_SECONDS = 30.0
MEGABYTE = 1 << 20
_INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "demo", "version": "1"},
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What N clients of one kind took. Memory is the proportional set size where the system has it, else RSS."""

    kind: str
    clients: int
    processes: int
    backends: int
    memory_mb: float
    first_seconds: float
    later_seconds: float
    """Median of the others, from the start of the process to the answer to tools/list."""


class Client:
    """One MCP client with a gateway, or the proxy of one, as its child."""

    def __init__(self, words: list[str], environ: dict[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd=folder,
        )
        self._ids = 0
        self._rest = b""

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its result. Raises DaemonRefused."""
        self._ids += 1
        self._write({"id": self._ids, "method": method, "params": params})
        until = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < until:
            for message in self._read(until - time.monotonic()):
                if message.get("id") == self._ids and "result" in message:
                    return dict(message["result"])
        raise DaemonRefused(f"{method} was not answered within {ANSWER_SECONDS:g} s")

    def greet(self) -> None:
        self.ask("initialize", _INITIALIZE)
        self._write({"method": "notifications/initialized"})
        self.ask("tools/list", {})

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: S101, PT018 - pipes
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None  # noqa: S101 - a pipe
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self, seconds: float) -> list[dict[str, Any]]:
        """The messages that come within that time."""
        assert self.process.stdout is not None  # noqa: S101 - a pipe
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, seconds)):
                return []
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise DaemonRefused(f"the gateway ended with code {self.process.wait()}")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


def compare(clients: int, *, as_json: bool) -> int:
    """Measure both ways, one after the other, and print them beside each other."""
    with tempfile.TemporaryDirectory(prefix="gm-", dir="/tmp" if os.path.isdir("/tmp") else None) as name:  # noqa: S108 - the path of a socket must be short
        folder = Path(name)
        environ, config = _prepared(folder)
        words = [sys.executable, "-P", "-m", "gatemini"]
        place = place_of(str(config), environ)
        if not as_json:
            shell.note(
                f"starting {counted(clients, 'client')} with {BACKENDS} backends, on one daemon and each with a gateway …"
            )
        shared = _measure("one daemon", clients, [*words, "-c", str(config)], environ, folder, _daemon(place))
        lock = ended(place, END_SECONDS)
        if lock is not None:
            os.close(lock)
        direct = _measure("direct", clients, [*words, "--direct", "-c", str(config)], environ, folder, None)
    if as_json:
        shell.emit({"ok": True, "rows": [asdict(shared), asdict(direct)]})
    else:
        _show(shared, direct)
    return shell.OK


def _prepared(folder: Path) -> tuple[dict[str, str], Path]:
    """Folders of its own, so that no other daemon is met, and a configuration with small servers as backends."""
    with resources.as_file(resources.files("gatemini.demo").joinpath("small_server.py")) as server:
        backends = {
            f"server{n}": {"command": sys.executable, "args": ["-I", "-S", str(server), f"server{n}"]}
            for n in range(BACKENDS)
        }
    config = folder / "config.yaml"
    config.write_text(json.dumps({"semantic": {"model": "none"}, "backends": backends}), encoding="utf-8")
    (folder / "run").mkdir(mode=0o700)
    places = {"RUNTIME_DIR": "run", "STATE_HOME": "state", "CONFIG_HOME": "config"}
    own = {f"XDG_{name}": str(folder / path) for name, path in places.items()}
    return {**os.environ, **own, "GATEMINI_CONFIG": str(config)}, config


def _daemon(place: Place) -> Callable[[str], int | None]:
    """Return a function that sends the daemon a command and returns its process id."""

    def asked(command: str) -> int | None:
        answer = ask(place, command, now=True)
        return int(answer["pid"]) if answer else None

    return asked


def _measure(
    kind: str,
    count: int,
    words: list[str],
    environ: dict[str, str],
    folder: Path,
    daemon: Callable[[str], int | None] | None,
) -> Measured:
    """Start the clients one after another, call each backend with each, and look at all processes at the end."""
    seconds: list[float] = []
    with ExitStack() as ends:
        if daemon is not None:
            ends.callback(daemon, "stop")
        roots: list[int] = []
        for _ in range(count):
            begun = time.perf_counter()
            client = Client(words, environ, folder)
            ends.callback(client.close)
            client.greet()
            seconds.append(time.perf_counter() - begun)
            # A call of each backend: all of them run when the processes are counted.
            calls = [{"tool": f"server{n}.echo", "arguments": {"text": "x"}} for n in range(BACKENDS)]
            client.ask("tools/call", {"name": "call_tool_chain", "arguments": {"code": json.dumps(calls)}})
            roots.append(client.process.pid)
        if daemon is not None and (pid := daemon("status")) is not None:
            roots.append(pid)
        found = _family(roots)
        memory, servers = 0, 0
        for process in found:
            with suppress(psutil.Error):
                facts = process.memory_full_info()
                memory += getattr(facts, "pss", facts.rss)
                servers += any(word.endswith("small_server.py") for word in process.cmdline())
        return Measured(
            kind,
            count,
            len(found),
            servers,
            round(memory / MEGABYTE, 1),
            round(seconds[0], 3),
            round(statistics.median(seconds[1:] or seconds), 3),
        )


def _family(roots: list[int]) -> list[psutil.Process]:
    """These processes and all their descendants."""
    found: dict[int, psutil.Process] = {}
    for root in roots:
        with suppress(psutil.Error):
            process = psutil.Process(root)
            found |= {each.pid: each for each in (process, *process.children(recursive=True))}
    return list(found.values())


def _show(shared: Measured, direct: Measured) -> None:
    memory = "PSS" if sys.platform.startswith("linux") else "RSS"
    rows = [
        ("clients", str(shared.clients), str(direct.clients)),
        ("processes", str(shared.processes), str(direct.processes)),
        ("backends started", str(shared.backends), str(direct.backends)),
        (f"memory, {memory}", f"{shared.memory_mb:.0f} MB", f"{direct.memory_mb:.0f} MB"),
        ("tools/list, first client", f"{shared.first_seconds:.2f} s", f"{direct.first_seconds:.2f} s"),
        ("tools/list, each later one", f"{shared.later_seconds:.2f} s", f"{direct.later_seconds:.2f} s"),
    ]
    shell.rows(("", "one daemon", "direct"), rows, right=(1, 2))
    shell.say(
        f"With one daemon: {direct.memory_mb / shared.memory_mb:.1f} times less memory, "
        f"{direct.processes - shared.processes} processes fewer."
    )
