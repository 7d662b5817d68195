"""The model of the configuration: every key, its default and its bounds.

A key is added with the code that reads it: a key without effect would look like protection.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from gatemini.config.model.audit import AuditConfig
from gatemini.config.model.backend import (
    BackendConfig,
    CliTool,
    Duration,
    PoolConfig,
    Prerequisite,
    RateLimit,
    RetryConfig,
    Strict,
    Text,
    ToolFilter,
)
from gatemini.config.model.context import ContextConfig
from gatemini.config.model.http.server import HttpConfig
from gatemini.config.model.http.state import StateConfig
from gatemini.config.model.log import Level, LogConfig
from gatemini.config.model.policy import PolicyConfig
from gatemini.folders import from_home

__all__ = [
    "AuditConfig",
    "BackendConfig",
    "CliTool",
    "CompositeTool",
    "Config",
    "ContextConfig",
    "DaemonConfig",
    "Duration",
    "HealthConfig",
    "HttpConfig",
    "LogConfig",
    "OutputConfig",
    "PolicyConfig",
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
    "StateConfig",
    "Strict",
    "ToolFilter",
]

MAX_CHAIN_SECONDS = 600.0
"""The longest a chain may run, whatever a request or the configuration asks for."""


def _qualified(target: str) -> str:
    backend, dot, tool = target.partition(".")
    if not (backend and dot and tool):
        raise ValueError("a qualified name, backend.tool")
    return target


def _expanded(value: Path | None) -> Path | None:
    return from_home(value) if value is not None else None


class OutputConfig(Strict):
    """`sandbox.output`: which stages reduce an answer, and from which size on (bytes)."""

    auto_chunk_json: bool = True
    """Reduce large JSON by structure."""
    smart_truncation: bool = True
    """Cut what is still too long at head and tail."""
    intent_filter: bool = True
    """Keep what the call's `intent` is about."""
    table: bool = True
    """Write uniform rows as a table where that is smaller."""
    table_threshold: int = Field(default=2048, ge=0)
    """Bytes from which a table is considered."""
    chunk_threshold: int = Field(default=10240, ge=256)
    """Bytes from which JSON is reduced."""
    intent_threshold: int = Field(default=5000, ge=0)
    """Bytes from which the intent filters."""
    text_threshold: int = Field(default=30_000, ge=1000)
    """Characters from which plain text is shortened, where the call names no `max_output_size`."""
    text_target: int = Field(default=12_000, ge=500)
    """Characters that such a text is shortened to."""
    budget_tokens: int | None = Field(default=None, ge=100)
    """A token budget (bytes/4) instead of a size."""


class SandboxConfig(Strict):
    """What one chain may use; each limit ends a chain with an error that names it."""

    timeout: Annotated[Duration, Field(le=MAX_CHAIN_SECONDS)] = 30.0
    """Wall time of a chain, waiting included; at most 10m."""
    cpu_seconds: float = Field(default=10.0, gt=0, le=MAX_CHAIN_SECONDS)
    """CPU time of the guest."""
    memory_mb: int = Field(default=256, ge=16, le=2048)
    """Memory of one guest."""
    total_memory_mb: int = Field(default=1024, ge=16)
    """Memory of all guests together."""
    max_concurrent_sandboxes: int = Field(default=8, ge=1, le=256)
    """Guests running at once; more chains wait."""
    isolation: Literal["thread", "process"] = "process"
    """Guests in sandbox processes, or on threads of the gateway: for embedding, and on Windows always."""
    processes: int | None = Field(default=None, ge=1, le=64)
    """Sandbox processes that are always there; else one on two cores or fewer, two on more."""
    guests_per_process: int = Field(default=32, ge=1, le=1024)
    """Guests in one sandbox process; further ones start when all are full."""
    max_output_size: int = Field(default=200_000, ge=1000)
    """Characters of an answer."""
    max_depth: int = Field(default=1000, ge=8, le=10_000)
    """Nesting of values that cross the boundary."""
    max_code_bytes: int = Field(default=256 * 1024, ge=1024)
    """Size of a chain's code."""
    max_calls: int = Field(default=1000, ge=1)
    """Tool calls of one chain."""
    max_calls_in_flight: int = Field(default=32, ge=1, le=1024)
    """Its calls at the same time."""
    max_argument_bytes: int = Field(default=4 << 20, ge=1024)
    """Arguments of one call."""
    max_result_bytes: int = Field(default=32 << 20, ge=1024)
    """Result of one call taken into the guest."""
    max_value_bytes: int = Field(default=32 << 20, ge=1024)
    """Value a chain returns."""
    max_console_bytes: int = Field(default=64 << 10, ge=256, le=16 << 20)
    """Console output kept."""
    max_console_line: int = Field(default=2000, ge=16, le=1 << 20)
    """Characters kept of one console line."""
    output: OutputConfig = OutputConfig()
    """How answers are reduced."""


class CompositeTool(Strict):
    """A tool made of a chain: its code gets the call's arguments as `args`."""

    description: str = ""
    """What the tool does; shown to agents and searched."""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    """JSON Schema of `args`."""
    code: str = Field(min_length=1)
    """TypeScript; gets the call's arguments as `args`. `$` means itself here."""


RegistrationMode = Literal["allow", "ask", "deny"]


class RegistrationConfig(Strict):
    """What `register_manual` may start, per kind of backend; `allow` takes only what `allow_*` lists."""

    http: RegistrationMode = "ask"
    """Backends with a url."""
    stdio: RegistrationMode = "ask"
    """Backends with a command."""
    cli: RegistrationMode = "ask"
    """CLI adapters."""
    allow_commands: tuple[str, ...] = ()
    """Programs that may be registered, `"*"` for any. Empty: none under `allow`, any that a person agrees to under `ask`."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be registered, `"*"` for any; empty like `allow_commands`. Loopback and private networks must be listed."""


class SearchConfig(Strict):
    """How `search_tools` ranks; the three numbers are those of the BM25 of `classic`."""

    ranking: Literal["best", "classic"] = "best"
    """`best`, or the documented ladder `classic`."""
    k1: float = Field(default=1.2, ge=0, le=10)
    """BM25's term saturation; of `classic` only."""
    b: float = Field(default=0.75, ge=0, le=1)
    """BM25's length normalisation; of `classic` only."""
    name_weight: int = Field(default=2, ge=1, le=20)
    """How often a word of the name counts; of `classic` only."""
    history: bool = True
    """Keep what was searched and then called in a private file, for `gatemini eval`."""


class SemanticConfig(Strict):
    """`model`: `none`, `bundled`, a directory, or a hub name such as `minishlab/potion-base-8M`."""

    model: str = "bundled"
    """`none`, `bundled`, a directory, or a hub name such as `minishlab/potion-base-8M`."""


class HealthConfig(Strict):
    """The health loop's clock: probes, restarts, circuit breaker, memory watch."""

    interval: Duration = 30.0
    """Between two probes."""
    timeout: Duration = 5.0
    """One probe at most."""
    failure_threshold: int = Field(default=3, ge=1)
    """Failed probes that make a backend unhealthy."""
    max_restarts: int = Field(default=5, ge=0)
    """Restarts within `restart_window`."""
    restart_window: Duration = 60.0
    """The window of `max_restarts`."""
    backoff_initial: Duration = 1.0
    """First pause before a restart."""
    backoff_max: Duration = 30.0
    """The longest pause."""
    restart_timeout: Duration = 30.0
    """One automatic restart at most; a start that a call asks for has `connect_timeout`."""
    recovery_multiplier: float = Field(default=3.0, ge=1)
    """The circuit stays open for interval × this, then one probe decides."""
    drain_timeout: Duration = 10.0
    """How long open calls may finish when stopping."""
    memory_check_interval: Duration = 30.0
    """Between two looks at memory."""
    memory_restart_cooldown: Duration = 60.0
    """Between two restarts over memory."""


class ResultsConfig(Strict):
    """Lifetime and caps of stored results, per session."""

    memory_mb: int = Field(default=256, ge=1)
    """In memory per session, then spilled to disk."""
    disk_mb: int = Field(default=2048, ge=0)
    """On disk per session; the oldest unused go first."""
    idle: Duration = 3600.0
    """A result that is not read for so long is dropped."""


class KeyringConfig(Strict):
    """`secretref:keyring:NAME`: the OS keychain."""

    service: str = Field(default="gatemini", min_length=1)
    """The service of `NAME`; `SERVICE/NAME` has its own."""


def _command_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise ValueError("letters, digits, _ and -, the first a letter")
    return name


class SecretsConfig(Strict):
    """Where secrets may come from, and what is hidden."""

    redact: tuple[str, ...] = ()
    """Variables to hide beyond those used in env, headers and url credentials."""
    commands: dict[
        Annotated[str, AfterValidator(_command_name)], Annotated[tuple[Text, ...], Field(min_length=1)]
    ] = Field(default_factory=dict)
    """Name → program and arguments that print a secret, for `secretref:command:NAME:ARG`; `{arg}` becomes ARG."""
    command_timeout: Annotated[Duration, Field(le=60)] = 10.0
    """One such command at most."""
    strict: bool = False
    """Make an unresolved variable or secret stop the start."""
    keyring: KeyringConfig = KeyringConfig()
    """The OS keychain."""


class DaemonConfig(Strict):
    """The process that serves all clients of one configuration."""

    idle_timeout: Duration = 300.0
    """A daemon without a client, call or waiting chain ends after so long."""
    client_drain_timeout: Duration = 30.0
    """How long open calls may finish when it stops."""
    start_timeout: Duration = 20.0
    """How long a client waits for it to start."""
    instant: bool = True
    """Answer the first requests of a client from saved answers while it starts."""
    max_sessions: int = Field(default=256, ge=1, le=10_000)
    """Clients connected at once."""
    max_requests_per_session: int = Field(default=64, ge=1, le=10_000)
    """Requests of one client in flight; further ones wait."""
    session_env: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Variables that each client brings for the backends that name them."""
    linger: bool = False
    """Do not end when idle."""


class Config(Strict):
    """The whole configuration. `backends` holds only those that may be started."""

    log_level: Level = "info"
    """The least level that is logged; `log.level` wins."""
    profile: Literal["developer", "locked"] = "developer"
    """`locked` sets strict defaults, and refuses keys that weaken them."""
    profile_exceptions: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Key that may weaken `locked` → the reason, for those who review the configuration."""
    backends: dict[str, BackendConfig] = Field(default_factory=dict)
    """By name: letters, digits, `_` and `-`."""
    aliases: dict[str, Annotated[str, AfterValidator(_qualified)]] = Field(default_factory=dict)
    """Short name → `backend.tool`."""
    composite_tools: dict[str, CompositeTool] = Field(default_factory=dict)
    """Tools made of a chain, by name."""
    registration: RegistrationConfig = RegistrationConfig()
    """What agents may register."""
    max_dynamic_backends: int = Field(default=10, ge=0, le=1000)
    """Registered backends of one session alive at once."""
    sandbox: SandboxConfig = SandboxConfig()
    """Limits of a chain."""
    search: SearchConfig = SearchConfig()
    """How tools are ranked."""
    semantic: SemanticConfig = SemanticConfig()
    """The embedding model of the search."""
    health: HealthConfig = HealthConfig()
    """Probes and restarts."""
    cache_path: Annotated[Path | None, AfterValidator(_expanded)] = None
    """The cache file; else the platform's cache folder."""
    results: ResultsConfig = ResultsConfig()
    """Stored results."""
    daemon: DaemonConfig = DaemonConfig()
    """The process that serves all clients."""
    http: HttpConfig = HttpConfig()
    """`gatemini serve --http`."""
    state: StateConfig = StateConfig()
    """What replicas share."""
    policy: PolicyConfig | None = None
    """Which calls are allowed, denied, or asked about."""
    secrets: SecretsConfig = SecretsConfig()
    """Where secrets may come from, and what is hidden."""
    audit: AuditConfig = AuditConfig()
    """A log of calls, decisions and changes."""
    context: ContextConfig = ContextConfig()
    """What `gatemini llm-proxy` does to requests."""
    log: LogConfig = LogConfig()
    """The log of a serving gateway."""
    include: tuple[Path, ...] = ()
    """Further files: ours (backends, aliases, composite_tools) or a client's JSON."""

    @property
    def least_level(self) -> Level:
        """The least level that is logged."""
        return self.log.level or self.log_level
