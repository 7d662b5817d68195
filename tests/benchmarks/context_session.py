"""What enters the model's context in a session of ten tasks, three ways.

    python tests/benchmarks/context_session.py [--json]

1. `all schemas`: every backend tool's definition is loaded, and each result comes back raw.
2. `raw results`: the seven meta-tools, results raw (reduction off).
3. `gatemini`: the same chains with the output pipeline; where the visible answer does not suffice, one more
   chain works on the handle.

The scripted agent of 2 and 3 follows the instructions as they are: it searches for a tool unless an earlier answer
named it, and asks `tool_info` unless the `call` that the search showed has every argument it needs.

The backends are real: the three demo servers, `mcp-server-git` over a repository made here, and
`mcp-server-time`. Every task has a question; its answer is found in what each way shows, or the run ends.
Counted are bytes of definitions, instructions, arguments and answers (JSON without white space); a token is
estimated as 4 bytes. Since a model is stateless, every turn pays for all earlier ones: `re-sent` is the sum over all
turns. The first way's definitions are those of the few tools of these five backends; what it would be with as many
tools as people connect (`MANY_TOOLS`, each as large as these on average) is told beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from gatemini.app import App

SETTLE_SECONDS = 60.0
CALL_SECONDS = 60.0
COMMITS = 300
BYTES_PER_TOKEN = 4
MANY_TOOLS = 250
"""Tools of about ten connected servers."""
OFF = {"auto_chunk_json": False, "smart_truncation": False, "intent_filter": False, "table": False}


class NoAnswer(Exception):
    """A way of working did not show what the task asks for; the figures would mean nothing."""


@dataclass(frozen=True)
class Task:
    """`call` is what a client without gateway sends; `code` is the chain that returns the same result.

    `further` is the chain on the handle `H`, for the pipeline only; `answer` reads the question's answer from raw
    text, `shown` from what the pipeline shows last.
    """

    question: str
    search: str
    call: tuple[str, str, dict[str, Any]]
    code: str
    answer: Callable[[str], Any]
    shown: Callable[[str], Any]
    further: str | None = None
    intent: str | None = None
    heavy: bool = False


@dataclass
class Way:
    """One way of working: bytes of the fixed part and of each turn, task by task."""

    name: str
    fixed: int
    tools: int = 7
    turns: list[int] = field(default_factory=list)
    per_task: list[int] = field(default_factory=list)

    def turn(self, sent: Any, received: str) -> None:
        grown = weight(sent) + len(received.encode())
        self.turns.append(grown)
        self.per_task[-1] += grown

    @property
    def context(self) -> int:
        return self.fixed + sum(self.turns)

    def resent(self, fixed: int | None = None) -> int:
        """Bytes over all turns; with another fixed part if given."""
        total, context = 0, self.fixed if fixed is None else fixed
        for grown in self.turns:
            context += grown
            total += context
        return total


def weight(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":")).encode())


def shown_to_model(tool: dict[str, Any]) -> dict[str, Any]:
    """Of a definition, what clients put into the context: annotations and `_meta` are for the client itself."""
    return {key: tool[key] for key in ("name", "description", "inputSchema")}


def tasks(repo: str) -> list[Task]:
    def value(text: str) -> Any:
        return json.loads(text)

    return [
        Task(
            "Which category sells best?", "sales report revenue by category",
            ("shop", "sales_report", {"group_by": "category"}),
            'return await shop.sales_report({ group_by: "category" });',
            lambda t: value(t)["rows"][0]["key"], lambda t: value(t)["rows"][0]["key"],
        ),
        Task(
            "How many of the newest 5,000 orders are cancelled?", "list orders with status",
            ("shop", "list_orders", {"limit": 5000}),
            "return await shop.list_orders({ limit: 5000 });",
            lambda t: sum(o["status"] == "cancelled" for o in value(t)["orders"]),
            lambda t: value(t)["orders"]["digest"]["counts"]["status"]["cancelled"],
            heavy=True,
        ),
        Task(
            "What are the open orders worth?", "list open orders",
            ("shop", "list_orders", {"status": "open", "limit": 5000}),
            'return await shop.list_orders({ status: "open", limit: 5000 });',
            lambda t: round(sum(o["total"] for o in value(t)["orders"]), 2),
            lambda t: float(t),
            further="const { orders } = await results.load(H); return orders.reduce((s, o) => s + o.total, 0).toFixed(2);",
            heavy=True,
        ),
        Task(
            "How many gold customers are there?", "list customers by tier",
            ("shop", "list_customers", {"limit": 1000}),
            "return await shop.list_customers({ limit: 1000 });",
            lambda t: sum(c["tier"] == "gold" for c in value(t)["customers"]),
            lambda t: value(t)["customers"]["digest"]["counts"]["tier"]["gold"],
            heavy=True,
        ),
        Task(
            "Which product brought most?", "revenue per product",
            ("shop", "sales_report", {"group_by": "product", "limit": 500}),
            'return await shop.sales_report({ group_by: "product", limit: 500 });',
            lambda t: value(t)["rows"][0]["key"],
            lambda t: t.splitlines()[2].split(",")[0],
            heavy=True,
        ),
        Task(
            "Which commit mended the parser?", "git commit history",
            ("git", "git_log", {"repo_path": repo, "max_count": COMMITS}),
            f"return await git.git_log({{ repo_path: {json.dumps(repo)}, max_count: {COMMITS} }});",
            _parser_commit, _parser_commit,
            intent="parser mended", heavy=True,
        ),
        Task(
            "How many European time zones are there?", "list time zones of a region",
            ("clock", "list_time_zones", {"region": ""}),
            'return await clock.list_time_zones({ region: "" });',
            lambda t: sum(zone.startswith("Europe/") for zone in _zones(value(t))),
            lambda t: int(t),
            further='const all = JSON.stringify(await results.load(H)); return (all.match(/"Europe\\//g) ?? []).length;',
            heavy=True,
        ),
        Task(
            "When is 16:30 in Tokyo in Rome?", "convert time between time zones",
            ("time", "convert_time", {"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "Europe/Rome"}),
            'return await time.convert_time({ source_timezone: "Asia/Tokyo", time: "16:30", target_timezone: "Europe/Rome" });',
            _rome,
            _rome,
        ),
        Task(
            "Keep a note of it.", "write a note",
            ("notes", "write_note", {"name": "session", "text": "16:30 in Tokyo"}),
            'return await notes.write_note({ name: "session", text: "16:30 in Tokyo" });',
            lambda t: "session" in t, lambda t: "session" in t,
        ),
        Task(
            "Which country orders most often?", "list customers and their orders",
            ("shop", "list_customers", {"limit": 1000}),
            "const [{ orders }, { customers }] = await Promise.all([shop.list_orders({ limit: 5000 }), shop.list_customers({ limit: 1000 })]);\n"
            "const of = new Map(customers.map((c) => [c.id, c.country]));\n"
            "const n: Record<string, number> = {};\n"
            'for (const o of orders) { const c = of.get(o.customer_id) ?? "?"; n[c] = (n[c] ?? 0) + 1; }\n'
            "return Object.entries(n).sort((a, b) => b[1] - a[1]).slice(0, 3);",
            lambda t: len(t) > 0, lambda t: len(value(t)) == 3,
        ),
    ]  # fmt: skip


def _zones(value: Any) -> list[str]:
    found = value if isinstance(value, list) else next(v for v in value.values() if isinstance(v, list))
    return [zone if isinstance(zone, str) else zone["name"] for zone in found]


def _parser_commit(text: str) -> str | None:
    found = re.search(r"Commit: (\w{40})(?:(?!Commit: ).)*parser mended", text, re.DOTALL)
    return found[1] if found else None


def _rome(text: str) -> str | None:
    found = re.search(r"Europe/Rome.*?T(\d\d:\d\d)", text, re.DOTALL)
    return found[1] if found else None


def make_repository(folder: Path) -> str:
    """A repository of `COMMITS` commits, the same every time."""
    subjects = [
        "Report: totals by month",
        "Queue: depth is bounded",
        "Docs: how to restart",
        "Cache: entries expire",
    ]
    lines = []
    for n in range(COMMITS):
        subject = "Import: parser mended for empty rows" if n == 137 else f"{subjects[n % 4]} ({n})"
        body = f"{subject}\n"
        lines.append(
            f"commit refs/heads/main\ncommitter Ada <ada@mail.example> {1_760_000_000 + n * 3600} +0000\n"
            f"data {len(body)}\n{body}M 100644 inline notes.txt\ndata {len(str(n))}\n{n}\n"
        )
    for command, given in (
        (["init", "-q", "-b", "main"], ""),
        (["fast-import", "--quiet"], "\n".join(lines)),
    ):
        subprocess.run(["git", "-C", str(folder), *command], input=given, text=True, check=True, timeout=60)
    return str(folder)


def write_config(folder: Path, name: str, output: dict[str, Any]) -> Path:
    backends: dict[str, Any] = {
        name: {"transport": "python", "module": f"gatemini.demo.{name}:server"}
        for name in ("shop", "notes", "clock")
    }
    for server in ("git", "time"):
        backends[server] = {"command": sys.executable, "args": ["-P", "-m", f"mcp_server_{server}"]}
    path = folder / f"{name}.yaml"
    path.write_text(
        json.dumps(
            {"cache_path": str(folder / f"{name}.json"), "backends": backends, "sandbox": {"output": output}}
        )
    )
    return path


async def measure(folder: Path) -> tuple[list[Way], list[Task]]:
    repo = folder / "repo"
    repo.mkdir()
    made = tasks(make_repository(repo))
    raw = await without_gateway(write_config(folder, "raw", OFF), made)
    plain = await with_gateway("raw results", write_config(folder, "plain", OFF), made, reduced=False)
    gatemini = await with_gateway("gatemini", write_config(folder, "reduced", {}), made, reduced=True)
    return [raw, plain, gatemini], made


async def without_gateway(config: Path, made: list[Task]) -> Way:
    """Every definition up front; each call's text as the backend sent it."""
    async with App.open(config) as app:
        await app.settled(timeout=SETTLE_SECONDS)
        listed = [
            {"name": tool.qualified, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in app.registry.tools()
        ]
        way = Way("all schemas", weight(listed), len(listed))
        for task in made:
            way.per_task.append(0)
            calls = [task.call]
            if task is made[-1]:
                calls.insert(0, ("shop", "list_orders", {"limit": 5000}))
            for backend, tool, arguments in calls:
                outcome = await app.manager.call_tool(backend, tool, arguments, timeout=CALL_SECONDS)
                text = "\n".join(block.get("text", "") for block in outcome.result["content"])
                way.turn({"name": tool, "arguments": arguments}, text)
            if not task.answer(text):
                raise NoAnswer(f"{way.name}: no answer to {task.question!r} in {text[:300]!r}")
        return way


async def with_gateway(name: str, config: Path, made: list[Task], *, reduced: bool) -> Way:
    """Search and a look where needed, the chain; with the pipeline a second one where the first does not suffice."""
    async with App.open(config) as app:
        await app.settled(timeout=SETTLE_SECONDS)
        session = app.new_session()
        surface = app.surface(session)
        fixed = {
            "tools": [shown_to_model(tool) for tool in surface.tool_definitions()],
            "instructions": surface.instructions(),
        }
        way = Way(name, weight(fixed))

        async def ask(tool: str, arguments: dict[str, Any]) -> list[str]:
            answer = await app.call_meta_tool(tool, arguments, session)
            blocks = [block["text"] for block in answer["content"]]
            way.turn({"name": tool, "arguments": arguments}, "\n".join(blocks))
            if answer.get("isError"):
                raise NoAnswer(f"{name}: {tool} failed: {blocks[0]}")
            return blocks

        shown: dict[str, str] = {}
        looked_at: set[str] = set()
        for task in made:
            way.per_task.append(0)
            wanted = ".".join(task.call[:2])
            if wanted not in shown:
                (found,) = await ask("search_tools", {"task_description": task.search, "limit": 5})
                shown |= {row["name"]: row["call"] for row in json.loads(found)["results"]}
            named = set(re.findall(r"\w+", shown[wanted].partition("(")[2]))
            if wanted not in looked_at and not named.issuperset(task.call[2]):
                looked_at.add(wanted)
                await ask("tool_info", {"tool_name": wanted})
            more = {"intent": task.intent} if task.intent else {"max_output_size": 10_000_000}
            blocks = await ask(
                "call_tool_chain", {"code": task.code, **(more if not reduced or task.intent else {})}
            )
            if reduced and task.further:
                handle = re.search(r"res_[0-9a-f]{8}", blocks[-1])
                if handle is None:
                    raise NoAnswer(f"{name}: no handle for {task.question!r}")
                blocks = await ask(
                    "call_tool_chain", {"code": task.further.replace("H", f'"{handle[0]}"', 1)}
                )
            read = task.shown if reduced else task.answer
            if not read(blocks[0]):
                raise NoAnswer(f"{name}: no answer to {task.question!r} in {blocks[0][:300]!r}")
        return way


def report(ways: list[Way], made: list[Task]) -> None:
    print(f"{'KB into the context, by task':44}" + "".join(f"{way.name:>14}" for way in ways))
    print(f"{'definitions and instructions':44}" + "".join(f"{way.fixed / 1024:14.1f}" for way in ways))
    for n, task in enumerate(made):
        mark = " *" if task.heavy else ""
        print(f"{task.question[:41] + mark:44}" + "".join(f"{way.per_task[n] / 1024:14.1f}" for way in ways))
    print(f"{'at the end':44}" + "".join(f"{way.context / 1024:14.1f}" for way in ways))
    print(f"{'turns':44}" + "".join(f"{len(way.turns):14}" for way in ways))
    tokens = [way.resent() / BYTES_PER_TOKEN for way in ways]
    print(f"{'tokens re-sent in all (estimate)':44}" + "".join(f"{count:14,.0f}" for count in tokens))
    for key, figure in figures(ways, made).items():
        print(f"{key}: {figure}")


def figures(ways: list[Way], made: list[Task]) -> dict[str, float]:
    raw, plain, reduced = ways
    heavy = [n for n, task in enumerate(made) if task.heavy]
    share = 100 * (1 - reduced.context / raw.context)
    return {
        "less in the context than with all schemas, %": round(share, 1),
        "less re-sent than with all schemas, %": round(100 * (1 - reduced.resent() / raw.resent()), 1),
        f"less re-sent than with the schemas of {MANY_TOOLS} tools, %": round(
            100 * (1 - reduced.resent() / raw.resent(raw.fixed * MANY_TOOLS // raw.tools)), 1
        ),
        "of what is re-sent: definitions and instructions, %": round(
            100 * reduced.fixed * len(reduced.turns) / reduced.resent(), 1
        ),
        "times less than raw results on the data-heavy tasks (*)": round(
            sum(plain.per_task[n] for n in heavy) / sum(reduced.per_task[n] for n in heavy), 1
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    as_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        ways, made = anyio.run(measure, Path(folder))
    if not as_json:
        report(ways, made)
        return
    counted = {
        way.name: Counter(context=way.context, resent=way.resent, turns=len(way.turns)) for way in ways
    }
    print(json.dumps({"ways": counted, **figures(ways, made)}, indent=2))


if __name__ == "__main__":
    main()
