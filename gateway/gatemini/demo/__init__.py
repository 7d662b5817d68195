"""The embedded demo backends, which the gateway serves when there is no configuration.

`shop` (orders in SQLite), `notes` (files in a private temporary folder) and `clock` (time zones and units) are real MCP
servers that run in-process, need no network and no key, and leave nothing behind.
"""

from __future__ import annotations

from gatemini.config.model.schema import BackendConfig


def backends() -> list[BackendConfig]:
    """Return the three demo backends as a configuration file would name them."""
    return [
        BackendConfig(name=name, transport="python", module=f"gatemini.demo.{name}:server", tags=("demo",))
        for name in ("shop", "notes", "clock")
    ]
