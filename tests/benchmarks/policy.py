"""What the door costs: the CPU time of one decision, and a chain of 50 calls with a policy beside one without.

A decision is all that happens for a call: its facts, the steps of the door, the rules, the look right before it is sent, and
the settlement at its end.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from tests.benchmarks.client import Client
from tests.benchmarks.contestants import PLAIN_SERVER, chain, gatemini, stdio_backend
from tests.benchmarks.gateway import parallel, sequential
from tests.benchmarks.measure import Figure, Outcome, Ratio, Run, take_turns

from gatemini.config.model.policy import PolicyConfig
from gatemini.model import Tool
from gatemini.policy.door import Admission, Door, Reach
from gatemini.policy.facts import CallEnd
from gatemini.policy.principal import local

DECISIONS = 1000
MOST_US = 20.0
MOST_RATIO = 1.05
CALLS = 50

RULES: list[dict[str, Any]] = [
    *({"tools": [f"backend{n}.delete_*", f"backend{n}.drop_*"], "action": "deny"} for n in range(16)),
    {"tools": ["mail.*"], "arguments": {"/to": {"pattern": r"@example\.com$"}}, "action": "allow"},
    {"tools": ["shop.*"], "clients": ["ci-*"], "scopes": ["shop:read"], "action": "allow"},
    {"tools": ["demo.*"], "arguments": {"/n": {"max": 100_000}}, "action": "allow"},
    {"tools": ["*"], "annotations": {"destructive": True}, "action": "ask"},
]
"""Twenty rules, of which the last but one decides about the calls that are measured."""
POLICY: dict[str, Any] = {
    "rules": RULES,
    "trust_annotations": ["demo", "shop"],
    "override_annotations": {"notes.append": {"readOnly": False}},
    "budgets": {"calls_per_session": 10_000_000, "writes_per_session": 10_000_000},
}

EVERYTHING: dict[str, Any] = {
    "policy": {
        **POLICY,
        "pins": "enforce",
        "flow": "deny",
        "labels": {"private": ["mail.*"]},
        "override_annotations": {"demo.echo": {"readOnly": True, "openWorld": False}},
    },
    "audit": {"path": "audit", "on_failure": "block"},
}
"""All that decides about a call and records it; the audit log forces its records to the disk each second."""


def policy(rounds: int) -> Outcome:
    """CPU time of a decision, by globs alone and with a CEL expression, and chains with a policy and without."""
    globs, cel = Door(PolicyConfig.model_validate(POLICY)), Door(PolicyConfig.model_validate(_with_cel()))
    decisions: dict[str, Run] = {
        "1,000 decisions": partial(_decisions, globs),
        "1,000 decisions with CEL": partial(_decisions, cel),
    }
    figures = take_turns("policy", decisions, rounds)
    us = figures["1,000 decisions"].median_ms * 1000 / DECISIONS
    ratios = [Ratio("policy", "µs of CPU for one decision", round(us, 1), f"<= {MOST_US:g}", us <= MOST_US)]
    backend = stdio_backend(PLAIN_SERVER)
    for name, code in (("in a loop", sequential(CALLS)), ("at once", parallel(CALLS))):
        with gatemini(backend) as without, gatemini(backend, policy=POLICY) as under:
            expected = CALLS * (CALLS - 1) // 2
            chains: dict[str, Run] = {
                f"50 calls {name}, without": partial(chain, without, code, expected),
                f"50 calls {name}, with": partial(chain, under, code, expected),
            }
            measured = take_turns("policy", chains, rounds, repeat=5)
        figures |= measured
        off, on = (figure.median_ms for figure in measured.values())
        meaning = f"50 calls {name} with a policy / without"
        ratios.append(
            Ratio("policy", meaning, round(on / off, 3), f"<= {MOST_RATIO}", on / off <= MOST_RATIO)
        )
    everything, compared = _everything(rounds)
    return Outcome((*figures.values(), *everything), (*ratios, *compared))


def _everything(rounds: int) -> tuple[list[Figure], list[Ratio]]:
    """CPU time of chains with policy, pins, data-flow guard and audit log, and with none of them; in turns."""
    backend, expected = stdio_backend(PLAIN_SERVER), CALLS * (CALLS - 1) // 2
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    for name, code in (("in a loop", sequential(CALLS)), ("at once", parallel(CALLS))):
        with gatemini(backend) as without, gatemini(backend, pinned=True, **EVERYTHING) as under:
            contestants: dict[str, Run] = {
                f"CPU of 50 calls {name}, all off": partial(_cpu_of_chain, without, code, expected),
                f"CPU of 50 calls {name}, all on": partial(_cpu_of_chain, under, code, expected),
            }
            measured = take_turns("policy", contestants, rounds, repeat=5)
        figures += measured.values()
        off, on = (figure.median_ms for figure in measured.values())
        meaning = f"CPU of 50 calls {name} with policy, pins, guard and audit / without"
        ratios.append(
            Ratio("policy", meaning, round(on / off, 3), f"<= {MOST_RATIO}", on / off <= MOST_RATIO)
        )
    return figures, ratios


def _cpu_of_chain(client: Client, code: str, expected: int) -> float:
    """Milliseconds of CPU time of the gateway, its sandbox and its backend."""
    before = client.cpu_ms()
    chain(client, code, expected)
    return client.cpu_ms() - before


def _with_cel() -> dict[str, Any]:
    when = {"tools": ["demo.*"], "when": "args.n <= 100000 && session.calls >= 0", "action": "allow"}
    return {**POLICY, "rules": [*RULES[:-2], when, RULES[-1]]}


def _decisions(door: Door) -> float:
    """Milliseconds of CPU time."""
    tool = Tool("demo", "echo", annotations={"readOnlyHint": True}, tags=("bench",))
    listed = replace(tool)  # as its server lists it now: equal, another object
    who, reach, end = local("socket", "claude-code"), Reach(), CallEnd("ok", 1.0, 20)
    began = time.process_time()
    for n in range(DECISIONS):
        admission = _driven(door.admit(door.facts(tool, {"n": n}, who, "s", "c"), reach))
        door.check(admission.facts, admission, listed)
        door.settle(admission, end)
    return (time.process_time() - began) * 1000


def _driven(admitting: Coroutine[Any, Any, Admission]) -> Admission:
    """Run a coroutine that waits for nothing."""
    try:
        admitting.send(None)
    except StopIteration as done:
        admission: Admission = done.value
        return admission
    raise RuntimeError("a decision without an approval waited")
