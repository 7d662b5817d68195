"""Translate requests of backends to the client's protocol revision, and its answers back.

Pure functions. A request that this client cannot read, or did not announce a capability for, is refused with a JSON-RPC
error before anything waits for it.
"""

from __future__ import annotations

import secrets
from typing import Any

import mcp_types as types
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from gatemini.backends.calls.callers import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from gatemini.model import Json

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
ROOTS = "roots/list"

CAPABILITY = {ELICIT: "elicitation", SAMPLE: "sampling", ROOTS: "roots"}
"""Methods that may be passed on, and the client capability that each needs."""

NO_MESSAGE = "A backend asks for your confirmation and does not say of what."
NO_FIELDS: Json = {"type": "object", "properties": {}}

Request = types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest
_REQUESTS: dict[str, type[BaseModel]] = {
    ELICIT: types.ElicitRequest,
    SAMPLE: types.CreateMessageRequest,
    ROOTS: types.ListRootsRequest,
}


def can_be_asked(capabilities: types.ClientCapabilities | None, version: str) -> Json:
    """Return the capabilities that backends may use, of all the client announced; {} for none."""
    if capabilities is None:
        return {}
    said = capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
    can = {name: said[name] for name in CAPABILITY.values() if name in said}
    if "roots" in can and version in MODERN_PROTOCOL_VERSIONS:
        can["roots"] = {}  # that revision has no notification of changed roots
    return can


def question(method: str, params: Json, can: Json, version: str) -> Request:
    """Return the request as the SDK's model for a client of that revision. Raises RpcError to refuse it."""
    capability = CAPABILITY.get(method)
    if capability is None:
        passed_on = ", ".join(CAPABILITY)
        raise RpcError(METHOD_NOT_FOUND, f"the gateway passes {passed_on} on to its client, not {method}")
    if capability not in can:
        raise RpcError(METHOD_NOT_FOUND, f"the client does not take {method}: it announced no {capability}")
    # Progress and tasks belong to one connection and are not passed on.
    params = {key: value for key, value in params.items() if key not in ("_meta", "task")}
    modern = version in MODERN_PROTOCOL_VERSIONS
    if method == ELICIT:
        params = _elicitation(params, can[capability], modern=modern)
    elif method == SAMPLE and ("tools" in params or "toolChoice" in params):
        _require("tools" in can[capability], "the client's sampling takes no tools")
    request: dict[str, Any] = {"method": method, "params": params} if params else {"method": method}
    try:
        read: Request = _REQUESTS[method].model_validate(request)  # type: ignore[assignment]
        if modern:
            question = {"resultType": "input_required", "inputRequests": {"q": request}}
            methods.serialize_server_result("tools/call", version, question)
    except ValidationError as exc:
        raise RpcError(INVALID_PARAMS, f"the question cannot be read: {first_fault(exc)}") from exc
    return read


def as_json(request: Request) -> Json:
    """Return the request's params as JSON."""
    params: Json = request.model_dump(by_alias=True, mode="json", exclude_none=True).get("params") or {}
    return params


def answer(request: Request, given: Any) -> Json:
    """Return the client's answer for the backend. Raises RpcError where it is invalid."""
    try:
        read = answer_type(request).model_validate(given)
    except ValidationError as exc:
        raise RpcError(INVALID_PARAMS, f"the client's answer is invalid: {first_fault(exc)}") from exc
    plain = read.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {key: value for key, value in plain.items() if key not in ("_meta", "resultType")}


def first_fault(exc: ValidationError) -> str:
    """Return the first fault on one line, without the value; the others follow from it."""
    fault = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"


def answer_type(request: Request) -> type[BaseModel]:
    """Return the SDK's model of the answer to that request."""
    if isinstance(request, types.ElicitRequest):
        return types.ElicitResult
    if isinstance(request, types.ListRootsRequest):
        return types.ListRootsResult
    tools = request.params.tools is not None or request.params.tool_choice is not None
    return types.CreateMessageResultWithTools if tools else types.CreateMessageResult


def _elicitation(params: Json, can: Json, *, modern: bool) -> Json:
    if params.get("mode") == "url":
        _require("url" in can, "the client takes no elicitation by URL")
        own = {} if modern else {"elicitationId": secrets.token_urlsafe(16)}
        given = {key: value for key, value in params.items() if not (modern and key == "elicitationId")}
        return {**own, "message": NO_MESSAGE, **given}
    _require("form" in can or "url" not in can, "the client takes no elicitation by a form, only by URL")
    # Some servers send no message or schema, and only want a yes.
    return {"message": NO_MESSAGE, "requestedSchema": NO_FIELDS, **params}


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RpcError(INVALID_PARAMS, otherwise)


def same_question(one: Json, other: Json) -> bool:
    """Whether two requests ask the same; each has an id of its own where the user answers on a web page."""
    return _plain(one) == _plain(other)


def _plain(asked: Json) -> Json:
    params = {key: value for key, value in (asked.get("params") or {}).items() if key != "elicitationId"}
    return {"method": asked.get("method"), "params": params}
