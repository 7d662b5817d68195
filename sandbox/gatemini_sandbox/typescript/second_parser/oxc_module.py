"""Load the compiled OXC module from the cache on disk, so that no process compiles it for a second.

quickjs-rs offers no way to do that, so this file puts the module where quickjs-rs keeps its own: the only use of
private parts of quickjs-rs. Where they have changed, every process compiles the module.
"""

from __future__ import annotations

import threading
from pathlib import Path

from quickjs_rs import _transform, _wasmtime, transform_source
from wasmtime import WasmtimeError

from gatemini_sandbox.errors import HostExhausted
from gatemini_sandbox.webassembly.module_cache import load_module

_loading = threading.Lock()


def load(cache_dir: Path | None) -> None:
    """Make `transform_source` ready: 5 ms from the cache, else a second of CPU time. Once in a process. Raises
    HostExhausted."""
    with _loading:
        try:
            if "transform" not in _wasmtime._SHARED_ARTIFACTS:
                engine = _wasmtime.shared_wasmtime_engine()
                module, _ = load_module(engine, _transform._read_transform_wasm, cache_dir, "oxc")
                linker = _wasmtime.default_wasi_linker(engine)
                artifact = _wasmtime.SharedWasmArtifact(module=module, linker=linker, build_id=b"")
                _wasmtime._SHARED_ARTIFACTS["transform"] = artifact
        except (AttributeError, TypeError):  # private parts have changed
            pass
        try:
            transform_source("ready.ts", "")  # the first use makes what no process may make behind its walls
        except WasmtimeError as exc:
            raise HostExhausted(f"no memory for the second parser: {exc}") from None
