"""Four jobs of agents that talk to a model themselves, with and without the context tools.

    python -m tests.benchmarks.context_jobs [JOB…] [--json]

`meter`        six turns with two results of 312 and 287 rows: input tokens as the agent sends them
`meter-fold`   the same through the steps of a proxy: results folded once they were read; then large ones as handles
               from the beginning; the definition of `fetch_rows` is counted
`savings`      a request with 26 tools through the filter; `tool_search` is counted
`cache`        eight requests with a stable prefix: how many have the prefix of the one before after marking, and what
               that saves where cached bytes cost a tenth

The agent's requests are made turn by turn, each with the whole history so far, and pass one session.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from tests.benchmarks.context_steps import tool

from gatemini.config.model.context import CacheConfig, ContextConfig, FoldConfig, ToolsConfig
from gatemini.context import Session, Steps, TurnMeter, cache_savings, parse_request
from gatemini.context.meter import turn_tokens

Json = dict[str, Any]
DISCOUNT = 0.9
REQUESTS = 8
STATIC_BYTES = 56_000


def text(tag: str, tokens: int) -> str:
    """A text of exactly so many tokens, no two stretches of it alike."""
    words = "".join(f"{tag}-{number} " for number in range(tokens))
    return words[: 4 * tokens]


def rows(count: int, tokens: int) -> str:
    """Rows of reviews as JSON, together about so many tokens."""
    size = 4 * tokens // count - 1
    made = []
    for number in range(count):
        row = {
            "id": f"row-{number:05d}",
            "text": "",
            "rating": number % 5 + 1,
            "lang": ("en", "de", "ja")[number % 3],
        }
        row["text"] = (f"t{number} " * 200)[: size - len(json.dumps(row, separators=(",", ":")))]
        made.append(row)
    return json.dumps(made, separators=(",", ":"))


def conversation() -> list[Json]:
    """Two results, four questions, six answers of the model."""

    def call(number: int) -> Json:
        function = {"name": f"fetch_{number}", "arguments": "{}"}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    return [
        {"role": "user", "content": text("go", 1240)},
        call(1),
        {"role": "tool", "tool_call_id": "c1", "content": rows(312, 48_560)},
        {"role": "assistant", "content": text("p", 2500)},
        {"role": "user", "content": "next"},
        call(2),
        {"role": "tool", "tool_call_id": "c2", "content": rows(287, 49_600)},
        {"role": "assistant", "content": text("q", 2600)},
        {"role": "user", "content": "now"},
        {"role": "assistant", "content": text("r", 600)},
        {"role": "user", "content": "report"},
        {"role": "assistant", "content": "the report"},
    ]


def sent(config: ContextConfig | None) -> list[int]:
    """Input tokens of each request of the conversation, as it is or after the steps of a configuration."""
    messages, session, turns = conversation(), Session(), []
    steps = Steps(config) if config is not None else None
    for end in [n for n, message in enumerate(messages) if message["role"] == "assistant"]:
        data = json.dumps({"model": "m", "messages": messages[:end]}).encode()
        made = steps.run(data, "openai", session).request if steps is not None else data
        turns.append(turn_tokens(parse_request(made, "openai"))[-1])
    return turns


def meter() -> Json:
    turns = TurnMeter(sent(None))
    return {"turns": turns.turns, "jumps": turns.jumps, "total": turns.total}


def meter_fold() -> Json:
    every = FoldConfig(min_tokens=0, keep_turns=0)
    proxied = FoldConfig(handle_over_tokens=2000)
    made = {
        "as it is": sent(None),
        "folded once read": sent(ContextConfig(fold=every)),
        "folded, handles over 2,000 tokens": sent(ContextConfig(fold=proxied)),
    }
    whole = sum(made["as it is"])
    return {
        name: {"turns": turns, "total": sum(turns), "times less": round(whole / sum(turns), 1)}
        for name, turns in made.items()
    }


def savings() -> Json:
    tools = [tool(number) for number in range(26)]
    question = {"role": "user", "content": "Search the invoices of March"}
    data = json.dumps({"model": "m", "tools": tools, "messages": [question]}, separators=(",", ":")).encode()
    made, report = Steps(ContextConfig(tools=ToolsConfig(limit=3))).run(data, "openai", Session())
    return {
        "bytes": len(data),
        "filtered": len(made),
        "share": round(len(made) / len(data), 3),
        "included": report["filter"]["included"],
    }


def cache() -> Json:
    static: Json = {"model": "m", "max_tokens": 100, "system": "s" * (STATIC_BYTES - 4000), "tools": []}
    static["tools"] = [{"name": f"t{n}", "description": "d" * 150, "input_schema": {}} for n in range(20)]
    steps, session, same, prefix = Steps(ContextConfig(cache=CacheConfig())), Session(), 0, 0
    for number in range(REQUESTS):
        question = [{"role": "user", "content": f"question {number}"}]
        made = steps.run(json.dumps({**static, "messages": question}).encode(), "anthropic", session)
        same += made.report["mark"]["same_prefix_as_last"] is True
        prefix = made.report["mark"]["stable_prefix_bytes"]
    saved = cache_savings(prefix / 1000, REQUESTS, DISCOUNT)
    arithmetic = cache_savings(STATIC_BYTES / 1000, REQUESTS, DISCOUNT)
    return {
        "prefix_bytes": prefix,
        "same_as_the_one_before": same,
        "measured_kb": saved,
        "for_56_kb": arithmetic,
    }


JOBS: dict[str, Callable[[], Json]] = {
    "meter": meter,
    "meter-fold": meter_fold,
    "savings": savings,
    "cache": cache,
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.context_jobs", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}; all if none is given")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.jobs if name not in JOBS]:
        parser.error(f"unknown job: {', '.join(unknown)}")
    made = {name: JOBS[name]() for name in options.jobs or JOBS}
    if options.json:
        print(json.dumps(made, indent=2))
        return 0
    for name, figures in made.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key:<36} {json.dumps(value, ensure_ascii=False)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
