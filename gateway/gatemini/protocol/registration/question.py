"""The text that a person reads before an agent's backend is registered: every key of it, as the agent wrote it.

Nothing that the agent wrote is masked by its name, since a hidden value may be what runs (`sh -c '$TOKEN'`). Only values
of configured secrets are masked, which the sender of the question does.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gatemini.config.model.schema import BackendConfig
from gatemini.config.variables.redaction import Redactor
from gatemini.text.escape import visible

_VALUES_ONLY = ("env", "headers", "url")
"""Keys whose values are data to a server or a program, so that a secret in them may be masked."""


def question(config: BackendConfig, read: Sequence[str] = ()) -> str:
    """Return the question, with each key that is set on a line; control and invisible characters are escaped.

    `read`: sentences on what the session has read before.
    """
    does = "connects to another server" if config.url is not None else "starts programs on this machine"
    lines = [f"  {path}: {visible(value)}" for path, value in _set_keys(_plain(config))]
    return "\n".join(
        [
            f"An agent wants to register the backend {config.name}, which {does}:",
            *lines,
            *(f"Before this it has read {visible(sentence)}" for sentence in read),
            "Do you agree?",
        ]
    )


def masked_words(config: BackendConfig, redactor: Redactor) -> list[str]:
    """Return the keys that decide what runs and that hold a secret, so that the person would not see it."""
    return [
        path
        for path, value in _set_keys(_plain(config))
        if not set(path.split(".")) & set(_VALUES_ONLY) and redactor.redact(value) != value
    ]


def _plain(config: BackendConfig) -> dict[str, Any]:
    plain = config.model_dump(
        mode="json",
        exclude_unset=True,
        exclude={"name": True, "transport": True, "cli_tools": {"__all__": {"input_schema"}}},
    )
    if "cli_tools" in plain:  # under the key that the template has
        plain["tools"] = {**plain.get("tools", {}), **plain.pop("cli_tools")}
    return plain


def _set_keys(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key that is set, as `a.b`, with its value; a command line is one value."""
    if isinstance(value, Mapping):
        value = dict(value)
        if isinstance(value.get("command"), str) and isinstance(value.get("args"), list):
            value["command"] = shlex.join([value["command"], *map(str, value.pop("args"))])
        for key, inner in value.items():
            yield from _set_keys(inner, f"{path}.{visible(str(key))}" if path else visible(str(key)))
    elif isinstance(value, list) and path.rpartition(".")[2] in ("command", "health_check"):
        yield path, shlex.join(map(str, value))
    else:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
