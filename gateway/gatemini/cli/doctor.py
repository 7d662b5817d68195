"""`gatemini doctor`: start everything once, and show what is wrong with what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from gatemini.cli import shell
from gatemini.cli.open_gateway import with_app

_MARKS = {"ok": "✓", "warn": "!", "fail": "✗"}


def doctor(*, config: Path | None, as_json: bool) -> int:
    """Check config, each backend's start, keys, cache, sandbox and model."""
    from gatemini.cli.examine import examine

    findings = with_app(config, examine)
    failed = any(finding.verdict == "fail" for finding in findings)
    if as_json:
        shell.emit({"ok": not failed, "findings": [asdict(finding) for finding in findings]})
    else:
        shell.rows(
            ("", "", ""),
            (
                (
                    _MARKS[finding.verdict],
                    finding.what,
                    finding.seen + (f"\n→ {finding.mend}" if finding.mend else ""),
                )
                for finding in findings
            ),
        )
        bad = sum(finding.verdict == "fail" for finding in findings)
        looks = sum(finding.verdict == "warn" for finding in findings)
        rest = f"nothing needs a fix; {looks} of {len(findings)} to look at (!)" if looks else "all is well"
        shell.say(f"{bad} of {len(findings)} need a fix" if bad else rest)
    return shell.FAILED if failed else shell.OK


COMMANDS = (shell.Command("doctor", doctor),)
