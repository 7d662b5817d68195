"""An MCP client that costs next to nothing: one request, one answer, over the pipes of a child process.

The SDK's client takes 0.3 to 0.5 ms for a call, as much as what is measured; this one takes a few hundredths,
for every contestant alike.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import psutil

ANSWER_SECONDS = 120.0
"""Bounds the wait for one answer; the first one waits for imports and the start of backends."""
END_SECONDS = 20.0
"""Bounds the end of a contestant once its input is closed."""
LOOK_SECONDS = 0.1
IDLE_PERCENT = 5
QUIET_LOOKS = 5
SETTLE_LOOKS = 150
"""Looks at a server's CPU time; it is idle when it was so at QUIET_LOOKS in a row, and is not waited for longer
than SETTLE_LOOKS."""
CHUNK = 1 << 20
PROTOCOL_VERSION = "2025-11-25"

Json = dict[str, Any]


class Client:
    """One connection. Requests go one after the other; what else the server sends is skipped."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: str) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("the process has no pipes")
        self._process = process
        self._stderr = stderr
        self._to, self._from = process.stdin.fileno(), process.stdout.fileno()
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._from, selectors.EVENT_READ)
        self._rest = b""
        self._id = 0

    def request(self, method: str, params: Json) -> Json:
        """The result; raises RuntimeError for a JSON-RPC error, and with the end of stderr when there is none."""
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        while True:
            message = orjson.loads(self._line())
            if message.get("id") == self._id and "method" not in message:
                break
        if "result" not in message:
            raise RuntimeError(f"{method} failed: {message.get('error')}")
        result: Json = message["result"]
        return result

    def call_tool(self, name: str, arguments: Json) -> Json:
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def settled(self) -> None:
        """Returns when the server has been idle for a moment: what it does in the background after its start
        (loading a model, say) is not what is measured."""
        process, quiet = psutil.Process(self._process.pid), 0
        for _ in range(SETTLE_LOOKS):
            quiet = quiet + 1 if process.cpu_percent(LOOK_SECONDS) < IDLE_PERCENT else 0
            if quiet == QUIET_LOOKS:
                return

    def cpu_ms(self) -> float:
        """Return the milliseconds of CPU time that the server and its children have taken so far."""
        process = psutil.Process(self._process.pid)
        taken = 0
        for each in (process, *process.children(recursive=True)):
            for thread in Path(f"/proc/{each.pid}/task").iterdir():
                taken += int((thread / "schedstat").read_text().split()[0])
        return taken / 1e6

    def notify(self, method: str) -> None:
        self._send({"jsonrpc": "2.0", "method": method})

    def _send(self, message: Json) -> None:
        line = memoryview(orjson.dumps(message) + b"\n")
        while line:
            line = line[os.write(self._to, line) :]

    def _line(self) -> bytes:
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            if not self._ready.select(ANSWER_SECONDS):
                raise RuntimeError(f"no answer within {ANSWER_SECONDS:g} s")
            chunk = os.read(self._from, CHUNK)
            if not chunk:
                raise RuntimeError(f"the server has ended: {self._last_words()}")
            parts.append(chunk)
        last, self._rest = parts[-1].split(b"\n", 1)
        return b"".join([*parts[:-1], last])

    def _last_words(self) -> str:
        with open(self._stderr, encoding="utf-8", errors="replace") as log:
            return log.read()[-2000:]


@contextmanager
def connected(args: list[str], env: Mapping[str, str] | None = None) -> Iterator[Client]:
    """`python -P ARGS` as a server, shaken hands with; gone when the context ends."""
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-P", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **(env or {})},
        )
        with process:
            try:
                client = Client(process, log.name)
                client.request(
                    "initialize",
                    {
                        "protocolVersion": PROTOCOL_VERSION,
                        "capabilities": {},
                        "clientInfo": {"name": "benchmark", "version": "1"},
                    },
                )
                client.notify("notifications/initialized")
                yield client
            finally:
                process.stdin.close()  # type: ignore[union-attr]
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
