"""Add, replace and remove members of JSON with comments as text; all other characters stay as they are.

Not by a library: those that keep comments write the whole file again. A new member comes first in its mapping, behind a
comment on the line of the opening brace, so that no comma or comment of another member moves.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from gatemini.config.documents.jsonc import (
    COMMENTS,
    MAX_DEPTH,
    TOKENS,
    JsonSyntaxError,
    load_jsonc,
    without_comments,
)
from gatemini.config.documents.text_edit import EditRefused, line_end, value_at, with_value, without_value

Path = tuple[str, ...]
_MARGIN = re.compile(r"[ \t]*")
_SAME_LINE = re.compile(r"(?:[ \t]*(?:/\*.*?\*/|//[^\r\n]*))*", re.DOTALL)
"""Comments that begin on the line of an opening brace."""


@dataclass(slots=True)
class _Member:
    start: int
    value: int
    end: int


@dataclass(slots=True)
class _Mapping:
    """A mapping in the text: its braces, and where each key and value is."""

    open: int
    close: int = 0
    members: dict[str, _Member] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)


def set_member(text: str, path: Path, value: Any) -> str:
    """The text with `value` at the path; mappings on the way are made. Raises EditRefused."""
    before = parsed(text)
    if not text.strip():
        text, before = text + "{}" + line_end(text), {}
    found = _along(text, path)
    missing = path[len(found) - 1 :]
    holder = found[-1]
    if len(found) == len(path) and path[-1] in holder.members:
        member = holder.members[path[-1]]
        if value_at(before, path) == value:
            return text
        margin = _margin(text, member.start)
        written = json.dumps(value, ensure_ascii=False)
        if not _one_line(text, found):
            written = _rendered(text, value, margin, _unit(text, found[0]))
        after = text[: member.value] + written + text[member.end :]
    else:
        if missing[0] in holder.members:
            raise EditRefused(f"{missing[0]} is no mapping of servers")
        for key in reversed(missing[1:]):
            value = {key: value}
        after = _inserted(text, found, missing[0], value)
        path = path[: len(found)]
    return _checked(after, with_value(before, path, value))


def remove_member(text: str, path: Path) -> str:
    """The text without the member at the path, with the comma that belonged to it. Raises EditRefused."""
    before = parsed(text)
    found = _along(text, path)
    if len(found) < len(path) or path[-1] not in found[-1].members:
        return text
    holder, member = found[-1], found[-1].members[path[-1]]
    plain = without_comments(text)
    start, end = member.start, member.end
    follows = len(plain) - len(plain[end:].lstrip())
    if plain[follows] == ",":
        end = follows + 1
        start = _removed_from(text, start, end)
        if start == member.start:  # others stand before it on its line
            end += len(_MARGIN.match(text, end)[0])  # type: ignore[index] # it matches nothing too
    else:
        comma = len(plain[:start].rstrip()) - 1
        start = _removed_from(text, start, end)
        if plain[comma] == ",":
            between = text[comma + 1 : start]
            text = text[:comma] + between + text[start:]
            start, end = start - 1, end - 1
            start -= len(between) if not between.strip() else 0
    after = text[:start] + text[end:]
    inner = after[holder.open + 1 : holder.close - (len(text) - len(after))]
    if not inner.strip():
        after = after[: holder.open + 1] + after[holder.open + 1 + len(inner) :]
    return _checked(after, without_value(before, path))


def copy_member(text: str, source: str, path: Path) -> str:
    """The text with a member of `source` as that writes it, unless it has it already. Raises EditRefused."""
    found = _along(source, path)
    if (
        value_at(parsed(text), path) is not None
        or len(found) < len(path)
        or path[-1] not in found[-1].members
    ):
        return text
    member = found[-1].members[path[-1]]
    value = value_at(parsed(source), path)
    made = set_member(text, path, value)
    written = source[member.value : member.end]
    place = _along(made, path)[-1].members[path[-1]]
    return _checked(made[: place.value] + written + made[place.end :], parsed(made))


def parsed(text: str) -> dict[str, Any]:
    """The value of the file; an empty file has none. Raises EditRefused."""
    if not text.strip():
        return {}
    try:
        value, _ = load_jsonc(text, max_depth=MAX_DEPTH)
    except JsonSyntaxError as error:
        raise EditRefused(f"is not valid JSON: line {error.line}: {error.reason}") from None
    if not isinstance(value, dict):
        raise EditRefused("holds no mapping of keys")
    return value


def _checked(text: str, expected: dict[str, Any]) -> str:
    if parsed(text) != expected:
        raise EditRefused("cannot be edited in place")
    return text


def _along(text: str, path: Path) -> list[_Mapping]:
    """The mappings along a key path, the outermost first, as far as there are any."""
    found: list[_Mapping] = []
    stack: list[tuple[_Mapping | None, str, int, int]] = []
    """For each open bracket: its mapping where it is on the path, the key in it, where that key and value begin."""
    mapping: _Mapping | None = None
    key, key_at, is_key = "", 0, False
    for token in TOKENS.finditer(without_comments(text)):
        word, at = token[0], token.start()
        if word in "{[":
            on_path = word == "{" and (
                not stack or (mapping is not None and len(stack) <= len(path) and key == path[len(stack) - 1])
            )
            if on_path and len(stack) == len(found) < len(path):
                inner = _Mapping(at)
                found.append(inner)
            else:
                inner = None
            stack.append((mapping, key, key_at, at))
            mapping, is_key = inner, word == "{"
        elif word in "}]":
            if mapping is not None:
                mapping.close = at
            mapping, key, key_at, began = stack.pop()
            _note(mapping, key, _Member(key_at, began, token.end()))
            is_key = False
        elif word == ",":
            is_key = mapping is not None
        elif word != ":":
            if is_key and mapping is not None:
                key, key_at, is_key = json.loads(word), at, False
            else:
                _note(mapping, key, _Member(key_at, at, token.end()))
    for mapping, part in zip(found, path, strict=False):
        if part in mapping.twice:
            raise EditRefused(f"{part} is written twice")
    return found


def _note(mapping: _Mapping | None, key: str, member: _Member) -> None:
    if mapping is not None:
        if key in mapping.members:
            mapping.twice.add(key)
        mapping.members.setdefault(key, member)


def _inserted(text: str, found: list[_Mapping], key: str, value: Any) -> str:
    """The text with a new first member in the innermost of these mappings."""
    holder = found[-1]
    first = next(iter(holder.members.values()), None)
    if _one_line(text, found):
        at = holder.open + 1 if first is None else first.start
        member = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        return text[:at] + member + (", " if first else "") + text[at:]
    outer = _margin(text, holder.open)
    unit = _unit(text, found[0])
    margin = outer + unit
    if first is not None and _line_start(text, first.start) != first.start:
        margin = _margin(text, first.start)
    line = f"{line_end(text)}{margin}{json.dumps(key)}: {_rendered(text, value, margin, unit)}"
    at = _SAME_LINE.match(text, holder.open + 1).end()  # type: ignore[union-attr] # it matches nothing too
    if first is not None:
        at = holder.open + 1 if at > first.start else at
        line += ","
    elif "\n" not in text[at : holder.close]:
        line += line_end(text) + outer
    return text[:at] + line + text[at:]


def _one_line(text: str, found: list[_Mapping]) -> bool:
    """Whether one of these mappings has all its members on one line."""
    return any(mapping.members and "\n" not in text[mapping.open : mapping.close] for mapping in found)


def _rendered(text: str, value: Any, margin: str, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", line_end(text) + margin)


def _unit(text: str, root: _Mapping) -> str:
    """One step of the file's indentation."""
    first = next(iter(root.members.values()), None)
    if first is None or _line_start(text, first.start) == first.start:
        return "  "
    return _margin(text, first.start) or "  "


def _margin(text: str, at: int) -> str:
    """The blanks at the beginning of the line of a place."""
    begin = text.rfind("\n", 0, at) + 1
    return _MARGIN.match(text, begin)[0]  # type: ignore[index] # it matches nothing too


def _removed_from(text: str, start: int, end: int) -> int:
    """Where a removal up to `end` begins: with the end of the line before, unless a comment needs it."""
    line = _line_start(text, start)
    if text[end : end + 2].startswith(("\n", "\r\n")):
        return line
    ends_comment = any(
        found[0].startswith("//") and found.end() >= line for found in COMMENTS.finditer(text, 0, start)
    )
    return start if ends_comment else line


def _line_start(text: str, at: int) -> int:
    """The end of the line before, where only blanks are between; else the place itself."""
    begin = text.rfind("\n", 0, at)
    if begin < 0 or text[begin + 1 : at].strip(" \t"):
        return at
    return begin - 1 if text[begin - 1 : begin] == "\r" else begin
