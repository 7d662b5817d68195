"""The tool definitions of a request: their names and bytes, and those that are added to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatemini.context.request.json_places import Edit, Json
from gatemini.context.request.messages import Format
from gatemini.model import Json as JsonObject
from gatemini.output.json.json_text import dump
from gatemini.text.utf8 import encode

DECLARATIONS = ("functionDeclarations", "function_declarations")


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as the request defines it. `name` is None for what the provider runs itself and nobody names."""

    name: str | None
    place: Json
    function: Json
    """The object with name, description and parameters."""

    @property
    def description(self) -> str:
        return self.function.text_of("description") or ""

    @property
    def parameters(self) -> Json | None:
        """The JSON Schema of its arguments."""
        return self.function.get("parameters", "input_schema", "parametersJsonSchema")


def definitions(root: Json, format: Format) -> list[Definition]:
    """All tools of a request, in its order; of Gemini the function declarations only."""
    return list(_definitions(root, format))


def _definitions(root: Json, format: Format) -> Iterator[Definition]:
    tools = root.get("tools")
    for tool in tools.objects() if tools is not None else ():
        if format == "gemini":
            declared = tool.get(*DECLARATIONS)
            for function in declared.objects() if declared is not None else ():
                yield Definition(function.text_of("name"), function, function)
        else:
            function = (tool.get("function", "custom") if format == "openai" else None) or tool
            yield Definition(function.text_of("name"), tool, function)


def written_definition(format: Format, name: str, description: str, parameters: JsonObject) -> bytes:
    """A tool of ours in the request's format, compact."""
    described = {"name": name, "description": description}
    if format == "openai":
        tool = {"type": "function", "function": {**described, "parameters": parameters}}
    else:
        tool = {**described, "input_schema" if format == "anthropic" else "parameters": parameters}
    return encode(dump(tool))


def added_definition(root: Json, format: Format, definition: bytes) -> Edit:
    """Add a tool behind those of the request."""
    group = b'{"functionDeclarations":[%b]}' % definition if format == "gemini" else definition
    tools = root.get("tools")
    if tools is None or not tools.is_array:
        member = b'"tools":[%b]' % group
        return root.with_member(member) if tools is None else tools.replaced(b"[%b]" % group)
    if format == "gemini":
        for tool in reversed(tools.objects()):
            declared = tool.get(*DECLARATIONS)
            if declared is not None and declared.is_array:
                return declared.with_item(definition)
    return tools.with_item(group)


def free_name(name: str, taken: set[str | None]) -> str:
    """A name for a tool of ours that no tool of the client has."""
    number, free = 1, name
    while free in taken:
        free = f"gatemini_{name}" + (f"_{number}" if number > 1 else "")
        number += 1
    return free
