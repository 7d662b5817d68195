"""Send a client a request under an id of ours: the SDK counts from 1 in each process, and replicas must not meet.

Its sessions have no public way to choose an id, so this reads two of their private fields; `tests/http/test_sdk.py` shows
that they are there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

import mcp_types as types
from mcp.server.session import ServerSession
from mcp_types import methods
from pydantic import BaseModel

Result = TypeVar("Result", bound=BaseModel)


async def send_named(
    session: ServerSession,
    request: types.ServerRequest,
    result_type: type[Result],
    ident: str,
    *,
    in_call: bool,
) -> Result:
    """Return the client's answer; `in_call`: on the stream of the call at hand. Raises what `send_request` raises."""
    channel = session._request_outbound if in_call else session._connection.outbound
    data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
    result = await channel.send_raw_request(data["method"], data.get("params"), {"request_id": ident})
    with suppress(KeyError):  # a method that this revision does not know
        methods.validate_client_result(request.method, session.protocol_version, result)
    return result_type.model_validate(result, by_name=False)
