"""What a record of the audit log costs: CPU time of the two records of a call, and of verifying them."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import anyio
from tests.benchmarks.measure import Outcome, Ratio, Run, take_turns

from gatemini.config.model.audit import AuditConfig
from gatemini.config.variables.redaction import Redactor
from gatemini.policy.audit.files import audit_files
from gatemini.policy.audit.log import AuditLog
from gatemini.policy.audit.verify import verify
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallEnd, CallFacts, Hints
from gatemini.policy.principal import local

CALLS = 2000
"""Calls of one turn, two records each."""
SECRETS = 20
"""Configured secrets, which every name in a record is searched for."""
MOST_MICROSECONDS = 15.0
LEAST_RECORDS = 150_000


def audit(rounds: int) -> Outcome:
    """Milliseconds of CPU time of a thousand calls, without fsync, and of verifying a thousand records."""
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(_record, Path(folder))
        contestants: dict[str, Run] = {
            "1,000 calls": partial(anyio.run, _record, Path(folder)),
            "1,000 records verified": partial(_verify, Path(folder)),
        }
        figures = take_turns("audit", contestants, rounds)
    micro = figures["1,000 calls"].median_ms
    speed = 1_000_000 / figures["1,000 records verified"].median_ms
    return Outcome(
        tuple(figures.values()),
        (
            Ratio(
                "audit",
                "CPU of a call's records, µs",
                micro,
                f"≤ {MOST_MICROSECONDS:g}",
                micro <= MOST_MICROSECONDS,
            ),
            Ratio(
                "audit", "records verified in a second", speed, f"≥ {LEAST_RECORDS:,}", speed >= LEAST_RECORDS
            ),
        ),
    )


async def _record(folder: Path) -> float:
    for path in audit_files(folder):
        path.unlink()
    secrets = [(f"SECRET_{number}", f"value-of-secret-{number:04}") for number in range(SECRETS)]
    log = AuditLog(AuditConfig(fsync="none"), folder, folder / "key", Redactor(secrets))
    log.start()
    arguments = {"owner": "someone", "repo": "something", "title": "A title of some words", "labels": ["bug"]}
    who = local("stdio", "claude-ai")
    facts = CallFacts(
        "github", "create_issue", "github.create_issue", arguments, (), Hints(), who, "s" * 16, "c" * 8
    )
    allowed, end = Decision("allow", "default"), CallEnd("ok", 1.5, 2000)
    began = time.process_time()
    for _ in range(CALLS):
        log.outcome(await log.intent(facts, allowed, revision="r" * 12), facts, end)
    took = time.process_time() - began
    await log.close()
    return took / CALLS * 1_000_000


def _verify(folder: Path) -> float:
    began = time.process_time()
    report = verify(audit_files(folder))
    took = time.process_time() - began
    assert report.findings == []
    return took / report.records * 1_000_000
