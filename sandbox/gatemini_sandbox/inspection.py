"""List which guest runs, what it can reach and its limits: what `gatemini sandbox inspect` prints."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from typing import Any

from gatemini_sandbox.limits import Limits
from gatemini_sandbox.webassembly import patched_module, wasi
from gatemini_sandbox.webassembly.engine import NATIVE_STACK, WASI_MODULE
from gatemini_sandbox.webassembly.turns import TICK_SECONDS


def inspect(limits: Limits | None = None) -> dict[str, Any]:
    """Hash, imports with what each is bound to, limits. A guest that imports anything else does not start."""
    wasm = patched_module.guest_wasm()
    return {
        "guest": {
            "distribution": patched_module.DISTRIBUTION,
            "version": importlib.metadata.version(patched_module.DISTRIBUTION),
            "sha256": patched_module.GUEST_SHA256,
            "bytes": len(wasm),
        },
        "engine": {"name": "wasmtime", "version": importlib.metadata.version("wasmtime")},
        "patch": f"a C stack of {patched_module.STACK_BYTES >> 20} MiB, whose pointer (global 0, exported as {patched_module.STACK_POINTER}) "
        "is checked wherever it is set; one constant: a call may have 131071 arguments, not 65535",
        "host_functions": 0,
        "imports": [
            {"module": WASI_MODULE, "name": name, "bound_to": bound} for name, bound in wasi.BINDINGS.items()
        ],
        "stack": {"guest_bytes": patched_module.STACK_BYTES, "native_bytes": NATIVE_STACK},
        "tick_seconds": TICK_SECONDS,
        "limits": dataclasses.asdict(limits or Limits()),
    }
