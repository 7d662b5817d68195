"""Command lines for `secretref:command:` and for the known programs op, pass, vault and bws.

Only programs are run: no vendor's protocol and no cryptography is implemented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gatemini.config.variables.errors import SecretUnavailable

PRESETS: Mapping[str, tuple[str, ...]] = {
    "op": ("op", "read", "--no-newline", "op://{arg}"),
    "pass": ("pass", "show", "{arg}"),
    "vault": ("vault", "kv", "get", "-mount=secret", "-field={field}", "{path}"),
    "bws": ("bws",),
}
"""1Password, pass, HashiCorp Vault (KV engine) and Bitwarden Secrets Manager."""
DEFAULT_FIELD = "value"
"""The field that `PATH` without `#FIELD` means."""
_PLACE = re.compile(r"\{(arg|path|field)\}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Run = Callable[[Sequence[str]], str]
"""Runs an argv and returns its stdout; raises SecretUnavailable."""


def argv(words: Sequence[str], argument: str) -> list[str]:
    """Fill `{arg}`, or its parts `{path}#{field}`; without a place the argument becomes the last word."""
    if argument.startswith("-"):
        raise SecretUnavailable("the argument begins with -, which a program reads as an option")
    path, _, field = argument.partition("#")
    values = {"arg": argument, "path": path.strip("/"), "field": field or DEFAULT_FIELD}
    filled = [_PLACE.sub(lambda place: values[place[1]], word) for word in words]
    return filled if filled != list(words) or not argument else [*filled, argument]


def run_preset(program: str, argument: str, run: Run) -> str:
    """The value that a known program gives for `argument`."""
    if program == "bws":
        return _bitwarden(argument.strip("/"), run)
    if program == "op":
        argument = argument.removeprefix("op:").lstrip("/")
    output = run(argv(PRESETS[program], argument))
    return output.split("\n", 1)[0] if program == "pass" else output  # pass keeps the password in line one


def _bitwarden(path: str, run: Run) -> str:
    """`ID`, `KEY` or `PROJECT/KEY`, where PROJECT is a name or an id; bws prints JSON, never a bare value."""

    def ask(*words: str) -> Any:
        try:
            return json.loads(run(("bws", *words, "--output", "json")))
        except ValueError:
            raise SecretUnavailable("bws printed something that is not JSON") from None

    project, _, key = path.rpartition("/")
    if _UUID.fullmatch(key):
        return _value(ask("secret", "get", key), "value")
    found = [row for row in _rows(ask("secret", "list")) if row.get("key") == key]
    if project:
        projects = _rows(ask("project", "list")) if not _UUID.fullmatch(project) else []
        ids = {row.get("id") for row in projects if row.get("name") == project} or {project.lower()}
        found = [row for row in found if row.get("projectId") in ids]
    if len(found) != 1:
        raise SecretUnavailable(
            f"bws lists {len(found) or 'no'} secrets with the key {path}",
            "Write PROJECT/KEY or the secret's id",
        )
    return _value(found[0], "value")


def _rows(answer: Any) -> list[dict[str, Any]]:
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def _value(row: Any, key: str) -> str:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str):
        raise SecretUnavailable(f"bws printed no {key}")
    return value
