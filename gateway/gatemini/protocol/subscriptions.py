"""Notify one client of resources that changed, in either era of the protocol.

In the handshake era a client subscribes to addresses with `resources/subscribe` and is notified of the list anyway; in
the stateless one it opens a stream with `subscriptions/listen` and names both there. `scope_of` decides which changes
an address depends on. Bursts become one message.
"""

from __future__ import annotations

import contextvars
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)

from gatemini.errors import InvalidRequest, ResourceNotFound
from gatemini.protocol.resources.documents import split_address
from gatemini.protocol.surface import Surface
from gatemini.upkeep.changes import Kind

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.2
"""How long changes are gathered before a notification: a backend that lists twice causes one."""
NOTIFY_SECONDS = 10.0
"""Bounds a notification to a client that does not read; a later one makes up for it."""
MAX_SUBSCRIPTIONS = 1000
"""Most addresses of one connection."""
MAX_STREAMS = 16
"""Most listen streams that one connection may have open."""

KINDS: Mapping[str, frozenset[Kind]] = {
    "overview": frozenset({"tools", "state"}),
    "backends": frozenset({"tools", "state", "calls"}),
    "tools": frozenset({"tools"}),
    "recent": frozenset({"calls"}),
    "stats": frozenset({"tools", "calls"}),
    "health": frozenset({"tools", "state"}),
    "llms": frozenset({"tools"}),
    "llms-full": frozenset({"tools"}),
    "tool": frozenset({"tools"}),
    "backend": frozenset({"tools", "state", "calls"}),
    "types": frozenset({"tools"}),
}
"""First part of an address → what changes its answer; guides and stored results never change."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The changes an address depends on; `backend` is None where it is all of them."""

    kinds: frozenset[Kind]
    backend: str | None = None

    def touched(self, kind: Kind, backend: str | None) -> bool:
        return kind in self.kinds and (self.backend is None or backend is None or backend == self.backend)


def scope_of(uri: str) -> Scope:
    """Return what `uri` depends on. Raises ResourceNotFound, which says what exists."""
    kind, rest = split_address(uri)
    if kind == "backend":
        name, _, part = rest.partition("/")
        return Scope(KINDS["tools" if part else kind], unquote(name))
    return Scope(KINDS.get(kind, frozenset()))


class Feed:
    """One connection's subscriptions. It has a task only while there is something to send: most sessions are idle."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._client: ServerSession | None = None
        self._scopes: dict[str, Scope] = {}
        self._holders: Counter[str] = Counter()
        """Number of holders per address: `resources/subscribe` counts once, and each open stream."""
        self._subscribed: set[str] = set()
        self._bus = InMemorySubscriptionBus()
        self._streams = ListenHandler(self._bus, max_subscriptions=MAX_STREAMS)
        self._touched: dict[str, None] = {}
        self._listed = False
        self._sending: anyio.CancelScope | None = None
        self._tasks: anyio.abc.TaskGroup | None = None

    def begin(self, tasks: anyio.abc.TaskGroup) -> None:
        """Notify of changes from now on, in tasks of this group."""
        self._tasks = tasks
        self._surface.changes.listen(self._note, "tools", "state")

    def end(self) -> None:
        """Notify of nothing any more."""
        self._tasks = None
        self._surface.changes.leave(self._note, "tools", "state", "calls")
        if self._sending is not None:
            self._sending.cancel()

    # ---- requests of the client -------------------------------------------------------------------------

    def greet(self, client: ServerSession) -> None:
        """Notify this client of the handshake era from now on."""
        self._client = client

    def subscribe(self, uri: str) -> None:
        """Subscribe to an address. Raises ResourceNotFound or InvalidRequest."""
        if uri not in self._subscribed:
            self._hold(uri)
            self._subscribed.add(uri)

    def unsubscribe(self, uri: str) -> None:
        if uri in self._subscribed:
            self._subscribed.remove(uri)
            self._release(uri)

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of the stateless era until the client ends it.

        The acknowledgement names only what can happen: tools and prompts of this gateway never change.
        """
        given = params.notifications
        uris = [uri for uri in dict.fromkeys(given.resource_subscriptions or ()) if _is_address(uri)]
        honored = types.SubscriptionFilter(
            resources_list_changed=given.resources_list_changed, resource_subscriptions=uris or None
        )
        held: list[str] = []
        try:
            for uri in uris:
                self._hold(uri)
                held.append(uri)
            return await self._streams(context, params.model_copy(update={"notifications": honored}))
        finally:
            for uri in held:
                self._release(uri)

    def _hold(self, uri: str) -> None:
        if uri not in self._scopes:
            if len(self._scopes) >= MAX_SUBSCRIPTIONS:
                raise InvalidRequest(
                    f"this connection has {MAX_SUBSCRIPTIONS} subscriptions, the most it may have",
                    hint="unsubscribe from some, or subscribe to gatemini://tools instead",
                )
            self._scopes[uri] = scope_of(uri)
            # Every call of every client is such a change: a thousand idle sessions must not hear of it.
            if self._tasks is not None:
                self._surface.changes.listen(self._note, "calls")
        self._holders[uri] += 1

    def _release(self, uri: str) -> None:
        self._holders[uri] -= 1
        if self._holders[uri] <= 0:
            del self._holders[uri]
            self._scopes.pop(uri, None)
            if not self._scopes:
                self._surface.changes.leave(self._note, "calls")

    # ---- what is sent ---------------------------------------------------------------------------------

    async def _send_changes(self, scope: anyio.CancelScope) -> None:
        with scope:
            while self._listed or self._touched:
                await anyio.sleep(SETTLE_SECONDS)
                listed, self._listed = self._listed, False
                touched, self._touched = self._touched, {}
                with anyio.move_on_after(NOTIFY_SECONDS):
                    await self._notify(listed, list(touched))
        self._sending = None

    def _note(self, kind: Kind, backend: str | None) -> None:
        if self._surface.hides(backend):
            return
        self._listed = self._listed or kind == "tools"
        self._touched.update(
            (uri, None) for uri, scope in self._scopes.items() if scope.touched(kind, backend)
        )
        if (self._listed or self._touched) and self._sending is None and self._tasks is not None:
            self._sending = anyio.CancelScope()
            # Not in the context of the request that caused the change, which may be another client's.
            contextvars.Context().run(self._tasks.start_soon, self._send_changes, self._sending)

    async def _notify(self, listed: bool, touched: list[str]) -> None:
        if listed:
            await self._bus.publish(ResourcesListChanged())
            await self._send(types.ResourceListChangedNotification())
        for uri in touched:
            await self._bus.publish(ResourceUpdated(uri=uri))
            if uri in self._subscribed:
                params = types.ResourceUpdatedNotificationParams(uri=uri)
                await self._send(types.ResourceUpdatedNotification(params=params))

    async def _send(self, notification: types.ServerNotification) -> None:
        if self._client is None:
            return
        try:
            await self._client.send_notification(notification)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("not notified: the client is gone")
            self._client = None


def _is_address(uri: str) -> bool:
    try:
        scope_of(uri)
    except ResourceNotFound:
        return False
    return True
