"""What edits of files in place share: the refusal, line ends, and the check that only the intended value changed."""

from __future__ import annotations

from typing import Any

from gatemini.config.documents.jsonc import KeyPath


class EditRefused(Exception):
    """The text cannot be edited without touching what else it says; the message says why."""


def line_end(text: str) -> str:
    """The line end that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def value_at(value: Any, path: KeyPath) -> Any:
    """The value under a key path of nested mappings, None where there is none."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def with_value(value: dict[str, Any], path: KeyPath, new: Any) -> dict[str, Any]:
    """The mapping with `new` at the path; mappings on the way are made."""
    head, *rest = path
    if not rest:
        return {**value, str(head): new}
    inner = value.get(str(head), {})
    if not isinstance(inner, dict):
        raise EditRefused(f"{head} is no mapping of servers")
    return {**value, str(head): with_value(inner, tuple(rest), new)}


def without_value(value: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """The mapping without the value at the path."""
    head, *rest = path
    if not rest:
        return {key: inner for key, inner in value.items() if key != head}
    return {**value, str(head): without_value(value[str(head)], tuple(rest))}
