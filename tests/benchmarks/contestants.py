"""Everything that is measured, as a client connected over stdio: direct, gatemini, and the rivals.

All of a scenario have the same backend behind them, a process of its own, and the same client in front, so only
what is between the two differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.client import Client, connected

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PLAIN_SERVER = TESTS / "benchmarks" / "plain_server.py"
SDK_SERVER = TESTS / "fixtures" / "demo_server.py"
RIVALS = TESTS / "benchmarks" / "rivals.py"

SANDBOX_TIER = 3

PYTHON_BACKEND = {"transport": "python", "module": "fixtures.demo_server:server"}


def stdio_backend(server: Path) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-P", str(server)]}


@contextmanager
def direct(server: Path) -> Iterator[Client]:
    """The client connected to the backend itself."""
    with connected([str(server)]) as client:
        yield client


@contextmanager
def gatemini(backend: dict[str, Any], *, pinned: bool = False, **settings: Any) -> Iterator[Client]:
    """`gatemini --direct` with one backend called `demo`, approved as it is if it is to be `pinned`."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            json.dumps({"cache_path": f"{folder}/cache.json", "backends": {"demo": backend}, **settings})
        )
        gateway, path = ["-m", "gatemini", "-c", str(config)], {"PYTHONPATH": str(TESTS)}
        if pinned:
            command = [sys.executable, "-P", *gateway, "pin"]
            subprocess.run(command, env={**os.environ, **path}, check=True, stdout=subprocess.DEVNULL)
        with connected([*gateway, "--direct"], env=path) as client:
            # The first call waits for the backend to start; starting is not what is measured.
            json_call(client, 0)
            client.settled()
            yield client


@contextmanager
def fastmcp(kind: str, server: Path) -> Iterator[Client]:
    """FastMCP's `proxy`, or its proxy with `code` mode, over the same backend process."""
    with connected([str(RIVALS), kind, str(server)]) as client:
        client.settled()
        yield client


def echo(client: Client, n: int) -> None:
    """One `echo` on a server that has the tool itself."""
    _check(client.call_tool("echo", {"n": n}), {"n": n})


def json_call(client: Client, n: int) -> None:
    """The same `echo` as a JSON call through the gateway."""
    code = json.dumps({"tool": "demo.echo", "arguments": {"n": n}})
    _check(client.call_tool("call_tool_chain", {"code": code}), {"n": n})


def chain(client: Client, code: str, expected: Any) -> None:
    """A chain that must run in the sandbox and return `expected`."""
    result = client.call_tool("call_tool_chain", {"code": code})
    _check(result, expected)
    if result["_meta"]["gatemini/chain"]["tier"] != SANDBOX_TIER:
        raise RuntimeError(f"this program was answered without the sandbox: {code}")


def execute(client: Client, code: str, expected: Any) -> None:
    """A program of FastMCP's code mode."""
    _check(client.call_tool("execute", {"code": code}), expected)


def _check(result: dict[str, Any], expected: Any) -> None:
    """A wrong answer that came fast is no result."""
    [block, *_notes] = result["content"]
    if result.get("isError") or block["type"] != "text":
        raise RuntimeError(f"the call failed: {block}")
    if json.loads(block["text"]) != expected:
        raise RuntimeError(f"expected {expected!r}, got {block['text'][:200]}")
