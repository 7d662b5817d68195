"""What `__getToolInterface` and `__interfaces` answer, in the sandbox and without it.

Pure. Above: direct.py, script.py. Below: registry.
"""

from __future__ import annotations

from gatemini.chain.services import ChainServices
from gatemini.errors import AmbiguousTool, GateminiError
from gatemini.model import Json, Tool

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


def interface_of(name: str, services: ChainServices) -> Json | None:
    """A tool's interface by qualified or bare name, or None."""
    try:
        return interface(services.registry.resolve(name))
    except GateminiError:
        return None


def several(name: str, services: ChainServices) -> list[str]:
    """A note on a bare name that is null because several backends have a tool of it."""
    try:
        services.registry.resolve(name)
    except AmbiguousTool:
        owners = ", ".join(services.owners(name)[:SHOWN_OWNERS])
        return [
            f'__getToolInterface("{name}") is null: several backends have such a tool ({owners}); name one'
        ]
    except GateminiError:
        pass
    return []


def all_interfaces(services: ChainServices) -> Json:
    """backend → tool → interface."""
    whole: Json = {}
    for tool in services.registry.tools():
        whole.setdefault(tool.namespace or tool.backend, {})[tool.name] = interface(tool)
    return whole
