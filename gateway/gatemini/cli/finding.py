"""One finding of `gatemini doctor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(slots=True)
class Finding:
    """The result of one check: how it is, what was seen, and (`mend`) what to do about it."""

    what: str
    verdict: Verdict
    seen: str
    mend: str = ""
    fix: Callable[[], None] | None = None
    """Does what `mend` says, for `gatemini doctor --fix`; raises OSError where it cannot."""
    fixed: bool = False

    def apply_fix(self) -> None:
        """Do what there is to do, and be ok where that succeeded."""
        if self.fix is None:
            return
        try:
            self.fix()
        except OSError as error:
            self.seen += f"; --fix failed: {error}"
        else:
            self.verdict, self.fixed = "ok", True

    def as_json(self) -> dict[str, Any]:
        """The finding as `--json` shows it."""
        return {
            **{key: getattr(self, key) for key in ("what", "verdict", "seen", "mend", "fixed")},
            "fixable": self.fix is not None,
        }
