"""What a backend is now, in the form in which it is pinned."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gatemini.config.model.schema import BackendConfig
from gatemini.folders import home_folder
from gatemini.model import Json, Offer, Tool
from gatemini.policy.canonical import canonical
from gatemini.policy.pins.lock_file import ToolPin


@dataclass(frozen=True, slots=True)
class Said:
    """What a connected server says of itself."""

    server_info: Json | None = None
    instructions: str | None = None


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, "" for none."""
    return "" if value in (None, "", {}) else hashlib.sha256(canonical(value)).hexdigest()


def pin_of(tool: Tool) -> ToolPin:
    """Return the pin of a tool or a prompt as it is listed now."""
    hints = {key: value for key, value in tool.annotations.items() if isinstance(value, bool)}
    return ToolPin(
        annotations=digest(tool.annotations),
        description=digest(tool.description),
        hints=dict(sorted(hints.items())),
        input=digest(tool.input_schema),
        output=digest(tool.output_schema),
        title=digest(tool.title),
    )


def pins_of(tools: Iterable[Tool]) -> dict[str, ToolPin]:
    """Return the pins by name."""
    return {tool.name: pin_of(tool) for tool in tools}


def prompts_of(offers: Iterable[Offer]) -> list[Offer]:
    """Return the prompts among what a backend offers beside tools."""
    return [offer for offer in offers if offer.kind == "prompt"]


def server_of(info: Json | None) -> str:
    """Return name and version that a server gives itself."""
    given = info or {}
    return " ".join(str(given[key]) for key in ("name", "version") if given.get(key))


def source_of(config: BackendConfig, redact: Callable[[str], str]) -> str:
    """Return where a backend comes from: command line, url or module; without secrets, the home folder as `~`."""
    if config.command:
        source = shlex.join([config.command, *map(str, config.args)])
    else:
        source = str(config.url or config.module or config.transport)
    home = str(home_folder())
    return redact(source.replace(home + os.sep, "~" + os.sep) if home != "~" else source)
