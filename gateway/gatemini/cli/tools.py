"""`gatemini search`, `tools`, `info`, `types`: what tools there are, found as an agent finds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.open_gateway import settle, with_app
from gatemini.text.escape import visible

if TYPE_CHECKING:
    from gatemini.app import App

_DESCRIPTION = 100
"""Characters of a description in a table."""


def search(
    *,
    query: Sequence[str],
    limit: int,
    tag: str | None,
    explain: bool,
    no_daemon: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Find tools by what they do."""
    from gatemini.cli.running_daemon import daemon_answer

    asked: dict[str, Any] = {"words": " ".join(query), "limit": limit, "tag": tag, "explain": explain}
    answer = None if no_daemon else daemon_answer(config, "search", asked)
    if answer is None:
        from gatemini.daemon.terminal.search import terminal_search

        async def action(gateway: App) -> dict[str, Any]:
            await settle(gateway)
            return await terminal_search(gateway, **asked)

        answer = with_app(config, action)
    if as_json:
        shell.emit(answer)
    elif not answer["results"]:
        shell.note("no tool matches; try other words, or `gatemini tools` for all there are")
    else:
        _show_hits(answer, explain)
    if "note" in answer and not as_json:
        shell.note(answer["note"])
    return shell.OK if answer["results"] else shell.FAILED


def _show_hits(answer: dict[str, Any], explain: bool) -> None:
    rows: list[tuple[str, str, str]] = []
    for row in answer["results"]:
        text = visible(str(row["description"]))[:_DESCRIPTION]
        if explain:
            text += "\n" + ", ".join(f"{name} {_figure(share)}" for name, share in row["why"].items())
        rows.append((visible(str(row["name"])), f"{row['score']:.3f}", text))
    shell.rows(("tool", "score", "description"), rows)
    if "did_you_mean" in answer:
        shell.note(f"searched for: {answer['did_you_mean']}")
    rest = answer["total"] - len(answer["results"])
    if explain:
        shell.note(f"tier: {answer['tier']}")
    if rest > 0:
        shell.note(f"{rest} more match; raise --limit")


def _figure(share: float | str) -> str:
    return share if isinstance(share, str) else f"{share:.3f}"


def tools(*, backend: str | None, no_daemon: bool, config: Path | None, as_json: bool) -> None:
    """List all tools by name, or those of one backend."""
    answer = _catalog("tools", config, no_daemon, backend=backend)
    if as_json:
        shell.emit(answer)
        return
    shell.rows(
        ("tool", "description"),
        ((visible(row["name"]), visible(row["description"])[:_DESCRIPTION]) for row in answer["tools"]),
    )
    if "note" in answer:
        shell.note(answer["note"])


def _catalog(command: str, config: Path | None, no_daemon: bool, **arguments: Any) -> dict[str, Any]:
    """The answer of the running daemon, else of a gateway of this command. Raises ToolNotFound."""
    from gatemini.cli.running_daemon import daemon_answer

    answer = None if no_daemon else daemon_answer(config, command, arguments)
    if answer is not None:
        return answer
    from gatemini.daemon.terminal.catalog import CATALOG

    async def action(gateway: App) -> dict[str, Any]:
        await settle(gateway)
        return await CATALOG[command](gateway, **arguments)

    return with_app(config, action)


def info(*, tool: str, full: bool, no_daemon: bool, config: Path | None, as_json: bool) -> None:
    """Show one tool."""
    value = _catalog("info", config, no_daemon, tool=tool, detail="full" if full else "brief")
    if as_json:
        shell.emit(value)
        return
    for key, item in value.items():
        shell.say(f"{key}: {item}" if isinstance(item, str) and "\n" not in item else f"{key}:")
        if not (isinstance(item, str) and "\n" not in item):
            _indented(item)


def _indented(item: Any) -> None:
    if isinstance(item, str):
        shell.say("\n".join(f"  {line}" for line in item.splitlines()))
    elif isinstance(item, list) and all(isinstance(part, str) for part in item):
        shell.say("  " + ", ".join(item))
    else:
        shell.emit(item)


def types(*, backend: str, no_daemon: bool, config: Path | None, as_json: bool) -> None:
    """TypeScript declarations of one backend."""
    answer = _catalog("types", config, no_daemon, backend=backend)
    shell.result(answer, answer["declarations"].rstrip("\n"), as_json=as_json)


COMMANDS = (
    shell.Command(
        "search",
        search,
        [
            shell.argument("query", nargs="+", help="what the tool should do, in any words"),
            shell.limit(50, 10, "results"),
            shell.argument("--tag", help="only tools of backends with this tag"),
            shell.argument(
                "--explain", action="store_true", help="show the share of each signal in the score"
            ),
            shell.NO_DAEMON,
        ],
    ),
    shell.Command(
        "tools",
        tools,
        [shell.argument("backend", nargs="?", help="only those of this backend"), shell.NO_DAEMON],
    ),
    shell.Command(
        "info",
        info,
        [
            shell.argument("tool", help="backend.tool"),
            shell.argument("--full", action="store_true", help="with schemas and the TypeScript declaration"),
            shell.NO_DAEMON,
        ],
    ),
    shell.Command("types", types, [shell.argument("backend", help="name of a backend"), shell.NO_DAEMON]),
)
