"""The nouns everything else speaks in: a tool, and what a call brought back.

Plain frozen values without behaviour of their own; the wire's JSON stays JSON (dicts), already repaired
by `backends/wire.py`. Above: registry, search, chain, server. Below: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One operation of a backend, as listed (names byte for byte) and repaired.

    `input_schema` is always an object schema; `repairs` says in short sentences what was mended.
    """

    backend: str
    name: str
    description: str = ""
    input_schema: Json = field(default_factory=lambda: {"type": "object"})
    output_schema: Json | None = None
    annotations: Json = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    namespace: str | None = None
    title: str | None = None
    repairs: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        """`backend.tool`, or `namespace.tool` where the backend sets one: the source of truth."""
        return f"{self.namespace or self.backend}.{self.name}"

    @property
    def read_only(self) -> bool:
        return self.annotations.get("readOnlyHint") is True

    @property
    def repeatable(self) -> bool:
        """Whether sending a call twice does no more than sending it once."""
        return self.read_only or self.annotations.get("idempotentHint") is True

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the required parameters, in the schema's order; unknown forms count as none."""
        names = self.input_schema.get("required")
        return tuple(dict.fromkeys(n for n in names if isinstance(n, str))) if isinstance(names, list) else ()


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What a backend answered to one tool call.

    `result` is the MCP `CallToolResult` as a dict (`content` always a list; `structuredContent`, as a
    `piecewise.reading.Written` where it is large, `isError`, `_meta` when sent); `notes` say what the wire layer repaired; `ms` is the time at the backend;
    `bytes` the size of the answer on the wire (0: not known); `answered_by` the backend that answered instead.
    """

    result: Json
    ms: float
    notes: tuple[str, ...] = ()
    bytes: int = 0
    answered_by: str | None = None
