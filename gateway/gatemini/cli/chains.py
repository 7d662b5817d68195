"""`gatemini run` and `gatemini call`: a chain or one call from the terminal, with its calls as they happen.

The value goes to stdout, everything beside it (calls, console lines, notes) to stderr. Above: main. Below:
the gateway's surface.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gatemini.app import App
from gatemini.chain.client import CallRecord, ChainClient
from gatemini.cli import shell
from gatemini.cli.gateway import parsed, redactor, texts, with_app
from gatemini.config.backend import parse_duration
from gatemini.config.schema import OutputConfig
from gatemini.errors import InvalidRequest
from gatemini.types.wording import visible

app = shell.application("Run chains and single calls.")


def start(words: Sequence[str]) -> int:
    return shell.start(app, words)


Timeout = Annotated[str | None, typer.Option("--timeout", help="At most so long: 500ms to 10m.")]
Full = Annotated[bool, typer.Option("--full", help="The whole value as JSON or text, not reduced.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the value and errors.")]

_WHOLE = OutputConfig(auto_chunk_json=False, smart_truncation=False, table=False)
"""No stage that reduces: a handle to the rest would be gone with the command."""


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="TypeScript file; - reads stdin.")],
    intent: Annotated[
        str | None, typer.Option(help="Keep only what is about this in a large result.")
    ] = None,
    timeout: Timeout = None,
    full: Full = False,
    quiet: Quiet = False,
    config: shell.CONFIG = None,
    as_json: shell.JSON = False,
) -> None:
    """Run a TypeScript chain."""
    arguments: dict[str, Any] = {"code": _source(file)}
    if intent is not None:
        arguments["intent"] = intent
    _chain(config, arguments, timeout, full=full, as_json=as_json, quiet=quiet)


@app.command()
def call(
    tool: Annotated[str, typer.Argument(help="backend.tool")],
    arguments: Annotated[str, typer.Argument(help="JSON object; - reads stdin, @FILE a file.")] = "{}",
    timeout: Timeout = None,
    full: Full = False,
    quiet: Quiet = False,
    config: shell.CONFIG = None,
    as_json: shell.JSON = False,
) -> None:
    """Call one tool."""
    text = arguments
    if arguments == "-":
        text = _source(Path("-"))
    elif arguments.startswith("@"):
        text = _source(Path(arguments[1:]))
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="ARGUMENTS") from None
    if not isinstance(value, dict):
        raise typer.BadParameter("must be a JSON object", param_hint="ARGUMENTS")
    code = json.dumps({"tool": tool, "arguments": value})
    _chain(config, {"code": code}, timeout, full=full, as_json=as_json, quiet=quiet)


def _source(file: Path) -> str:
    """The text of a file, or of stdin for `-`."""
    if str(file) == "-":
        return sys.stdin.read().removeprefix("\ufeff")  # some shells put one before what they pipe
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise typer.BadParameter(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}") from error


def _chain(
    config: Path | None,
    arguments: dict[str, Any],
    timeout: str | None,
    *,
    full: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    if timeout is not None:
        try:
            seconds = parse_duration(timeout)
        except ValueError:
            raise typer.BadParameter(f"{timeout}: 500ms to 10m", param_hint="--timeout") from None
        arguments["timeout"] = round(float(str(seconds)) * 1000)

    async def action(gateway: App) -> tuple[dict[str, Any], list[str]]:
        hide = redactor(gateway)

        def done(record: CallRecord) -> None:
            if not quiet and not as_json:
                mark = "✓" if record.outcome == "ok" else "✗"
                tail = "" if record.outcome == "ok" else f"  {record.outcome or ''}"
                shell.note(visible(hide.redact(f"{mark} {record.tool}  {record.ms:.0f} ms{tail}")))

        if full:
            gateway.tools.config = gateway.tools.config.model_copy(update={"output": _WHOLE})
        session = gateway.new_session()
        client = ChainClient(on_call_done=done)
        answer = await gateway.surface(session).call_tool("call_tool_chain", arguments, client)
        meta = hide.value(answer.get("_meta", {}))
        return {**answer, "_meta": meta}, [hide.redact(text) for text in texts(answer)]

    answer, blocks = with_app(config, action)
    if as_json:
        _as_json(answer, blocks)
    else:
        _as_text(answer, blocks, quiet)
    if answer.get("isError"):
        raise typer.Exit(shell.FAILED)


def _as_json(answer: dict[str, Any], blocks: list[str]) -> None:
    failed = bool(answer.get("isError"))
    first = blocks[0] if blocks else ""
    result: dict[str, Any] = {"ok": not failed}
    result["error" if failed else "value"] = first if failed else parsed(first)
    result["notes"] = blocks[1:]
    result["chain"] = answer.get("_meta", {}).get("gatemini/chain", {})
    shell.emit(result)


def _as_text(answer: dict[str, Any], blocks: list[str], quiet: bool) -> None:
    if answer.get("isError"):
        shell.note("\n".join(blocks))
        return
    if blocks:
        # A program gets the value as it is; on a terminal a backend's control characters would act.
        shell.say(visible(blocks[0], lines=True) if sys.stdout.isatty() else blocks[0])
    if not quiet:
        for block in blocks[1:]:
            shell.note(visible(block, lines=True))
