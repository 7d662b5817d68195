"""`gatemini doctor`: start everything once, and show what is wrong with what to do about it."""

from __future__ import annotations

from pathlib import Path

from gatemini.cli import shell
from gatemini.cli.finding import Finding
from gatemini.cli.open_gateway import with_app

_MARKS = {"ok": "✓", "warn": "!", "fail": "✗"}


def doctor(*, fix: bool, config: Path | None, as_json: bool) -> int:
    """Check config, each backend's start, keys, cache, sandbox and model; with --fix put right what is only ours."""
    from gatemini.cli.doctor_checks import examine

    findings = with_app(config, examine)
    if fix:
        for finding in findings:
            finding.apply_fix()
    failed = any(finding.verdict == "fail" for finding in findings)
    if as_json:
        shell.emit({"ok": not failed, "findings": [finding.as_json() for finding in findings]})
    else:
        shell.rows(
            ("", "", ""),
            (
                (
                    _MARKS[finding.verdict],
                    finding.what,
                    finding.seen + _remedy(finding),
                )
                for finding in findings
            ),
        )
        bad = sum(finding.verdict == "fail" for finding in findings)
        looks = sum(finding.verdict == "warn" for finding in findings)
        rest = f"nothing needs a fix; {looks} of {len(findings)} to look at (!)" if looks else "all is well"
        shell.say(f"{bad} of {len(findings)} need a fix" if bad else rest)
        if not fix and any(finding.fix is not None for finding in findings):
            shell.say("`gatemini doctor --fix` does what is marked (--fix)")
    return shell.FAILED if failed else shell.OK


def _remedy(finding: Finding) -> str:
    """Return a line with what to do, or what `--fix` has done; empty for nothing."""
    if finding.fixed:
        return f"\n→ done: {finding.mend}"
    mark = " (--fix)" if finding.fix is not None else ""
    return f"\n→ {finding.mend}{mark}" if finding.mend else ""


COMMANDS = (
    shell.Command(
        "doctor",
        doctor,
        [
            shell.argument(
                "--fix",
                action="store_true",
                help="close folders, remove stale files, end orphans of killed gateways",
            )
        ],
    ),
)
