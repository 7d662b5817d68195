"""What `gatemini install` and `uninstall` did with each client's file, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gatemini.cli import shell


@dataclass(slots=True)
class Outcome:
    """What became of one client's file."""

    client: str
    file: str
    status: str
    detail: str = ""
    lines: list[str] = field(default_factory=list)
    """What follows the status in text: the entry, what to do next."""
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status != "refused"

    def to_json(self) -> dict[str, Any]:
        return {
            "client": self.client,
            "file": self.file,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def finish(outcomes: Sequence[Outcome], as_json: bool) -> int:
    """Print what became of each file; the exit code."""
    ok = all(outcome.ok for outcome in outcomes)
    if as_json:
        shell.emit({"ok": ok, "clients": [outcome.to_json() for outcome in outcomes]})
    else:
        for outcome in outcomes:
            text = f"{outcome.client}: {outcome.status}: {outcome.file}"
            if outcome.status == "printed":
                shell.note(f"{outcome.client}, in {outcome.file}:")
            elif outcome.ok:
                shell.say(f"{text}; {outcome.detail}" if outcome.detail else text)
            else:
                shell.note(f"{outcome.client}: {outcome.file} {outcome.detail}")
            for line in filter(None, outcome.lines):
                (shell.say if outcome.ok else shell.note)(line)
    return shell.OK if ok else shell.FAILED
