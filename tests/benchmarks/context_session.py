"""What enters the model's context in a session of ten tasks, three ways.

    python -m tests.benchmarks.context_session [--json]

1. `all schemas`: every backend tool's definition is loaded, and each result comes back raw.
2. `raw results`: the seven meta-tools, results raw (reduction off).
3. The meta-tools with the output pipeline, twice:
   `same chains`: the very chains of 2, each of which returns a whole result; where what is visible does not suffice,
   one more chain works on the handle.
   `gatemini`: the agent does as the instructions say and returns just what it needs, in one chain, wherever it can:
   the script lets it only if every field that the code names has been a key in an earlier answer, or in a type.

The tasks come one by one, so nothing is searched in advance, and a search uses its default number of results.
In 2 and 3 a tool is searched for unless an earlier answer named it, and `tool_info` is called unless the search showed
every argument that the call needs.

The backends are real: the three demo servers, `mcp-server-git` over a repository made here, and
`mcp-server-time`. Every task has a question; all ways must come to the same answer, or the run ends.
Counted are bytes of definitions, instructions, arguments and answers (JSON without white space); a token is
estimated as 4 bytes. Since a model is stateless, every turn pays for all earlier ones: `re-sent` is the sum over all
turns. The first way's definitions are those of the few tools of these five backends; what it would be with as many
tools as people connect (`MANY_TOOLS`, each as large as these on average) is printed beside it, and so is what it would
be if it never fetched the same a second time (it would have to join 3,000 orders with 400 customers in its head).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from tests.benchmarks.session_tasks import Task, make_repository, tasks

from gatemini.app import App

SETTLE_SECONDS = 60.0
CALL_SECONDS = 60.0
BYTES_PER_TOKEN = 4
MANY_TOOLS = 250
"""Tools of about ten connected servers."""
OFF = {"auto_chunk_json": False, "smart_truncation": False, "intent_filter": False, "table": False}


class NoAnswer(Exception):
    """A way of working did not show what the task asks for; the figures would mean nothing."""


@dataclass
class Way:
    """One way of working: bytes of the fixed part and of each turn, task by task, by what they are."""

    name: str
    fixed: dict[str, int]
    tools: int = 7
    turns: list[dict[str, int]] = field(default_factory=list)
    per_task: list[int] = field(default_factory=list)
    fetched_again: list[int] = field(default_factory=list)
    """Numbers of the turns that repeat an earlier call."""

    def turn(self, **parts: int) -> None:
        self.turns.append(parts)
        self.per_task[-1] += sum(parts.values())

    @property
    def context(self) -> int:
        return sum(self.fixed.values()) + sum(sum(turn.values()) for turn in self.turns)

    def resent(self, fixed: int | None = None, without: Sequence[int] = ()) -> int:
        """Bytes over all turns; with another fixed part if given, and without some turns."""
        total, context = 0, sum(self.fixed.values()) if fixed is None else fixed
        for number, parts in enumerate(self.turns):
            if number not in without:
                context += sum(parts.values())
                total += context
        return total

    def resent_by_part(self) -> Counter[str]:
        total: Counter[str] = Counter()
        context = Counter(self.fixed)
        for parts in self.turns:
            context.update(parts)
            total.update(context)
        return total


def weight(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":")).encode())


def shown_to_model(tool: dict[str, Any]) -> dict[str, Any]:
    """Of a definition, what clients put into the context: annotations and `_meta` are for the client itself."""
    return {key: tool[key] for key in ("name", "description", "inputSchema")}


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
    raw, answers = await without_gateway(write_config(folder, "raw", OFF), made)
    agents = [
        Agent("raw results", made, answers, reduced=False, works=False),
        Agent("same chains", made, answers, reduced=True, works=False),
        Agent("gatemini", made, answers, reduced=True, works=True),
    ]
    ways = [
        await agent.session(write_config(folder, f"agent{n}", {} if agent.reduced else OFF))
        for n, agent in enumerate(agents)
    ]
    return [raw, *ways], made


async def opened(app: App) -> None:
    """Every backend has listed and search has its vectors: what is found does not depend on the moment."""
    with anyio.fail_after(SETTLE_SECONDS):
        await app.settled(timeout=SETTLE_SECONDS)
        await app.embedding.ready()


async def without_gateway(config: Path, made: list[Task]) -> tuple[Way, list[Any]]:
    """Every definition up front, each call's text as the backend sent it; and the answers to the questions."""
    async with App.open(config) as app:
        await opened(app)
        listed = [
            {"name": tool.qualified, "description": tool.description, "inputSchema": tool.input_schema}
            for tool in app.registry.tools()
        ]
        way = Way("all schemas", {"definitions": weight(listed)}, len(listed))
        answers: list[Any] = []
        sent: list[Any] = []
        for task in made:
            way.per_task.append(0)
            texts: list[str] = []
            for backend, tool, arguments in task.calls:
                outcome = await app.manager.call_tool(backend, tool, arguments, timeout=CALL_SECONDS)
                texts.append("\n".join(block.get("text", "") for block in outcome.result["content"]))
                call = {"name": f"{backend}.{tool}", "arguments": arguments}
                if call in sent:
                    way.fetched_again.append(len(way.turns))
                sent.append(call)
                way.turn(calls=weight(call), results=len(texts[-1].encode()))
            answers.append(task.answer(*texts))
            if not answers[-1]:
                raise NoAnswer(f"{way.name}: no answer to {task.question!r} in {texts[-1][:300]!r}")
        return way, answers


class Agent:
    """Searches and looks where needed, then sends the chain; one more on the handle where that does not suffice.

    `works`: returns the answer instead of the result where it knows the fields.
    """

    def __init__(
        self, name: str, made: list[Task], answers: list[Any], *, reduced: bool, works: bool
    ) -> None:
        self.name = name
        self.made = made
        self.answers = answers
        self.reduced = reduced
        self.works = works
        self.arguments_of: dict[str, set[str]] = {}
        """Tool → names of the arguments that an answer has shown."""
        self.keys: set[str] = set()
        """Keys seen in the answers of chains, or in the type of a result."""

    async def session(self, config: Path) -> Way:
        async with App.open(config) as app:
            await opened(app)
            session = app.new_session()
            surface = app.surface(session)
            tools = [shown_to_model(tool) for tool in surface.tool_definitions()]
            self.way = Way(
                self.name, {"definitions": weight(tools), "instructions": weight(surface.instructions())}
            )

            async def ask(tool: str, arguments: dict[str, Any]) -> list[str]:
                answer = await app.call_meta_tool(tool, arguments, session)
                blocks = [block["text"] for block in answer["content"]]
                if answer.get("isError"):
                    raise NoAnswer(f"{self.name}: {tool} failed: {blocks[0]}")
                self._count(tool, arguments, blocks)
                return blocks

            self.ask = ask
            for task, answer in zip(self.made, self.answers, strict=True):
                self.way.per_task.append(0)
                for backend, tool, arguments in task.calls:
                    await self._learn(task, f"{backend}.{tool}", arguments)
                found = await self._run(task)
                if found != answer:
                    raise NoAnswer(f"{self.name}: {task.question!r} is answered {found!r}, not {answer!r}")
        return self.way

    def _count(self, tool: str, arguments: dict[str, Any], blocks: list[str]) -> None:
        call = weight({"name": tool, "arguments": arguments})
        sizes = [len(block.encode()) for block in blocks]
        if tool != "call_tool_chain":
            self.way.turn(**{tool: call + sum(sizes)})
        else:
            self.way.turn(code=call, results=sizes[0], notes=sum(sizes[1:]) + len(sizes) - 1)
            self.keys.update(re.findall(r'"(\w+)":', blocks[0]))

    async def _learn(self, task: Task, tool: str, arguments: dict[str, Any]) -> None:
        """Searches for a tool that no answer has named, and looks at it where an argument's name is not known."""
        if tool not in self.arguments_of:
            (found,) = await self.ask("search_tools", {"task_description": task.search})
            for row in json.loads(found)["results"]:
                shown = row.get("call", "").partition("(")[2] + row.get("args", "")
                self.arguments_of.setdefault(row["name"], set()).update(re.findall(r"\w+", shown))
                self._see_type(row.get("returns", ""))
        if not self.arguments_of[tool].issuperset(arguments):
            (told,) = await self.ask("tool_info", {"tool_name": tool})
            self.arguments_of[tool].update(json.loads(told)["parameters"])
            self._see_type(json.loads(told)["signature"].partition("Promise<")[2])

    def _see_type(self, text: str) -> None:
        self.keys.update(re.findall(r"(\w+)\??: ", text))

    async def _run(self, task: Task) -> Any:
        if self.works and task.worked and self.keys.issuperset(task.worked.fields):
            blocks = await self.ask("call_tool_chain", {"code": task.worked.code})
            return task.worked.read(blocks[0])
        arguments: dict[str, Any] = {"code": task.code}
        if task.intent:
            arguments["intent"] = task.intent
        elif not self.reduced:
            arguments["max_output_size"] = 10_000_000
        blocks = await self.ask("call_tool_chain", arguments)
        if not self.reduced:
            return task.shown(blocks[0]) if task.chained else task.answer(blocks[0])
        if task.further:
            handle = re.search(r"res_[0-9a-f]{8}", blocks[-1])
            if handle is None:
                raise NoAnswer(f"{self.name}: no handle for {task.question!r}")
            code = task.further.replace("H", f'"{handle[0]}"', 1)
            blocks = await self.ask("call_tool_chain", {"code": code})
        return task.shown(blocks[0])


def report(ways: list[Way], made: list[Task]) -> None:
    def line(what: str, cells: Iterable[str]) -> None:
        print(f"{what:44}" + "".join(f"{cell:>14}" for cell in cells))

    def kilobytes(count: int) -> str:
        return f"{count / 1024:.1f}" if count else "-"

    line("KB into the context, by task", [way.name for way in ways])
    line("definitions and instructions", [kilobytes(sum(way.fixed.values())) for way in ways])
    for n, task in enumerate(made):
        mark = " *" if task.heavy else ""
        line(task.question[:41] + mark, [kilobytes(way.per_task[n]) for way in ways])
    line("at the end", [kilobytes(way.context) for way in ways])
    line("turns", [str(len(way.turns)) for way in ways])
    print()
    parts = [way.resent_by_part() for way in ways]
    line("KB re-sent over all turns, by part", [way.name for way in ways])
    for part in sorted(set().union(*parts), key=lambda part: -parts[-1][part]):
        line(part, [kilobytes(counted[part]) for counted in parts])
    line("in all", [kilobytes(way.resent()) for way in ways])
    line("in tokens (estimate)", [f"{way.resent() / BYTES_PER_TOKEN:,.0f}" for way in ways])
    print()
    for key, figure in figures(ways, made).items():
        print(f"{key}: {figure}")


def figures(ways: list[Way], made: list[Task]) -> dict[str, float]:
    raw, plain, same, gatemini = ways
    heavy = [n for n, task in enumerate(made) if task.heavy]
    many = sum(raw.fixed.values()) * MANY_TOOLS // raw.tools

    def less(way: Way, of: int) -> float:
        return round(100 * (1 - way.resent() / of), 1)

    return {
        "less in the context than with all schemas, %": round(100 * (1 - gatemini.context / raw.context), 1),
        "less re-sent than with all schemas, %": less(gatemini, raw.resent()),
        "… with the same chains as for raw results, %": less(same, raw.resent()),
        "… than with all schemas and nothing fetched twice, %": less(
            gatemini, raw.resent(without=raw.fetched_again)
        ),
        f"… than with the schemas of {MANY_TOOLS} tools, %": less(gatemini, raw.resent(many)),
        "same chains: times less than raw results on the data-heavy tasks (*)": round(
            sum(plain.per_task[n] for n in heavy) / sum(same.per_task[n] for n in heavy), 1
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
        way.name: {
            "context": way.context,
            "resent": way.resent(),
            "turns": len(way.turns),
            "resent_by_part": way.resent_by_part(),
        }
        for way in ways
    }
    print(json.dumps({"ways": counted, **figures(ways, made)}, indent=2))


if __name__ == "__main__":
    main()
