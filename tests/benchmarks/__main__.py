"""`python -m tests.benchmarks [NAME…] [--rounds N] [--json]`, from the top of the checkout.

Prints a table of medians and of the ratios that matter; README.md says what each scenario is and what is
expected of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata

from rich.console import Console
from tests.benchmarks import (
    audit,
    clients,
    cold,
    command_line,
    context_steps,
    gateway,
    guests,
    http,
    journals,
    large,
    lines,
    llm_proxy,
    policy,
    replicas,
    waits,
    warm,
)
from tests.benchmarks.measure import Outcome, show

SCENARIOS: dict[str, Callable[[int], Outcome]] = {
    "audit": audit.audit,
    "hop": gateway.hop,
    "hop_sdk": gateway.hop_sdk,
    "inprocess": gateway.inprocess,
    "codemode": gateway.codemode,
    "codemode_sdk": gateway.codemode_sdk,
    "warm": warm.warm,
    "command_line": command_line.command_line,
    "cold": cold.cold,
    "context_steps": context_steps.context_steps,
    "llm_proxy": llm_proxy.llm_proxy,
    "policy": policy.policy,
    "clients": clients.clients,
    "lines": lines.lines,
    "journals": journals.journals,
    "http": http.over_http,
    "replicas": replicas.replicas,
    "http_sessions": http.idle_sessions,
    "large": large.large,
    "waits": waits.waits,
    "internal": guests.internal,
    "calls": guests.calls,
    "rival": guests.rival,
    "idle": guests.idle,
    "tools": guests.tools,
    "busy": guests.busy,
}

ROUNDS = 30


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(SCENARIOS)}; all if none is given"
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"turns of each contestant (default {ROUNDS})"
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON on stdout")
    options = parser.parse_args(argv)
    unknown = [name for name in options.names if name not in SCENARIOS]
    if unknown or options.rounds < 1:
        parser.error(f"unknown scenario: {', '.join(unknown)}" if unknown else "--rounds must be at least 1")
    outcomes = {name: SCENARIOS[name](options.rounds) for name in options.names or SCENARIOS}
    if options.json:
        print(json.dumps({"where": where(), **{name: o.as_json() for name, o in outcomes.items()}}, indent=2))
    else:
        console = Console()
        console.print(", ".join(f"{key} {value}" for key, value in where().items()), highlight=False)
        show(list(outcomes.values()), console)
    return 0


def where() -> dict[str, str]:
    """What a figure depends on besides the code."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        **{name: metadata.version(name) for name in ("mcp", "fastmcp", "wasmtime")},
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
