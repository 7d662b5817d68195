"""Boot one guest with the bridge's JavaScript and keep its memory as the image that every other guest starts from."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.guest_messages import PROTOCOL
from gatemini_sandbox.limits import MIB, Limits
from gatemini_sandbox.webassembly import quickjs
from gatemini_sandbox.webassembly.budget import Budget, Ledger
from gatemini_sandbox.webassembly.engine import Engine, Machine
from gatemini_sandbox.webassembly.patched_module import PAGE, STACK_BYTES
from gatemini_sandbox.webassembly.quickjs import Addresses, QuickJS, Threw
from gatemini_sandbox.webassembly.wasi import Clock

BOOT_SECONDS = 60.0
HEADROOM_BYTES = MIB
"""Heap that is there from the beginning: a guest that has not grown can be put back to its image."""
IMAGE_PAGE = 4096
"""Grain of the image: pieces of this size that a fresh instance already has are left out."""
FUNCTIONS = [
    "begin",
    "run",
    "deliver",
    "collect",
    "fire",
    "outcome",
    "summary",
    "describe",
    "rejected",
    "console",
]
"""What prelude.js gives, in its order; the last one is the console's buffer."""


@dataclass(frozen=True, slots=True)
class Image:
    """The memory of a booted guest as differences from a fresh instance, and addresses in it."""

    pages: int
    pieces: tuple[tuple[int, bytes], ...]
    """(address, content), in order of address."""
    addresses: Addresses
    functions: dict[str, int]
    console: int
    console_bytes: int


def boot(engine: Engine, limits: Limits) -> Image:
    """Boots one guest and takes its memory. Nothing of a chain is in it: no seed, no clock, no names."""
    budget = Budget(BOOT_SECONDS, time.monotonic() + BOOT_SECONDS, Ledger(1 << 40))
    machine = Machine(engine, budget, Clock.at(0.0), limits.memory_mb * MIB)
    try:
        fresh = machine.read(0, machine.locate()[1])
        image: Image = machine.run(lambda: _boot(machine, fresh, limits))
        return image
    except Threw as exc:
        raise GuestFault("the guest's own JavaScript does not run") from exc
    finally:
        machine.close()


def _boot(machine: Machine, fresh: bytes, limits: Limits) -> Image:
    js = quickjs.start(machine)
    functions = _load_bridge(js, limits)
    console = js.bytes_address(functions["console"])
    if console == 0:
        raise GuestFault("the guest has no console buffer")
    js.collect_garbage()
    machine.call("free", js.allocate(HEADROOM_BYTES))
    machine.write(machine.engine.stack_bottom, bytes(STACK_BYTES))  # without what booting left there
    booted = machine.read(0, machine.locate()[1])
    pieces = tuple(_differences(fresh, booted))
    return Image(len(booted) // PAGE, pieces, js.addresses, functions, console, limits.console_bytes)


def _load_bridge(js: QuickJS, limits: Limits) -> dict[str, int]:
    """Evaluates the scripts of gatemini_js; gives the bridge's functions."""
    folder = files("gatemini_js")

    def script(name: str) -> int:
        return js.evaluate(folder.joinpath(name).read_bytes(), f"gatemini/{name}")

    values = js.call(script("values.js"))
    protocol = js.parse(json.dumps({**PROTOCOL, "console": _console_protocol(limits)}).encode())
    parts = [
        js.call(script(name), js.again(values))
        for name in ("encode.js", "shims.js", "regexp.js", "locale.js", "timers.js", "tool_error.js")
    ]
    terminal = js.call(script("console.js"), js.again(values), js.again(protocol))
    backends = script("backends.js")
    bridge = js.call(script("prelude.js"), values, *parts, backends, terminal, protocol)
    return {name: js.item(bridge, index) for index, name in enumerate(FUNCTIONS)}


def _console_protocol(limits: Limits) -> dict[str, Any]:
    """The console's part of the vocabulary with the sizes of these limits: its buffer is made at boot."""
    return {**PROTOCOL["console"], "bytes": limits.console_bytes, "line": limits.console_line}


def _differences(fresh: bytes, booted: bytes) -> Iterator[tuple[int, bytes]]:
    fresh = fresh.ljust(len(booted), b"\0")
    start: int | None = None
    for at in range(0, len(booted) + IMAGE_PAGE, IMAGE_PAGE):
        changed = booted[at : at + IMAGE_PAGE] != fresh[at : at + IMAGE_PAGE]
        if changed and start is None:
            start = at
        elif not changed and start is not None:
            yield start, booted[start:at]
            start = None
