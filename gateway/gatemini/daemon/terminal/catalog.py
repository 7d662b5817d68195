"""Tools as `gatemini tools`, `info` and `types` show them, by a running gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gatemini.app import App
from gatemini.discovery.types.typescript import backend_declarations
from gatemini.errors import ToolNotFound
from gatemini.model import Tool
from gatemini.policy.principal import TERMINAL, local
from gatemini.protocol.answers.fitting import WHOLE
from gatemini.protocol.definitions import TOOL_INFO
from gatemini.registry import Registry
from gatemini.text.shorten import first_sentence


async def tools(app: App, *, backend: str | None) -> dict[str, Any]:
    """Return all tools, or those of one backend, with a note on backends whose tools are unknown. Raises ToolNotFound."""
    found = _members(app, backend) if backend else _shown(app).tools()
    rows = [
        {"name": t.qualified, "backend": t.backend, "description": first_sentence(t.description)}
        for t in found
    ]
    note = (await app.readiness.unlisted(0)).note()
    return {"tools": rows, "note": note} if note else {"tools": rows}


async def info(app: App, *, tool: str, detail: str) -> dict[str, Any]:
    """Return the answer of `tool_info`, however long it is. Raises ToolNotFound."""
    arguments = {"tool_name": tool, "detail": detail}
    return await app.tools.discover(TOOL_INFO, arguments, WHOLE, local("cli", TERMINAL))


async def types(app: App, *, backend: str) -> dict[str, Any]:
    """Return the TypeScript declarations of one backend. Raises ToolNotFound."""
    found = _members(app, backend)
    text = backend_declarations(found, spoken=app.registry.is_spoken(found[0]))
    return {"backend": backend, "declarations": text}


CATALOG: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {"tools": tools, "info": info, "types": types}


def _shown(app: App) -> Registry:
    return app.chain.listing(local("cli", TERMINAL)).registry


def _members(app: App, backend: str) -> list[Tool]:
    """The tools of a backend by its name or its identifier; an error says why it has none."""
    statuses = {status.name: status for status in app.manager.statuses()}
    space = backend if backend in statuses else app.registry.space(backend)
    found = _shown(app).backend_tools(space)
    if not found:
        status = statuses.get(space)
        why = f" ({status.state}{f': {status.error}' if status.error else ''})" if status else ""
        raise ToolNotFound(f"{backend} has no tools{why}")
    return found
