"""The one model of the configuration: every key, its default and its bounds.

`load.py` reads files into it section by section; `gatemini config schema` prints its JSON Schema. A key
stands here only when some code reads it: one that nothing reads would look like protection and give none.
Above: load, app, manager, register_manual. Below: pydantic, backend.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from gatemini.config.backend import (
    BackendConfig,
    CliTool,
    Duration,
    PoolConfig,
    Prerequisite,
    RateLimit,
    RetryConfig,
    Strict,
    ToolFilter,
    parse_duration,
)

__all__ = [
    "BackendConfig",
    "CliTool",
    "CompositeTool",
    "Config",
    "Duration",
    "HealthConfig",
    "OutputConfig",
    "PoolConfig",
    "Prerequisite",
    "RateLimit",
    "RegistrationConfig",
    "ResultsConfig",
    "RetryConfig",
    "SandboxConfig",
    "SearchConfig",
    "SecretsConfig",
    "SemanticConfig",
    "Strict",
    "ToolFilter",
    "parse_duration",
]

MAX_CHAIN_SECONDS = 600.0
"""The longest a chain may run, whatever a request or the configuration asks for."""


def _qualified(target: str) -> str:
    backend, dot, tool = target.partition(".")
    if not (backend and dot and tool):
        raise ValueError("a qualified name, backend.tool")
    return target


def _expanded(value: Path | None) -> Path | None:
    return value.expanduser() if value is not None else None


class OutputConfig(Strict):
    """`sandbox.output`: which stages reduce an answer, and from which size on (bytes)."""

    auto_chunk_json: bool = True
    smart_truncation: bool = True
    intent_filter: bool = True
    table: bool = True
    table_threshold: int = Field(default=2048, ge=0)
    chunk_threshold: int = Field(default=10240, ge=256)
    intent_threshold: int = Field(default=5000, ge=0)
    budget_tokens: int | None = Field(default=None, ge=100)


class SandboxConfig(Strict):
    """What one chain may use; each limit ends a chain with an error that names it."""

    timeout: Annotated[Duration, Field(le=MAX_CHAIN_SECONDS)] = 30.0
    cpu_seconds: float = Field(default=10.0, gt=0, le=MAX_CHAIN_SECONDS)
    memory_mb: int = Field(default=256, ge=16, le=2048)
    total_memory_mb: int = Field(default=1024, ge=16)
    max_concurrent_sandboxes: int = Field(default=8, ge=1, le=256)
    isolation: Literal["thread", "process"] = "thread"
    max_output_size: int = Field(default=200_000, ge=1000)
    max_depth: int = Field(default=1000, ge=8, le=10_000)
    max_code_bytes: int = Field(default=256 * 1024, ge=1024)
    max_calls: int = Field(default=1000, ge=1)
    max_calls_in_flight: int = Field(default=32, ge=1, le=1024)
    max_argument_bytes: int = Field(default=4 << 20, ge=1024)
    max_result_bytes: int = Field(default=32 << 20, ge=1024)
    max_value_bytes: int = Field(default=32 << 20, ge=1024)
    max_console_bytes: int = Field(default=64 << 10, ge=256)
    max_console_line: int = Field(default=2000, ge=16)
    output: OutputConfig = OutputConfig()


class CompositeTool(Strict):
    """A tool made of a chain: its code gets the call's arguments as `args`."""

    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    code: str = Field(min_length=1)


RegistrationMode = Literal["allow", "ask", "deny"]


class RegistrationConfig(Strict):
    """What `register_manual` may start, per kind of backend; `allow_*` narrow what `allow` means."""

    http: RegistrationMode = "allow"
    stdio: RegistrationMode = "ask"
    cli: RegistrationMode = "ask"
    allow_commands: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()


class SearchConfig(Strict):
    """How `search_tools` ranks; the three numbers are those of BM25."""

    ranking: Literal["best", "classic"] = "best"
    k1: float = Field(default=1.2, ge=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)
    name_weight: int = Field(default=2, ge=1, le=20)


class SemanticConfig(Strict):
    """`model`: `none`, `bundled`, a directory, or a hub name such as `minishlab/potion-base-8M`."""

    model: str = "bundled"


class HealthConfig(Strict):
    """The health loop's clock: probes, restarts, circuit breaker, memory watch."""

    interval: Duration = 30.0
    timeout: Duration = 5.0
    failure_threshold: int = Field(default=3, ge=1)
    max_restarts: int = Field(default=5, ge=0)
    restart_window: Duration = 60.0
    backoff_initial: Duration = 1.0
    backoff_max: Duration = 30.0
    restart_timeout: Duration = 30.0
    recovery_multiplier: float = Field(default=3.0, ge=1)
    drain_timeout: Duration = 10.0
    memory_check_interval: Duration = 30.0
    memory_restart_cooldown: Duration = 60.0


class ResultsConfig(Strict):
    """Lifetime and caps of stored results, per session."""

    memory_mb: int = Field(default=256, ge=1)
    disk_mb: int = Field(default=2048, ge=0)
    idle: Duration = 3600.0


class SecretsConfig(Strict):
    """`redact`: further variables to hide; `exec_allow`: commands `secretref:exec:` may run."""

    redact: tuple[str, ...] = ()
    exec_allow: tuple[str, ...] = ()
    exec_timeout: Annotated[Duration, Field(le=60)] = 10.0
    strict: bool = False


class Config(Strict):
    """The whole configuration. `backends` holds only those that may be started."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    backends: dict[str, BackendConfig] = Field(default_factory=dict)
    aliases: dict[str, Annotated[str, AfterValidator(_qualified)]] = Field(default_factory=dict)
    composite_tools: dict[str, CompositeTool] = Field(default_factory=dict)
    registration: RegistrationConfig = RegistrationConfig()
    max_dynamic_backends: int = Field(default=10, ge=0, le=1000)
    sandbox: SandboxConfig = SandboxConfig()
    search: SearchConfig = SearchConfig()
    semantic: SemanticConfig = SemanticConfig()
    health: HealthConfig = HealthConfig()
    cache_path: Annotated[Path | None, AfterValidator(_expanded)] = None
    results: ResultsConfig = ResultsConfig()
    secrets: SecretsConfig = SecretsConfig()
    include: tuple[Path, ...] = ()
