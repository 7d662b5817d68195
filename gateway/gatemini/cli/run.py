"""`gatemini run` and `gatemini call`: a chain or one call from the terminal, with its calls as they happen.

The value goes to stdout; calls, console lines and notes go to stderr.
"""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.open_gateway import TERMINAL, parsed, redactor, texts, with_app
from gatemini.config.model.durations import parse_duration
from gatemini.text.escape import visible

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.chain.client import CallRecord


_PAIR = re.compile(r"[A-Za-z_][\w.-]*=")
"""The beginning of `key=value`."""
_KEPT = re.compile(r"\bres_\w|@resume")
"""A handle or a re-run: both end with the gateway of this command."""


def _milliseconds(text: str) -> int:
    try:
        return round(float(str(parse_duration(text))) * 1000)
    except ValueError:
        raise ArgumentTypeError(f"{text}: 500ms to 10m") from None


def run(*, file: Path, intent: str | None, **options: Any) -> int:
    """Run a TypeScript chain."""
    arguments: dict[str, Any] = {"code": shell.source_text(file)}
    if intent is not None:
        arguments["intent"] = intent
    return _chain(arguments, **options)


def call(*, tool: str, arguments: Sequence[str], **options: Any) -> int:
    """Call one tool."""
    if arguments and all(_PAIR.match(text) for text in arguments):
        value: Any = dict(_pair(text) for text in arguments)
    elif len(arguments) > 1:
        raise shell.UsageError("gatemini call: write one JSON object, or each argument as key=value")
    else:
        value = _object(arguments[0] if arguments else "{}")
    code = json.dumps({"tool": tool, "arguments": value})
    return _chain({"code": code}, **options)


def _pair(text: str) -> tuple[str, Any]:
    """`key=value`: the value as JSON where it is JSON, else as text."""
    key, _, value = text.partition("=")
    return key, parsed(value)


def _object(text: str) -> dict[str, Any]:
    """A JSON object from the command line, stdin (`-`) or a file (`@FILE`)."""
    if text == "-":
        text = shell.source_text(Path("-"))
    elif text.startswith("@"):
        text = shell.source_text(Path(text[1:]))
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise shell.UsageError(f"gatemini call: ARGUMENTS is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise shell.UsageError("gatemini call: ARGUMENTS must be a JSON object")
    return value


def _chain(
    arguments: dict[str, Any],
    *,
    timeout: int | None,
    full: bool,
    quiet: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Run the chain; the options are those of both commands."""
    from gatemini.chain.client import ChainClient
    from gatemini.config.model.schema import OutputConfig
    from gatemini.policy.principal import local

    if timeout is not None:
        arguments["timeout"] = timeout
    # No stage that reduces: a handle to the rest would be gone with the command.
    whole = OutputConfig(auto_chunk_json=False, smart_truncation=False, table=False)

    async def action(gateway: App) -> tuple[dict[str, Any], list[str]]:
        hide = redactor(gateway)

        def done(record: CallRecord) -> None:
            if not quiet and not as_json:
                mark = "✓" if record.outcome == "ok" else "✗"
                tail = "" if record.outcome == "ok" else f"  {record.outcome or ''}"
                shell.note(visible(hide.redact(f"{mark} {record.tool}  {record.ms:.0f} ms{tail}")))

        if full:
            gateway.tools.config = gateway.tools.config.model_copy(update={"output": whole})
        session = gateway.new_session(local("cli", TERMINAL))
        client = ChainClient(on_call_done=done)
        answer = await gateway.surface(session).call_tool("call_tool_chain", arguments, client)
        meta = hide.value(answer.get("_meta", {}))
        return {**answer, "_meta": meta}, [hide.redact(text) for text in texts(answer)]

    answer, blocks = with_app(config, action)
    if as_json:
        _as_json(answer, blocks)
    else:
        _as_text(answer, blocks, quiet)
    return shell.FAILED if answer.get("isError") else shell.OK


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
        if any(_KEPT.search(block) for block in blocks):
            shell.note("handles and @resume last as long as this command: correct the file and run it again")
        return
    if blocks:
        # A program gets the value unchanged; a terminal would obey the control characters of a backend.
        shell.say(visible(blocks[0], lines=True) if sys.stdout.isatty() else blocks[0])
    if not quiet:
        for block in blocks[1:]:
            shell.note(visible(block, lines=True))
        if any(_KEPT.search(block) for block in blocks[1:]):
            shell.note("a handle lasts as long as this command; --full prints the whole value")


_COMMON = (
    shell.argument("--timeout", type=_milliseconds, metavar="TIME", help="at most so long: 500ms to 10m"),
    shell.argument("--full", action="store_true", help="the whole value as JSON or text, not reduced"),
    shell.argument("--quiet", "-q", action="store_true", help="only the value and errors"),
)
COMMANDS = (
    shell.Command(
        "run",
        run,
        [
            shell.argument("file", type=Path, help="TypeScript file; - reads stdin"),
            shell.argument("--intent", help="keep only what is about this in a large result"),
            *_COMMON,
        ],
    ),
    shell.Command(
        "call",
        call,
        [
            shell.argument("tool", help="backend.tool"),
            shell.argument(
                "arguments", nargs="*", help="JSON object, or key=value …; - reads stdin, @FILE a file"
            ),
            *_COMMON,
        ],
    ),
)
