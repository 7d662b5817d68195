"""One MCP session with a backend: listing and calling tools, reading resources, probing, change notifications."""

from __future__ import annotations

import fnmatch
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel

from gatemini.backends.calls.callers import (
    LEVELS,
    LOGGED,
    METHOD_NOT_FOUND,
    NOBODY,
    Caller,
    Clients,
    ProgressFn,
)
from gatemini.backends.conversation.handshake import Handshake, SavedFacts, as_object
from gatemini.backends.conversation.input_required import answers_to, asks_for_input
from gatemini.backends.conversation.offers import declares_offers, list_offers
from gatemini.backends.conversation.peer import LISTEN, Peer, Reply
from gatemini.backends.result_repair import repair_contents, repair_result
from gatemini.backends.status import Era, ServerFacts
from gatemini.backends.tool_list_repair import Listing, without_invalid_headers
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import (
    BackendCrashed,
    BackendError,
    BackendProtocol,
    BackendTimeout,
    BackendUnreachable,
)
from gatemini.model import CallOutcome, Json, Offer, Tool
from gatemini.text.hidden import note_of

UNDECLARED_LIST_SECONDS = 5.0
"""How long `tools/list` may take at a backend that declares no tools, or for a cursor that may mean the end."""

MAX_PAGES = 1000
MAX_TOOLS = 50_000
REPAIRED_AT_ONCE = 500
"""Listed tools that are repaired (in a few milliseconds) before other work gets a turn."""

MAX_ASK_ROUNDS = 10
"""How often one call may ask for more input."""

REFRESH_DEBOUNCE_SECONDS = 0.2
"""Change notifications within this time lead to one new listing."""

LISTEN_AGAIN_SECONDS = 5.0
"""Pause before a change stream that ended is opened again."""

_META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
_CHANGED = "notifications/tools/list_changed"
_OFFERS_CHANGED = ("notifications/resources/list_changed", "notifications/prompts/list_changed")
_FOR_CLIENTS = frozenset({LOGGED, "notifications/elicitation/complete"})
ROOTS_CHANGED = "notifications/roots/list_changed"

Listed = tuple[list[Tool], list[str]]
"""Tools, and sentences on what was repaired."""

logger = logging.getLogger(__name__)


class McpSession:
    """The MCP side of one connection. `changed` is set when the backend announces a change of its tools.

    `saved` and `stopped` outlive the connection: a kept answer of the server, and the end of the backend.
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
        self._listed = anyio.Event()
        """Set while no announced change of the tools waits to be read."""
        self._listed.set()
        self.offers_changed = anyio.Event()
        self._config = config
        self._handshake = Handshake(config, self.peer, client_info, clients, saved or SavedFacts())
        self._stopped = stopped or anyio.Event()

    @property
    def _modern(self) -> bool:
        """Whether the server speaks the stateless revision."""
        return self.facts is not None and self.facts.era == "modern"

    async def negotiate(self, *, timeout: float, known: Era | None) -> ServerFacts:
        """Shake hands; see `Handshake.negotiate`."""
        self.facts = None
        self.facts = await self._handshake.negotiate(timeout=timeout, known=known)
        return self.facts

    async def renew(self, *, timeout: float) -> ServerFacts:
        """Shake hands again with a server that forgot its session, and list its tools again."""
        self.facts = await self._handshake.renew(timeout=timeout)
        self.changed.set()
        return self.facts

    async def request(
        self,
        method: str,
        params: Json,
        *,
        timeout: float,
        on_progress: ProgressFn | None = None,
        caller: Caller | None = None,
    ) -> Reply:
        """Send a request in the form of the era: the stateless revision wants its envelope in every one."""
        if self._modern:
            envelope = self._handshake.envelope({} if caller is None else caller.can)
            if caller is not None and caller.log_level is not None:
                envelope[_META_LOG_LEVEL] = caller.log_level
            params = {**params, "_meta": {**as_object(params.get("_meta")), **envelope}}
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
        """Call a tool; questions and notifications of the backend meanwhile go to the `caller`.

        The time for answering questions does not count, since a person may have to think. Answers are put into `params`
        (name and arguments of the tool), so that a retry on another connection does not ask again.
        """
        started = time.perf_counter()
        replies = await self._in_rounds(
            "tools/call", params, timeout=timeout, on_progress=on_progress, caller=caller
        )
        result, notes = repair_result(replies[-1].result)
        ms = (time.perf_counter() - started) * 1000
        size = sum(reply.size for reply in replies)
        return CallOutcome(result=result, ms=ms, notes=(*replies[-1].notes, *notes), bytes=size)

    async def _in_rounds(
        self,
        method: str,
        params: Json,
        *,
        timeout: float,
        on_progress: ProgressFn | None = None,
        caller: Caller,
    ) -> list[Reply]:
        """Send a request again with what it asks for, until it asks nothing more; all replies."""
        deadline = time.monotonic() + timeout
        replies: list[Reply] = []
        for _ in range(MAX_ASK_ROUNDS):
            left = max(0.001, deadline - time.monotonic())
            reply = await self.request(method, params, timeout=left, on_progress=on_progress, caller=caller)
            replies.append(reply)
            if not asks_for_input(reply.result):
                return replies
            paused = time.monotonic()
            answers = await answers_to(self._config.name, reply.result, caller.ask, self._stopped)
            deadline += time.monotonic() - paused
            params["inputResponses"] = answers
            params.pop("requestState", None)
            if reply.result.get("requestState") is not None:
                params["requestState"] = reply.result["requestState"]
        raise BackendProtocol(f"{self._config.name} asked for input {MAX_ASK_ROUNDS} times", sent=True)

    async def read_resource(self, uri: str, *, timeout: float, caller: Caller = NOBODY) -> Json:
        replies = await self._in_rounds("resources/read", {"uri": uri}, timeout=timeout, caller=caller)
        result = replies[-1].result
        return {**as_object(result), "contents": repair_contents(result)}

    async def get_prompt(
        self, name: str, arguments: Json, *, timeout: float, caller: Caller = NOBODY
    ) -> Json:
        """A prompt of the backend, filled in: `{description, messages}`."""
        params: Json = {"name": name, "arguments": arguments}
        replies = await self._in_rounds("prompts/get", params, timeout=timeout, caller=caller)
        answer = as_object(replies[-1].result)
        return {key: answer[key] for key in ("description", "messages") if key in answer}

    async def list_offers(self, *, timeout: float) -> list[Offer]:
        """The resources and prompts that the backend declares to have."""
        declared = self.facts.capabilities if self.facts is not None else {}
        return await list_offers(partial(self.request, timeout=timeout), self._config, declared)

    async def ping(self, *, timeout: float) -> None:
        """Probe by `ping`, or by a list call in the revision without ping; an error answer counts as well."""
        try:
            await self.request("tools/list" if self._modern else "ping", {}, timeout=timeout)
        except BackendProtocol:
            return

    # -- listing -----------------------------------------------------------------------------------

    async def list_tools(self, *, timeout: float) -> Listed:
        """List all pages of the tools that `tools.allow` and `tools.deny` let through."""
        deadline = time.monotonic() + timeout
        try:
            listed = await self._list_tools(timeout=timeout)
            self._handshake.from_saved = False
            return listed
        except BackendProtocol:
            if not self._handshake.from_saved:
                raise
        self._handshake.forget()
        await self.negotiate(timeout=max(0.1, deadline - time.monotonic()), known=None)
        return await self._list_tools(timeout=max(0.1, deadline - time.monotonic()))

    async def _list_tools(self, *, timeout: float) -> Listed:
        raw, notes = await self._read_pages(timeout)
        listing = Listing(self._config.name, self._config.namespace, self._config.tags)
        for start in range(0, len(raw), REPAIRED_AT_ONCE):
            await anyio.lowlevel.checkpoint()
            listing.read(raw[start : start + REPAIRED_AT_ONCE])
        said = self.facts.instructions if self.facts is not None else None
        if (hides := note_of("the text of its instructions", said or "")) is not None:
            notes.append(hides)
        tools = self._allowed(listing.tools())
        if self._modern and self._config.transport == "streamable-http":
            tools = without_invalid_headers(tools, notes)
        return tools, notes + listing.repairs

    async def _read_pages(self, timeout: float) -> tuple[list[Any], list[str]]:
        """The listed tools of all pages, at most `MAX_TOOLS`, and notes."""
        declared = self.facts is None or "tools" in self.facts.capabilities
        deadline = time.monotonic() + (timeout if declared else min(timeout, UNDECLARED_LIST_SECONDS))
        raw: list[Any] = []
        notes: list[str] = []
        cursor: Any = None
        seen: set[str] = set()
        pages: list[list[Any]] = []
        for page in range(MAX_PAGES):
            left = max(0.1, deadline - time.monotonic())
            if cursor == "":  # for some servers the end, for which they may have no answer
                left = min(left, UNDECLARED_LIST_SECONDS)
            params: Json = {} if cursor is None else {"cursor": cursor}
            try:
                reply = await self.request("tools/list", params, timeout=left)
            except (BackendProtocol, BackendTimeout) as error:
                if page == 0 and declared and not _unknown_method(error):
                    raise
                if page > 0 and cursor != "":
                    notes.append(f"page {page + 1} of the tool list failed: {error.message}")
                break
            notes.extend(reply.notes)
            previous = cursor
            items, cursor = _page(reply.result, notes)
            if previous == "" and items in pages:
                break  # this server writes "" for the end and takes it for the beginning
            pages.append(items)
            raw.extend(items)
            if cursor is None or cursor is False or (cursor == previous == ""):
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
        return raw[:MAX_TOOLS], notes

    def _allowed(self, tools: Sequence[Tool]) -> list[Tool]:
        allow, deny = self._config.tools.allow, self._config.tools.deny
        return [
            tool
            for tool in tools
            if (not allow or any(fnmatch.fnmatchcase(tool.name, glob) for glob in allow))
            and not any(fnmatch.fnmatchcase(tool.name, glob) for glob in deny)
        ]

    # -- changes and notifications -----------------------------------------------------------------

    async def follow_changes(self, listed: Callable[[list[Tool], list[str]], None]) -> None:
        """List again after each announced change and call `listed`; runs as long as the connection."""
        while True:
            await self.changed.wait()
            await anyio.sleep(REFRESH_DEBOUNCE_SECONDS)
            self.changed = anyio.Event()
            try:
                listed(*await self.list_tools(timeout=self._config.timeout))
            except BackendError as error:
                logger.warning("%s: new tool list not read: %s", self._config.name, error.message)
            if not self.changed.is_set():
                self._listed.set()

    async def until_listed(self, deadline: float) -> None:
        """Wait, at most until the deadline, until an announced change of the tools has been read."""
        with anyio.move_on_after(deadline - time.monotonic()):
            await self._listed.wait()

    async def follow_offers(self, listed: Callable[[list[Offer]], None]) -> None:
        """List resources and prompts, again after each announced change; none at once where none are declared."""
        if self.facts is None or not declares_offers(self.facts.capabilities):
            listed([])
            return
        while True:
            self.offers_changed = anyio.Event()
            listed(await self.list_offers(timeout=self._config.timeout))
            await self.offers_changed.wait()
            await anyio.sleep(REFRESH_DEBOUNCE_SECONDS)

    async def listen(self) -> None:
        """Keep a change stream open, as the stateless revision wants for `list_changed`.

        After each break the list may have changed.
        """
        changing = {
            f"{kind}ListChanged": True for kind in ("tools", "resources", "prompts") if self._changes(kind)
        }
        params: Json = {"notifications": changing}
        while True:
            try:
                await self.request(LISTEN, params, timeout=float("inf"))
            except BackendError as error:
                logger.debug("%s: change stream ended: %s", self._config.name, error.message)
                if not isinstance(error, BackendCrashed | BackendUnreachable):
                    return
            await anyio.sleep(LISTEN_AGAIN_SECONDS)
            self.changed.set()
            self.offers_changed.set()

    @property
    def must_listen(self) -> bool:
        """Whether the backend announces changes, but only on a stream that `listen` opens."""
        if self.facts is None or self.facts.era != "modern":
            return False
        return any(map(self._changes, ("tools", "resources", "prompts")))

    def _changes(self, kind: str) -> bool:
        """Return whether the backend announces changes of its list of this kind."""
        declared = self.facts.capabilities.get(kind) if self.facts is not None else None
        return as_object(declared).get("listChanged") is True

    async def roots_changed(self) -> None:
        """Notify a backend of new client roots if the handshake announced such notifications."""
        if as_object(self._handshake.announced.get("roots")).get("listChanged") is True:
            await self.peer.notify(ROOTS_CHANGED)

    async def set_log_level(self, level: str, *, timeout: float) -> None:
        """Set the lowest level of log messages, at a backend of the handshake era that logs."""
        if self.facts is not None and self.facts.era == "legacy" and "logging" in self.facts.capabilities:
            await self.request("logging/setLevel", {"level": level}, timeout=timeout)

    def _notification(self, method: str, params: Json, caller: Caller | None) -> None:
        if method == _CHANGED:
            self.changed.set()
            if self._listed.is_set():
                self._listed = anyio.Event()
        elif method in _OFFERS_CHANGED:
            self.offers_changed.set()
        elif method in _FOR_CLIENTS:
            if method == LOGGED:
                level = params["level"] if params.get("level") in LEVELS else "info"
                params = {**params, "level": level}
                logger.debug("%s logs (%s): %.500s", self._config.name, level, params.get("data"))
            if caller is not None and caller.tell is not None:
                caller.tell(self._config.name, method, params)


def _page(result: Any, notes: list[str]) -> tuple[list[Any], Any]:
    """The tools and the next cursor of one page, whatever its shape."""
    page = as_object(result)
    items = page.get("tools")
    if not isinstance(items, list):
        notes.append("a page of the tool list held no list of tools")
        items = []
    return items, page.get("nextCursor")


def _unknown_method(error: BackendError) -> bool:
    return isinstance(error, BackendProtocol) and error.rpc_code == METHOD_NOT_FOUND
