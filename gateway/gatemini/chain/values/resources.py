"""What a backend has beside tools, as code asks for it and as values: resources, their list, and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gatemini.chain.values.tool_values import SaveBlob, Value, to_value
from gatemini.discovery.types.identifiers import backend_identifier, spoken
from gatemini.errors import ArgumentsInvalid
from gatemini.model import GET_PROMPT, LIST_RESOURCES, READ_RESOURCE, Json, Offer, Tool

BESIDE_TOOLS: Final = frozenset((READ_RESOURCE, LIST_RESOURCES, GET_PROMPT))
"""Members that every backend has, unless a tool has that name."""


def address_of(given: Any) -> str | None:
    """Return the address of a resource, passed in place of a tool's arguments."""
    given = given[0] if isinstance(given, list) and len(given) == 1 else given
    return given if isinstance(given, str) and given and not given.lstrip().startswith("{") else None


def no_address(backend: str) -> ArgumentsInvalid:
    spelled = f"{backend_identifier(backend)}.{READ_RESOURCE}"
    return ArgumentsInvalid(
        f"{spoken(f'{backend}.{READ_RESOURCE}')} takes the address of a resource",
        hint=f'write {spelled}("scheme://…"), as a resource link names it in `uri`',
    )


def prompt_of(backend: str, given: Any) -> tuple[str, dict[str, str]]:
    """Return (name, arguments) of `getPrompt("name", {…})`. Raises ArgumentsInvalid."""
    if isinstance(given, dict) and isinstance(given.get("name"), str):
        given = [given["name"], given.get("arguments") or {}]
    parts = given if isinstance(given, list) else [given]
    name, arguments = (*parts, {}, {})[:2] if parts else (None, {})
    if not isinstance(name, str) or not name or not isinstance(arguments, dict) or len(parts) > 2:
        spelled = f"{backend_identifier(backend)}.{GET_PROMPT}"
        raise ArgumentsInvalid(
            f"{spoken(f'{backend}.{GET_PROMPT}')} takes the name of a prompt and its arguments",
            hint=f'write {spelled}("name", {{…}})',
        )
    # A prompt's arguments are texts.
    return name, {key: v if isinstance(v, str) else str(v) for key, v in arguments.items() if v is not None}


def contents_value(result: Json, tool: Tool, save_blob: SaveBlob) -> Value:
    """Return the first content of a read resource, or all of them where there are several."""
    values = [_content(content, tool, save_blob) for content in result.get("contents") or []]
    contents = [value.value for value in values]
    notes = [note for value in values for note in value.notes]
    return Value(contents[0] if len(contents) == 1 else contents, notes)


def _content(content: Json, tool: Tool, save_blob: SaveBlob) -> Value:
    """Return text as it is; binary content is stored under a handle, as that of results is."""
    if isinstance(content.get("text"), str):
        return Value(content["text"])
    if not isinstance(content.get("blob"), str):
        return Value(content)
    block = {"type": "resource", "resource": content}
    return to_value({"content": [block]}, tool, save_blob=save_blob)


def listed_value(offers: Sequence[Offer]) -> list[Json]:
    """Return the resources of a backend as `{name, uri, description}`."""
    return [
        {"name": offer.name, "uri": offer.uri, "description": offer.description}
        for offer in offers
        if offer.kind == "resource"
    ]
