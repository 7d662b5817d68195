"""The text of approvals for a person: what will be sent, escaped, with the rule and what was read before.

Arguments come from an agent's code and may try to look like something else. They are shown as JSON, so that no value can
begin a line of its own, and control, bidi and invisible characters are shown as escapes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from unicodedata import east_asian_width

from gatemini.policy.approvals.grants import Approval
from gatemini.policy.approvals.subject import Request
from gatemini.text.escape import visible

SHOWN_CHARS = 2000
"""Characters of one call's arguments that are shown at first; all are shown on request."""
LEAST_SHARE = 40
"""Characters of each argument that are shown at least."""
WIDTH = 78
"""Columns of a line, less than a terminal has."""
CONTINUED = "\n    | "
"""Between the parts of a line."""
MIXED_SHOWN = 5
"""Words of several alphabets that are pointed out."""
RIGHT_TO_LEFT = "letters written from right to left may change the order of what is on their line"
"""What a screen does without any control character: `1`, a Hebrew letter and `2` are shown as 2, the letter and 1."""
_SPACES = re.compile(" {6,}")
_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f])+")
"""Letters, with the marks that are drawn over them."""
_LETTERS = frozenset(("Ll", "Lu", "Lt", "Lo", "Nl"))
_BESIDE_OTHERS = frozenset(("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"))
"""Scripts that ordinary words mix with another one, as `T\u30b7\u30e3\u30c4` does."""


def description(approval: Approval, *, whole: bool = False) -> tuple[str, bool]:
    """Return the text of one approval, and whether all of it is there."""
    request = approval.request
    lines, left = _arguments(request, None if whole else SHOWN_CHARS)
    if left:
        # The digest tells two questions apart that differ only in what is not shown.
        digest = approval.subject.digest
        lines.append(f"… {left:,} characters more are not shown here (SHA-256 of all: {digest})")
    text = "\n".join([request.qualified, *lines])
    mixed = _mixed(text)
    lines += [f"beware: {RIGHT_TO_LEFT}"] if _runs_from_right(text) else []
    lines += [f"beware: {word} mixes letters of several alphabets" for word in mixed[:MIXED_SHOWN]]
    lines.append(f"rule: {plain(request.rule)}")
    if request.reason:
        lines.append(f"reason: {plain(request.reason)}")
    lines.append(f"client: {plain(request.client)}")
    lines += [f"read before: {plain(read)}" for read in request.reads]
    if (remembered := _remembered(approval)) is not None:
        lines.append(f"your approval also holds for {remembered}")
    shown = [f"{plain(request.qualified)} with", *(f"  {line}" for line in lines)]
    return "\n".join(map(_wrapped, shown)), not left


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


def _arguments(request: Request, most: int | None) -> tuple[list[str], int]:
    """Return one line an argument, escaped, and how many characters were left out beyond `most`.

    Long arguments share the room that short ones leave, so that none of them pushes another out of sight. What is left
    out is not escaped either: that takes a second for some megabytes.
    """
    if not request.texts:
        return ["(no arguments)"], 0
    sizes = [len(name) + len(text) for name, text in request.texts]
    share = _share(sizes, most) if most is not None else sum(sizes)
    shown_most = len(sizes) if most is None else max(1, most // LEAST_SHARE)
    lines: list[str] = []
    for name, text in request.texts[:shown_most]:
        label = name if name.isidentifier() and name.isascii() else json.dumps(name, ensure_ascii=False)
        kept = max(0, share - len(name))
        cut = "" if len(name) <= share and len(text) <= kept else "…"
        lines.append(f"{plain(label[: share + 2])}: {plain(text[:kept])}{cut}")
    left = sum(max(0, size - share) for size in sizes[:shown_most]) + sum(sizes[shown_most:])
    if len(sizes) > shown_most:
        lines.append(f"… and {len(sizes) - shown_most:,} arguments more")
    return lines, left


def _share(sizes: Sequence[int], most: int) -> int:
    """Return how many characters of each argument to show, so that all arguments fit into `most`."""
    left = most
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * count > left:
            return max(LEAST_SHARE, left // count)
        left -= size
    return most


def _mixed(text: str) -> list[str]:
    """Return the words that mix letters of several alphabets: one of them may pass for another word.

    The alphabet of a letter is the first word of its name, so that letters of style (the Roman numeral `\u217c`) count too.
    """
    found = (word for word in _WORD.findall(text) if not word.isascii())
    return [word for word in dict.fromkeys(found) if len(_alphabets(word) - _BESIDE_OTHERS) > 1]


def _runs_from_right(text: str) -> bool:
    """Whether a text has letters or digits of scripts that are written from right to left."""
    return not text.isascii() and any(
        unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in set(text)
    )


def _alphabets(word: str) -> set[str]:
    letters = (letter for letter in set(word) if unicodedata.category(letter) in _LETTERS)
    # Of Latin-1, `\xaa`, `\xba` and `\xb5` are named otherwise and written in Latin words.
    return {
        "LATIN" if letter < "\u0100" else unicodedata.name(letter, "").partition(" ")[0] for letter in letters
    }


def _wrapped(line: str) -> str:
    """Return a line in parts that fit a terminal, which would break it so that the rest looks like another line."""
    parts: list[str] = []
    at, room = 0, WIDTH
    while at < len(line):
        end = at + _fitting(line[at : at + room], room)
        parts.append(line[at:end])
        at, room = end, WIDTH - len(CONTINUED)
    return CONTINUED.join(parts)


def _fitting(text: str, room: int) -> int:
    """Return how many characters of a text fit into so many columns; wide characters take two."""
    columns = 0
    for at, char in enumerate("" if text.isascii() else text):
        columns += 1 + (east_asian_width(char) in "WF")
        if columns > room:
            return at
    return len(text)


def plain(text: str) -> str:
    """Return `text` with everything escaped that a person cannot see, or cannot tell from a plain space."""
    shown = _SPACES.sub(lambda run: f"«{len(run[0])} spaces»", visible(text))
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in shown)
