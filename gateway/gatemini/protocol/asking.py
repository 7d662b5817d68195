"""Requests of backends to the client (elicitation, sampling, roots), in the form of the client's protocol revision.

Until 2025-11-25 the gateway sends the client a request while its call is open. On 2026-07-28 the call is answered with
`input_required`, the chain is parked, and the client calls again with the answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gatemini.backends.calls.callers import INTERNAL_ERROR, INVALID_PARAMS, AskFn, RpcError
from gatemini.chain.client import NO_CLIENT, ChainClient
from gatemini.model import Json
from gatemini.protocol.definitions import CALL_TOOL_CHAIN, REGISTER_MANUAL
from gatemini.protocol.questions.parking import PARKED_SECONDS, Parking, Question, Stay
from gatemini.protocol.questions.translation import (
    answer,
    answer_type,
    as_json,
    can_be_asked,
    first_fault,
    question,
)
from gatemini.protocol.relay import Relay
from gatemini.protocol.surface import Surface

ASKING = (CALL_TOOL_CHAIN, REGISTER_MANUAL)
"""The meta-tools during which the client may be sent a request."""

Context = ServerRequestContext[Any, Any]
WithRelay = Callable[[Callable[[Relay], Awaitable[Any]]], Awaitable[Any]]
"""Runs a call while notifications of its progress are sent."""


def state_boundary(parking: Parking, session: str) -> RequestStateBoundary:
    """Return the SDK's seal around the request state: bound to tool, arguments (so to the code), session and age."""
    security = RequestStateSecurity(
        codec=parking.codec, ttl=PARKED_SECONDS, bind_principal=lambda _: session, audience="gatemini"
    )
    return RequestStateBoundary(security, default_audience="gatemini")


async def call_and_ask(
    surface: Surface, context: Context, params: types.CallToolRequestParams, with_relay: WithRelay
) -> types.CallToolResult | types.InputRequiredResult:
    """Run one call of a meta-tool, or continue one whose client has answered a request."""
    if params.request_state is not None:
        stay = surface.parking.take_up(params.request_state, surface.session.id)
        if stay is None:
            raise MCPError(
                code=types.INVALID_PARAMS,
                message="the chain of this requestState is no longer waiting: it continued, was cancelled or timed out",
            )
        given = (context.params or {}).get("inputResponses")
        stay.give(given if isinstance(given, dict) else {})
        return await _round(surface, stay, with_relay)
    version = context.protocol_version
    can = can_be_asked(context.session.client_capabilities, version)
    if params.name not in ASKING:
        return await _plain(surface, params, with_relay, lambda _: NO_CLIENT)
    if not can:
        return await _plain(surface, params, with_relay, lambda relay: relay.client())
    if version not in MODERN_PROTOCOL_VERSIONS:
        ask = surface.redacted(asks_now(context.session, can, version, context.request_id))
        return await _plain(surface, params, with_relay, lambda relay: relay.client(can, ask))

    async def chain(stay: Stay, relay: Relay) -> Json:
        ask = surface.redacted(_asks_by_parking(stay, surface.parking, can, version))
        return await surface.call_tool(params.name, params.arguments, relay.client(can, ask))

    stay = Stay(surface.session.id)
    return await _round(surface, stay, with_relay, chain)


async def _plain(
    surface: Surface,
    params: types.CallToolRequestParams,
    with_relay: WithRelay,
    client: Callable[[Relay], ChainClient],
) -> types.CallToolResult:
    result = await with_relay(lambda relay: surface.call_tool(params.name, params.arguments, client(relay)))
    return types.CallToolResult.model_validate(result)


async def _round(
    surface: Surface,
    stay: Stay,
    with_relay: WithRelay,
    chain: Callable[[Stay, Relay], Awaitable[Json]] | None = None,
) -> types.CallToolResult | types.InputRequiredResult:
    """Wait for the chain's end or its next requests; with those it is parked. `chain` starts it in the first round."""

    async def wait(relay: Relay) -> dict[str, Question]:
        if chain is not None:
            surface.parking.start(stay, lambda: chain(stay, relay))
        return await stay.until_asked(relay)

    try:
        questions: dict[str, Question] = await with_relay(wait)
    except RpcError as exc:
        raise MCPError(code=exc.code, message=exc.message) from exc
    if stay.result is not None:  # the chain may have ended while its requests were being collected
        return types.CallToolResult.model_validate(stay.result)
    if stay.finished.is_set():
        raise MCPError(code=types.INTERNAL_ERROR, message="the chain was stopped")
    requests = {key: {"method": q.method, "params": q.params} for key, q in questions.items()}
    return types.InputRequiredResult.model_validate(
        {
            "inputRequests": requests,
            "requestState": surface.parking.park(stay),
            "resultType": "input_required",
        }
    )


def _asks_by_parking(stay: Stay, parking: Parking, can: Json, version: str) -> AskFn:
    """Return a function that asks a client of 2026-07-28: with the answer to its call, while the chain is parked."""

    async def ask(method: str, params: Json) -> Json:
        request = question(method, params, can, version)
        return answer(request, await parking.ask(stay, method, as_json(request)))

    return ask


def asks_now(
    session: ServerSession, can: Json, version: str, related: types.RequestId | None = None
) -> AskFn:
    """Return a function that sends a request to a client of the handshake era, related to an open call if there is one."""

    async def ask(method: str, params: Json) -> Json:
        request = question(method, params, can, version)
        beside = None if related is None else ServerMessageMetadata(related_request_id=related)
        given: Any = None
        with anyio.move_on_after(PARKED_SECONDS) as wait:
            try:
                given = await session.send_request(request, answer_type(request), metadata=beside)
            except MCPError as exc:
                raise RpcError(exc.error.code, exc.error.message) from exc
            except ValidationError as exc:
                raise RpcError(INVALID_PARAMS, f"the client's answer is invalid: {first_fault(exc)}") from exc
        if wait.cancelled_caught:
            raise RpcError(INTERNAL_ERROR, f"no answer within {PARKED_SECONDS:.0f} s")
        return answer(request, given.model_dump(by_alias=True, mode="json", exclude_none=True))

    return ask
