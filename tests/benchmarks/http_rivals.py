"""The rivals over HTTP: `python -P http_rivals.py echo|code PORT SERVER.py`.

`echo` is a server of the SDK with one tool, on its session manager and uvicorn as ours; `code` is FastMCP's code mode.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Route


async def echo(port: int) -> None:
    async def call(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        text = types.TextContent(text=f'{{"n":{arguments["n"]}}}')
        return types.CallToolResult(content=[text], structured_content=arguments)

    # The faster way: without it the SDK lists the tools before each call.
    server: Server[Any] = Server("echo", on_call_tool=call, get_tool_input_schema=lambda _: None)
    manager = StreamableHTTPSessionManager(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[Route("/mcp", manager.asgi_app)], lifespan=lifespan)
    config = uvicorn.Config(app, port=port, http="h11", ws="none", log_level="critical", access_log=False)
    await uvicorn.Server(config).serve()


async def code(port: int, server: str) -> None:
    async with Client(StdioTransport(sys.executable, ["-P", server])) as client:
        proxy = create_proxy(client, name="rival")
        proxy.add_transform(CodeMode(max_tool_calls=None))
        await proxy.run_http_async(show_banner=False, port=port, log_level="critical")


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        anyio.run(echo, int(sys.argv[2]))
    else:
        anyio.run(code, int(sys.argv[2]), sys.argv[3])
