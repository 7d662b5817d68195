"""Ten tasks of an agent over independent servers: every answer that it reads, what it costs, and whether it is right.

The programs are those an agent wrote that knew the instructions and the answers before, with its wrong guesses.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

from fixtures.direct import gateway, run_chain, text_of
from fixtures.npm import missing, script

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.npm,
    pytest.mark.long,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

MOST_BYTES = 60_000
SERVICES = {"api": "mara", "auth": "jon", "billing": "mara"}
LEVELS = ("INFO", "INFO", "INFO", "WARN", "INFO", "ERROR", "INFO")
COMMITS = 120
COUNTRIES = ("NL", "DE", "FR")


def log_lines() -> list[str]:
    names = list(SERVICES)
    return [
        f"2026-11-01 {n // 100:02d}:{n % 60:02d}:00 {LEVELS[n % 7]:5} {names[n * n % 3]} request {n}"
        for n in range(2300)
    ]


def sales() -> list[tuple[int, str, float]]:
    return [(n, COUNTRIES[n * n % 3], n * 37 % 1000 / 4) for n in range(1, 901)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks").resolve()
    data, project = folder / "data", folder / "project"
    (data / "parts").mkdir(parents=True)
    project.mkdir()
    (data / "app.log").write_text("\n".join(log_lines()))
    rows = "".join(f"{n},{country},{revenue}\n" for n, country, revenue in sales())
    (data / "sales.csv").write_text(f"order,country,revenue\n{rows}")
    services = [{"name": name, "owner": owner} for name, owner in SERVICES.items()]
    (data / "services.json").write_text(json.dumps({"services": services}, indent=2))
    for n in range(4):
        (data / "parts" / f"part{n}.md").write_text("# Part\n" + "words\n" * (10 + n))

    def git(*arguments: str) -> None:
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *author, "-C", str(project), *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for n in range(12):
        (project / f"file{n}.txt").write_text("a line\n" * 400)
    git("add", ".")
    git("commit", "-q", "-m", "Begin")
    for n in range(12):
        (project / f"file{n}.txt").write_text("another line\n" * 400)
    git("commit", "-q", "-a", "-m", "Change all")
    for n in range(COMMITS):
        git("commit", "-q", "--allow-empty", "-m", f"Step {n}")
    return folder


@pytest.fixture(scope="module")
async def client(folder: Path) -> AsyncIterator[Client]:
    python = {"command": sys.executable}
    backends: dict[str, dict[str, Any]] = {
        "everything": {"command": "node", "args": [script("mcp-server-everything")]},
        "filesystem": {"command": "node", "args": [script("mcp-server-filesystem"), str(folder)]},
        "memory": {
            "command": "node",
            "args": [script("mcp-server-memory")],
            "env": {"MEMORY_FILE_PATH": str(folder / "memory.json")},
        },
        "time": {**python, "args": ["-P", "-m", "mcp_server_time"]},
        "git": {**python, "args": ["-P", "-m", "mcp_server_git", "-r", str(folder / "project")]},
    }
    async with gateway(folder, backends) as connected:
        ready = await run_chain(
            connected,
            """
            await Promise.all([
              everything.echo({ message: "ready" }),
              filesystem.list_allowed_directories({}),
              memory.read_graph({}),
              time.get_current_time({ timezone: "UTC" }),
              git.listResources(),
            ]);
            return "ready";
            """,
        )
        assert not ready.is_error, text_of(ready)
        yield connected


class Agent:
    """Calls the gateway's tools, and counts what it reads."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client, self._folder = client, folder
        self.read = 0

    async def look(self, text: str) -> list[str]:
        said = await self._ask("search_tools", {"task_description": text, "limit": 4})
        return [row["name"] for row in json.loads(said)["results"]]

    async def run(self, code: str) -> str:
        return await self._ask("call_tool_chain", {"code": code.replace("FOLDER", str(self._folder))})

    async def value(self, code: str) -> Any:
        return json.loads((await self.run(code)).partition("\n")[0])

    async def _ask(self, tool: str, arguments: dict[str, Any]) -> str:
        result = await self._client.call_tool(tool, arguments)
        said = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        self.read += len(said.encode())
        return said


async def errors_in_a_log(agent: Agent) -> None:
    assert "filesystem.read_text_file" in await agent.look("read a log file and count errors")
    lines = [line.split() for line in log_lines()]
    errors = Counter(line[3] for line in lines if line[2] == "ERROR")
    assert (
        await agent.value(
            """const f = await filesystem.read_text_file({path: "FOLDER/data/app.log"});
            const by = {};
            for (const line of f.content.split("\\n")) {
              const m = line.match(/ ERROR +(\\S+) /);
              if (m) by[m[1]] = (by[m[1]] ?? 0) + 1;
            }
            return by;"""
        )
        == errors
    )
    whole = await agent.run(
        'return (await filesystem.read_text_file({path: "FOLDER/data/app.log"})).content;'
    )
    assert "log levels: ERROR " in whole
    assert len(whole) < 13_000


async def sums_of_a_table(agent: Agent) -> None:
    wrong = await agent.run(
        """const f = await filesystem.read_text_file({path: "FOLDER/data/sales.csv"});
        const rows = f.content.trim().split("\\n").slice(1).map((l) => l.split(","));
        return rows.reduce((sum, r) => sum + r[2], 0).slice(0, 40);"""
    )
    assert "write Number(r[2])" in wrong
    totals: Counter[str] = Counter()
    for _, country, revenue in sales():
        totals[country] += revenue  # type: ignore[assignment]  # quarters: exact in either order
    assert (
        await agent.value(
            """const f = await filesystem.read_text_file({path: "FOLDER/data/sales.csv"});
            const own = {};
            for (const l of f.content.trim().split("\\n").slice(1)) {
              const [, country, revenue] = l.split(",");
              own[country] = (own[country] ?? 0) + Number(revenue);
            }
            return own;"""
        )
        == totals
    )


async def history_and_changes(agent: Agent) -> None:
    few = await agent.run(
        'return (await git.git_log({repo_path: "FOLDER/project", limit: 200})).match(/^Commit: /gm).length;'
    )
    assert few.startswith("10\n")
    assert '"limit" (declared: max_count' in few
    assert (
        await agent.value(
            'return (await git.git_log({repo_path: "FOLDER/project", max_count: 200})).match(/^Commit: /gm).length;'
        )
        == COMMITS + 2
    )
    shown = await agent.run(
        f'return await git.git_show({{repo_path: "FOLDER/project", revision: "HEAD~{COMMITS}"}});'
    )
    assert "+++ b/file5.txt (+400 -400)" in shown
    handle = "res_" + shown.rpartition("res_")[2][:8]
    assert await agent.value(f'return (await results.load("{handle}")).match(/^\\+\\+\\+ b/gm).length;') == 12


async def owners_in_a_graph(agent: Agent) -> None:
    assert any(name.startswith("memory.") for name in await agent.look("remember who owns each service"))
    parsed = await agent.run(
        'return JSON.parse(await filesystem.read_text_file({path: "FOLDER/data/services.json"}));'
    )
    assert "JSON.parse(" in parsed
    assert ".content" in parsed
    assert await agent.value(
        """const { services } = JSON.parse((await filesystem.read_text_file({path: "FOLDER/data/services.json"})).content);
        const people = [...new Set(services.map((s) => s.owner))];
        await memory.create_entities({entities: [...services, ...people.map((name) => ({name}))].map(({name, owner}) =>
          ({name, entityType: owner ? "service" : "person", observations: []}))});
        await memory.create_relations({relations: services.map((s) => ({from: s.owner, to: s.name, relationType: "owns"}))});
        return (await memory.search_nodes({query: "mara"})).relations.map((r) => r.to);"""
    ) == ["api", "billing"]
    missed = await agent.run(
        'return (await memory.search_nodes({query: "mara"})).nodes?.map((n) => n.name) ?? [];'
    )
    assert missed.startswith("[]\nnothing was taken from the result of memory.search_nodes")


async def times_and_files(agent: Agent) -> None:
    assert (await agent.look("convert time between time zones"))[0] == "time.convert_time"
    there = await agent.value(
        """const r = await time.convert_time({source_timezone: "Asia/Kolkata", time: "09:00", target_timezone: "Asia/Tokyo"});
        return [r.target.datetime.slice(11, 16), r.time_difference];"""
    )
    assert there == ["12:30", "+3.5h"]

    assert await agent.value(
        """const found = (await filesystem.search_files({path: "FOLDER/data", pattern: "**/*.md"})).content.split("\\n");
            const all = await filesystem.read_multiple_files({paths: found});
            return [found.length, all.content.match(/^words$/gm).length];"""
    ) == [4, 46]
    edited = await agent.value(
        """const path = "FOLDER/data/report.md";
        await filesystem.write_file({path, content: "# Report\\nerrors: 0\\n"});
        await filesystem.edit_file({path, edits: [{oldText: "errors: 0", newText: "errors: 7"}]});
        return [(await filesystem.read_text_file({path})).content];"""
    )
    assert edited == ["# Report\nerrors: 7\n"]


async def images_and_refusals(agent: Agent) -> None:
    assert "everything.get-tiny-image" in await agent.look("get an image or a picture")
    image = await agent.run('return await everything["get-tiny-image"]({});')
    assert '"mimeType":"image/png"' in image
    assert len(image) < 1_000, "its data is no text"
    refused = await agent.run('return await everything["get-structured-content"]({location: "Boston"});')
    assert '"New York", "Chicago", "Los Angeles"' in refused
    assert await agent.value(
        """const links = await everything["get-resource-links"]({count: 2});
        return links.filter((l) => l.uri).map((l) => l.uri.split("/").slice(2, 5).join("/"));"""
    )


async def test_ten_tasks_have_right_answers_and_cost_little(client: Client, folder: Path) -> None:
    agent = Agent(client, folder)
    listed = (await client.list_tools()).tools
    definitions = sum(len(tool.model_dump_json(exclude_none=True)) for tool in listed)
    for task in (
        errors_in_a_log,
        sums_of_a_table,
        history_and_changes,
        owners_in_a_graph,
        times_and_files,
        images_and_refusals,
    ):
        await task(agent)
    assert agent.read + definitions + len(client.instructions or "") < MOST_BYTES
