"""Everything that is measured, as an MCP client connected over stdio: direct, gatemini, and the rivals.

All of them have the same backend behind them, `tests/fixtures/demo_server.py` as a process of its own, and the
same official client in front, so what differs is only what stands between. Above: `gateway.py`. Below: the
SDK's client, `rivals.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DEMO_SERVER = TESTS / "fixtures" / "demo_server.py"
RIVALS = TESTS / "benchmarks" / "rivals.py"

STDIO_BACKEND = {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}
SANDBOX_TIER = 3

PYTHON_BACKEND = {"transport": "python", "module": "fixtures.demo_server:server"}


@asynccontextmanager
async def _connected(args: list[str], env: dict[str, str] | None = None) -> AsyncIterator[Client]:
    with tempfile.TemporaryFile("w+") as errlog:
        parameters = StdioServerParameters(command=sys.executable, args=["-P", *args], env=env)
        async with Client(stdio_client(parameters, errlog=errlog)) as client:
            yield client


@asynccontextmanager
async def direct() -> AsyncIterator[Client]:
    """The client connected to the backend itself."""
    async with _connected([str(DEMO_SERVER)]) as client:
        yield client


@asynccontextmanager
async def gatemini(backend: dict[str, Any]) -> AsyncIterator[Client]:
    """`gatemini --direct` with one backend called `demo`."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(json.dumps({"cache_path": f"{folder}/cache.json", "backends": {"demo": backend}}))
        async with _connected(
            ["-m", "gatemini", "--direct", "-c", str(config)], env={"PYTHONPATH": str(TESTS)}
        ) as client:
            # The first call waits for the backend to start; starting is not what is measured.
            await json_call(client, 0)
            yield client


@asynccontextmanager
async def fastmcp(kind: str) -> AsyncIterator[Client]:
    """FastMCP's `proxy`, or its proxy with `code` mode, over the same backend process."""
    async with _connected([str(RIVALS), kind, str(DEMO_SERVER)]) as client:
        yield client


async def echo(client: Client, n: int) -> None:
    """One `echo` on a server that has the tool itself."""
    _check(await client.call_tool("echo", {"n": n}), {"n": n})


async def json_call(client: Client, n: int) -> None:
    """The same `echo` as a JSON call through the gateway."""
    code = json.dumps({"tool": "demo.echo", "arguments": {"n": n}})
    _check(await client.call_tool("call_tool_chain", {"code": code}), {"n": n})


async def chain(client: Client, code: str, expected: Any) -> None:
    """A chain that must run in the sandbox and return `expected`."""
    result = await client.call_tool("call_tool_chain", {"code": code})
    _check(result, expected)
    if (result.meta or {})["gatemini/chain"]["tier"] != SANDBOX_TIER:
        raise RuntimeError(f"this program was answered without the sandbox: {code}")


async def execute(client: Client, code: str, expected: Any) -> None:
    """A program of FastMCP's code mode."""
    _check(await client.call_tool("execute", {"code": code}), expected)


def _check(result: CallToolResult, expected: Any) -> None:
    """A wrong answer that came fast is no result."""
    [block, *_notes] = result.content
    if result.is_error or not isinstance(block, TextContent):
        raise RuntimeError(f"the call failed: {block}")
    if json.loads(block.text) != expected:
        raise RuntimeError(f"expected {expected!r}, got {block.text[:200]}")
