"""`gatemini demo`: one believable session of an agent with the gateway, shown step by step.

Nothing here is staged: it starts `gatemini --direct` as its own process, connects the official MCP client to
it and prints what goes over the wire. The numbers at the end are counted from those very messages. Above:
`cli/`. Below: the SDK's client, rich.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from gatemini.demo import backends

SESSION_SECONDS = 60.0
"""Bounds the whole session, so that a broken installation ends with a message instead of a hang."""

BYTES_PER_TOKEN = 4
"""The usual rough estimate; every count shown is labelled as one."""

TASK = "open orders of our best customers, and the local time where they live"
INSPECTED = "shop.list_orders"


class DemoFailed(Exception):
    """A step did not answer as it should; the text says which and how."""


@dataclass
class Ledger:
    """What the agent's model would have paid for in this session, in bytes."""

    definitions: int = 0
    messages: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return (self.definitions + self.messages) // BYTES_PER_TOKEN

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[step] = time.perf_counter() - started


def main() -> int:
    """Run the demo on the terminal; 0 when every step worked, else 1."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="gatemini-demo-") as folder:
        stderr = Path(folder) / "stderr.log"
        failure: BaseException | None = None
        try:
            anyio.run(_run, console, Path(folder), stderr)
        except* (DemoFailed, MCPError, TimeoutError) as failures:
            failure = _first(failures)
        if failure is None:
            return 0
        console.print(f"[red]The demo failed:[/red] {failure}", highlight=False)
        if stderr.exists() and (said := stderr.read_text(errors="replace").strip()):
            console.print(
                "What the gateway said on stderr:", said[-4000:], sep="\n", markup=False, soft_wrap=True
            )
    return 1


async def _run(console: Console, folder: Path, stderr: Path) -> None:
    ledger = Ledger()
    with stderr.open("w") as errlog, anyio.fail_after(SESSION_SECONDS):
        started = time.perf_counter()
        gateway = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "gatemini", "--direct", "-c", str(_config(folder))],
        )
        async with Client(stdio_client(gateway, errlog=errlog)) as client:
            await _greet(console, client, ledger, started)
            await _search(console, client, ledger)
            await _look(console, client, ledger)
            await _chain(console, client, ledger)
            await _account(console, client, ledger)


def _config(folder: Path) -> Path:
    """The demo backends as a file, so that a user's own configuration stays out of the demo."""
    path = folder / "demo.yaml"
    entries = {b.name: {"transport": b.transport, "module": b.module} for b in backends()}
    path.write_text(json.dumps({"backends": entries}), encoding="utf-8")
    return path


async def _greet(console: Console, client: Client, ledger: Ledger, started: float) -> None:
    tools = (await client.list_tools()).tools
    definitions = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in tools]
    ledger.definitions = sum(map(_bytes, definitions)) + _bytes(client.instructions or "")
    names = ", ".join(tool.name for tool in tools)
    console.rule("[bold]gatemini demo[/bold]: an agent, one gateway, three backends")
    console.print(
        f"`gatemini --direct` answered after {time.perf_counter() - started:.2f} s over stdio, "
        f"protocol {client.protocol_version}.\nThe agent sees {len(tools)} tools: {names}.",
        highlight=False,
    )


async def _search(console: Console, client: Client, ledger: Ledger) -> None:
    _step(console, "1", f'search_tools: "{TASK}"')
    with ledger.timed("search"):
        answer = await _call(client, ledger, "search_tools", {"task_description": TASK, "limit": 5})
    table = Table("tool", "what it does", box=None, padding=(0, 2, 0, 0))
    for row in json.loads(answer)["results"]:
        table.add_row(row["name"], row["description"])
    console.print(table)


async def _look(console: Console, client: Client, ledger: Ledger) -> None:
    _step(console, "2", f"tool_info: {INSPECTED}")
    with ledger.timed("tool_info"):
        answer = await _call(client, ledger, "tool_info", {"tool_name": INSPECTED})
    console.print(
        Syntax(json.loads(answer)["signature"], "typescript", word_wrap=True, background_color="default")
    )


async def _chain(console: Console, client: Client, ledger: Ledger) -> None:
    code = resources.files("gatemini.demo").joinpath("call_list.ts").read_text(encoding="utf-8")
    _step(console, "3", "call_tool_chain: one TypeScript program over three backends")
    console.print(Syntax(code, "typescript", word_wrap=True, background_color="default"))
    with ledger.timed("chain"):
        result = await _result(client, ledger, "call_tool_chain", {"code": code})
    [first, *notes] = [block.text for block in result.content if isinstance(block, TextContent)]
    _step(console, "4", "the answer: only this reaches the model (line breaks added here)")
    rows = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in json.loads(first))
    console.print(Syntax(f"[{rows}]", "json", word_wrap=True, background_color="default"))
    for note in notes:
        console.print(note, markup=False, style="dim")
    made = ((result.meta or {}).get("gatemini/chain") or {}).get("calls") or []
    console.print(
        f"{len(made)} calls at the backends in {ledger.seconds['chain'] * 1000:.0f} ms, seen from the client",
        style="green",
        highlight=False,
    )


async def _account(console: Console, client: Client, ledger: Ledger) -> None:
    schemas, count = await _every_schema(client)
    _step(console, "5", "what it cost (estimates, four bytes to a token)")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right")
    table.add_row(
        f"{schemas // BYTES_PER_TOKEN:,}",
        f"tokens to load the schemas of all {count} backend tools, before any work",
    )
    table.add_row(
        f"{ledger.tokens:,}",
        f"tokens for this whole session: {ledger.definitions // BYTES_PER_TOKEN:,} of definitions and instructions, "
        f"{ledger.messages // BYTES_PER_TOKEN:,} of requests and answers",
    )
    console.print(table)
    console.print("The first number grows with every backend; the second does not.", style="dim")


async def _every_schema(client: Client) -> tuple[int, int]:
    """Bytes of all tool definitions as a client without the gateway would load them, and their number."""
    free = Ledger()
    size, names, cursor = 0, 0, None
    while True:
        page = json.loads(await _call(client, free, "list_tools_meta", {"cursor": cursor} if cursor else {}))
        for name in page["tools"]:
            info = json.loads(await _call(client, free, "tool_info", {"tool_name": name, "detail": "full"}))
            kept = {
                key: info[key]
                for key in ("name", "description", "input_schema", "output_schema", "annotations")
                if info.get(key)
            }
            size += _bytes(json.dumps(kept, separators=(",", ":"), ensure_ascii=False))
            names += 1
        cursor = page["next_cursor"]
        if cursor is None:
            return size, names


async def _call(client: Client, ledger: Ledger, tool: str, arguments: dict[str, Any]) -> str:
    [block, *_rest] = (await _result(client, ledger, tool, arguments)).content
    if not isinstance(block, TextContent):
        raise DemoFailed(f"{tool} answered with {block.type} instead of text")
    return block.text


async def _result(client: Client, ledger: Ledger, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    ledger.messages += _bytes(json.dumps(arguments, ensure_ascii=False)) + sum(map(_bytes, texts))
    if result.is_error or not texts:
        raise DemoFailed(f"{tool} answered: {texts[0] if texts else 'nothing'}")
    return result


def _step(console: Console, number: str, title: str) -> None:
    console.print()
    console.print(f"[bold cyan]{number}[/bold cyan] [bold]{title}[/bold]", highlight=False)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="replace"))


def _first(failures: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return DemoFailed(f"the session took longer than {SESSION_SECONDS:.0f} s")
    return error


if __name__ == "__main__":
    sys.exit(main())
