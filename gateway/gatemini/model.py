"""The values that all packages share: a tool, and the outcome of a call. JSON stays plain dicts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

Json = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a backend as listed, with its name unchanged, and repaired.

    `input_schema` is always an object schema; `repairs` lists what was repaired, in short sentences.
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
        """The name that identifies the tool: `backend.tool`, or `namespace.tool` if the backend has a namespace."""
        return f"{self.namespace or self.backend}.{self.name}"

    @property
    def read_only(self) -> bool:
        return self.annotations.get("readOnlyHint") is True

    @property
    def repeatable(self) -> bool:
        """Whether a second call has no further effect."""
        return self.read_only or self.annotations.get("idempotentHint") is True

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the required parameters, in the schema's order; unknown forms count as none."""
        names = self.input_schema.get("required")
        return tuple(dict.fromkeys(n for n in names if isinstance(n, str))) if isinstance(names, list) else ()


READ_RESOURCE: Final = "readResource"
LIST_RESOURCES: Final = "listResources"
GET_PROMPT: Final = "getPrompt"

READING: Final[Json] = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
"""Annotations of these members. The protocol says so, but a backend keeps to it only as it does to its own hints."""


def member(backend: str, name: str, namespace: str | None = None, tags: tuple[str, ...] = ()) -> Tool:
    """Return the reading of a backend's resources or prompts as a tool, for decisions and records."""
    return Tool(backend, name, namespace=namespace, tags=tags, annotations=READING)


@dataclass(frozen=True, slots=True)
class Offer(Tool):
    """A resource or prompt of a backend: found by search beside tools, and read instead of called.

    `uri` is the address (or address template) of a resource; `input_schema` has the arguments of a prompt.
    """

    kind: Literal["resource", "prompt"] = "resource"
    uri: str = ""

    def renamed(self, name: str) -> Offer:
        return self if name == self.name else replace(self, name=name)


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What a backend answered to one tool call.

    `result` is the MCP `CallToolResult` as a dict (`content` always a list; `structuredContent`, as a
    `large_messages.Written` where it is large, `isError`, `_meta` when sent); `notes` say what the wire layer repaired; `ms` is the time at the backend;
    `bytes` the size of the answer on the wire (0: not known); `answered_by` the backend that answered instead.
    """

    result: Json
    ms: float
    notes: tuple[str, ...] = ()
    bytes: int = 0
    answered_by: str | None = None
