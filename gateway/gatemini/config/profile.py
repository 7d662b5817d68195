"""Profiles: `developer` changes nothing, `locked` sets the defaults of a gateway that a security review has approved.

`locked` is a whole: a key of the file that weakens it is an error, unless `profile_exceptions` names it with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gatemini.config.model.backend import BackendConfig
from gatemini.config.model.policy import PolicyConfig
from gatemini.config.model.schema import Config
from gatemini.config.problems import KeyPath

LOCKED = "locked"
RUNS_FOR_SECRETS = "secrets.commands"
"""The key whose exception also lets the presets run their programs."""


@dataclass(frozen=True, slots=True)
class Locked:
    """One key that `locked` sets, the values that do not weaken it, and these values in words."""

    key: str
    value: Any
    keeps: Callable[[Any], bool]
    allowed: str

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.key.split("."))


def _only(value: Any) -> tuple[Any, Callable[[Any], bool], str]:
    word = str(value).lower() if isinstance(value, bool) else str(value)
    return value, lambda found: bool(found == value), word


TABLE = (
    Locked("policy.default", *_only("deny")),
    Locked("policy.read_only", *_only(True)),
    Locked("policy.pins", *_only("enforce")),
    Locked("policy.flow", *_only("deny")),
    Locked(
        "policy.approvals.via",
        ("console", "webhook"),
        lambda found: "client" not in found,
        "console, webhook: a client's word is no proof of a person",
    ),
    Locked("audit.path", Path("audit"), lambda found: found is not None, "a folder"),
    Locked("audit.on_failure", *_only("block")),
    Locked("audit.fsync", *_only("each")),
    Locked("registration.http", *_only("deny")),
    Locked("registration.stdio", *_only("deny")),
    Locked("registration.cli", *_only("deny")),
    Locked("sandbox.isolation", *_only("process")),
    Locked("sandbox.guests_per_process", *_only(1)),
    Locked("secrets.strict", *_only(True)),
    Locked(RUNS_FOR_SECRETS, {}, lambda found: not found, "none: no program is run for a secret"),
)
"""In the order of the sections."""

Finding = tuple[KeyPath, str, str]
"""Key, what was found, what is allowed."""


def lock(sections: Mapping[str, Any], exceptions: Iterable[str]) -> tuple[dict[str, Any], list[Finding]]:
    """Return the sections with the defaults of `locked`, and the keys of the file that weaken it."""
    locked = dict(sections)
    findings: list[Finding] = []
    for row in TABLE:
        section, *rest = row.path
        model = locked.get(section)
        if model is None:
            model = PolicyConfig() if section == "policy" else getattr(Config(), section)
        written = _written(model, rest)
        if written is None:
            model = _with(model, rest, row.value)
        elif not row.keeps(written[0]) and row.key not in exceptions:
            findings.append(
                (row.path, f"found {_shown(written[0])}, which weakens profile: locked", row.allowed)
            )
        locked[section] = model
    return locked, findings


def shells(backends: Mapping[str, BackendConfig | None], exceptions: Iterable[str]) -> Iterator[Finding]:
    """Yield the CLI tools that run through a shell."""
    for name, backend in backends.items():
        for tool, template in backend.cli_tools.items() if backend is not None else ():
            path = ("backends", name, "tools", tool, "shell")
            if template.shell and ".".join(path) not in exceptions:
                yield path, "found true, which weakens profile: locked", "false"


def is_locked_key(name: str) -> bool:
    """Return whether `locked` fixes a key of that name."""
    parts = name.split(".")
    of_tool = len(parts) == 5 and (parts[0], parts[2], parts[4]) == ("backends", "tools", "shell")
    return of_tool or name in {row.key for row in TABLE}


def _written(model: BaseModel, path: list[str]) -> tuple[Any] | None:
    """The value that the file has at a path, or None where it has none."""
    value: Any = model
    for part in path:
        if not isinstance(value, BaseModel) or part not in value.model_fields_set:
            return None
        value = getattr(value, part)
    return (value,)


def _with(model: BaseModel, path: list[str], value: Any) -> BaseModel:
    first, *rest = path
    inner = _with(getattr(model, first), rest, value) if rest else value
    return model.model_copy(update={first: inner})


def _shown(value: Any) -> str:
    if isinstance(value, dict | tuple | list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
