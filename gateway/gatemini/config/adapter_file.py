"""`adapter_file`: tools and the `health_check` of a CLI adapter in a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gatemini.config.documents.document import read_document
from gatemini.errors import ConfigError

_MAX_TOOLS = 1000
_KEYS = ("tools", "health_check", "transport", "name")


def with_adapter(raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The entry with the keys of the file; inline ones win. Raises `ConfigError` for a file that is not an adapter."""
    value = read_document(path).value
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise ConfigError(
            f"{path}: unknown key {unknown[0]}", hint="An adapter file has tools and health_check."
        )
    tools = value.get("tools")
    if not isinstance(tools, dict) or len(tools) > _MAX_TOOLS:
        raise ConfigError(f"{path} has no mapping `tools`", hint="Write tools.<name> as inline.")
    inline = raw.get("tools")
    whole = {
        **raw,
        "tools": {**tools, **(inline if isinstance(inline, dict) else {})},
        "transport": raw.get("transport") or "cli-adapter",
    }
    if "health_check" in value:
        whole.setdefault("health_check", value["health_check"])
    return whole
