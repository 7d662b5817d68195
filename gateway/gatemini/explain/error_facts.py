"""What hints are made from: the error as it arrived, and what is known about its program and backends."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gatemini.discovery.types.identifiers import backend_identifier
from gatemini.explain.source_lines import line_at
from gatemini.text.escape import visible
from gatemini.text.shorten import listed, shorten
from gatemini_sandbox.messages import Read

SHOWN_REASON: Final = 400
"""Characters shown of the reason why a backend is not there."""

AROUND: Final = 400
"""Characters looked at on either side of an error's place."""

SEARCHED: Final = 100_000
"""Characters of the code in which a declaration is looked for."""


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """An error as it arrived. `source` is the submitted text; `line` and `column` are 1-based places in it.

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
        """The line of the error; of a very long one, the part around the column."""
        return self._around()[0]

    @property
    def at(self) -> int:
        """Where in `source_line` the error is, 0-based."""
        return self._around()[1]

    def _around(self) -> tuple[str, int]:
        text = (line_at(self.source, self.line) or "") if self.line else ""
        column = max(0, (self.column or 1) - 1)
        start = max(0, column - AROUND) if len(text) > 2 * AROUND else 0
        return text[start : start + 2 * AROUND], column - start


@dataclass(frozen=True, slots=True)
class BackendState:
    """The state of a backend (`starting`, `ready`, `stopped`, `crashed`), its error and its last stderr lines."""

    state: str
    error: str | None = None
    stderr: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What parsing the code found. A place is (line, column); a value adds its text."""

    shadowed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    declared_never_called: str | None = None
    lost_value: tuple[int, int, str] | None = None
    returned: Sequence[tuple[int, int, str]] = ()
    """What may have given the value; filled in only where that is undefined."""
    source: str = ""


def _nothing(_: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class HintContext:
    """What is known around an error. Functions of two names take a backend and its tool."""

    backends: Mapping[str, str] = field(default_factory=dict)
    """Global identifier → name."""
    tools: Callable[[str], Sequence[str]] = _nothing
    """The names of a backend's tools."""
    owners: Callable[[str], Sequence[str]] = _nothing
    """The qualified names of the tools with a bare name."""
    signature: Callable[[str, str], str | None] = lambda _backend, _tool: None
    arguments: Callable[[str, str], str] = lambda _backend, _tool: ""
    """A tool's arguments in short: `{a: number}`."""
    state: Callable[[str], BackendState | None] = lambda _: None
    last_result: Callable[[str, str], str | None] = lambda _backend, _tool: None
    """The JSON text of a tool's last result."""
    results: Callable[[str, str], Sequence[str] | None] = lambda _backend, _tool: None
    """The JSON texts of all its results; None where one is not kept."""
    declared: Callable[[str, str], Mapping[str, Collection[str] | None]] = lambda _backend, _tool: {}
    """The members that its output schema names, each with the texts it can be; None where it can be anything else."""
    program: ProgramFacts = field(default_factory=ProgramFacts)
    disabled: Mapping[str, str] = field(default_factory=dict)
    """The configured backends that do not run, each with the reason."""
    reads: Sequence[Read] = ()
    """What the code reads of results."""

    def not_running(self, name: str) -> str | None:
        """Why a backend of this name, or of this identifier in code, does not run; None if none is configured."""
        found = next((known for known in self.disabled if name in (known, backend_identifier(known))), None)
        if found is None:
            return None
        return f"the backend {found} is not running: {shorten(visible(self.disabled[found]), SHOWN_REASON)}"

    def identifier(self, backend: str) -> str | None:
        """The global of a backend in code."""
        return next((known for known, name in self.backends.items() if name == backend), None)

    @property
    def available(self) -> str:
        """The backends as code spells them."""
        return f"backends available: {listed(self.backends)}" if self.backends else "no backend is available"


Rule = Callable[[ErrorFacts, HintContext], str | None]
"""Says what to change, or None where it knows nothing about this error."""


def first_hint(rules: Sequence[Rule], error: ErrorFacts, context: HintContext) -> str | None:
    """What the first rule says that knows something about the error."""
    return next((said for rule in rules if (said := rule(error, context))), None)


def is_declared(name: str, source: str) -> bool:
    """Whether the code seems to declare a variable or function of this name, also by taking an object apart."""
    declares = (
        rf"\b(?:const|let|var|function|class)\s+(?:\{{[^{{}}=]*\b|\[[^\[\]=]*\b)?{re.escape(name)}(?![\w$])"
    )
    return re.search(declares, source[:SEARCHED]) is not None
