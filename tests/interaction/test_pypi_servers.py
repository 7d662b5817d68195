"""The reference servers from PyPI, `mcp-server-time` and `mcp-server-git`, behind a real gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client

from fixtures.direct import DEMO_SERVER, chain_value, gateway, run_chain, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")

    def git(*arguments: str) -> None:
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *author, "-C", str(folder), *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for number in (1, 2, 3):
        (folder / "file.txt").write_text(f"{number}\n")
        git("add", "file.txt")
        git("commit", "-q", "-m", f"change {number}")
    return folder


@pytest.fixture(scope="module")
async def client(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    backends = {
        "time": {"command": sys.executable, "args": ["-P", "-m", "mcp_server_time"]},
        "git": {"command": sys.executable, "args": ["-P", "-m", "mcp_server_git", "-r", str(repository)]},
        "demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]},
    }
    async with gateway(tmp_path_factory.mktemp("pypi"), backends) as connected:
        await chain_value(
            connected,
            f"""
            await Promise.all([
              time.get_current_time({{ timezone: "UTC" }}),
              git.git_status({{ repo_path: "{repository}" }}),
              demo.echo({{}}),
            ]);
            return "ready";
            """,
        )
        yield connected


async def test_both_servers_list_their_tools(client: Client) -> None:
    page = json.loads(text_of(await client.call_tool("list_tools_meta", {"page_size": 500})))
    assert {"time.get_current_time", "time.convert_time", "git.git_log", "git.git_status"} <= set(
        page["tools"]
    )


async def test_a_structured_answer_is_an_object(client: Client) -> None:
    value = await chain_value(
        client,
        """
        const there = await time.convert_time({
          source_timezone: "Europe/Berlin", time: "12:00", target_timezone: "Asia/Kolkata",
        });
        return there.time_difference;
        """,
    )
    assert value in ("+4.5h", "+3.5h")  # Berlin keeps summer time, Kolkata does not


async def test_a_text_answer_is_a_string(client: Client, repository: Path) -> None:
    status = await chain_value(client, f'return await git.git_status({{ repo_path: "{repository}" }});')
    assert "nothing to commit" in status


async def test_an_error_of_the_server_names_its_tool_and_reason(client: Client) -> None:
    result = await run_chain(client, 'return await time.get_current_time({ timezone: "Nowhere/At_All" });')
    assert result.is_error
    assert "time.get_current_time" in text_of(result)
    assert "Nowhere/At_All" in text_of(result)


async def test_one_chain_works_over_three_servers(client: Client, repository: Path) -> None:
    value = await chain_value(
        client,
        f"""
        type Commit = {{ message: string }};
        const log: string = await git.git_log({{ repo_path: "{repository}", max_count: 3 }});
        const commits: Commit[] = [...log.matchAll(/Message: (.*)/g)].map((m) => ({{ message: m[1].trim() }}));
        const zones = ["Europe/Berlin", "Asia/Tokyo"];
        const clocks = await Promise.all(zones.map((timezone) => time.get_current_time({{ timezone }})));
        let total = 0;
        for (const c of commits) {{
          const {{ sum }} = await demo.add({{ a: total, b: Number(/\\d/.exec(c.message)![0]) }});
          total = sum;
        }}
        return {{ total, zones: clocks.map((c) => c.timezone) }};
        """,
    )
    assert value == {"total": 6, "zones": ["Europe/Berlin", "Asia/Tokyo"]}
