"""`gatemini context OP < request.json`: one step of the context tools on a request to a model, on stdin and stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell

if TYPE_CHECKING:
    from gatemini.context import Format, Outcome, TurnMeter

FORMATS = ("openai", "anthropic", "gemini")
PLOT_FILE = Path("context-meter.svg")
_BOM = b"\xef\xbb\xbf"
_TOTAL_CELLS = 12

_Options = dict[str, Any]


def trim(**arguments: Any) -> None:
    """Cap old messages and drop the oldest once the history is over its budget."""
    from gatemini.context import StateStore, trim_history

    def step(data: bytes, options: _Options, format: Format | None) -> Outcome:
        try:
            return trim_history(data, options, format=format, store=StateStore())
        except OSError as error:
            shell.note(f"what is left out is not kept: {error.filename}: {error.strerror}")
            return trim_history(data, options, format=format)

    _run(step, **arguments)


def fold(**arguments: Any) -> None:
    """Put a handle in the place of each tool result that the model has read."""
    from gatemini.context import StateStore, fold_results

    _run(
        lambda data, options, format: fold_results(data, options, format=format, store=StateStore()),
        **arguments,
    )


def filter_(**arguments: Any) -> None:
    """Leave out the tool definitions that the next step is unlikely to need."""
    from gatemini.context import ToolFilter
    from gatemini.llm_proxy.one_prediction import ModelPredictor

    def step(data: bytes, options: _Options, format: Format | None) -> Outcome:
        chosen = ToolFilter(options)
        if chosen.settings.predictor == "search":
            chosen.predictor = ModelPredictor(chosen.settings.limit)
        return chosen.filter(data, format=format)

    _run(step, **arguments)


def mark(**arguments: Any) -> None:
    """Mark system text and tools for the provider's prompt cache (Anthropic)."""
    from gatemini.context import mark_cache

    _run(lambda data, options, format: mark_cache(data, options, format=format), **arguments)


def compact(**arguments: Any) -> None:
    """Reduce each tool result that holds rows to some fields and a budget of tokens."""
    from gatemini.context import StateStore, compact_results

    _run(
        lambda data, options, format: compact_results(data, options, format=format, store=StateStore()),
        **arguments,
    )


def meter(*, plot: Path | None, as_json: bool, **arguments: Any) -> None:
    """Show the input tokens of each turn, and what folding and trimming would make of them."""
    from gatemini.context import TurnMeter, measure_turns, write_svg

    if plot is None:
        _run(
            lambda data, options, format: measure_turns(data, options, format=format),
            as_json=as_json,
            **arguments,
        )
        return
    report = _measured(
        lambda data, options, format: measure_turns(data, options, format=format), **arguments
    ).report
    plot.write_text(write_svg(report), encoding="utf-8")
    if as_json:
        shell.emit(report)
    else:
        _draw(TurnMeter(report["turns"]), report)
    shell.note(f"drawn in {plot}")


def _draw(measured: TurnMeter, report: dict[str, Any]) -> None:
    """The staircase: one bar a turn, light for what the turn before had already."""
    from gatemini.cli.bars import bar

    full = max(measured.turns, default=0)
    for line, tokens, more in zip(measured.lines(), measured.turns, measured.growth, strict=True):
        added = max(0, more)
        shell.say(f"{line:<48} {bar(tokens - added, added, full)}")
    shell.say(f"{'total':<{_TOTAL_CELLS}} {measured.total:>12,}")
    for name, made in report["with"].items():
        shell.say(f"{name:<{_TOTAL_CELLS}} {made['total']:>12,}  {made['saved_pct']:.1f} % less")


def _run(step: Callable[[bytes, _Options, Format | None], Outcome], **arguments: Any) -> None:
    """Run a step and write `{"request": …, "report": …}`, the request byte for byte as the step left it."""
    from gatemini.output.json.json_text import dump
    from gatemini.text.utf8 import encode

    arguments.pop("as_json")
    made = _measured(step, **arguments)
    sys.stdout.flush()
    sys.stdout.buffer.write(b'{"request": %b, "report": %b}\n' % (made.request, encode(dump(made.report))))


def _measured(
    step: Callable[[bytes, _Options, Format | None], Outcome],
    *,
    format: Format | None,
    options: str,
    config: Path | None,
) -> Outcome:
    """What a step makes of the request on stdin. Raises UsageError for what is no request and no option."""
    from gatemini.context import NotARequest, WrongOption

    del config  # the command works without any
    try:
        given = json.loads(options)
    except ValueError as error:
        raise shell.UsageError(f"--options: found no JSON ({error}), allowed is a JSON object") from None
    if not isinstance(given, dict):
        raise shell.UsageError("--options: allowed is a JSON object")
    try:
        return step(sys.stdin.buffer.read().removeprefix(_BOM).strip(), given, format)
    except (NotARequest, WrongOption) as error:
        raise shell.UsageError(f"gatemini context: {error.message}") from None


_ARGUMENTS = (
    shell.argument("--format", choices=FORMATS, help="of the request; without it the members tell"),
    shell.argument(
        "--options", default="{}", metavar="JSON", help="the options of the step as a JSON object"
    ),
)
COMMANDS = (
    shell.Command("trim", trim, _ARGUMENTS, config="place"),
    shell.Command("fold", fold, _ARGUMENTS, config="place"),
    shell.Command("filter", filter_, _ARGUMENTS, config="place"),
    shell.Command("mark", mark, _ARGUMENTS, config="place"),
    shell.Command(
        "meter",
        meter,
        (
            *_ARGUMENTS,
            shell.argument(
                "--plot",
                nargs="?",
                type=Path,
                const=PLOT_FILE,
                metavar="FILE.svg",
                help=f"draw it in the terminal and as SVG (default {PLOT_FILE})",
            ),
        ),
        config="place",
    ),
    shell.Command("compact", compact, _ARGUMENTS, config="place"),
)
