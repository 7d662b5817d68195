"""FastMCP in front of a stdio backend: `python -P rivals.py proxy|code SERVER.py`, itself on stdio.

Set up in the way that measured fastest for it: one connected client reused for every request (the default
opens a session per request), and no limit on the number of calls in code mode. Run by `contestants.py`.
"""

from __future__ import annotations

import sys

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.experimental.transforms.code_mode import CodeMode
from fastmcp.server import create_proxy


async def main(kind: str, server: str) -> None:
    async with Client(StdioTransport(sys.executable, ["-P", server])) as client:
        proxy = create_proxy(client, name="rival")
        if kind == "code":
            proxy.add_transform(CodeMode(max_tool_calls=None))
        await proxy.run_async("stdio", show_banner=False)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
