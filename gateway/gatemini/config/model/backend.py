"""The keys of one backend, with defaults and bounds: the same for configured and registered backends."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from gatemini.config.model.values.durations import MAX_SECONDS, parse_duration
from gatemini.config.model.values.urls import Https, is_encrypted

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""Names of backends: the first half of every qualified name."""

Transport = Literal["stdio", "streamable-http", "sse", "cli-adapter", "python"]

Flow = Literal["auto", "browser", "device", "client_credentials", "private_key_jwt"]
UNATTENDED = ("client_credentials", "private_key_jwt")
"""Flows of a login that need no person."""

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    Field(gt=0, le=MAX_SECONDS),
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
    """Unknown keys are errors: a key without effect must not look like protection."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


class ToolFilter(Strict):
    """`tools.allow` / `tools.deny`: globs over the backend's tool names."""

    allow: tuple[str, ...] = ()
    """Globs; when set, only tools that match one are listed and callable."""
    deny: tuple[str, ...] = ()
    """Globs; tools that match one are neither listed nor callable."""


class RetryConfig(Strict):
    """Repeats of a call that provably was not sent, or that is annotated as repeatable."""

    max_retries: int = Field(default=3, ge=0, le=20)
    """Repeats after the first attempt."""
    initial_delay: Duration = 0.5
    """Before the first repeat."""
    max_delay: Duration = 2.0
    """The longest pause between two attempts."""
    multiplier: float = Field(default=2.0, ge=1, le=10)
    """Growth of the pause from one repeat to the next."""


class RateLimit(Strict):
    """At most `max_calls` calls start within any `window`."""

    max_calls: int = Field(ge=1)
    """Calls that may start within any window."""
    window: Duration = 60.0
    """Length of the window."""


class PoolConfig(Strict):
    """Instances of a `dedicated` backend: some kept ready, more started on demand."""

    min_idle: int = Field(default=1, ge=0, le=100)
    """Instances kept ready."""
    max_instances: int = Field(default=20, ge=1, le=1000)
    """Instances at most."""
    acquire_timeout: Duration = 30.0
    """How long a session waits for an instance."""
    replenish_delay: Duration = 2.0
    """Pause before an instance that was taken is replaced."""


class Prerequisite(Strict):
    """A process that the backend needs; a `managed` one is stopped with it."""

    command: str
    """Program to start."""
    args: tuple[Text, ...] = Field(default=(), repr=False)
    """Its arguments."""
    env: dict[str, Text] = Field(default_factory=dict, repr=False)
    """Its own variables."""
    cwd: str | None = None
    """Its working folder."""
    process_match: str | None = None
    """A running process whose command line holds this counts as started."""
    managed: bool = True
    """Stop it with the backend."""
    startup_delay: Duration = 2.0
    """Pause before the backend starts."""


class CliTool(Strict):
    """A tool that is a command line. `command` is a list, or a string split once by shell rules."""

    description: str = ""
    """What the tool does; shown to agents and searched."""
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})
    """JSON Schema of its arguments."""
    command: str | tuple[Text, ...]
    """A list, or a string split once by shell rules; `{{param}}` fills one argument or a part of one."""
    stdin: str | None = None
    """Text for standard input; `{{param}}` is filled in."""
    output: Literal["json", "text", "lines"] = "text"
    """How stdout is read."""
    cwd: str | None = None
    """Working folder."""
    timeout: Duration | None = None
    """At most so long for one run; else the backend's."""
    shell: bool = False
    """Run through a shell; values arrive as quoted words."""
    allow_leading_dash: bool = False
    """Let a value that begins with `-` start an argument."""
    annotations: dict[str, Any] = Field(default_factory=dict)
    """MCP tool annotations, such as `readOnlyHint`."""

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


def _document(url: str | None) -> str | None:
    parts = urlsplit(url or "")
    if url is not None and (parts.scheme != "https" or not parts.hostname or parts.path in ("", "/")):
        raise ValueError("an https:// URL with a path")
    return url


class BackendOAuth(Strict):
    """The login to one backend. `oauth: {}` finds out everything from the server."""

    issuer: Https | None = None
    """The only issuer that counts; else the one that the server names when it is first met."""
    scopes: tuple[str, ...] = ()
    """Scopes to ask for; else those that the server names."""
    client_id: str | None = Field(default=None, min_length=1)
    """A client that was registered beforehand; else the gateway registers itself."""
    client_secret: str | None = Field(default=None, min_length=1, repr=False)
    """Its secret; for `private_key_jwt` its private key as PEM. As `${VARIABLE}` or `secretref:`."""
    client_metadata_url: Annotated[str | None, AfterValidator(_document)] = None
    """Address of a client metadata document, used as client id where the issuer takes such."""
    flow: Flow = "auto"
    """`auto`: browser, or device where there is no browser and the issuer offers it."""
    redirect_port: int = Field(default=0, ge=0, le=65535)
    """Port on 127.0.0.1 to which the browser comes back; 0 for any."""
    audience: str | None = Field(default=None, min_length=1)
    """Sent as `audience`, for issuers that want one."""
    per_user: bool = False
    """A login, and a connection, for each principal of HTTP clients; the one of `gatemini login` lists the tools."""
    exchange: Literal["access_token", "jwt"] | None = None
    """Get a principal's token for its own one (RFC 8693), which the issuer is sent as this type; implies `per_user`."""

    @model_validator(mode="after")
    def _complete(self) -> BackendOAuth:
        if self.flow in UNATTENDED and not (self.client_id and self.client_secret):
            raise PydanticCustomError(
                "incomplete", "flow {flow} needs client_id and client_secret", {"flow": self.flow}
            )
        return self


class BackendConfig(Strict):
    """One backend. `transport` follows from `command`, `url`, `module` or CLI tools when it is left out.

    Files have the tools of a CLI adapter as `tools.<name>`; the model has them as `cli_tools`, and only the filter as
    `tools`. Values that may carry secrets are left out of the repr.
    """

    name: str = Field(pattern=NAME_PATTERN)
    transport: Transport = "stdio"
    """Follows from command, url, module or CLI tools when left out."""
    command: str | None = None
    """Program of a stdio backend."""
    args: tuple[Text, ...] = Field(default=(), repr=False)
    """Its arguments."""
    env: dict[str, Text] = Field(default_factory=dict, repr=False)
    """Variables for it, beside the few that every child gets."""
    inherit_env: tuple[str, ...] = ()
    """Names of further variables to pass on."""
    cwd: str | None = None
    """Its working folder."""
    url: str | None = Field(default=None, repr=False)
    """Address of an HTTP backend."""
    headers: dict[str, Text] = Field(default_factory=dict, repr=False)
    """Sent with every HTTP request."""
    oauth: BackendOAuth | None = None
    """Log in to an HTTP backend by OAuth; `gatemini login` begins it."""
    module: str | None = None
    """`package.mod:server`, run in-process (transport python)."""
    namespace: str | None = Field(default=None, pattern=NAME_PATTERN)
    """First half of its tools' names instead of the backend's own."""
    tags: tuple[str, ...] = ()
    """For `search_tools` with `tag`."""
    required_keys: tuple[str, ...] = ()
    """Variables it needs, named when they are missing."""
    timeout: Duration = 30.0
    """One call at most; where it is not set, a chain with more time gives its calls more."""
    connect_timeout: Duration = 60.0
    """From start to ready."""
    shutdown_grace_period: Duration = 5.0
    """Between asking to stop and killing."""
    max_concurrent_calls: int | None = Field(default=None, ge=1)
    """Calls in flight; more wait. 5 for CLI adapters unless set."""
    semaphore_timeout: Duration = 60.0
    """How long a call waits for its turn."""
    max_message_mb: int = Field(default=64, ge=1, le=4096)
    """The largest message taken from it."""
    max_memory_mb: int | None = Field(default=None, ge=1)
    """Resident memory beyond which it is restarted."""
    retry: RetryConfig = RetryConfig()
    """Repeats of calls that provably were not sent, or may be repeated."""
    rate_limit: RateLimit | None = None
    """Calls within a time."""
    fallback_chain: tuple[str, ...] = ()
    """Backends that answer the same bare tool when this one cannot."""
    prerequisite: Prerequisite | None = None
    """A process that must run beside it."""
    instance_mode: Literal["shared", "dedicated", "singleton"] = "shared"
    """One instance for all sessions, one for each, or one for all replicas on one `state.url`."""
    pool: PoolConfig = PoolConfig()
    """Instances of a dedicated backend."""
    lazy: bool = False
    """Connect at the first call; tools come from the cache."""
    tools: ToolFilter = ToolFilter()
    cli_tools: dict[str, CliTool] = Field(default_factory=dict)
    health_check: str | tuple[Text, ...] | None = None
    """Command that fails when a CLI adapter cannot work."""
    disabled: bool = False
    """Keep the entry, do not start it."""

    @property
    def is_per_user(self) -> bool:
        """Whether each principal has a login of its own."""
        return self.oauth is not None and (self.oauth.per_user or self.oauth.exchange is not None)

    @property
    def runs_once(self) -> bool:
        """Whether one process of it serves all replicas on one store."""
        return self.instance_mode == "singleton" and self.transport in ("stdio", "python")

    @property
    def without_effect(self) -> list[tuple[str, str]]:
        """Keys that do nothing in a `singleton`, each with the reason."""
        if self.instance_mode != "singleton":
            return []
        found = []
        if not self.runs_once:
            found.append(
                ("instance_mode", f"singleton has no effect on {self.transport}: no process is kept")
            )
        if "pool" in self.model_fields_set:
            found.append(("pool", "has no effect with instance_mode singleton: it is for dedicated"))
        return found

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
        if self.oauth is not None and self.url is None:
            raise PydanticCustomError("oauth", "oauth is for backends with a url")
        if self.oauth is not None and self.url is not None and not is_encrypted(self.url):
            raise PydanticCustomError(
                "oauth", "oauth needs an https:// url: its tokens would be sent in clear"
            )
        if self.oauth is not None and any(name.lower() == "authorization" for name in self.headers):
            raise PydanticCustomError("oauth", "oauth and headers.Authorization exclude each other")
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
