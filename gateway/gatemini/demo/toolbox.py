"""Typed Python functions as the tools of one low-level MCP server.

A tool is a function `(state, parameters) -> model or text`: its name, docstring and annotations give the tool's name,
description and schemas, and check what arrives. The state lives as long as one connection (the server's lifespan), so
two gateways in one process never share a shop. The SDK's high-level server is not used because it changes the logging
of the process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from gatemini import __version__

State = TypeVar("State")
Function = Callable[..., BaseModel | str]
Decorated = TypeVar("Decorated", bound=Function)

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
SETS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
DESTROYS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class Refused(Exception):
    """The tool's own error: its text goes to the caller as an `isError` result."""


@dataclass(frozen=True, slots=True)
class _Entry:
    tool: Tool
    arguments: type[BaseModel]
    run: Function


class Toolbox(Generic[State]):
    """Collects the tools of one server."""

    def __init__(
        self,
        name: str,
        instructions: str,
        lifespan: Callable[[Server[State]], AbstractAsyncContextManager[State]],
    ) -> None:
        self._name = name
        self._instructions = instructions
        self._lifespan = lifespan
        self._entries: dict[str, _Entry] = {}

    def tool(self, hints: ToolAnnotations = READS) -> Callable[[Decorated], Decorated]:
        """Register the decorated function as a tool; an answer that is no model is plain text."""

        def register(run: Decorated) -> Decorated:
            types = get_type_hints(run, include_extras=True)
            gives = types.pop("return")
            _, *parameters = inspect.signature(run).parameters.values()
            fields: dict[str, Any] = {
                p.name: (types[p.name], ... if p.default is p.empty else p.default) for p in parameters
            }
            takes = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
            tool = Tool(
                name=run.__name__,
                description=inspect.getdoc(run),
                input_schema=_plain(takes.model_json_schema()),
                output_schema=None if gives is str else _plain(gives.model_json_schema(mode="serialization")),
                annotations=hints,
            )
            self._entries[run.__name__] = _Entry(tool, takes, run)
            return run

        return register

    def server(self) -> Server[State]:
        """Return the server object that a `python` backend runs."""
        return Server(
            self._name,
            version=__version__,
            instructions=self._instructions,
            lifespan=self._lifespan,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(
        self, _ctx: ServerRequestContext[State], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[entry.tool for entry in self._entries.values()])

    async def _call(self, ctx: ServerRequestContext[State], params: CallToolRequestParams) -> CallToolResult:
        entry = self._entries.get(params.name)
        if entry is None:
            return _failed(f"there is no tool {params.name!r}; there are: {', '.join(self._entries)}")
        try:
            taken = entry.arguments.model_validate(params.arguments or {})
            answer = entry.run(ctx.lifespan_context, **dict(taken))
        except ValidationError as error:
            return _failed("; ".join(f"{_where(e['loc'])}: {e['msg']}" for e in error.errors()))
        except Refused as error:
            return _failed(str(error))
        if isinstance(answer, str):
            return CallToolResult(content=[TextContent(text=answer)])
        return CallToolResult(
            content=[TextContent(text=answer.model_dump_json())],
            structured_content=answer.model_dump(mode="json"),
        )


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "arguments"


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return pydantic's schema without the titles it makes of every field name: an agent pays for each word."""

    def strip(node: Any, *, names: bool) -> Any:
        if isinstance(node, list):
            return [strip(item, names=False) for item in node]
        if not isinstance(node, dict):
            return node
        return {
            key: strip(value, names=not names and key in {"properties", "$defs"})
            for key, value in node.items()
            if names or key != "title"
        }

    plain: dict[str, Any] = strip(schema, names=False)
    return plain
