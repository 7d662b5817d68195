"""The definitions that were approved on this machine, so that `pin diff` can say what changed in them.

A private file beside the gateway's state, one for each lock file. The lock decides: a definition whose hashes are not
those of the lock is not used, and without one the diff names the parts that changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from gatemini.folders import state_folder
from gatemini.model import Tool
from gatemini.policy.pins.lock_file import MAX_BYTES, BackendPin, ToolPin
from gatemini.policy.pins.observed import pin_of
from gatemini.processes.own_files import read_own, replace_own

Definitions = dict[str, dict[str, Tool]]
"""By backend and name; prompts under `prompt NAME`."""


def definitions_file(lock: Path) -> Path:
    """Return the file that belongs to a lock file."""
    name = hashlib.sha256(str(lock.resolve()).encode()).hexdigest()[:16]
    return state_folder() / "approved" / f"{name}.json"


def read_definitions(path: Path) -> Definitions:
    """Return what the file holds; nothing where it cannot be read."""
    try:
        return msgspec.json.decode(read_own(path, MAX_BYTES), type=Definitions)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def write_definitions(path: Path, definitions: Definitions) -> None:
    """Replace the file. Raises OSError."""
    replace_own(path, msgspec.json.encode(definitions))


def approved(definitions: Definitions, backend: str, key: str, pin: ToolPin | None) -> dict[str, Any] | None:
    """Return the definition that was approved, None where this machine does not have it."""
    tool = definitions.get(backend, {}).get(key)
    return None if tool is None or pin is None or pin_of(tool) != pin else definition(tool)


def definition(tool: Tool) -> dict[str, Any]:
    """Return what is compared of a tool or a prompt."""
    parts = {
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }
    return {key: value for key, value in parts.items() if value}


def key_of(name: str, *, prompt: bool) -> str:
    """Return the key of a tool or a prompt among the definitions of its backend."""
    return f"prompt {name}" if prompt else name


def keep(
    definitions: Definitions, backend: str, pin: BackendPin, tools: Iterable[Tool], prompts: Iterable[Tool]
) -> None:
    """Take the definitions that this pin approves."""
    kept = definitions.setdefault(backend, {})
    for tool in tools:
        if (pin.tools or {}).get(tool.name) == pin_of(tool):
            kept[key_of(tool.name, prompt=False)] = tool
    for prompt in prompts:
        if (pin.prompts or {}).get(prompt.name) == pin_of(prompt):
            kept[key_of(prompt.name, prompt=True)] = Tool(
                prompt.backend, prompt.name, prompt.description, prompt.input_schema, title=prompt.title
            )
