"""Compare what was approved with what a backend is now: the state of each tool and prompt, and the reasons in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gatemini.policy.pins.lock_file import BackendPin, ToolPin

State = Literal["approved", "new", "changed", "gone"]

_PARTS = {
    "title": "title",
    "description": "description",
    "input": "input schema",
    "output": "output schema",
    "annotations": "annotations",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of one tool or prompt; `parts` are the parts that changed, `words` what is said of them."""

    state: State
    words: str = ""
    parts: tuple[str, ...] = ()


APPROVED, NEW, GONE = Verdict("approved"), Verdict("new", "it is new"), Verdict("gone", "it is gone")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One backend. With any of `backend` the server itself is another one, and nothing of it is approved."""

    backend: tuple[str, ...] = ()
    tools: Mapping[str, Verdict] = field(default_factory=dict)
    prompts: Mapping[str, Verdict] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether everything is as it was approved."""
        every = (*self.tools.values(), *self.prompts.values())
        return not self.backend and all(verdict.state == "approved" for verdict in every)


def compare(pinned: BackendPin | None, now: BackendPin) -> Comparison:
    """Compare one backend. Parts that are not known now (`source` "", `tools` None) are not judged."""
    if pinned is None:
        return Comparison(
            ("it has never been approved",),
            dict.fromkeys(now.tools or {}, NEW),
            dict.fromkeys(now.prompts or {}, NEW),
        )
    return Comparison(
        tuple(_server(pinned, now)), _each(pinned.tools, now.tools), _each(pinned.prompts, now.prompts)
    )


def _server(pinned: BackendPin, now: BackendPin) -> list[str]:
    changes = []
    for key, what in (("source", "its command or url"), ("server", "its name or version")):
        old, new = getattr(pinned, key), getattr(now, key)
        if new and old != new:
            changes.append(f"{what} was {old or 'unknown'}, is {new}")
    if now.server and pinned.instructions != now.instructions:
        changes.append(f"its instructions {_became(pinned.instructions, now.instructions, 'are')}")
    if now.executable and pinned.executable != now.executable:
        changes.append("its program, or a file among its arguments, changed")
    return changes


def _became(old: str, new: str, verb: str = "is") -> str:
    return "changed" if old and new else f"{verb} gone" if old else f"{verb} new"


def _each(pinned: Mapping[str, ToolPin] | None, now: Mapping[str, ToolPin] | None) -> dict[str, Verdict]:
    if now is None:
        return {}
    known = pinned or {}
    found = {name: _verdict(known.get(name), tool) for name, tool in now.items()}
    return found | {name: GONE for name in known if name not in now}


def _verdict(pinned: ToolPin | None, now: ToolPin) -> Verdict:
    if pinned is None:
        return NEW
    parts = tuple(part for part in _PARTS if getattr(pinned, part) != getattr(now, part))
    if not parts and pinned.hints == now.hints:
        return APPROVED
    hints = _hints(pinned.hints, now.hints)
    named = [part for part in parts if part != "annotations" or not hints]  # hints say how those changed
    words = [f"its {_PARTS[part]} {_became(getattr(pinned, part), getattr(now, part))}" for part in named]
    return Verdict("changed", "; ".join([*words, *hints]), parts)


def _hints(old: Mapping[str, bool], new: Mapping[str, bool]) -> list[str]:
    keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    return [f"{key} was {_switch(old.get(key))}, is {_switch(new.get(key))}" for key in keys]


def _switch(value: bool | None) -> str:
    return "not given" if value is None else str(value).lower()
