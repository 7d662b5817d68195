"""The one model of the configuration: every key, its default and its bounds.

`load.py` reads files into it; `gatemini config schema` prints its JSON Schema. Above: load, app, manager.
Below: pydantic.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(value: object) -> object:
    """`500ms`, `30s`, `5m`, `1h` → seconds as float; bare numbers are seconds."""
    if isinstance(value, str):
        match = _DURATION.match(value)
        if match is None:
            raise ValueError("write a duration as 500ms, 30s, 5m or 1h")
        return float(match[1]) * _UNITS[match[2]]
    return value


Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
"""Seconds."""


class Strict(BaseModel):
    """Unknown keys are errors: a key that nothing reads must not look like protection."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolFilter(Strict):
    """`tools.allow` / `tools.deny`: globs over the backend's tool names."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class BackendConfig(Strict):
    """One backend. `transport` follows from `command`, `url` or `module` when it is left out."""

    name: str
    transport: Literal["stdio", "streamable-http", "sse", "python"] = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    inherit_env: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    module: str | None = None
    namespace: str | None = None
    tags: tuple[str, ...] = ()
    required_keys: tuple[str, ...] = ()
    timeout: Duration = 30.0
    connect_timeout: Duration = 60.0
    shutdown_grace_period: Duration = 5.0
    max_concurrent_calls: int | None = Field(default=None, ge=1)
    semaphore_timeout: Duration = 60.0
    max_message_mb: int = Field(default=64, ge=1, le=4096)
    tools: ToolFilter = ToolFilter()
    disabled: bool = False
