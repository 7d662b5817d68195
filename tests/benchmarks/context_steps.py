"""What the context tools take of the processor: all steps on one request, and the tool filter by itself.

Two agents' requests in each format-independent size: tools, system text, exchanges with results in rows, all in the
format of chat completions. A figure is CPU time of the process, so that other work on the machine counts little.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from tests.benchmarks.measure import Figure, Outcome, Ratio, Run, take_turns

from gatemini.config.model.context import CacheConfig, ContextConfig, FoldConfig, HistoryConfig, ToolsConfig
from gatemini.context import Session, Steps, ToolFilter

KB = 1000
MESSAGES, TOOLS, BYTES = 200, 60, 500 * KB
LARGER = 40
"""20 MB beside 500 KB."""
STEPS_MS, FILTER_MS, LINEAR = 10.0, 5.0, 1.3
EVERYTHING = ContextConfig(
    history=HistoryConfig(), fold=FoldConfig(), tools=ToolsConfig(), cache=CacheConfig()
)
_VERBS = ("read", "list", "create", "delete", "update", "search", "send", "open")
_THINGS = ("file", "issue", "invoice", "calendar event", "page", "branch", "contact", "order", "job", "table")


def tool(number: int) -> dict[str, object]:
    verb, thing = _VERBS[number % len(_VERBS)], _THINGS[number // len(_VERBS) % len(_THINGS)]
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": f"where the {thing} is"},
            "limit": {"type": "integer", "description": "how many at most"},
        },
    }
    about = (
        f"{verb.title()} a {thing}. Use it when the user wants to {verb} one; returns the {thing} as JSON."
    )
    name = f"{verb}_{thing.replace(' ', '_')}_{number}"
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def request(size: int, messages: int = MESSAGES, tools: int = TOOLS) -> bytes:
    """A request of about `size` bytes: rows in half of it, prose in the rest."""
    definitions = [tool(number) for number in range(tools)]
    left = max(0, size - len(json.dumps(definitions)) - 250 * messages)
    share = left // (messages // 4)
    rows = json.dumps([{"id": n, "name": f"row {n}", "score": n % 7} for n in range(share // 40 + 1)])
    made: list[dict[str, object]] = [{"role": "system", "content": "You are an agent. " * 20}]
    for number in range(messages // 4):
        call = {"name": "list_file_1", "arguments": json.dumps({"path": f"/{number}"})}
        made += [
            {"role": "user", "content": f"list the files of {number}. " + "please " * (share // 28)},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": rows[: share // 2]},
            {"role": "assistant", "content": "The files are here.\n" * (share // 84)},
        ]
    made.append({"role": "user", "content": "now search the invoices of March"})
    return json.dumps({"model": "m", "tools": definitions, "messages": made}, separators=(",", ":")).encode()


def processor_ms(run: Callable[[], object]) -> Run:
    """A run that gives its CPU time."""

    def timed() -> float:
        started = time.process_time()
        run()
        return (time.process_time() - started) * 1000

    return timed


def steps(size: int, messages: int) -> Run:
    """All four steps, in the session of an agent whose earlier requests they saw."""
    data, made, session = request(size, messages), Steps(EVERYTHING), Session()
    return processor_ms(lambda: made.run(data, "openai", session))


def filtering(tools: int) -> Run:
    """Prediction by search over so many tools, and the definitions of those that stay."""
    data, tool_filter = request(60 * KB, 8, tools), ToolFilter()
    parsed = Steps(EVERYTHING).read(data, "openai")
    return processor_ms(lambda: tool_filter.filter(parsed))


def context_steps(rounds: int) -> Outcome:
    small, large, predicted = "500 KB, 60 tools, 200 messages", "20 MB, 8,000 messages", "filter, 200 tools"
    figures = take_turns(
        "context_steps",
        {
            small: steps(BYTES, MESSAGES),
            large: steps(BYTES * LARGER, MESSAGES * LARGER),
            predicted: filtering(200),
        },
        rounds,
    )

    def ratio(meaning: str, value: float, bound: float) -> Ratio:
        return Ratio("context_steps", meaning, value, f"<= {bound:g}", value <= bound)

    found: dict[str, Figure] = figures
    growth = found[large].median_ms / found[small].median_ms / LARGER
    return Outcome(
        tuple(figures.values()),
        (
            ratio("all steps, ms of CPU time", found[small].median_ms, STEPS_MS),
            ratio(f"{LARGER} times the bytes: time for each of them", growth, LINEAR),
            ratio("prediction and filter over 200 tools, ms", found[predicted].median_ms, FILTER_MS),
        ),
    )
