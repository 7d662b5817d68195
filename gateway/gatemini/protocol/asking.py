"""Requests of backends to the client (elicitation, sampling, roots), in the form of the client's protocol revision.

Until 2025-11-25 the gateway sends the client a request while its call is open. On 2026-07-28 the call is answered with
`input_required`, the chain is parked, and the client calls again with the answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
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
from gatemini.policy.principal import Behalf
from gatemini.protocol.definitions import CALL_TOOL_CHAIN, REGISTER_MANUAL
from gatemini.protocol.questions.named_requests import send_named
from gatemini.protocol.questions.parking import PARKED_SECONDS, Parking, Question, Stay
from gatemini.protocol.questions.shared_parking import SharedParking
from gatemini.protocol.questions.translation import (
    answer,
    answer_type,
    as_json,
    can_be_asked,
    first_fault,
    question,
    same_question,
)
from gatemini.protocol.relay import Relay
from gatemini.protocol.sessions.client_session import login_of_request
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
    version = context.protocol_version
    can = can_be_asked(context.session.client_capabilities, version)
    if params.request_state is not None:
        given = (context.params or {}).get("inputResponses")
        answers = given if isinstance(given, dict) else {}
        stay = surface.parking.take_up(params.request_state, surface.session.id)
        if stay is None:
            return await _taken_over(surface, params, answers, can, version, with_relay)
        if surface.parking.shared is not None:
            await surface.parking.shared.forget(params.request_state)
        stay.behalf.who, stay.behalf.suspended, stay.login = surface.session.who, False, login_of_request()
        stay.give(answers)
        return await _round(surface, stay, with_relay)
    if params.name not in ASKING:
        return await _plain(surface, params, with_relay, lambda _: NO_CLIENT)
    if not can:
        return await _plain(surface, params, with_relay, lambda relay: relay.client())
    if version not in MODERN_PROTOCOL_VERSIONS:
        ask = surface.redacted(
            asks_now(context.session, can, version, context.request_id, surface.parking.shared)
        )
        return await _plain(surface, params, with_relay, lambda relay: relay.client(can, ask))

    chain = _parkable(surface, params.name, params.arguments, can, _asks_by_parking(surface, can, version))
    return await _round(surface, _new_stay(surface), with_relay, chain)


async def _taken_over(
    surface: Surface,
    params: types.CallToolRequestParams,
    answers: Json,
    can: Json,
    version: str,
    with_relay: WithRelay,
) -> types.CallToolResult | types.InputRequiredResult:
    """Run a chain from its journal whose replica is gone; what its client has answered is not asked again."""
    shared, token, arguments = surface.parking.shared, params.request_state, params.arguments
    parked = await shared.take(token, surface.session.id) if shared is not None and token else None
    if parked is None or not arguments or not isinstance(arguments.get("code"), str):
        raise MCPError(
            code=types.INVALID_PARAMS,
            message="the chain of this requestState is no longer waiting: it continued, was cancelled or timed out",
        )
    known = [(parked.questions[key], given) for key, given in answers.items() if key in parked.questions]
    if parked.revision != surface.policy_revision:  # the user has answered about another policy
        known = []
    again = {**arguments, "code": f"// @resume {parked.chain}\n{arguments['code']}"}
    asks = _asks_by_parking(surface, can, version, known)
    return await _round(
        surface, _new_stay(surface), with_relay, _parkable(surface, params.name, again, can, asks)
    )


def _new_stay(surface: Surface) -> Stay:
    return Stay(surface.session.id, Behalf(surface.session.who), login_of_request())


def _parkable(
    surface: Surface, name: str, arguments: Any, can: Json, asks: Callable[[Stay], AskFn]
) -> Callable[[Stay, Relay], Awaitable[Json]]:
    """Return a function that runs a chain which may be parked."""

    async def chain(stay: Stay, relay: Relay) -> Json:
        client = relay.client(can, surface.redacted(asks(stay)))

        def begun(ident: str) -> None:
            stay.chain = ident
            if client.on_begin is not None:
                client.on_begin(ident)

        return await surface.call_tool(name, arguments, replace(client, on_begin=begun, behalf=stay.behalf))

    return chain


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
    token = surface.parking.park(stay)
    if surface.parking.shared is not None:
        revision = surface.policy_revision
        await surface.parking.shared.keep(token, stay.session, stay.chain, requests, revision)
    return types.InputRequiredResult.model_validate(
        {"inputRequests": requests, "requestState": token, "resultType": "input_required"}
    )


def _asks_by_parking(
    surface: Surface, can: Json, version: str, known: Sequence[tuple[Json, Any]] = ()
) -> Callable[[Stay], AskFn]:
    """Return what makes a function that asks a client of 2026-07-28: with the answer to its call, while the chain is
    parked. `known`: requests that were answered while another replica had the chain, each once.
    """
    left = list(known)

    def asks(stay: Stay) -> AskFn:
        async def ask(method: str, params: Json) -> Json:
            request = question(method, params, can, version)
            said = as_json(request)
            for number, (asked, given) in enumerate(left):
                if same_question(asked, {"method": method, "params": said}):
                    del left[number]
                    return answer(request, given)
            return answer(request, await surface.parking.ask(stay, method, said))

        return ask

    return asks


def asks_now(
    session: ServerSession,
    can: Json,
    version: str,
    related: types.RequestId | None = None,
    shared: SharedParking | None = None,
) -> AskFn:
    """Return a function that sends a request to a client of the handshake era, related to an open call if there is one.

    `shared`: the answer may come to another replica.
    """

    async def ask(method: str, params: Json) -> Json:
        request = question(method, params, can, version)
        beside = None if related is None else ServerMessageMetadata(related_request_id=related)
        kind = answer_type(request)
        given: Any = None
        with anyio.move_on_after(PARKED_SECONDS) as wait:
            try:
                if shared is not None:
                    ident = shared.request_id()
                    given = await send_named(session, request, kind, ident, in_call=related is not None)
                else:
                    given = await session.send_request(request, kind, metadata=beside)
            except MCPError as exc:
                raise RpcError(exc.error.code, exc.error.message) from exc
            except ValidationError as exc:
                raise RpcError(INVALID_PARAMS, f"the client's answer is invalid: {first_fault(exc)}") from exc
        if wait.cancelled_caught:
            raise RpcError(INTERNAL_ERROR, f"no answer within {PARKED_SECONDS:.0f} s")
        return answer(request, given.model_dump(by_alias=True, mode="json", exclude_none=True))

    return ask
