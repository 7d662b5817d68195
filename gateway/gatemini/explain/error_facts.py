"""What hints are made from: the error as it arrived, and what is known around it.

Above: hints.py and names.py (the rules), failure.py (fills these in). Below: places.py,
the spelling of names.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gatemini.chain.places import line_at
from gatemini.types.identifiers import backend_identifier
from gatemini.types.wording import visible

CLOSEST: Final = 3
"""Names suggested for an unknown one."""

LISTED: Final = 12
"""Names listed where all would be too many."""

SHOWN_REASON: Final = 400
"""Characters of the reason why a backend is not there."""

AROUND: Final = 400
"""Characters looked at on either side of an error's place."""


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """An error as it arrived. `source` is the text as submitted, `line` and `column` are its, 1-based.

    `limit` is the code of a limit ("limit.cpu"), `code` that of a gateway or tool error, `given` a hint that
    came with the error.
    """

    name: str
    message: str
    line: int | None = None
    column: int | None = None
    source: str = ""
    limit: str | None = None
    tool: str | None = None
    backend: str | None = None
    code: Any = None
    given: str | None = None

    @property
    def source_line(self) -> str:
        """The line of the error; of a very long one, what stands around the column."""
        text = (line_at(self.source, self.line) or "") if self.line else ""
        start = max(0, (self.column or 1) - AROUND)
        return text if len(text) <= 2 * AROUND else text[start : start + 2 * AROUND]


@dataclass(frozen=True, slots=True)
class BackendState:
    """How a backend is: `starting`, `ready`, `stopped`, `crashed` …, its error and its last stderr lines."""

    state: str
    error: str | None = None
    stderr: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What the parse of the code told: places are (line, column), an un-awaited call also has its text."""

    shadowed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unawaited: Sequence[tuple[int, int, str]] = ()
    declared_never_called: str | None = None
    lost_value: tuple[int, int, str] | None = None
    returned: Sequence[tuple[int, int, str]] = ()
    """What may have given the value; looked up only when that is undefined."""
    source: str = ""


def _nothing(_: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class HintContext:
    """What is known around the error. `backends`: global identifier → name; `tools`: a backend's tool names;
    `owners`: the qualified names of tools with this bare name; `signature` and `state` by name, None if unknown;
    `brought`: the JSON text of what the last call of a tool (as the code spells it) brought; `disabled`: the
    configured backends that are not there, each with the reason.
    """

    backends: Mapping[str, str] = field(default_factory=dict)
    tools: Callable[[str], Sequence[str]] = _nothing
    owners: Callable[[str], Sequence[str]] = _nothing
    signature: Callable[[str, str], str | None] = lambda _backend, _tool: None
    state: Callable[[str], BackendState | None] = lambda _: None
    brought: Callable[[str, str], str | None] = lambda _backend, _tool: None
    program: ProgramFacts = field(default_factory=ProgramFacts)
    disabled: Mapping[str, str] = field(default_factory=dict)

    def lost(self, name: str) -> str | None:
        """Why a backend of this name, or of this identifier in code, is not there; None: nobody configured it."""
        found = next((known for known in self.disabled if name in (known, backend_identifier(known))), None)
        if found is None:
            return None
        return f"the backend {found} is not running: {shortened(visible(self.disabled[found]), SHOWN_REASON)}"

    @property
    def available(self) -> str:
        """The backends as code spells them."""
        return f"backends available: {listed(self.backends)}" if self.backends else "no backend is available"


Rule = Callable[[ErrorFacts, HintContext], str | None]
"""Says what to change, or None where it has nothing to say about this error."""


def close_to(name: str, known: Iterable[str], ratio: float = 0.6) -> list[str]:
    """The known names closest to this one, best first."""
    return difflib.get_close_matches(name, list(dict.fromkeys(known)), CLOSEST, ratio)


def listed(names: Iterable[str]) -> str:
    """Names with commas; of many the first, and how many there are."""
    every = list(dict.fromkeys(names))
    shown = ", ".join(every[:LISTED])
    return f"{shown}, … ({len(every)} in all)" if len(every) > LISTED else shown


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
