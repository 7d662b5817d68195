"""`gatemini sandbox inspect`: what the guest imports and what each import is bound to, for a reviewer.

Above: main. Below: the sandbox package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import typer
from rich.table import Table

from gatemini.cache import default_path
from gatemini.cli import shell
from gatemini_sandbox.engine import Engine
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.module import GUEST_FILE, GUEST_SHA256, guest_wasm
from gatemini_sandbox.wasi import BINDINGS

ENGINE_FOLDER = "engine"
"""Beside the cache: where the gateway keeps the compiled guest."""

app = shell.application("The sandbox.")
sandbox_app = shell.application("inspect")
app.add_typer(sandbox_app, name="sandbox")


def start(words: Sequence[str]) -> int:
    return shell.start(app, words)


@sandbox_app.command()
def inspect(as_json: shell.JSON = False) -> None:
    """The guest's hash, everything it imports, what each import is bound to, and the default limits."""
    facts = inspection()
    if as_json:
        shell.emit(facts)
    else:
        _show(facts)
    if not facts["ok"]:
        raise typer.Exit(shell.FAILED)


def inspection() -> dict[str, Any]:
    """Read from the compiled guest itself, not from a list; one that imports more is not even loaded."""
    data = guest_wasm()
    digest = hashlib.sha256(data).hexdigest()
    loaded = Engine(default_path().parent / ENGINE_FOLDER)
    imports = [
        {
            "name": f"{module}.{name}",
            "bound_to": BINDINGS.get(name, "NOT BOUND: such a guest is not started"),
        }
        for module, name in loaded.imports
    ]
    return {
        "ok": digest == GUEST_SHA256 and all(name in BINDINGS for _, name in loaded.imports),
        "guest": GUEST_FILE,
        "sha256": digest,
        "pinned_sha256": GUEST_SHA256,
        "engine": f"wasmtime {version('wasmtime')}",
        "imports": imports,
        "host_functions": [entry["name"] for entry in imports if not entry["name"].startswith("wasi_")],
        "limits": asdict(Limits()),
    }


def _show(facts: dict[str, Any]) -> None:
    same = (
        "as pinned"
        if facts["sha256"] == facts["pinned_sha256"]
        else f"NOT as pinned ({facts['pinned_sha256']})"
    )
    shell.say(f"guest   {facts['guest']}  sha256 {facts['sha256']}  ({same})")
    shell.say(f"engine  {facts['engine']}")
    shell.say(f"host functions  {', '.join(facts['host_functions']) or 'none'}")
    table = Table("import", "bound to", box=None, pad_edge=False)
    for entry in facts["imports"]:
        table.add_row(entry["name"], entry["bound_to"])
    shell.stdout_console().print(table)
    shell.say("default limits  " + ", ".join(f"{key} {value}" for key, value in facts["limits"].items()))
