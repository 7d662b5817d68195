"""The answers of `__getToolInterface` and `__interfaces`, in the sandbox and without it."""

from __future__ import annotations

from collections.abc import Iterable

from gatemini.errors import AmbiguousTool, GateminiError
from gatemini.model import Json, Tool
from gatemini.registry import Registry

SHOWN_OWNERS = 5
"""Qualified names listed for an ambiguous one."""


def interface(tool: Tool) -> Json:
    """`{name, description, input_schema, output_schema?}`."""
    answer: Json = {
        "name": tool.qualified,
        "description": tool.description,
        "input_schema": tool.input_schema,
    }
    if tool.output_schema is not None:
        answer["output_schema"] = tool.output_schema
    return answer


def interface_of(name: str, registry: Registry) -> Json | None:
    """A tool's interface by qualified or bare name, or None."""
    try:
        return interface(registry.resolve(name))
    except GateminiError:
        return None


def owners(tool: str, registry: Registry) -> list[str]:
    """The qualified names of the tools with this bare name, or of the one with this alias."""
    found = [known.qualified for known in registry.tools() if known.name == tool]
    target = registry.alias(tool)
    return found or ([target.qualified] if target is not None else [])


def several(names: Iterable[str], registry: Registry) -> list[str]:
    """Notes on bare names that are null because several backends have a tool of them."""
    notes = []
    for name in names:
        try:
            registry.resolve(name)
        except AmbiguousTool:
            named = ", ".join(owners(name, registry)[:SHOWN_OWNERS])
            notes.append(
                f'__getToolInterface("{name}") is null: several backends have such a tool ({named}); name one'
            )
        except GateminiError:
            pass
    return notes


def all_interfaces(registry: Registry) -> Json:
    """backend → tool → interface."""
    whole: Json = {}
    for tool in registry.tools():
        whole.setdefault(tool.namespace or tool.backend, {})[tool.name] = interface(tool)
    return whole
