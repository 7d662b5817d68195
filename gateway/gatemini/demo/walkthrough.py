"""`gatemini demo`: one session of an agent with the gateway, shown step by step.

It starts `gatemini --direct` as its own process, connects the official MCP client to it and prints the real messages.
The numbers at the end are counted from these messages.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent, TextResourceContents
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
MISTAKE = "return await shop.get_order({});"
LARGE = "return await shop.list_orders({ limit: 3000 });"
READ_ON = """const { orders } = await results.load("HANDLE");
return orders.find((o) => o.id === 1);"""


class DemoFailed(Exception):
    """A step did not answer as it should; the text says which and how."""


@dataclass
class Ledger:
    """What the agent's model would have paid for in this session, in bytes."""

    definitions: int = 0
    messages: int = 0

    @property
    def tokens(self) -> int:
        return (self.definitions + self.messages) // BYTES_PER_TOKEN


def main() -> int:
    """Run the demo on the terminal; 0 when every step worked, else 1."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="gatemini-demo-") as folder:
        stderr = Path(folder) / "stderr.log"
        failure: BaseException | None = None
        unread = False
        try:
            anyio.run(_run, console, Path(folder), stderr)
        except* SystemExit:  # from rich, when the reader of the output (`| head`) has gone
            unread = True
        except* (DemoFailed, MCPError, TimeoutError) as failures:
            failure = _first(failures)
        if failure is None or unread:
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
            await _mistake(console, client, ledger)
            await _large(console, client, ledger)
            await _account(console, client, ledger)


def _config(folder: Path) -> Path:
    """Write the demo backends to a file, so that the user's own configuration is not used."""
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
    answer = await _call(client, ledger, "search_tools", {"task_description": TASK, "limit": 5})
    table = Table("tool", "what it does", box=None, padding=(0, 2, 0, 0))
    for row in json.loads(answer)["results"]:
        table.add_row(row["name"], row["description"])
    console.print(table)


async def _look(console: Console, client: Client, ledger: Ledger) -> None:
    _step(console, "2", f"tool_info: {INSPECTED}")
    answer = await _call(client, ledger, "tool_info", {"tool_name": INSPECTED})
    _show_code(console, json.loads(answer)["signature"])


async def _chain(console: Console, client: Client, ledger: Ledger) -> None:
    code = resources.files("gatemini.demo").joinpath("call_list.ts").read_text(encoding="utf-8")
    _step(console, "3", "call_tool_chain: one TypeScript program over three backends")
    _show_code(console, code)
    started = time.perf_counter()
    result = await _result(client, ledger, "call_tool_chain", {"code": code})
    seconds = time.perf_counter() - started
    [first, *notes] = _texts(result)
    _step(console, "4", "the answer: only this reaches the model (line breaks added here)")
    rows = ",\n ".join(json.dumps(row, ensure_ascii=False) for row in json.loads(first))
    _show(console, f"[{rows}]", "json")
    for note in notes:
        console.print(note, markup=False, style="dim")
    made = ((result.meta or {}).get("gatemini/chain") or {}).get("calls") or []
    console.print(
        f"{len(made)} calls at the backends in {seconds * 1000:.0f} ms, seen from the client",
        style="green",
        highlight=False,
    )


async def _mistake(console: Console, client: Client, ledger: Ledger) -> None:
    _step(console, "5", "a mistake, answered so that the agent can correct it")
    _show_code(console, MISTAKE)
    result = await _sent(client, ledger, "call_tool_chain", {"code": MISTAKE})
    if not result.is_error:
        raise DemoFailed("a call without its required argument was not refused")
    console.print(_texts(result)[0], markup=False, style="yellow", highlight=False)


async def _large(console: Console, client: Client, ledger: Ledger) -> None:
    _step(console, "6", "a large result: the whole of it stays outside under a handle")
    _show_code(console, LARGE)
    [_answer, *notes] = _texts(await _result(client, ledger, "call_tool_chain", {"code": LARGE}))
    for note in notes:
        console.print(note, markup=False, style="dim")
    handle = re.search(r"res_[0-9a-f]{8}", "\n".join(notes))
    if handle is None:
        raise DemoFailed("the large result came without a handle")
    code = READ_ON.replace("HANDLE", handle[0])
    _show_code(console, code)
    [row, *_notes] = _texts(await _result(client, ledger, "call_tool_chain", {"code": code}))
    _show(console, row, "json")


async def _account(console: Console, client: Client, ledger: Ledger) -> None:
    """Print the gateway's own counters beside what this client has counted."""
    [contents, *_rest] = (await client.read_resource("gatemini://stats")).contents
    if not isinstance(contents, TextResourceContents):
        raise DemoFailed("gatemini://stats is not text")
    stats = json.loads(contents.text)
    _step(console, "7", "what it cost (estimates, four bytes to a token)")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right")
    schemas, saved = stats["full_tool_list"]["estimated_tokens"], stats["estimated_tokens_saved"]
    table.add_row(f"{schemas:,}", "tokens to load every schema of these backends before any work")
    table.add_row(f"{saved:,}", "tokens of results that the model never had to read")
    table.add_row(
        f"{ledger.tokens:,}",
        f"tokens for this whole session: {ledger.definitions // BYTES_PER_TOKEN:,} for the seven tools and the "
        f"instructions, {ledger.messages // BYTES_PER_TOKEN:,} for requests and answers",
    )
    console.print(table)
    console.print("The first number grows with every backend. The third does not.", style="dim")


async def _call(client: Client, ledger: Ledger, tool: str, arguments: dict[str, Any]) -> str:
    return _texts(await _result(client, ledger, tool, arguments))[0]


async def _result(client: Client, ledger: Ledger, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """Return the answer to a call that must work. Raises DemoFailed."""
    result = await _sent(client, ledger, tool, arguments)
    texts = _texts(result)
    if result.is_error or not texts:
        raise DemoFailed(f"{tool} answered: {texts[0] if texts else 'nothing'}")
    return result


async def _sent(client: Client, ledger: Ledger, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    ledger.messages += _bytes(json.dumps(arguments, ensure_ascii=False)) + sum(map(_bytes, _texts(result)))
    return result


def _texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


def _step(console: Console, number: str, title: str) -> None:
    console.print()
    console.print(f"[bold cyan]{number}[/bold cyan] [bold]{title}[/bold]", highlight=False)


def _show_code(console: Console, code: str) -> None:
    _show(console, code.strip(), "typescript")


def _show(console: Console, text: str, language: str) -> None:
    console.print(Syntax(text, language, word_wrap=True, background_color="default"))


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
