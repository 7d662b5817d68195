"""The gateway as an MCP server: the SDK's low-level server with handlers that call a `Surface`.

Serves both protocol eras (`initialize`, and the stateless 2026-07-28 envelope after `server/discover`). Answers are the
SDK's models, which know the fields of each revision.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gatemini import __version__
from gatemini.errors import GateminiError
from gatemini.model import Json
from gatemini.protocol.asking import call_and_ask, state_boundary
from gatemini.protocol.client_identity import Acquaintance
from gatemini.protocol.counting import AnswerCount
from gatemini.protocol.relay import Relay, drop, progress_token, trace_of, wanted_level
from gatemini.protocol.subscriptions import Feed
from gatemini.protocol.surface import Surface
from gatemini.protocol.tool_arguments import parsed_json

logger = logging.getLogger(__name__)

NOTIFICATIONS_BUFFERED = 64
"""Notifications that may wait to be sent during one call; further ones are dropped."""

_NOTIFICATIONS: dict[str, type[types.ServerNotification]] = {
    "notifications/progress": types.ProgressNotification,
    "notifications/message": types.LoggingMessageNotification,
    "notifications/elicitation/complete": types.ElicitCompleteNotification,
}

Context = ServerRequestContext[Any, Any]


class Shortcut(Protocol):
    """Serves calls without the SDK later on."""

    def learn(self, context: Context, server_info: Json, /) -> None:
        """Receives each `tools/call` that the SDK serves, and what answers say of the server."""


def build_server(surface: Surface, shortcut: Shortcut | None = None, feed: Feed | None = None) -> Server[Any]:
    """Return an SDK server for one client session, which translates between the SDK and `surface`.

    `feed` notifies of changes; one that is not given lives as long as the server's lifespan.
    """
    feed = feed or Feed(surface)
    handlers = _Handlers(surface, feed)

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
        if shortcut is not None:
            shortcut.learn(context, server.server_info_stamp)
        return await call_and_ask(surface, context, params, lambda run: _with_relay(surface, context, run))

    server: Server[Any] = _Server(
        "gatemini",
        version=__version__,
        title="Gatemini",
        instructions=surface.instructions(),
        lifespan=lambda _: _notifying(feed),
        on_list_tools=handlers.list_tools,
        on_call_tool=call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
        on_subscribe_resource=handlers.subscribe,
        on_unsubscribe_resource=handlers.unsubscribe,
        on_subscriptions_listen=handlers.listen,
        # Without it the SDK lists all tools before each call over HTTP, for headers that none of ours declares.
        get_tool_input_schema=lambda _: None,
    )
    # Not constructor arguments: the SDK warns there that newer revisions lack these methods, which older clients use.
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handlers.set_log_level)
    server.add_notification_handler(
        "notifications/roots/list_changed", types.NotificationParams, handlers.roots_changed
    )
    server.middleware.clear()  # tracing for OpenTelemetry, without an exporter here
    server.middleware.append(AnswerCount(surface, server.instructions or ""))
    server.middleware.append(Acquaintance(surface, feed.greet))
    server.middleware.append(state_boundary(surface.parking, surface.session.id))
    server.middleware.append(handlers.lenient_arguments)
    server.middleware.append(handlers.refusals)
    return server


@asynccontextmanager
async def _notifying(feed: Feed) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        feed.begin(group)
        yield
        feed.end()
        group.cancel_scope.cancel()


class _Handlers:
    """Handlers for the SDK, except `tools/call`; each returns the SDK's model of the surface's answer."""

    def __init__(self, surface: Surface, feed: Feed) -> None:
        self._surface = surface
        self._feed = feed

    async def list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return types.ListToolsResult.model_validate({"tools": self._surface.tool_definitions()})

    async def list_resources(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return types.ListResourcesResult.model_validate({"resources": self._surface.list_resources()})

    async def list_templates(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return types.ListResourceTemplatesResult.model_validate(
            {"resourceTemplates": self._surface.list_resource_templates()}
        )

    async def read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        mime, text = await self._surface.read_resource(str(params.uri))
        contents = [{"uri": str(params.uri), "mimeType": mime, "text": text}]
        return types.ReadResourceResult.model_validate({"contents": contents})

    async def list_prompts(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return types.ListPromptsResult.model_validate({"prompts": self._surface.list_prompts()})

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        await self._surface.listed()
        answer = await self._surface.get_prompt(params.name, dict(params.arguments or {}))
        return types.GetPromptResult.model_validate(answer)

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> Any:
        await self._surface.listed()
        values, total = self._surface.complete(params.argument.name, params.argument.value)
        completion = {"values": values, "total": total, "hasMore": total > len(values)}
        return types.CompleteResult.model_validate({"completion": completion})

    async def set_log_level(self, context: Context, params: types.SetLevelRequestParams) -> Any:
        self._surface.set_log_level(params.level)
        return types.EmptyResult()

    async def roots_changed(self, context: Context, _: types.NotificationParams | None) -> None:
        self._surface.roots_changed()

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self._feed.subscribe(str(params.uri))
        return types.EmptyResult()

    async def unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._feed.unsubscribe(str(params.uri))
        return types.EmptyResult()

    async def listen(self, context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        return await self._feed.listen(context, params)

    async def refusals(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Turn errors of resources, prompts and subscriptions into invalid-params errors: they have no `isError`."""
        try:
            return await call_next(ctx)
        except GateminiError as exc:
            message = self._surface.redactor.redact(exc.text())
            data = {"uri": ctx.params["uri"]} if ctx.params and "uri" in ctx.params else None
            raise MCPError(code=types.INVALID_PARAMS, message=message, data=data) from exc

    async def lenient_arguments(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Accept `tools/call` arguments that are JSON text of an object; answer others with a tool error the model
        sees.
        """
        params = ctx.params
        if ctx.method == "tools/call" and isinstance(params, dict):
            arguments = params.get("arguments")
            if isinstance(params.get("name"), str) and not isinstance(arguments, dict | None):
                read = parsed_json(arguments) if isinstance(arguments, str) else None
                if isinstance(read, dict):
                    return await call_next(replace(ctx, params={**params, "arguments": read}))
                result = await self._surface.call_tool(params["name"], arguments)
                modern = (
                    {"resultType": "complete"} if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else {}
                )
                return {**result, **modern}
        return await call_next(ctx)


class _Server(Server[Any]):
    """A server that announces changes of the resource list in either era, and none of tools or prompts."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        announced = super().get_capabilities(
            NotificationOptions(resources_changed=True),
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        # The SDK derives all of these from whether `subscriptions/listen` is served.
        return announced.model_copy(
            update={
                "tools": types.ToolsCapability(list_changed=False),
                "prompts": types.PromptsCapability(list_changed=False),
            }
        )


async def _with_relay(surface: Surface, context: Context, run: Callable[[Relay], Awaitable[Any]]) -> Any:
    """Run a meta-tool while the client is notified of progress and of log messages of backends."""
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    token = progress_token(context.meta)
    meta = (context.params or {}).get("_meta")
    level = wanted_level(surface.session, meta, modern=modern)
    begun, chain = surface.tells_begin(context.request_id), surface.planned_chain(context.request_id)
    relayed = partial(
        Relay, redactor=surface.redactor, modern=modern, begun=begun, chain=chain, trace=trace_of(meta)
    )
    if modern and token is None and level is None:  # it receives nothing but the answer
        return await run(relayed(drop, token=None, log_level=None))
    send, receive = anyio.create_memory_object_stream[types.ServerNotification](NOTIFICATIONS_BUFFERED)

    def tell(method: str, params: Json) -> None:
        try:
            send.send_nowait(_NOTIFICATIONS[method].model_validate({"method": method, "params": params}))
        except anyio.WouldBlock:
            logger.debug("dropped %s: the client reads too slowly", method)
        except (KeyError, ValidationError):
            logger.debug("dropped %s: no client could read it", method)

    relay = relayed(tell, token=token, log_level=level)

    async def forward() -> None:
        async for notification in receive:
            await context.session.send_notification(notification, context.request_id)

    with send, receive:
        async with anyio.create_task_group() as group:
            group.start_soon(forward)
            try:
                result = await run(relay)
            finally:
                relay.drop_progress()
            send.close()
    return result
