"""The JSON Schema of the configuration file, for editors.

Generated from the model, except where a file is written differently: CLI tools are under `tools`, `adapter_file` is
merged while loading, names are the keys of a mapping.
"""

from __future__ import annotations

from typing import Any

from gatemini.config.model.backend import NAME_PATTERN
from gatemini.config.model.schema import Config

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = {"type": "string", "pattern": r"\$\{"}
_CHECKED = frozenset(("integer", "number", "boolean"))
_ADAPTER_FILE = "A file with `tools` and `health_check` of a CLI adapter; inline ones win."


def config_json_schema() -> dict[str, Any]:
    """Draft 2020-12; every key with its meaning, default and bounds, unknown keys refused."""
    schema = Config.model_json_schema(mode="validation")
    definitions: dict[str, Any] = schema["$defs"]
    backend = definitions["BackendConfig"]
    properties: dict[str, Any] = backend["properties"]
    for inner in ("name", "cli_tools"):
        del properties[inner]
    backend.pop("required", None)
    backend["description"] = "One backend: exactly one of command, url, module or CLI tools."
    tool_filter = definitions.pop("ToolFilter")
    properties["tools"] = {
        "type": "object",
        "description": "Filters by name (allow, deny); with transport cli-adapter also the tools themselves.",
        "properties": tool_filter["properties"],
        "additionalProperties": {"$ref": "#/$defs/CliTool"},
    }
    properties["adapter_file"] = {"type": "string", "description": _ADAPTER_FILE}
    properties["transport"].pop("default", None)
    schema["properties"]["backends"]["propertyNames"] = {"pattern": NAME_PATTERN}
    _allow_references(schema)
    return {"$schema": _DIALECT, **schema, "title": "Gatemini configuration"}


def _allow_references(node: Any) -> None:
    """Allow `${VAR}` for every number, switch and fixed word: variables are put in before the check."""
    if isinstance(node, list):
        for item in node:
            _allow_references(item)
        return
    if not isinstance(node, dict):
        return
    for key, value in list(node.items()):
        _allow_references(value)
        if key == "properties" and isinstance(value, dict):
            for name, inner in value.items():
                value[name] = _with_reference(inner)


def _with_reference(inner: dict[str, Any]) -> dict[str, Any]:
    choices: list[dict[str, Any]] = inner.get("anyOf", [inner])
    if not any(choice.get("type") in _CHECKED or "enum" in choice for choice in choices):
        return inner
    outer: dict[str, Any] = {k: inner[k] for k in ("default", "description", "title") if k in inner}
    rest = {k: v for k, v in inner.items() if k not in outer}
    return {"anyOf": [*(choices if "anyOf" in inner else [rest]), REFERENCE], **outer}
