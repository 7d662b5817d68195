"""The JSON Schema of the configuration file, for editors, and the table of its keys for the reference.

Generated from the model, except where a file is written differently: CLI tools are under `tools`, `adapter_file` is
merged while loading, names are the keys of a mapping.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gatemini.config.backend import NAME_PATTERN
from gatemini.config.schema import Config

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{"}
_CHECKED = frozenset(("integer", "number", "boolean"))
_ADAPTER_FILE = "A file with `tools` and `health_check` of a CLI adapter; what stands inline wins."


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
    """Wherever a number, switch or fixed word stands, `${VAR}` may stand too: it is put in before checking."""
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
    return {"anyOf": [*(choices if "anyOf" in inner else [rest]), _REFERENCE], **outer}


def key_tables() -> str:
    """The reference's tables in Markdown: top level, a backend, then each section."""
    schema = config_json_schema()
    definitions = schema["$defs"]
    parts = ["### Top level\n", *_table(schema["properties"])]
    parts += ["\n### `backends.<name>`\n", *_table(definitions["BackendConfig"]["properties"])]
    for title, name in _sections(schema):
        parts += [f"\n### `{title}`\n", *_table(definitions[name]["properties"])]
    return "\n".join(parts) + "\n"


def _sections(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(how a file writes it, definition) of everything below the first two tables."""
    for prefix, owner in (
        ("backends.<name>.", "BackendConfig"),
        ("", ""),
        ("sandbox.", "SandboxConfig"),
        ("secrets.", "SecretsConfig"),
    ):
        properties = schema["$defs"][owner]["properties"] if owner else schema["properties"]
        for key, value in properties.items():
            if key == "backends":
                continue
            name = _referred(value)
            if name is not None:
                inner = "additionalProperties" in value
                yield f"{prefix}{key}{'.<name>' if inner else ''}", name


def _referred(value: dict[str, Any]) -> str | None:
    choices = [value, *value.get("anyOf", ())]
    extra = value.get("additionalProperties")
    if isinstance(extra, dict):
        choices.append(extra)
    for choice in choices:
        if "$ref" in choice:
            return str(choice["$ref"]).rsplit("/", 1)[-1]
    return None


def _table(properties: dict[str, Any]) -> list[str]:
    lines = ["| key | takes | default | |", "|---|---|---|---|"]
    for key, value in properties.items():
        default = (
            "" if _referred(value) or value.get("default") in (None, [], "") else f"`{_plain(key, value)}`"
        )
        lines.append(f"| `{key}` | {_takes(value)} | {default} | {value.get('description', '')} |")
    return lines


def _plain(key: str, value: dict[str, Any]) -> str:
    default = value["default"]
    if isinstance(default, bool):
        return "true" if default else "false"
    if _is_duration(value):
        return f"{default * 1000:g}ms" if default < 1 else f"{default:g}s"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _is_duration(value: dict[str, Any]) -> bool:
    return any("ms|s|m|h" in str(choice.get("pattern")) for choice in _choices(value))


def _choices(value: dict[str, Any]) -> list[dict[str, Any]]:
    """What may stand at a key, alternatives within alternatives included."""
    return [inner for choice in value["anyOf"] for inner in _choices(choice)] if "anyOf" in value else [value]


def _takes(value: dict[str, Any]) -> str:
    if _referred(value):
        return "mappings by name" if "additionalProperties" in value else "a mapping"
    if _is_duration(value):
        return "duration"
    choices = [choice for choice in _choices(value) if choice != _REFERENCE]
    words = [_word(choice) for choice in choices if choice.get("type") != "null"]
    return " or ".join(dict.fromkeys(words))


def _word(choice: dict[str, Any]) -> str:
    if "enum" in choice:
        return ", ".join(f"`{item}`" for item in choice["enum"])
    kind = choice.get("type")
    if isinstance(kind, list):
        return "text"
    bounds = []
    for name, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤")):
        if name in choice:
            bounds.append(f"{sign} {choice[name]}")
    word = {
        "string": "text",
        "array": "list",
        "object": "a mapping",
        "integer": "number",
        "boolean": "true, false",
    }
    text = word.get(str(kind), str(kind))
    return f"{text} {', '.join(bounds)}" if bounds else text
