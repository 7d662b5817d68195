"""The gateway as an MCP server: the SDK's low-level server with our handlers.

Speaks both protocol eras (`initialize`, and the stateless 2026-07-28 envelope after `server/discover`).
Answers are the SDK's models, since their era-dependent fields are its business. Above: direct.py. Below: tools.py,
resources.py, prompts.py, subscriptions.py.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import MCPError

from gatemini import __version__
from gatemini.chain.invoke import CallRecord
from gatemini.errors import GateminiError
from gatemini.server.asking import call_and_ask, state_boundary
from gatemini.server.shortcut import Shortcut
from gatemini.server.subscriptions import Feed
from gatemini.server.surface import Surface
from gatemini.server.tools import OnCallDone

logger = logging.getLogger(__name__)

PROGRESS_BUFFER = 64
"""Progress messages waiting to be sent; older ones give way, since only the newest matters."""

Context = ServerRequestContext[Any, Any]


def build_server(surface: Surface, shortcut: Shortcut) -> Server[Any]:
    """An SDK server for one client session. `surface` answers; this only translates, and teaches the `shortcut`."""
    session = surface.session
    feed = Feed(surface)

    def note_client(context: Context) -> None:
        if session.client is None:
            session.client = _client_name(context)

    async def list_tools(context: Context, _: types.PaginatedRequestParams | None) -> Any:
        note_client(context)
        return types.ListToolsResult.model_validate({"tools": surface.tool_definitions()})

    async def list_resources(context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return types.ListResourcesResult.model_validate({"resources": surface.list_resources()})

    async def list_templates(context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return types.ListResourceTemplatesResult.model_validate(
            {"resourceTemplates": surface.list_resource_templates()}
        )

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> Any:
        mime, text = _or_invalid(lambda: surface.read_resource(str(params.uri)))
        contents = [{"uri": str(params.uri), "mimeType": mime, "text": text}]
        return types.ReadResourceResult.model_validate({"contents": contents})

    async def list_prompts(context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return types.ListPromptsResult.model_validate({"prompts": surface.list_prompts()})

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
        answer = _or_invalid(lambda: surface.get_prompt(params.name, dict(params.arguments or {})))
        return types.GetPromptResult.model_validate(answer)

    async def complete(context: Context, params: types.CompleteRequestParams) -> Any:
        values, total = surface.complete(params.argument.name, params.argument.value)
        completion = {"values": values, "total": total, "hasMore": total > len(values)}
        return types.CompleteResult.model_validate({"completion": completion})

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
        note_client(context)
        shortcut.learn(context, server.server_info_stamp)
        return await call_and_ask(surface, context, params, lambda run: _with_progress(context, run))

    async def subscribe(context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        _or_invalid(lambda: feed.subscribe(str(params.uri)))
        return types.EmptyResult()

    async def unsubscribe(context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        feed.unsubscribe(str(params.uri))
        return types.EmptyResult()

    async def listen(context: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        try:
            return await feed.listen(context, params)
        except GateminiError as exc:
            raise MCPError(code=types.INVALID_PARAMS, message=exc.text()) from exc

    @asynccontextmanager
    async def telling(_: Server[Any]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(feed.run)
            yield
            group.cancel_scope.cancel()

    server: Server[Any] = _Server(
        "gatemini",
        version=__version__,
        title="Gatemini",
        instructions=surface.instructions(),
        lifespan=telling,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=listen,
    )

    async def lenient_arguments(ctx: Context, call_next: CallNext) -> HandlerResult:
        """`tools/call` with arguments that are no object: a tool error the model sees, not a protocol error."""
        params = ctx.params
        if ctx.method == "tools/call" and isinstance(params, dict):
            arguments = params.get("arguments")
            if isinstance(params.get("name"), str) and not isinstance(arguments, dict | None):
                note_client(ctx)
                name = params["name"]
                result = await _with_progress(
                    ctx, lambda done: surface.call_tool(name, arguments, on_call_done=done)
                )
                modern = {"resultType": "complete"} if ctx.protocol_version >= "2026" else {}
                return {**result, **modern}
        return await call_next(ctx)

    async def greet(ctx: Context, call_next: CallNext) -> HandlerResult:
        """A client that has shaken hands is told of changes from then on."""
        result = await call_next(ctx)
        if ctx.method == "notifications/initialized":
            feed.greet(ctx.session)
        return result

    server.middleware.clear()  # the SDK's own traces for OpenTelemetry, of which there is no exporter here
    server.middleware.append(state_boundary(surface.parking, session.id))
    server.middleware.append(lenient_arguments)
    server.middleware.append(greet)
    return server


class _Server(Server[Any]):
    """Announces what changes here in either era: the resource list, never the seven tools or the prompts."""

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
        # The SDK derives all of them from whether `subscriptions/listen` is served.
        return announced.model_copy(
            update={
                "tools": types.ToolsCapability(list_changed=False),
                "prompts": types.PromptsCapability(list_changed=False),
            }
        )


def _client_name(context: Context) -> str | None:
    params = context.session.client_params
    if params is None:
        return None
    return params.client_info.name


def _or_invalid(answer: Callable[[], Any]) -> Any:
    """Resources and prompts have no `isError`: what cannot be answered is an invalid-params error."""
    try:
        return answer()
    except GateminiError as exc:
        raise MCPError(code=types.INVALID_PARAMS, message=exc.text()) from exc


async def _with_progress(context: Context, run: Callable[[OnCallDone | None], Awaitable[Any]]) -> Any:
    """A meta-tool's run, with progress for each finished backend call when the client asked for it."""
    meta = context.meta or {}
    if meta.get("progress_token", meta.get("progressToken")) is None:  # 0 is a token like any other
        return await run(None)
    send, receive = anyio.create_memory_object_stream[tuple[int, str]](PROGRESS_BUFFER)
    done = 0

    def on_call_done(record: CallRecord) -> None:
        nonlocal done
        done += 1
        try:
            send.send_nowait((done, record.told()))
        except anyio.WouldBlock:
            logger.debug("progress dropped: the client reads slower than calls finish")

    async def forward() -> None:
        async for count, message in receive:
            await context.session.report_progress(float(count), None, message)

    with send, receive:
        async with anyio.create_task_group() as group:
            group.start_soon(forward)
            result = await run(on_call_done)
            send.close()
    return result
