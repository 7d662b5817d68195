"""Values inside of an entry by their path, with secrets put into a URL, and what to say of one without a value."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from gatemini.config.problems import KeyPath
from gatemini.config.variables.interpolate import Reference
from gatemini.config.variables.references import SECRETREF


def missing(reference: Reference) -> tuple[str, str, str]:
    if reference.kind == "input":
        return f"the input {reference.name} needs `gatemini secret set {reference.name}`", "", ""
    if reference.kind == "word":
        return f"${{{reference.name}}} has no meaning outside an editor", "", "Write the path out"
    return f"{reference.name} is not set", "", f"Set {reference.name} in the environment or a .env file"


def encoded(text: str, found: list[tuple[str, str]]) -> str:
    """A URL with each secret percent-encoded."""
    values = iter(found)
    return SECRETREF.sub(lambda _: quote(next(values)[1], safe=""), text)


def get_in(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def set_in(value: Any, path: KeyPath, new: str) -> None:
    get_in(value, path[:-1])[path[-1]] = new
