"""Questions of backends to the user, in the form of the client's era (elicitation; spec 2.6).

Until 2025-11-25 the client is sent a request of ours while its call is open. On 2026-07-28 its call is answered
`input_required` and it calls again; the chain is parked meanwhile. Above: gateway.py. Below: parking.py, the SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gatemini.backends.base import RpcError
from gatemini.chain.services import Ask
from gatemini.model import Json
from gatemini.server.definitions import CALL_TOOL_CHAIN
from gatemini.server.parking import PARKED_SECONDS, OnCallDone, Parking, Question, Stay
from gatemini.server.surface import Surface

ELICIT = "elicitation/create"
NO_MESSAGE = "A backend asks for your confirmation and does not say of what."
NO_FIELDS: Json = {"type": "object", "properties": {}}

Context = ServerRequestContext[Any, Any]
WithProgress = Callable[[Callable[[OnCallDone | None], Awaitable[Any]]], Awaitable[Any]]
"""Runs something that tells of finished calls, with progress to the client if it wants that."""


def state_boundary(parking: Parking, session: str) -> RequestStateBoundary:
    """The SDK's seal around what a client brings along: bound to tool, arguments (so to the code), session, age."""
    security = RequestStateSecurity(
        codec=parking.codec, ttl=PARKED_SECONDS, bind_principal=lambda _: session, audience="gatemini"
    )
    return RequestStateBoundary(security, default_audience="gatemini")


async def call_and_ask(
    surface: Surface, context: Context, params: types.CallToolRequestParams, with_progress: WithProgress
) -> types.CallToolResult | types.InputRequiredResult:
    """One call of a meta-tool by a client that may be asked, or the continuation of one that was."""
    if params.request_state is not None:
        stay = surface.parking.take_up(params.request_state, surface.session.id)
        if stay is None:
            raise MCPError(
                code=types.INVALID_PARAMS,
                message="the chain this answers is no longer waiting: it has gone on, was cancelled or its time is over",
            )
        stay.give(_answers(params))
        return await _round(surface, stay, with_progress)
    if params.name != CALL_TOOL_CHAIN or not _can_be_asked(context):
        return await _plain(surface, params, with_progress, None)
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return await _plain(surface, params, with_progress, asks_now(context))

    async def chain(park: Ask, on_call_done: OnCallDone) -> Json:
        async def ask(method: str, question: Json) -> Json:
            request = readable(
                method, question
            )  # what the client could not read is refused before anybody waits
            return await park(
                method, request.params.model_dump(by_alias=True, mode="json", exclude_none=True)
            )

        return await surface.call_tool(params.name, params.arguments, on_call_done=on_call_done, ask=ask)

    return await _round(surface, surface.parking.start(surface.session.id, chain), with_progress)


async def _plain(
    surface: Surface, params: types.CallToolRequestParams, with_progress: WithProgress, ask: Ask | None
) -> types.CallToolResult:
    result = await with_progress(
        lambda done: surface.call_tool(params.name, params.arguments, on_call_done=done, ask=ask)
    )
    return types.CallToolResult.model_validate(result)


async def _round(
    surface: Surface, stay: Stay, with_progress: WithProgress
) -> types.CallToolResult | types.InputRequiredResult:
    """Wait for the chain's end or its next questions; with those it is parked."""
    try:
        outcome = await with_progress(stay.until_asked)
    except RpcError as exc:
        raise MCPError(code=exc.code, message=exc.message) from exc
    if stay.result is not None:
        return types.CallToolResult.model_validate(outcome)
    questions: dict[str, Question] = outcome
    requests = {key: {"method": q.method, "params": q.params} for key, q in questions.items()}
    return types.InputRequiredResult.model_validate(
        {
            "inputRequests": requests,
            "requestState": surface.parking.park(stay),
            "resultType": "input_required",
        }
    )


def _can_be_asked(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _answers(params: types.CallToolRequestParams) -> dict[str, Json]:
    given = params.input_responses or {}
    return {
        key: answer.model_dump(by_alias=True, mode="json", exclude_none=True) for key, answer in given.items()
    }


def asks_now(context: Context) -> Ask:
    """How a client of the handshake era is asked: by a request of ours, beside its open call."""

    async def ask(method: str, params: Json) -> Json:
        request = readable(method, params)
        try:
            answer = await context.session.send_request(
                request,
                types.ElicitResult,
                metadata=ServerMessageMetadata(related_request_id=context.request_id),
            )
        except MCPError as exc:
            raise RpcError(exc.error.code, exc.error.message) from exc
        except ValidationError as exc:
            raise RpcError(types.INVALID_PARAMS, f"the client's answer is none: {exc}") from exc
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)

    return ask


def readable(method: str, params: Json) -> types.ElicitRequest:
    """The question as the SDK's request. Raises RpcError for one that is not passed on."""
    if method != ELICIT:
        raise RpcError(types.METHOD_NOT_FOUND, f"the gateway passes {ELICIT} on to its client, not {method}")
    if params.get("mode") != "url":  # some servers want no more than a yes, and say little
        params = {"message": NO_MESSAGE, "requestedSchema": NO_FIELDS, **params}
    try:
        return types.ElicitRequest.model_validate({"method": method, "params": params})
    except ValidationError as exc:
        raise RpcError(types.INVALID_PARAMS, f"the question cannot be read: {exc}") from exc
