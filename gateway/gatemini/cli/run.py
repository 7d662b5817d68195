"""`gatemini run` and `gatemini call`: a chain or one call from the terminal, with its calls as they happen.

The value goes to stdout; calls, console lines and notes go to stderr.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.shell import NO_DAEMON, parsed, texts
from gatemini.text.escape import visible

if TYPE_CHECKING:
    from gatemini.app import App
    from gatemini.chain.client import CallRecord


CallDone = Callable[[str, str | None, float], None]
"""Receives the tool, the outcome and the milliseconds of a finished call."""
_PAIR = re.compile(r"[A-Za-z_][\w.-]*=")
"""The beginning of `key=value`."""
_KEPT = re.compile(r"\bres_\w|@resume")
"""A handle or a re-run: both end with the gateway of this command."""
_seconds = shell.duration("500ms to 10m")


def _milliseconds(text: str) -> int:
    return round(_seconds(text) * 1000)


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
    no_daemon: bool,
    config: Path | None,
    as_json: bool,
) -> int:
    """Run the chain, by the daemon of this configuration where one runs; the options are those of both commands."""
    if timeout is not None:
        arguments["timeout"] = timeout

    def done(tool: str, outcome: str | None, ms: float) -> None:
        if not quiet and not as_json:
            mark, tail = ("✓", "") if outcome == "ok" else ("✗", f"  {outcome or ''}")
            shell.note(visible(f"{mark} {tool}  {ms:.0f} ms{tail}"))

    answer = None if no_daemon else _by_daemon(arguments, full, done, config)
    if answer is None:
        answer = _by_own_gateway(arguments, full, done, config)
    blocks = texts(answer)
    if as_json:
        _as_json(answer, blocks)
    else:
        _as_text(answer, blocks, quiet)
    return shell.FAILED if answer.get("isError") else shell.OK


def _by_daemon(
    arguments: dict[str, Any], full: bool, done: CallDone, config: Path | None
) -> dict[str, Any] | None:
    """The answer of a running daemon, None where none runs."""
    from gatemini.cli.running_daemon import daemon_call

    return daemon_call(
        config, "call_tool_chain", arguments, whole=full,
        on_call=lambda call: done(call["tool"], call["outcome"], call["ms"]),
    )  # fmt: skip


def _by_own_gateway(
    arguments: dict[str, Any], full: bool, done: CallDone, config: Path | None
) -> dict[str, Any]:
    from gatemini.chain.client import ChainClient
    from gatemini.cli.open_gateway import redactor, with_app
    from gatemini.policy.principal import TERMINAL, local

    async def action(gateway: App) -> dict[str, Any]:
        hide = redactor(gateway)

        def call_done(record: CallRecord) -> None:
            done(hide.redact(record.tool), hide.redact(record.outcome or ""), record.ms)

        surface = gateway.surface(gateway.new_session(local("cli", TERMINAL)), whole=full)
        answer = await surface.call_tool("call_tool_chain", arguments, ChainClient(on_call_done=call_done))
        return {key: hide.value(value) for key, value in answer.items()}

    return with_app(config, action)


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
    NO_DAEMON,
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
