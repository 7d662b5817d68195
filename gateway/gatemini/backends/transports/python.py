"""A backend in this process: an SDK server object (`package.module:attribute`) over memory streams.

The demo uses it, and applications that embed a server.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from gatemini.backends.calls.large_messages import read_messages
from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.wire import encode
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendCrashed, BackendStopped
from gatemini.model import Json

STOP_SECONDS = 2.0
"""How long an in-process server may take to end after its input ended; then it is cancelled."""

logger = logging.getLogger(__name__)


class PythonLink(Link):
    """The connection to one in-process server."""

    def __init__(self, name: str, receiver: Receiver, outgoing: MemoryObjectSendStream[Any]) -> None:
        super().__init__(name, receiver)
        self._outgoing = outgoing

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        del ident
        try:
            await self._outgoing.send(SessionMessage(jsonrpc_message_adapter.validate_python(message)))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise BackendCrashed(f"{self._name} is gone", sent=False) from error

    def end(self, reason: str) -> None:
        self.failure = BackendCrashed(f"{self._name} {reason}", sent=True)
        self._receiver.fail(self.failure)
        self.closed.set()


@asynccontextmanager
async def open_python(config: BackendConfig, receiver: Receiver) -> AsyncIterator[Link]:
    """Run the server for the length of the context."""
    server = await anyio.to_thread.run_sync(load_server, config.module or "")
    async with create_client_server_memory_streams() as ((incoming, outgoing), (server_read, server_write)):
        link = PythonLink(config.name, receiver, cast("MemoryObjectSendStream[Any]", outgoing))

        async def serve() -> None:
            reason = "ended"
            try:
                await server.run(server_read, server_write, server.create_initialization_options())
            except Exception as error:  # a server's own fault must not reach the gateway
                logger.warning("in-process backend %s failed", config.name, exc_info=error)
                reason = f"failed: {type(error).__name__}: {error}"
            finally:
                link.end(reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            tasks.start_soon(_read, cast("MemoryObjectReceiveStream[Any]", incoming), receiver)
            try:
                yield link
            finally:
                with anyio.move_on_after(STOP_SECONDS, shield=True):
                    await outgoing.aclose()
                    await link.closed.wait()
                tasks.cancel_scope.cancel()


async def _read(incoming: MemoryObjectReceiveStream[Any], receiver: Receiver) -> None:
    async for item in incoming:
        if isinstance(item, SessionMessage):
            message = item.message.model_dump(mode="json", by_alias=True, exclude_none=True)
            for piece in await read_messages(encode(message)):
                receiver.receive(piece)


def load_server(module: str) -> Server[Any]:
    """The server object `package.module:attribute` names: a server, or a factory without parameters."""
    path, _, attribute = module.partition(":")
    hint = "write `module: package.module:server`, a module that can be imported and its server object"
    try:
        found: Any = importlib.import_module(path)
        for part in (attribute or "server").split("."):
            found = getattr(found, part)
        if callable(found) and not isinstance(found, Server | MCPServer):
            found = found()
    except Exception as error:
        raise BackendStopped(
            f"module {module!r} cannot be loaded: {type(error).__name__}: {error}", hint=hint
        ) from error
    if isinstance(found, MCPServer):
        return found._lowlevel_server
    if isinstance(found, Server):
        return found
    raise BackendStopped(f"module {module!r} gives {type(found).__name__}, not an MCP server", hint=hint)
