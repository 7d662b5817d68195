"""The MCP handshake of either era: `server/discover` (2026-07-28) or `initialize` (until 2025-11-25)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import anyio

from gatemini.backends.calls.callers import Clients
from gatemini.backends.conversation.peer import Peer
from gatemini.backends.status import Era, ServerFacts
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendError, BackendProtocol, LoginRequired
from gatemini.model import Json

MODERN_VERSION = "2026-07-28"
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

PROBE_SILENCE_SECONDS = 2.0
"""A backend that does not answer `server/discover` for this long is sent `initialize` as well."""

SAVED_SECONDS = 86_400.0
"""The longest time for which the answer to `server/discover` is kept, whatever the server allows."""

_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_META_CLIENT = "io.modelcontextprotocol/clientInfo"
_META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_SERVER = "io.modelcontextprotocol/serverInfo"

_UNSUPPORTED_VERSION = -32022
"""Error code for a revision that a server does not speak; the error's data has those that it does."""

_VERSION_REFUSALS = (-32600, -32602)
"""Error codes (invalid request, invalid params) with which servers refuse a revision they do not speak."""


class SavedFacts:
    """What a stateless server stated about itself, kept for as long as it allows (`ttlMs`)."""

    def __init__(self) -> None:
        self._facts: ServerFacts | None = None
        self._until = 0.0

    def keep(self, facts: ServerFacts, ttl_ms: object) -> None:
        allowed = ttl_ms / 1000 if isinstance(ttl_ms, int | float) and math.isfinite(ttl_ms) else 0.0
        self._facts = facts
        self._until = anyio.current_time() + min(allowed, SAVED_SECONDS)

    def forget(self) -> None:
        self._facts = None

    def fresh(self) -> ServerFacts | None:
        return self._facts if anyio.current_time() < self._until else None


class Handshake:
    """The handshake of one connection. `saved` outlives the connection: its server need not be asked again."""

    def __init__(
        self, config: BackendConfig, peer: Peer, client_info: Json, clients: Clients, saved: SavedFacts
    ) -> None:
        self._name = config.name
        self._may_use_saved = config.transport == "streamable-http"
        self._peer = peer
        self._client_info = client_info
        self._clients = clients
        self._saved = saved
        self.from_saved = False
        """Whether the facts are kept ones, so that the server may be a different one by now."""
        self.announced: Json = {}
        """The client capabilities that `initialize` announced."""

    async def negotiate(self, *, timeout: float, known: Era | None) -> ServerFacts:
        """Find out which era the backend speaks; `known` is an earlier result.

        Raises `BackendCrashed` when it exits instead of answering (some do on an unknown method),
        `BackendTimeout` when it answers nothing in time, `BackendProtocol` when it refuses both eras.
        """
        deadline = anyio.current_time() + timeout
        saved = self._saved.fresh() if known == "modern" and self._may_use_saved else None
        self.from_saved = saved is not None
        if saved is not None:
            return saved
        facts = await (self._legacy_first(deadline) if known == "legacy" else self._probe_both(deadline))
        if facts.era == "legacy":
            await self._peer.notify("notifications/initialized")
        return facts

    async def renew(self, *, timeout: float) -> ServerFacts:
        """Send `initialize` again; the server forgot the session that the first one began."""
        facts = await self._initialize(anyio.current_time() + timeout)
        await self._peer.notify("notifications/initialized")
        return facts

    def forget(self) -> None:
        """Drop kept facts: the server does not behave like them any more."""
        self._saved.forget()
        self.from_saved = False

    def envelope(self, capabilities: Json) -> Json:
        """The `_meta` entries that the stateless revision wants in every request."""
        return {
            _META_VERSION: MODERN_VERSION,
            _META_CLIENT: self._client_info,
            _META_CAPABILITIES: capabilities,
        }

    async def _legacy_first(self, deadline: float) -> ServerFacts:
        try:
            return await self._initialize(deadline)
        except BackendProtocol as refused:
            try:
                return await self._discover(deadline)
            except BackendProtocol as error:
                if offered := _offered(error, HANDSHAKE_VERSIONS):
                    return await self._initialize(deadline, offered)
                raise refused from None

    async def _probe_both(self, deadline: float) -> ServerFacts:
        """Send `server/discover`, after a refusal or a silence `initialize` too; the first answer decides."""
        found: list[ServerFacts] = []
        errors: list[BackendError] = []
        probed = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def probe() -> None:
                try:
                    found.append(await self._discover(deadline))
                    tasks.cancel_scope.cancel()
                except BackendError as error:
                    errors.append(error)
                finally:
                    probed.set()

            tasks.start_soon(probe)
            with anyio.move_on_after(PROBE_SILENCE_SECONDS):
                await probed.wait()
            try:
                if not any(isinstance(e, BackendCrashed | LoginRequired) for e in errors):
                    offered = [version for e in errors for version in _offered(e, HANDSHAKE_VERSIONS)]
                    found.append(await self._initialize(deadline, offered))
            except BackendProtocol as error:
                # "Unsupported version" may come from a server that is about to answer the probe.
                errors.append(error)
                await probed.wait()
            except BackendError as error:
                errors.append(error)
            tasks.cancel_scope.cancel()
        if found:
            return found[0]
        raise errors[-1]

    async def _discover(self, deadline: float) -> ServerFacts:
        params = {"_meta": self.envelope({})}
        try:
            reply = await self._peer.request("server/discover", params, timeout=_until(deadline))
        except BackendProtocol as error:
            if not _offered(error, (MODERN_VERSION,)):
                raise
            reply = await self._peer.request("server/discover", params, timeout=_until(deadline))
        result = as_object(reply.result)
        versions = result.get("supportedVersions")
        if not isinstance(versions, list) or MODERN_VERSION not in versions:
            raise BackendProtocol(f"{self._name} does not speak {MODERN_VERSION}", sent=True)
        info = as_object(result.get("_meta")).get(META_SERVER)
        facts = _facts("modern", MODERN_VERSION, info, result)
        self._saved.keep(facts, result.get("ttlMs"))
        return facts

    async def _initialize(self, deadline: float, offered: Sequence[str] = ()) -> ServerFacts:
        """Send `initialize`, in one of the `offered` revisions if the server has named some."""
        self.announced = await self._clients.can()
        params: Json = {"capabilities": self.announced, "clientInfo": self._client_info}
        versions = list(offered or HANDSHAKE_VERSIONS)
        while True:
            params["protocolVersion"] = version = versions.pop(0)
            try:
                reply = await self._peer.request("initialize", params, timeout=_until(deadline))
                break
            except BackendProtocol as error:
                # A server should answer with a version of its own; for one that refuses, each is tried.
                named = as_object(error.rpc_data).get("supported")
                if isinstance(named, list):
                    versions = [v for v in versions if v in named]
                if not versions or (named is None and error.rpc_code not in _VERSION_REFUSALS):
                    raise
        result = as_object(reply.result)
        agreed = as_string(result.get("protocolVersion")) or version
        return _facts("legacy", agreed, result.get("serverInfo"), result)


def _facts(era: Era, version: str, info: object, result: Json) -> ServerFacts:
    return ServerFacts(
        era=era,
        protocol_version=version,
        server_info=info if isinstance(info, dict) else None,
        capabilities=as_object(result.get("capabilities")),
        instructions=as_string(result.get("instructions")),
    )


def _offered(error: BackendError, spoken: Sequence[str]) -> list[str]:
    """The revisions among `spoken` that a server named when it refused another one."""
    if not isinstance(error, BackendProtocol) or error.rpc_code != _UNSUPPORTED_VERSION:
        return []
    data = as_object(error.rpc_data)
    named = data.get("supported", data.get("supportedVersions"))
    return [version for version in spoken if version in named] if isinstance(named, list) else []


def _until(deadline: float) -> float:
    return max(0.1, deadline - anyio.current_time())


def as_object(value: Any) -> Json:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_string(value: Any) -> str | None:
    return value if isinstance(value, str) else None
