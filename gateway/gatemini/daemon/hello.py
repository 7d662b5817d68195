"""The first line of every connection: version, process, folder, session token and variables of the proxy or command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FEATURES = ("sessions", "drain", "chains")
"""What this daemon can do for a proxy of another version."""
MAX_HELLO_BYTES = 4 << 20
"""The environment of a process is at most 2 MiB on Linux; as JSON it is a little more."""


class Hello(BaseModel):
    """`token` names the session, which survives reconnects; a `control` connection has none."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    gatemini: Literal[1]
    version: str = Field(default="", max_length=100)
    pid: int = 0
    cwd: str = Field(default="", max_length=4096)
    token: str = Field(default="", max_length=100, pattern=r"^[0-9A-Za-z_-]*$")
    returns: bool = False
    """Whether an earlier daemon has served this session."""
    environ: dict[str, str] = Field(default_factory=dict, repr=False)
    control: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)


def read_hello(line: bytes) -> Hello | None:
    """The hello of a line; None where it is none."""
    try:
        return Hello.model_validate_json(line)
    except ValidationError:
        return None


@dataclass(slots=True)
class Variables:
    """The client's variables that the configuration names: the first value of each holds until a restart."""

    names: frozenset[str] = frozenset()
    held: dict[str, str] = field(default_factory=dict)
    differing: set[str] = field(default_factory=set)
    """Names of which a later client brought another value."""

    def compare(self, environ: Mapping[str, str]) -> None:
        self.differing |= {
            name for name in self.names if name in environ and environ[name] != self.held.get(name)
        }
