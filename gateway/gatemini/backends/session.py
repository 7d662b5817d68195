"""What MCP adds to a JSON-RPC conversation: the handshake of either era, listing, calling, probing.

Owned by one actor for one connection. Above: `actor.py`. Below: `peer.py` for the conversation, `repair.py`
for what comes back.
"""

from __future__ import annotations

import fnmatch
import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import anyio

from gatemini.backends.callers import (
    LEVELS,
    LOGGED,
    METHOD_NOT_FOUND,
    NOBODY,
    Caller,
    Clients,
    ProgressFn,
    RpcError,
)
from gatemini.backends.peer import ASK_SECONDS, LISTEN, MOST_QUESTIONS, Peer, Reply
from gatemini.backends.repair import Listing, repair_contents, repair_result
from gatemini.backends.status import Era, ServerFacts
from gatemini.config.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendError, BackendProtocol, BackendStopped, BackendTimeout
from gatemini.model import CallOutcome, Json, Tool

MODERN_VERSION = "2026-07-28"
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

PROBE_SILENCE_SECONDS = 2.0
"""A backend silent for this long on `server/discover` is sent `initialize` as well."""

SAVED_SECONDS = 86_400.0
"""What a server said of itself is never kept for longer, whatever it allows."""

UNDECLARED_LIST_SECONDS = 5.0
"""How long a backend that declares no tools may take over `tools/list` before it is taken to have none."""

MAX_PAGES = 1000
MAX_TOOLS = 50_000
MENDED_AT_ONCE = 500
MENDING_TURN_SECONDS = 0.001
"""Listed tools that are mended (a few milliseconds' work) before others have their turn, and how long that is."""

MAX_ASK_ROUNDS = 10
"""How often one call may ask for more input."""

STATE_ONLY_SECONDS = 0.1
"""Pause before a call is repeated that asked for nothing but to be repeated."""

_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_META_CLIENT = "io.modelcontextprotocol/clientInfo"
_META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_META_SERVER = "io.modelcontextprotocol/serverInfo"

_META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"

_OF_VERSIONS = (-32600, -32602)
"""Errors (invalid request, invalid params) with which servers refuse a revision they do not speak."""

_CHANGED = "notifications/tools/list_changed"
_FOR_CLIENTS = frozenset({LOGGED, "notifications/elicitation/complete"})
ROOTS_CHANGED = "notifications/roots/list_changed"


logger = logging.getLogger(__name__)


class SavedFacts:
    """What a stateless server said of itself, for as long as it allows to keep that (`ttlMs`)."""

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


class McpSession:
    """One connection's MCP side. `changed` is set when the backend says that its tools did.

    `saved` outlives the connection: a URL that has said what it is need not be asked again. So does what the client is
    asked, until `stopped`.
    """

    def __init__(
        self,
        config: BackendConfig,
        *,
        client_info: Json,
        clients: Clients,
        saved: SavedFacts | None = None,
        stopped: anyio.Event | None = None,
    ) -> None:
        self.peer = Peer(config.name, on_notification=self._notification, on_ask_outside=clients.ask)
        self.facts: ServerFacts | None = None
        self.changed = anyio.Event()
        self._config = config
        self._client_info = client_info
        self._clients = clients
        self._announced: Json = {}
        self._saved = SavedFacts() if saved is None else saved
        self._from_saved = False
        self._stopped = stopped or anyio.Event()

    # -- handshake ---------------------------------------------------------------------------------

    async def negotiate(self, *, timeout: float, known: Era | None) -> ServerFacts:
        """Find out which era the backend speaks and shake hands; `known` is an earlier verdict.

        Raises `BackendCrashed` when it went away instead of answering (some do on an unknown method),
        `BackendTimeout` when it answered nothing in time, `BackendProtocol` when it refused both.
        """
        deadline = anyio.current_time() + timeout
        if known == "modern" and self._config.transport == "streamable-http":
            self.facts = self._saved.fresh()
            self._from_saved = self.facts is not None
            if self.facts is not None:
                return self.facts
        if known == "legacy":
            try:
                self.facts = await self._initialize(timeout)
            except BackendProtocol as refused:
                try:
                    self.facts = await self._discover(max(0.1, deadline - anyio.current_time()))
                except BackendProtocol:
                    raise refused from None
        else:
            self.facts = await self._probe_both(deadline)
        if self.facts.era == "legacy":
            await self.peer.notify("notifications/initialized")
        return self.facts

    async def _probe_both(self, deadline: float) -> ServerFacts:
        """`server/discover` first; `initialize` beside it after a refusal or a silence; first answer wins."""
        found: list[ServerFacts] = []
        errors: list[BackendError] = []
        probed = anyio.Event()

        def left() -> float:
            return max(0.1, deadline - anyio.current_time())

        async with anyio.create_task_group() as tasks:

            async def probe() -> None:
                try:
                    found.append(await self._discover(left()))
                    tasks.cancel_scope.cancel()
                except BackendError as error:
                    errors.append(error)
                finally:
                    probed.set()

            tasks.start_soon(probe)
            with anyio.move_on_after(PROBE_SILENCE_SECONDS):
                await probed.wait()
            try:
                if not any(isinstance(e, BackendCrashed) for e in errors):
                    found.append(await self._initialize(left()))
            except BackendProtocol as error:
                # "Unsupported version" from a server that has already taken the probe: its answer comes.
                errors.append(error)
                await probed.wait()
            except BackendError as error:
                errors.append(error)
            tasks.cancel_scope.cancel()
        if found:
            return found[0]
        raise errors[-1]

    async def _discover(self, timeout: float) -> ServerFacts:
        reply = await self.peer.request("server/discover", {"_meta": self._stamp({})}, timeout=timeout)
        result = reply.result
        versions = result.get("supportedVersions") if isinstance(result, dict) else None
        if not isinstance(versions, list) or MODERN_VERSION not in versions:
            raise BackendProtocol(f"{self._config.name} does not speak {MODERN_VERSION}", sent=True)
        meta = result.get("_meta")
        info = meta.get(_META_SERVER) if isinstance(meta, dict) else None
        facts = ServerFacts(
            era="modern",
            protocol_version=MODERN_VERSION,
            server_info=info if isinstance(info, dict) else None,
            capabilities=_object(result.get("capabilities")),
            instructions=_string(result.get("instructions")),
        )
        self._saved.keep(facts, result.get("ttlMs"))
        return facts

    async def _initialize(self, timeout: float) -> ServerFacts:
        deadline = anyio.current_time() + timeout
        versions = list(HANDSHAKE_VERSIONS)
        while True:
            version = versions.pop(0)
            try:
                reply = await self._send_initialize(version, max(0.1, deadline - anyio.current_time()))
                break
            except BackendProtocol as error:
                # One that does not name its own version, as it should: each that there is may be it.
                offered = error.rpc_data.get("supported") if isinstance(error.rpc_data, dict) else None
                if isinstance(offered, list):
                    versions = [v for v in versions if v in offered]
                if not versions or (offered is None and error.rpc_code not in _OF_VERSIONS):
                    raise
        result = _object(reply.result)
        info = result.get("serverInfo")
        return ServerFacts(
            era="legacy",
            protocol_version=_string(result.get("protocolVersion")) or version,
            server_info=info if isinstance(info, dict) else None,
            capabilities=_object(result.get("capabilities")),
            instructions=_string(result.get("instructions")),
        )

    async def _send_initialize(self, version: str, timeout: float) -> Reply:
        self._announced = await self._clients.can()
        params: Json = {
            "protocolVersion": version,
            "capabilities": self._announced,
            "clientInfo": self._client_info,
        }
        return await self.peer.request("initialize", params, timeout=timeout)

    # -- requests ----------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Json,
        *,
        timeout: float,
        on_progress: ProgressFn | None = None,
        caller: Caller | None = None,
    ) -> Reply:
        """A request in the era's form: the stateless revision carries its envelope in every one."""
        if self.facts is not None and self.facts.era == "modern":
            stamp = self._stamp({} if caller is None else caller.can)
            if caller is not None and caller.log_level is not None:
                stamp[_META_LOG_LEVEL] = caller.log_level
            params = {**params, "_meta": {**_object(params.get("_meta")), **stamp}}
        return await self.peer.request(
            method, params, timeout=timeout, on_progress=on_progress, caller=caller
        )

    async def call_tool(
        self,
        params: Json,
        *,
        timeout: float,
        on_progress: ProgressFn | None,
        caller: Caller = NOBODY,
    ) -> CallOutcome:
        """One tool call; what the backend asks or tells the client on the way goes to the `caller`.

        The time that asking takes is not counted: somebody may have to think. Answers are put into `params` (name and
        arguments of the tool), so that sending them again, on a connection made meanwhile, asks nobody a second time.
        """
        started = time.perf_counter()
        deadline = anyio.current_time() + timeout
        size = 0
        for _ in range(MAX_ASK_ROUNDS):
            left = max(0.001, deadline - anyio.current_time())
            reply = await self.request(
                "tools/call", params, timeout=left, on_progress=on_progress, caller=caller
            )
            size += reply.size
            if not _asks(reply.result):
                result, notes = repair_result(reply.result)
                ms = (time.perf_counter() - started) * 1000
                return CallOutcome(result=result, ms=ms, notes=(*reply.notes, *notes), bytes=size)
            asked = anyio.current_time()
            answers = await self._ask(reply.result, caller)
            deadline += anyio.current_time() - asked
            params["inputResponses"] = answers
            params.pop("requestState", None)
            if reply.result.get("requestState") is not None:
                params["requestState"] = reply.result["requestState"]
        raise BackendProtocol(f"{self._config.name} asked for input {MAX_ASK_ROUNDS} times", sent=True)

    async def _ask(self, result: Json, caller: Caller) -> Json:
        """The answers to what an `input_required` result asks, all of it at once.

        Raises `BackendProtocol` where there are none, `BackendStopped` once nothing can come of them.
        """
        requests = _object(result.get("inputRequests"))
        if not requests:
            await anyio.sleep(STATE_ONLY_SECONDS)
            return {}
        ask = caller.ask
        if ask is None:
            raise BackendProtocol(
                f"{self._config.name} asks for input before it goes on, which cannot be given here",
                rpc_data=requests,
                sent=True,
            )
        if len(requests) > MOST_QUESTIONS:
            raise BackendProtocol(
                f"{self._config.name} asks {len(requests)} questions at once, more than {MOST_QUESTIONS}",
                sent=True,
            )
        answers: Json = {}
        failed: list[BackendError] = []

        async def put(key: str, asked: Json, whole: anyio.CancelScope) -> None:
            method = str(asked.get("method"))
            try:
                with anyio.fail_after(ASK_SECONDS):
                    answers[key] = await ask(method, _object(asked.get("params")))
            except (RpcError, TimeoutError) as refused:
                text = refused.message if isinstance(refused, RpcError) else "nobody answered in time"
                failed.append(
                    BackendProtocol(
                        f"{self._config.name} asked for input ({method}) and got none: {text}", sent=True
                    )
                )
                whole.cancel()

        async def until_stopped(whole: anyio.CancelScope) -> None:
            await self._stopped.wait()
            failed.append(
                BackendStopped(f"{self._config.name} was stopped while it waited for an answer", sent=True)
            )
            whole.cancel()

        async with anyio.create_task_group() as whole:
            whole.start_soon(until_stopped, whole.cancel_scope)
            async with anyio.create_task_group() as questions:
                for key, asked in requests.items():
                    questions.start_soon(put, key, _object(asked), whole.cancel_scope)
            whole.cancel_scope.cancel()
        if failed:
            raise failed[0]
        return answers

    async def read_resource(self, uri: str, *, timeout: float, caller: Caller = NOBODY) -> Json:
        reply = await self.request("resources/read", {"uri": uri}, timeout=timeout, caller=caller)
        if _asks(reply.result):
            raise BackendProtocol(f"{self._config.name} asks for input to read a resource", sent=True)
        return {**_object(reply.result), "contents": repair_contents(reply.result)}

    async def ping(self, *, timeout: float) -> None:
        """The cheapest sign of life: `ping`, or a list call where the revision has no ping.

        An error answer is a sign of life too.
        """
        modern = self.facts is not None and self.facts.era == "modern"
        try:
            await self.request("tools/list" if modern else "ping", {}, timeout=timeout)
        except BackendProtocol:
            return

    async def list_tools(self, *, timeout: float) -> tuple[list[Tool], list[str]]:
        """All pages of the backend's tools, filtered by `tools.allow`/`deny`; what was mended, in words."""
        deadline = anyio.current_time() + timeout
        try:
            listed = await self._list_tools(timeout=timeout)
            self._from_saved = False
            return listed
        except BackendProtocol:
            if not self._from_saved:
                raise
        self._saved.forget()  # it is not any more what it said it was
        self._from_saved = False
        self.facts = None
        await self.negotiate(timeout=max(0.1, deadline - anyio.current_time()), known=None)
        return await self._list_tools(timeout=max(0.1, deadline - anyio.current_time()))

    async def _list_tools(self, *, timeout: float) -> tuple[list[Tool], list[str]]:
        declared = self.facts is None or "tools" in self.facts.capabilities
        deadline = anyio.current_time() + (timeout if declared else min(timeout, UNDECLARED_LIST_SECONDS))
        raw: list[Any] = []
        notes: list[str] = []
        cursor: Any = None
        seen: set[str] = set()
        for page in range(MAX_PAGES):
            left = max(0.1, deadline - anyio.current_time())
            params: Json = {} if cursor is None else {"cursor": cursor}
            try:
                reply = await self.request("tools/list", params, timeout=left)
            except (BackendProtocol, BackendTimeout) as error:
                if page == 0 and declared and not _unknown_method(error):
                    raise
                if page > 0:
                    notes.append(f"page {page + 1} of the tool list failed: {error.message}")
                break
            notes.extend(reply.notes)
            items, cursor = _page(reply.result, notes)
            raw.extend(items)
            if cursor is None or cursor is False or cursor == "":
                break
            if repr(cursor) in seen:
                notes.append("the tool list repeated a cursor and was ended there")
                break
            seen.add(repr(cursor))
            if len(raw) > MAX_TOOLS:
                notes.append(f"the tool list was cut at {MAX_TOOLS} tools")
                break
        else:
            notes.append(f"the tool list was ended after {MAX_PAGES} pages")
        listing = Listing(self._config.name, self._config.namespace, self._config.tags)
        for start in range(0, min(len(raw), MAX_TOOLS), MENDED_AT_ONCE):
            listing.read(raw[start : min(start + MENDED_AT_ONCE, MAX_TOOLS)])
            if start + MENDED_AT_ONCE >= len(raw):
                break
            await anyio.sleep(MENDING_TURN_SECONDS)
        return self._allowed(listing.tools()), notes + listing.repairs

    async def roots_changed(self) -> None:
        """Tell a backend that was promised to hear of it that the client's roots are others now."""
        if _object(self._announced.get("roots")).get("listChanged") is True:
            await self.peer.notify(ROOTS_CHANGED)

    async def set_log_level(self, level: str, *, timeout: float) -> None:
        """Ask a backend of the handshake era that logs for this level and what is above it."""
        if self.facts is not None and self.facts.era == "legacy" and "logging" in self.facts.capabilities:
            await self.request("logging/setLevel", {"level": level}, timeout=timeout)

    async def listen_for_changes(self) -> None:
        """The stateless revision sends `list_changed` only on a stream that was asked for; returns at its end."""
        params: Json = {"notifications": {"toolsListChanged": True}}
        await self.request(LISTEN, params, timeout=float("inf"))

    @property
    def announces_changes(self) -> bool:
        tools = self.facts.capabilities.get("tools") if self.facts else None
        return isinstance(tools, dict) and tools.get("listChanged") is True

    # -- what the backend sends --------------------------------------------------------------------

    def _notification(self, method: str, params: Json, caller: Caller | None) -> None:
        if method == _CHANGED:
            self.changed.set()
        elif method in _FOR_CLIENTS:
            if method == LOGGED:
                level = params["level"] if params.get("level") in LEVELS else "info"
                params = {**params, "level": level}
                logger.debug("%s logs (%s): %.500s", self._config.name, level, params.get("data"))
            if caller is not None and caller.tell is not None:
                caller.tell(self._config.name, method, params)

    def _allowed(self, tools: Sequence[Tool]) -> list[Tool]:
        allow, deny = self._config.tools.allow, self._config.tools.deny
        return [
            tool
            for tool in tools
            if (not allow or any(fnmatch.fnmatchcase(tool.name, glob) for glob in allow))
            and not any(fnmatch.fnmatchcase(tool.name, glob) for glob in deny)
        ]

    def _stamp(self, capabilities: Json) -> Json:
        return {
            _META_VERSION: MODERN_VERSION,
            _META_CLIENT: self._client_info,
            _META_CAPABILITIES: capabilities,
        }


def _asks(result: Any) -> bool:
    """Whether a result is no result yet, but a request for input (2026-07-28)."""
    return isinstance(result, dict) and result.get("resultType") == "input_required"


def _page(result: Any, notes: list[str]) -> tuple[list[Any], Any]:
    """The tools and the next cursor of one page, whatever shape it has."""
    if isinstance(result, list):
        notes.append("the tool list came as a bare list")
        return result, None
    page = _object(result)
    items = page.get("tools")
    if not isinstance(items, list):
        notes.append("a page of the tool list held no list of tools")
        items = []
    return items, page.get("nextCursor", page.get("next_cursor"))


def _unknown_method(error: BackendError) -> bool:
    return isinstance(error, BackendProtocol) and error.rpc_code == METHOD_NOT_FOUND


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None
