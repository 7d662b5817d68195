"""Repair what backends answer: every result gets the shape that MCP defines.

The SDK's typed client loses a result for one odd block. Here `content` is always a list of objects with a `type`. Pure.
"""

from __future__ import annotations

from typing import Any

from gatemini.backends.tool_list_repair import renamed, shape
from gatemini.backends.wire import encode
from gatemini.model import Json

_OF_RESULTS = {"structured_content": "structuredContent", "is_error": "isError"}
_OF_BLOCKS = {"mime_type": "mimeType"}
"""Other spellings, of models dumped under their Python names."""
_NOT_VALUES = frozenset(("content", "structuredContent", "_meta", "isError", "resultType"))
"""Members of a result; in one without content any other member is the tool's value."""


def repair_result(result: Any) -> tuple[Json, list[str]]:
    """An MCP `CallToolResult` whose `content` is a list of typed blocks, and notes on repairs."""
    notes: list[str] = []
    if not isinstance(result, dict):
        result = _from_bare(result, notes)
    result = renamed(result, _OF_RESULTS, notes)
    content = result.get("content")
    fixed = dict(result)
    if content is None and result.get("structuredContent") is None:
        own = {key: value for key, value in result.items() if key not in _NOT_VALUES}
        if own:
            notes.append("the answer was the bare value instead of a result object")
            fixed["structuredContent"] = own
    if not isinstance(content, list) or not all(_well_formed(block) for block in content):
        fixed["content"] = _repair_content(content, notes, structured="structuredContent" in fixed)
    if "structuredContent" in fixed and fixed["structuredContent"] is None:
        del fixed["structuredContent"]
    flag = fixed.get("isError", False)
    if not isinstance(flag, bool):
        fixed["isError"] = flag not in (None, 0, "", "false", "False")
        notes.append(f"isError was {shape(flag)}")
    if "_meta" in fixed and not isinstance(fixed["_meta"], dict):
        del fixed["_meta"]
    return fixed, notes


def repair_contents(result: Any) -> list[Json]:
    """The contents of a resource as a list of objects with `text` or `blob`, from any shape."""
    found = result.get("contents") if isinstance(result, dict) else result
    contents: list[Json] = []
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, dict):
            contents.append(renamed(item, _OF_BLOCKS, []))
        elif item is not None:
            contents.append({"text": as_text(item)})
    return [content for content in contents if content]


def _from_bare(value: Any, notes: list[str]) -> Json:
    """A result from a bare value: as text, and as structured content if it is a list."""
    notes.append(f"the answer was {shape(value)} instead of a result object")
    if value is None:
        return {"content": []}
    if isinstance(value, list) and value and all(isinstance(v, dict) and "type" in v for v in value):
        return {"content": value}
    bare: Json = {"content": [{"type": "text", "text": as_text(value)}]}
    if isinstance(value, list):
        bare["structuredContent"] = value
    return bare


def _well_formed(block: object) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    if not isinstance(kind, str) or not _OF_BLOCKS.keys().isdisjoint(block):
        return False
    return kind != "text" or isinstance(block.get("text"), str)


def _repair_content(content: Any, notes: list[str], *, structured: bool) -> list[Json]:
    if content is None:
        if not structured:
            notes.append("the result had no content")
        return []
    if not isinstance(content, list):
        notes.append(f"content was {shape(content)} instead of a list")
        content = [content]
    else:
        notes.append("content held blocks of the wrong shape")
    return [_repair_block(block) for block in content if block is not None]


def _repair_block(value: Any) -> Json:
    if not isinstance(value, dict):
        return {"type": "text", "text": as_text(value)}
    block = renamed(value, _OF_BLOCKS, [])
    if isinstance(block.get("resource"), dict):
        block = {**block, "resource": renamed(block["resource"], _OF_BLOCKS, [])}
    if _well_formed(block):
        return block
    kind = block.get("type")
    if kind == "text" or (not isinstance(kind, str) and "text" in block):
        return {**block, "type": "text", "text": as_text(block.get("text"))}
    return {"type": "text", "text": as_text(block)}


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode(value).decode()
