"""A worker process: `python -P -m gatemini_sandbox.worker`, guests one after another, messages over stdin and stdout.

It holds no secrets: its environment is empty, it inherits no descriptor but its pipes, and before the first code
comes it has shut itself in (confine.py). Above: workers.py starts and kills it. Below: guest.py.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import orjson

from gatemini_sandbox import frames
from gatemini_sandbox.budget import Ledger
from gatemini_sandbox.confine import confine
from gatemini_sandbox.engine import Engine
from gatemini_sandbox.errors import SandboxError
from gatemini_sandbox.guest import Guest, boot
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.messages import Raw
from gatemini_sandbox.shelf import Image, Shelf
from gatemini_sandbox.wasi import Clock

DATA_MARGIN = 1024 * MIB
"""Private memory a worker may have above its guest's: the interpreter, messages in both directions."""
NICE = 5
"""A guest that computes for long gives way to the gateway."""


def receive(size: int) -> bytes:
    """Exactly `size` bytes of stdin; ends the process when the parent is gone."""
    parts = []
    while size > 0:
        part = os.read(0, min(size, MIB))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send(operation: int, parts: list[bytes]) -> None:
    data = memoryview(frames.pack(operation, parts))
    while data:
        data = data[os.write(1, data) :]


def pack_raw(raw: Raw, sent: int = 0) -> list[bytes]:
    """The step as parts: a head in JSON, the texts as they are, the clock readings beyond those `sent` before."""
    readings = raw.readings[sent:]
    head = {
        "end": raw.end,
        "reason": raw.reason,
        "detail": raw.detail[:500],
        "full": raw.full,
        "memory": raw.memory,
    }
    return [
        orjson.dumps(head),
        raw.text,
        raw.summary,
        raw.console,
        struct.pack(f"<{len(readings)}Q", *readings),
        *raw.outboxes,
    ]


class Worker:
    """The loop of one process: at most one guest at a time."""

    def __init__(self, limits: Limits, cache_dir: Path | None) -> None:
        self._limits = limits
        self._engine = Engine(cache_dir)
        self._image: Image = boot(self._engine, limits)
        self._shelf = Shelf(self._engine, self._image, limits.memory_mb * MIB)
        self._guest: Guest | None = None
        self._sent = 0  # clock readings of this guest told to the parent

    def end_with(self, parent: int) -> None:
        """Also in the middle of a loop, where nobody reads that stdin is closed: a process whose parent has died gets
        another one."""

        def look() -> None:
            if os.getppid() != parent:
                os._exit(0)

        self._engine.ticker.on_tick = look

    @property
    def cache_problem(self) -> str:
        return self._engine.cache_problem

    def start_threads(self) -> None:
        """The epoch ticker must exist before no more threads may be made."""
        self._engine.ticker.prepare()

    def serve(self) -> None:
        while True:
            operation, parts = frames.read(receive)
            match operation:
                case frames.START:
                    send(frames.TAKEN, [])
                    self._drop()
                    wall_seconds, now_ms = orjson.loads(parts[0])
                    limits = Limits(
                        wall_seconds=wall_seconds,
                        cpu_seconds=self._limits.cpu_seconds,
                        memory_mb=self._limits.memory_mb,
                    )
                    ledger = Ledger(limits.memory_mb * 2 * MIB)  # the parent keeps the one that counts
                    given = [reading for (reading,) in struct.iter_unpack("<Q", parts[3])]
                    clock = Clock.at(now_ms, given)
                    self._guest, self._sent = Guest(self._shelf, self._image, limits, ledger, clock), 0
                    raw = self._guest.begin(parts[1], parts[2])
                case frames.REPLIES if self._guest is not None:
                    raw = self._guest.resume(parts[0])
                case frames.OUTCOME if self._guest is not None:
                    raw = self._guest.outcome()
                case frames.DROP:
                    self._drop()
                    continue
                case _:
                    os._exit(1)
            raw.memory = self._guest.memory_bytes
            send(frames.RAW, pack_raw(raw, self._sent))
            self._sent = len(raw.readings)
            if raw.end is not None:
                self._drop()
                self._shelf.restock()

    def _drop(self) -> None:
        if self._guest is not None:
            self._guest.close()
            self._guest = None


def main() -> None:
    parent = os.getppid()  # if it is the wrong one already, stdin is closed and the next line ends this
    operation, parts = frames.read(receive)
    if operation != frames.SETTINGS:
        os._exit(1)
    settings = orjson.loads(parts[0])
    limits = Limits(**settings["limits"])
    if hasattr(os, "nice"):
        os.nice(NICE)
    try:
        worker = Worker(limits, Path(settings["cache_dir"]) if settings["cache_dir"] else None)
    except SandboxError as exc:
        send(frames.UNFIT, [exc.code.encode(), str(exc).encode("utf-8", "replace")])
        return
    worker.end_with(parent)
    applied = confine(limits.memory_mb * MIB + DATA_MARGIN, worker.start_threads)
    send(frames.READY, [orjson.dumps(applied), worker.cache_problem.encode("utf-8", "replace")])
    worker.serve()


if __name__ == "__main__":
    try:
        main()
    except Exception:  # noqa: BLE001 - nobody reads a worker's words: the parent sees that it is gone
        sys.exit(1)
