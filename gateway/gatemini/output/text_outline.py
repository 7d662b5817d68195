"""A long text for a reader: its first and last lines, and an outline of what is between them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from gatemini.output.describe_value import described
from gatemini.output.json.json_text import lines, parse
from gatemini.text.size_limit import SizeLimit, weight
from gatemini.text.truncate import truncate
from gatemini.text.utf8 import encode

MOST_OUTLINED = 1 << 20
"""Characters between the ends that are looked at: of 40 MB all of them would take a second and a half."""
OUTLINE_SHARE = 4
"""One part in so many of the room is for the outline."""
MOST_ERRORS = 5
"""Lines of the highest log level that are shown."""
LINE_CHARS = 160
"""Characters shown of a line in the outline."""
LEAST_LEVELS = 5
"""Lines with a log level below which a text is no log."""
MOST_JSON = 5
JSON_CHARS = 256
"""Characters of JSON inside a text below which it is not described."""
TRIED = 20
"""Places at which JSON may begin that are tried."""

_ONLY_FIRST = "  in the first million characters between the ends:"
_MORE = "  … {} more lines of this outline"
_HEADING = re.compile(r"#{1,6} \S|diff --git |(?:=== |--- )\S.*(?:===|---)$")
_OF_GIT = re.compile(r"diff --git a/(.+) b/(.+)$")
_CHANGE = re.compile(r"(?:\+|-)(?!\+\+ |-- )")
_LEVEL = re.compile(r"\b(FATAL|CRITICAL|ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE)\b")
_LEVELS = ("FATAL", "CRITICAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "TRACE")
"""From the gravest on."""
_JSON_BEGINS = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_DECODER = json.JSONDecoder()


def shortened(text: str, limit: SizeLimit) -> str:
    """Return head and tail of `text` by lines, and an outline of the lines between, within `limit`."""
    room = limit.part(1, OUTLINE_SHARE)
    cut = truncate(text, limit.less(room.chars, room.bytes))
    start, end = len(cut.head), len(text) - len(cut.tail)
    first = cut.head.count("\n") + 1
    outline = list(_fitting(outlined(lines(text[start : min(end, start + MOST_OUTLINED)]), first), room))
    if outline and end - start > MOST_OUTLINED:
        outline.insert(0, _ONLY_FIRST)
    if not outline or not cut.tail:
        return truncate(text, limit).text
    return "\n".join([cut.text[: -len(cut.tail) - 1], *outline, cut.tail])


def outlined(middle: Sequence[str], first: int) -> Iterator[str]:
    """Yield lines that say what is in `middle`, which begins at line `first` of the text: the most telling first."""
    yield from _levels(middle, first)
    yield from _json(middle, first)
    yield from _headings(middle, first)


def _fitting(outline: Iterator[str], room: SizeLimit) -> Iterator[str]:
    """Yield the first lines, as many as fit together, and how many did not fit."""
    room = room.less(len(_ONLY_FIRST) + 1).less(len(_MORE))
    left = 0
    for line in outline:
        room = room.less(len(line) + 1, weight(line) + 1)
        if left or room.plain <= 0:
            left += 1
        else:
            yield line
    if left:
        yield _MORE.format(left)


def _shown(number: int, line: str) -> str:
    text = line.strip()
    return f"  line {number}: {text if len(text) <= LINE_CHARS else text[:LINE_CHARS] + '…'}"


def _levels(middle: Sequence[str], first: int) -> Iterator[str]:
    """Yield how many lines have each log level, and the first lines of the gravest one."""
    found = [(word[1], number) for number, line in enumerate(middle) if (word := _LEVEL.search(line))]
    if len(found) < max(LEAST_LEVELS, len(middle) // 10):
        return
    counts = Counter(level for level, _ in found)
    present = [level for level in _LEVELS if counts[level]]
    yield "  log levels: " + ", ".join(f"{level} {counts[level]:,}" for level in present)
    if present[0] in _LEVELS[:5]:
        gravest = [number for level, number in found if level == present[0]]
        yield from (_shown(first + number, middle[number]) for number in gravest[:MOST_ERRORS])


def _headings(middle: Sequence[str], first: int) -> Iterator[str]:
    """Yield headings, and of a diff each file with the number of lines that it adds and removes."""
    at = [number for number, line in enumerate(middle) if _HEADING.match(line)]
    files = () if any(line.startswith("diff --git ") for line in middle) else _files(middle)
    at = sorted({*at, *files})
    for number, end in zip(at, [*at[1:], len(middle)], strict=False):
        git = _OF_GIT.match(middle[number])
        named = " → ".join(dict.fromkeys(git.groups())) if git else middle[number]
        line = _shown(first + number, named)
        if git or number in files:
            changes = Counter(text[0] for text in middle[number + 1 : end] if _CHANGE.match(text))
            line += f" (+{changes['+']} -{changes['-']})"
        yield line


def _files(middle: Sequence[str]) -> set[int]:
    """Return the lines that name the files of a diff without `diff --git`: `+++ b/new.py`, `--- a/deleted.py`."""
    pairs = (number for number in range(1, len(middle)) if middle[number].startswith("+++ "))
    return {
        number - 1 if middle[number].startswith("+++ /dev/null") else number
        for number in pairs
        if middle[number - 1].startswith("--- ")
    }


def _json(middle: Sequence[str], first: int) -> Iterator[str]:
    """Yield what the JSON inside the text is: of lines of JSON how many there are and what the first one is."""
    alone = [
        number
        for number, line in enumerate(middle)
        if line[:1] in ("{", "[") and line.rstrip()[-1:] in ("}", "]")
    ]
    if len(alone) > MOST_JSON and len(alone) * 2 > len(middle):
        parsed = parse(encode(middle[alone[0]]))
        if parsed is not None:
            yield f"  {len(alone):,} lines of JSON, the first: {described(parsed.value)[:LINE_CHARS]}"
            return
    text = "\n".join(middle)
    end = described_values = 0
    for begin in islice(_JSON_BEGINS.finditer(text), TRIED):
        at = begin.end() - 1
        if at < end or described_values == MOST_JSON:
            continue
        try:
            value, after = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if after - at > JSON_CHARS:
            number = first + text.count("\n", 0, at)
            yield f"  line {number}: JSON, {after - at:,} characters: {described(value)[:LINE_CHARS]}"
            described_values += 1
            end = after
