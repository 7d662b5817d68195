"""`// @dry-run`: calls that may change something are held and listed in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from gatemini.chain.replay.outcome import Outcome
from gatemini.discovery.types.identifiers import short_name
from gatemini.model import Json, Tool
from gatemini.output.json.javascript_json import dumps

SHOWN_ARGUMENTS = 2_000
"""Characters shown of one held call's arguments."""

SHOWN_EFFECTS = 20_000
"""Characters of the whole list; further calls are counted."""

HELD = '{"dry_run":true}'
"""JSON text of the value that the code gets for a held call."""


@dataclass(slots=True)
class DryRun:
    """The calls that one chain would have made, in order."""

    effects: list[str] = field(default_factory=list)

    def hold(self, tool: Tool, arguments: Json, notes: tuple[str, ...]) -> Outcome:
        """Record the call and return the outcome in its place."""
        text = dumps(arguments)
        if len(text) > SHOWN_ARGUMENTS:
            text = f"{text[:SHOWN_ARGUMENTS]}… [{len(text) - SHOWN_ARGUMENTS:,} characters more]"
        self.effects.append(f"would call {short_name(tool.qualified)} with {text}")
        return Outcome(True, {"dry_run": True}, notes, HELD)

    def listing(self) -> str:
        """Return the list for the answer's last block."""
        if not self.effects:
            return "dry run: no call was held; the code made no call that may change something"
        held = "1 call was" if len(self.effects) == 1 else f"{len(self.effects)} calls were"
        lines = [f"dry run: {held} held, in this order:"]
        left = SHOWN_EFFECTS
        for number, effect in enumerate(self.effects, 1):
            left -= len(effect)
            if left < 0 and number > 1:
                lines.append(f"… and {len(self.effects) - number + 1} more")
                break
            lines.append(f"{number}. {effect}")
        return "\n".join(lines)
