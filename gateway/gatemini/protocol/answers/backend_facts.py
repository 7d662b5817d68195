"""What discovery knows of tools and backends beyond the lists of tools.

Types of results learnt from calls, backends' instructions, and the keys that backends need.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gatemini.backends.manager import Manager
from gatemini.config.load import Loaded
from gatemini.config.model.schema import BackendConfig
from gatemini.discovery.types.identifiers import COMPOSITE_BACKEND
from gatemini.discovery.types.seen import SeenResults
from gatemini.model import Tool
from gatemini.text.hidden import without_comments

Keys = tuple[Iterable[str], Iterable[str]]
"""Names of the keys that a backend needs, and of those without a value."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What answers about tools ask for; the defaults know nothing."""

    typed: Callable[[Tool], Tool] = lambda tool: tool
    """Returns a tool with the type of its results, where one was learnt."""
    instructions: Callable[[str], str] = lambda backend: ""
    """Returns what a backend says about its use; empty where it says nothing."""


NO_FACTS = Facts()


class BackendFacts:
    """The facts of one gateway."""

    def __init__(
        self,
        manager: Manager,
        loaded: Callable[[], Loaded],
        seen: SeenResults,
        withheld: Callable[[str], bool] = lambda backend: False,
    ) -> None:
        self._withheld = withheld
        """Whether nothing of a backend may be shown."""
        self._manager = manager
        self._loaded = loaded
        self.facts = Facts(seen.typed, self._instructions)

    def _instructions(self, backend: str) -> str:
        known = backend in self._manager.names() and not self._withheld(backend)
        said = (self._manager.status(backend).instructions or "").strip() if known else ""
        return without_comments(said)

    def keys(self, backend: str) -> Keys:
        """Return (names of the variables that a backend needs, names of those without a value)."""
        if backend == COMPOSITE_BACKEND:
            return (), ()
        known = self._loaded().keys.get(backend)
        if known is not None:
            return known.keys, known.missing
        return keys_of(self._manager.config(backend), os.environ)


def keys_of(config: BackendConfig, environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return (the keys of a registered backend, those of them that are not set): names only, never a value.

    Configured backends refer to variables too; for them the loader has the keys.
    """
    own = {**config.env, **config.headers}
    names = list(dict.fromkeys([*own, *config.required_keys]))
    return names, [name for name in names if not (own[name] if name in own else environ.get(name))]
