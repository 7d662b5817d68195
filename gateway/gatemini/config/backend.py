"""One backend's keys, defaults and bounds (spec: settings per backend, CLI adapter).

The same model checks a configured backend and one that `register_manual` brings. Above: schema, load,
manager. Below: pydantic.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"^\s*\d+(?:\.\d+)?\s*$")
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""What a backend may be called: it becomes the first half of every qualified name."""
_MAX_DURATION = 7 * 24 * 3600.0

Transport = Literal["stdio", "streamable-http", "sse", "cli-adapter", "python"]


def parse_duration(value: object) -> object:
    """`500ms`, `30s`, `5m`, `1h` → seconds as float; bare numbers are seconds."""
    if isinstance(value, bool):
        raise ValueError("write a duration as 500ms, 30s, 5m or 1h")
    if isinstance(value, str):
        if _NUMBER.match(value):
            return float(value)
        match = _DURATION.match(value)
        if match is None:
            raise ValueError("write a duration as 500ms, 30s, 5m or 1h")
        return float(match[1]) * _UNITS[match[2]]
    return value


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    Field(gt=0, le=_MAX_DURATION),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h)\s*$"},
                {"type": "number", "exclusiveMinimum": 0},
            ],
            "description": "500ms, 30s, 5m, 1h; a bare number is seconds",
        }
    ),
]
"""Seconds."""


def as_text(value: object) -> object:
    """A scalar as the text a process gets: `8080` → "8080", `true` → "true"; all else unchanged."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value


Text = Annotated[str, BeforeValidator(as_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class Strict(BaseModel):
    """Unknown keys are errors: a key that nothing reads must not look like protection."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ToolFilter(Strict):
    """`tools.allow` / `tools.deny`: globs over the backend's tool names."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class RetryConfig(Strict):
    """Repeats of a call that provably was not sent, or that is annotated as repeatable."""

    max_retries: int = Field(default=3, ge=0, le=20)
    initial_delay: Duration = 0.5
    max_delay: Duration = 2.0
    multiplier: float = Field(default=2.0, ge=1, le=10)


class RateLimit(Strict):
    """At most `max_calls` calls start within any `window`."""

    max_calls: int = Field(ge=1)
    window: Duration = 60.0


class PoolConfig(Strict):
    """Instances of a `dedicated` backend: pre-warmed, grown on demand, waited for at most so long."""

    min_idle: int = Field(default=1, ge=0, le=100)
    max_instances: int = Field(default=20, ge=1, le=1000)
    acquire_timeout: Duration = 30.0
    replenish_delay: Duration = 2.0


class Prerequisite(Strict):
    """A process the backend needs beside it; `managed` ones are stopped with it."""

    command: str
    args: tuple[Text, ...] = Field(default=(), repr=False)
    env: dict[str, Text] = Field(default_factory=dict, repr=False)
    cwd: str | None = None
    process_match: str | None = None
    managed: bool = True
    startup_delay: Duration = 2.0


class CliTool(Strict):
    """A tool that is a command line. `command` is a list, or a string split once by shell rules."""

    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    command: str | tuple[Text, ...]
    stdin: str | None = None
    output: Literal["json", "text", "lines"] = "text"
    cwd: str | None = None
    timeout: Duration | None = None
    shell: bool = False
    allow_leading_dash: bool = False
    annotations: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _not_empty(self) -> CliTool:
        if (
            not self.command
            or not (self.command if isinstance(self.command, str) else self.command[0]).strip()
        ):
            raise PydanticCustomError("command", "command must name a program")
        if self.shell and not isinstance(self.command, str):
            raise PydanticCustomError("command", "with shell: true write command as one string")
        return self


class BackendConfig(Strict):
    """One backend. `transport` follows from `command`, `url`, `module` or CLI tools when it is left out.

    In files the CLI adapter's tools are written `tools.<name>`; here they stand apart as `cli_tools`, and
    `tools` holds only the filter. Values that may carry secrets are left out of the repr.
    """

    name: str = Field(pattern=NAME_PATTERN)
    transport: Transport = "stdio"
    command: str | None = None
    args: tuple[Text, ...] = Field(default=(), repr=False)
    env: dict[str, Text] = Field(default_factory=dict, repr=False)
    inherit_env: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = Field(default=None, repr=False)
    headers: dict[str, Text] = Field(default_factory=dict, repr=False)
    module: str | None = None
    namespace: str | None = Field(default=None, pattern=NAME_PATTERN)
    tags: tuple[str, ...] = ()
    required_keys: tuple[str, ...] = ()
    timeout: Duration = 30.0
    connect_timeout: Duration = 60.0
    shutdown_grace_period: Duration = 5.0
    max_concurrent_calls: int | None = Field(default=None, ge=1)
    semaphore_timeout: Duration = 60.0
    max_message_mb: int = Field(default=64, ge=1, le=4096)
    max_memory_mb: int | None = Field(default=None, ge=1)
    retry: RetryConfig = RetryConfig()
    rate_limit: RateLimit | None = None
    fallback_chain: tuple[str, ...] = ()
    prerequisite: Prerequisite | None = None
    instance_mode: Literal["shared", "dedicated"] = "shared"
    pool: PoolConfig = PoolConfig()
    lazy: bool = False
    tools: ToolFilter = ToolFilter()
    cli_tools: dict[str, CliTool] = Field(default_factory=dict)
    health_check: str | tuple[Text, ...] | None = None
    disabled: bool = False

    @model_validator(mode="before")
    @classmethod
    def _split(cls, data: Any) -> Any:
        """Infer the transport and part CLI tools from the tool filter."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        tools = data.get("tools")
        named = (
            {k: v for k, v in tools.items() if k not in _FILTER or isinstance(v, dict)}
            if isinstance(tools, dict)
            else {}
        )
        if data.get("transport") is None:
            data.pop("transport", None)
            data["transport"] = _inferred(data, bool(named) or bool(data.get("cli_tools")))
        if data["transport"] == "cli-adapter" and isinstance(tools, dict):
            data["tools"] = {k: v for k, v in tools.items() if k not in named}
            data["cli_tools"] = {**(data.get("cli_tools") or {}), **named}
        return data

    @model_validator(mode="after")
    def _whole(self) -> BackendConfig:
        """Each transport has what it needs and nothing that belongs to another."""
        targets = [key for key in ("command", "url", "module") if getattr(self, key)]
        if self.cli_tools:
            targets.append("tools")
        needed = _NEEDS[self.transport]
        if needed not in targets:
            what = "has neither command nor url" if not targets else f"has no {needed}"
            raise PydanticCustomError(
                "incomplete",
                "{what}; transport {transport} needs {needed}",
                {"what": what, "transport": self.transport, "needed": needed},
            )
        if len(targets) > 1:
            raise PydanticCustomError(
                "ambiguous",
                "has {targets} together; one backend has one of command, url, module or CLI tools",
                {"targets": " and ".join(targets)},
            )
        return self


_FILTER = frozenset(("allow", "deny"))
_NEEDS: dict[str, str] = {
    "stdio": "command",
    "streamable-http": "url",
    "sse": "url",
    "python": "module",
    "cli-adapter": "tools",
}


def _inferred(data: dict[str, Any], has_cli_tools: bool) -> Transport:
    if data.get("command") is not None:
        return "stdio"
    if data.get("url") is not None:
        return "streamable-http"
    if data.get("module") is not None:
        return "python"
    return "cli-adapter" if has_cli_tools else "stdio"
