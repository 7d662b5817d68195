"""Add and remove one table of a TOML file as text; all other characters stay as they are.

Not by tomlkit: a table that is appended needs no parser that keeps comments, and `tomllib` checks what was made.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, NamedTuple

from gatemini.config.documents.text_edit import EditRefused, line_end, value_at, with_value, without_value

Path = tuple[str, ...]
_WORDS = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|#[^\n]*|[\[\]{}\n]", re.DOTALL
)
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


class _Block(NamedTuple):
    """A table as written: from its header to the end of its last key."""

    path: Path
    start: int
    end: int


def set_table(text: str, path: Path, value: dict[str, Any]) -> str:
    """The text with this table, appended where it is not there. Raises EditRefused.

    A text whose last line has no end gets none, so that `remove_table` can give back the very bytes.
    """
    before = parsed(text)
    if value_at(before, path) == value:
        return text
    after = remove_table(text, path)
    end = line_end(text)
    after += "" if not after or after.endswith("\n") else end
    gap = end if after.strip() else ""
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(key)} = {_rendered(v)}" for key, v in value.items())]
    last = "" if text and not text.endswith("\n") else end
    return _checked(after + gap + end.join(lines) + last, with_value(before, path, value))


def remove_table(text: str, path: Path) -> str:
    """The text without this table and those below it. Raises EditRefused for one that has no header of its own."""
    before = parsed(text)
    if value_at(before, path) is None:
        return text
    after, moved = text, 0
    for block in _blocks(text):
        if block.path[: len(path)] == path:
            start = _without_gap(text, block.start)
            after = after[: start - moved] + after[block.end - moved :]
            moved += block.end - start
            if block.end == len(text) and not text.endswith("\n"):
                after = after.removesuffix("\n").removesuffix("\r")
    return _checked(after, without_value(before, path), path[:-1])


def _without_gap(text: str, start: int) -> int:
    """The start of the empty line above a header, else that of the header."""
    for gap in ("\r\n", "\n"):
        if text[:start].endswith("\n" + gap):
            return start - len(gap)
    return start


def _blocks(text: str) -> list[_Block]:
    headers: list[tuple[Path, int]] = []
    ends: list[int] = []
    depth, line, content = 0, 0, 0
    words = [*_WORDS.finditer(text)]
    for word in words:
        mark, at = word[0], word.start()
        if mark == "\n":
            if text[line:at].partition("#")[0].strip() or depth:
                content = at + 1
            line = at + 1 if depth == 0 else line
        elif mark == "[" and depth == 0 and not text[line:at].strip():
            stop = text.find("\n", at)
            header = _header(text[at : stop if stop >= 0 else len(text)].rstrip("\r"))
            if header is not None:
                if headers:
                    ends.append(content)
                headers.append((header, line))
            depth += 1
        elif mark in "[{":
            depth += 1
        elif mark in "]}":
            depth = max(0, depth - 1)
    if text[line:].partition("#")[0].strip():
        content = len(text)
    if headers:
        ends.append(content)
    return [_Block(path, start, end) for (path, start), end in zip(headers, ends, strict=True)]


def _header(line: str) -> Path | None:
    """The path of a header line; None for a line that is none."""
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path: list[str] = []
    while value:
        value = value[0] if isinstance(value, list) else value
        if not value:
            break
        ((part, value),) = value.items()
        path.append(part)
    return tuple(path)


def copy_table(text: str, source: str, path: Path) -> str:
    """The text with a table of `source` as that writes it, unless it has it already. Raises EditRefused."""
    value = value_at(parsed(source), path)
    if value_at(parsed(text), path) is not None or value is None:
        return text
    end = line_end(text)
    written = end.join(
        source[block.start : block.end].rstrip("\r\n") + end
        for block in _blocks(source)
        if block.path[: len(path)] == path
    )
    text += "" if not text or text.endswith("\n") else end
    return _checked(text + (end if text.strip() else "") + written, with_value(parsed(text), path, value))


def parsed(text: str) -> dict[str, Any]:
    """The value of the file. Raises EditRefused."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise EditRefused(f"is not valid TOML: {error}") from None


def _checked(text: str, expected: dict[str, Any], emptied: Path = ()) -> str:
    """The text where it says what is expected; a table that has become empty may be gone with its last header."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        found = {}
    if found != expected and not (emptied and found == without_value(expected, emptied)):
        raise EditRefused("its servers are written in a way that cannot be edited in place")
    return text


def _key(name: str) -> str:
    return name if _BARE.match(name) else json.dumps(name, ensure_ascii=False)


def _rendered(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_rendered(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_rendered, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
