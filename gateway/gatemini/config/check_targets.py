"""Check that the targets of aliases and policy rules and the calls of composite tools exist, before a chain meets them.

Which tools a backend has is known only once it runs: that half is `gatemini doctor`'s. The code of composite tools is
parsed by the sandbox package, in another process.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from gatemini.config.model.policy import PolicyConfig
from gatemini.config.model.schema import CompositeTool
from gatemini.config.problems import KeyPath, closest
from gatemini.discovery.types.identifiers import (
    COMPOSITE_BACKEND,
    RESERVED,
    UNREACHABLE_MEMBERS,
    spoken,
)
from gatemini_sandbox.check import check_codes

_WILD = re.compile(r"[*?\[]")
_OF_BACKENDS = UNREACHABLE_MEMBERS | {"readResource"}
"""What a backend's object has beside its tools."""


def missing_targets(
    aliases: Mapping[str, str], backends: Collection[str], composites: Collection[str]
) -> Iterator[tuple[KeyPath, str]]:
    """Aliases whose target cannot be a tool: (key, what was found). `backends` with their namespaces."""
    own = (f"{COMPOSITE_BACKEND}.", f"{spoken(COMPOSITE_BACKEND)}.")
    for alias, target in aliases.items():
        space = next((b for b in sorted(backends, key=len, reverse=True) if target.startswith(f"{b}.")), None)
        if space is not None:
            continue
        if target.startswith(own):
            name = target.partition(".")[2]
            if name not in composites:
                yield ("aliases", alias), f"there is no composite tool {name}{_near(name, composites)}"
        else:
            name = target.partition(".")[0]
            yield ("aliases", alias), f"there is no backend {name}{_near(name, backends)}"


def missing_backends(policy: PolicyConfig, backends: Collection[str]) -> Iterator[tuple[KeyPath, str]]:
    """Globs of the policy whose backend does not exist: (key, what was found). `backends` with their namespaces."""
    places: list[tuple[KeyPath, str]] = [
        (("policy", "rules", number, "tools", at), glob)
        for number, rule in enumerate(policy.rules)
        for at, glob in enumerate(rule.tools or ())
    ]
    places += [(("policy", "override_annotations", glob), glob) for glob in policy.override_annotations]
    places += [
        (("policy", "trust_annotations", at), name) for at, name in enumerate(policy.trust_annotations)
    ]
    for path, glob in places:
        name = glob.partition(".")[0]
        if name not in (*backends, spoken(COMPOSITE_BACKEND)) and not _WILD.search(name):
            yield path, f"there is no backend {name}{_near(name, backends)}"


class OutsideCall(NamedTuple):
    """`name.member(…)` where nothing in the code declares `name`; `line` is 1-based."""

    name: str
    member: str
    line: int


def calls_of_tools(tool: CompositeTool) -> list[OutsideCall]:
    """What the code of a composite tool calls outside of itself and the language."""
    (checked,) = check_codes([tool.code])
    return [
        call
        for call in (OutsideCall(*found) for found in checked.calls)
        if call.name not in RESERVED and not call.name.startswith("__") and call.member not in _OF_BACKENDS
    ]


def _near(name: str, names: Collection[str]) -> str:
    near = closest(name, sorted(names))
    return f", did you mean {near}?" if near else ""
