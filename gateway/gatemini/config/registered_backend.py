"""Backends that an agent registers: the model of the file, but no variables, no secrets, no code in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from gatemini.config.adapter_file import with_adapter
from gatemini.config.documents.find import written_path
from gatemini.config.model.allowed_values import value_faults
from gatemini.config.model.backend import BackendConfig
from gatemini.config.problems import KeyPath, Problem, dotted, explain
from gatemini.errors import ConfigError
from gatemini.folders import home_folder


def dynamic_backend(template: Mapping[str, Any], *, home: Path | None = None) -> BackendConfig:
    """The backend of a `register_manual` template. Raises `ConfigError` naming every wrong key.

    No variables and no secrets are put in: an agent that writes `${AWS_SECRET}` could read it back.
    """
    problems: list[str] = []
    sent = template
    if "adapter_file" in template:
        template = _with_adapter_file(template, home or home_folder())
    for text in _strings(template):
        if "secretref:" in text or "${" in text:
            problems.append(
                "variables and secretref: are not put into registered backends; write plain values"
            )
            break
    try:
        config = BackendConfig.model_validate({k: v for k, v in template.items() if k != "cli_tools"})
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            path, found, allowed, remedy = explain(detail, BackendConfig, template)
            text = Problem("", None, dotted(path), found, allowed, remedy).text().removeprefix(": ")
            problems.append(text if _is_sent(path, sent) else _unusable(sent["adapter_file"]))
        config = None
    if config is not None:
        problems += _dynamic_faults(config, sent)
    if problems or config is None:
        text = "; ".join(dict.fromkeys(problems))
        raise ConfigError(text, hint="A template has name and one of command, url or tools.")
    return config


def _with_adapter_file(template: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """The template with the keys of its file. A relative path would mean another file in every working folder."""
    rest = {key: value for key, value in template.items() if key != "adapter_file"}
    written = template["adapter_file"]
    path = written_path(written, home, Path()) if isinstance(written, str) else None
    if path is None or not path.is_absolute():
        raise ConfigError(
            "adapter_file: is not a path that begins with / or ~/", hint="Write the absolute path."
        )
    try:
        # Not even a pipe is opened: it might be the client's own.
        return with_adapter(rest, path) if path.is_file() else _refuse(written)
    except (ConfigError, OSError, ValueError):
        _refuse(written)


def _refuse(written: str) -> NoReturn:
    raise ConfigError(
        _unusable(written), hint="`gatemini config check` on a file that names it says what is wrong."
    )


def _unusable(written: str) -> str:
    """The error text for a file, without its contents: the agent has not sent those."""
    return f"adapter_file: {written} is not there, or no adapter: a YAML or JSON mapping with `tools`"


def _is_sent(path: KeyPath, sent: Mapping[str, Any]) -> bool:
    """Whether the agent itself wrote this key, or left it out; others come from its `adapter_file`."""
    if "adapter_file" not in sent or path[:1] not in (("tools",), ("health_check",)):
        return True
    inner = sent.get(str(path[0]))
    return inner is not None and (len(path) == 1 or (isinstance(inner, Mapping) and path[1] in inner))


def _dynamic_faults(config: BackendConfig, sent: Mapping[str, Any]) -> list[str]:
    found = [
        f"{dotted(fault.path)}: {fault.found}" + (f" (allowed: {fault.allowed})" if fault.allowed else "")
        if _is_sent(fault.path, sent)
        else _unusable(sent["adapter_file"])
        for fault in value_faults(config)
        if fault.severity == "error"
    ]
    if config.transport == "python":
        found.append("module: code inside the gateway's own process is only taken from the configuration")
    if config.health_check is not None and config.transport != "cli-adapter":
        found.append("health_check: is the check of a CLI adapter, and this backend has none of its `tools`")
    if config.oauth is not None:
        found.append("oauth: logins are made for backends of the configuration only")
    if config.prerequisite is not None and config.transport != "stdio":
        found.append("prerequisite: starts a command, so it is only taken beside `command`")
    return found


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in _strings(inner)]
    return []
