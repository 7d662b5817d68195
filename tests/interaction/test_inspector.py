"""Use the gateway through an independent client: `@modelcontextprotocol/inspector --cli`, from npm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.direct import DEMO_SERVER, write_config
from fixtures.npm import missing, script

pytestmark = [pytest.mark.npm, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

CONNECT_MS = 60_000
SECONDS = 120
"""Bounds one run of the inspector, which takes fifteen seconds for a slow start by default."""


def inspect(folder: Path, *arguments: str) -> dict[str, Any]:
    config = write_config(folder, {"demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}})
    ran = subprocess.run(
        [
            *("node", script("mcp-inspector"), "--cli"),
            *(sys.executable, "-P", "-m", "gatemini", "--direct", "-c", str(config)),
            *("--connect-timeout", str(CONNECT_MS)),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_the_inspector_lists_the_seven_tools_and_finds_nothing_unportable_in_them(tmp_path: Path) -> None:
    listed = inspect(tmp_path, "--method", "tools/list", "--strict")
    assert sorted(tool["name"] for tool in listed["tools"]) == [
        "call_tool_chain",
        "deregister_manual",
        "get_required_keys_for_tool",
        "list_tools_meta",
        "register_manual",
        "search_tools",
        "tool_info",
    ]


def test_the_inspector_runs_a_chain(tmp_path: Path) -> None:
    code = "let s = 0; for (const n of [1, 2, 3]) { const r: { n: number } = await demo.echo({ n }); s += r.n; } return s;"
    answer = inspect(
        tmp_path, "--method", "tools/call", "--tool-name", "call_tool_chain", "--tool-arg", f"code={code}"
    )
    assert answer["content"][0]["text"] == "6"
    assert not answer.get("isError")


def test_the_inspector_reads_a_resource(tmp_path: Path) -> None:
    listed = inspect(tmp_path, "--method", "resources/list")
    assert "gatemini://overview" in {resource["uri"] for resource in listed["resources"]}
