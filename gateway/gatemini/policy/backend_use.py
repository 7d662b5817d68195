"""Whether a principal could use a backend at all: one that could not is not shown that there is such a backend."""

from __future__ import annotations

import re
from dataclasses import replace

from gatemini.config.model.backend import BackendConfig
from gatemini.model import GET_PROMPT, LIST_RESOURCES, READ_RESOURCE, Tool, member
from gatemini.policy.client_grant import may_reach
from gatemini.policy.door import Door
from gatemini.policy.principal import Principal
from gatemini.policy.rules.hints import HARMLESS

_WILD = re.compile(r"[*?\[]")


def may_use(door: Door, backend: BackendConfig, who: Principal, *, listed: bool) -> bool:
    """Whether a principal that is shown no tool of a backend might still use it: read its resources or prompts.

    `listed`: whether its tools are known. While they are not, it counts as usable if the rules might admit some tool.
    """
    name, space = backend.name, backend.namespace
    readings = (
        member(name, each, space, backend.tags) for each in (READ_RESOURCE, LIST_RESOURCES, GET_PROMPT)
    )
    if any(door.possible(each, who).action != "deny" for each in readings):
        return True
    if listed or not may_reach(who.grant, name):
        return False
    unknown = door.facts(Tool(name, "", namespace=space, tags=backend.tags), {}, who, "", "")
    if door.rules.possible(replace(unknown, hints=HARMLESS)).action != "deny":
        return True
    return any(
        rule.action != "deny" and (not rule.tools or any(_meets(glob, name, space) for glob in rule.tools))
        for rule in door.rules.config.rules
    )


def _meets(glob: str, name: str, space: str | None) -> bool:
    """Whether a glob may mean a tool of this backend."""
    begin = _WILD.split(glob)[0]
    names = [f"{each}." for each in (name, space) if each]
    return any(begin.startswith(each) or each.startswith(begin) for each in names)
