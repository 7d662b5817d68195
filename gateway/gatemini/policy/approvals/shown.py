"""The text of approvals for a person: what will be sent, escaped, with the rule and what was read before.

Arguments come from an agent's code and may try to look like something else. They are shown as JSON, so that no value can
begin a line of its own, and control, bidi and invisible characters are shown as escapes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from gatemini.policy.approvals.grants import Approval
from gatemini.policy.approvals.subject import Request
from gatemini.text.escape import visible

SHOWN_CHARS = 2000
"""Characters of one call's arguments that are shown at first; the whole is shown on request."""


def description(approval: Approval, *, whole: bool = False) -> tuple[str, bool]:
    """Return the text of one approval, and whether all of it is there."""
    request = approval.request
    arguments, left = _arguments(request, None if whole else SHOWN_CHARS)
    if left:
        arguments += f"…\n  … {left:,} characters more are not shown here"
    lines = [f"{_plain(request.qualified)} with", arguments, f"  rule: {_plain(request.rule)}"]
    if request.reason:
        lines.append(f"  reason: {_plain(request.reason)}")
    lines.append(f"  client: {_plain(request.client)}")
    lines += [f"  read before: {_plain(read)}" for read in request.reads]
    if (remembered := _remembered(approval)) is not None:
        lines.append(f"  your approval also holds for {remembered}")
    return "\n".join(lines), not left


def question(approvals: Sequence[Approval], *, whole: bool = False) -> tuple[str, bool]:
    """Return the question to a client's user about the calls of one chain, and whether it shows all of them whole.

    The calls are in a code fence: a client that renders Markdown would hide a comment or a link's target.
    """
    described = [description(approval, whole=whole) for approval in approvals]
    numbered = [
        f"{number}. {text}" if len(approvals) > 1 else text for number, (text, _) in enumerate(described, 1)
    ]
    calls = "this call" if len(approvals) == 1 else f"these {len(approvals)} calls"
    shown = "\n".join(numbered)
    fence = "`" * max(3, _longest_run(shown) + 1)
    text = f"An agent wants to make {calls}:\n{fence}\n{shown}\n{fence}\nDo you approve?"
    return text, all(complete for _, complete in described)


def _longest_run(text: str) -> int:
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest


def _remembered(approval: Approval) -> str | None:
    match approval.ask.remember:
        case "call":
            return None
        case "session":
            return "the same call with equal arguments until the session ends"
        case seconds:
            return f"the same call with equal arguments for {seconds / 60:g} minutes"


def _arguments(request: Request, most: int | None) -> tuple[str, int]:
    """Return one line an argument, escaped, and how many characters were left out beyond `most`.

    What is left out is not escaped either: that takes a second for some megabytes.
    """
    if not request.texts:
        return "  (no arguments)", 0
    room = most if most is not None else 2 * request.size
    lines: list[str] = []
    for name, text in request.texts:
        if room <= 0:
            break
        shown = name if name.isidentifier() and name.isascii() else json.dumps(name, ensure_ascii=False)
        lines.append(f"  {_plain(shown[:room])}: {_plain(text[: max(0, room - len(shown))])}")
        room -= len(shown) + len(text)
    return "\n".join(lines), max(0, request.size - most) if most is not None else 0


def _plain(text: str) -> str:
    """Return `text` with everything escaped that a person cannot see, or cannot tell from a plain space."""
    shown = visible(text)
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in shown)
