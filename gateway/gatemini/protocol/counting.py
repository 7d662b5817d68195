"""Middleware that counts the bytes of lists, instructions and refusals.

The answers of tools, resources and prompts are counted where they are made, by what the model reads of them.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from pydantic_core import to_json

from gatemini.protocol.surface import Surface
from gatemini.text.size_limit import weight

LISTS = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list", "completion/complete"}
)
"""Methods counted by the size of their whole answer."""
HANDSHAKES = frozenset({"initialize", "server/discover"})
"""Methods counted by the instructions in their answer."""
REFUSED = frozenset({*LISTS, *HANDSHAKES, "tools/call", "resources/read", "prompts/get"})
"""Methods whose refusals are counted by name; others are counted together, since a client may send any."""
OTHER = "other requests"


class AnswerCount:
    """The counter of one connection."""

    def __init__(self, surface: Surface, instructions: str) -> None:
        self._surface = surface
        self._instructions = weight(instructions)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        method = ctx.method
        try:
            result = await call_next(ctx)
        except MCPError as exc:
            if ctx.request_id is not None:
                self._surface.count_answer(method if method in REFUSED else OTHER, weight(exc.error.message))
            raise
        if method in LISTS:
            self._surface.count_answer(method, _written(result))
        elif method in HANDSHAKES:
            self._surface.count_answer(method, self._instructions)
        return result


def _written(result: HandlerResult) -> int:
    """Return the bytes of a result as JSON."""
    if isinstance(result, BaseModel):
        return weight(result.model_dump_json(by_alias=True, exclude_none=True))
    return len(to_json(result))
