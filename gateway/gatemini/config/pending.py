"""Keys that the model has and nothing reads yet: named when a file uses them, never taken in silence.

What would change behaviour a person relies on is an error; what only tunes something is a warning. A test
holds this list to the code: a key that is read must leave it, one that is not read must stand in it. Above:
build, load. Below: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gatemini.config.problems import KeyPath


@dataclass(frozen=True, slots=True)
class Pending:
    """What is missing, and whether a configuration is wrong to count on it."""

    what: str
    severity: Literal["error", "warning"]
    harmless: tuple[Any, ...] = ()

    @property
    def found(self) -> str:
        return f"{self.what} not built yet" + (
            "; the key has no effect" if self.severity == "warning" else ""
        )


PENDING: dict[str, Pending] = {}


def pending_in_backend(raw: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Pending]]:
    """Keys of one backend, in a file's spelling, that nothing reads yet."""
    for pattern, pending in PENDING.items():
        if not pattern.startswith("backends.*."):
            continue
        key = pattern.rpartition(".")[2]
        if key in raw and raw[key] not in pending.harmless:
            yield (key,), pending


def pending_in_section(section: str, value: Any) -> Iterator[tuple[KeyPath, Pending]]:
    """A section itself, or keys one level below it, that nothing reads yet."""
    for pattern, pending in PENDING.items():
        head, _, key = pattern.partition(".")
        if head != section:
            continue
        if not key:
            if value not in pending.harmless:
                yield (section,), pending
        elif isinstance(value, Mapping) and key in value and value[key] not in pending.harmless:
            yield (section, key), pending
