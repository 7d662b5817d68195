"""Entries: one backend each as a file has it, in our key names, with its lines. Every file format becomes entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatemini.config.command_words import starts_gatemini
from gatemini.config.documents.document import Document
from gatemini.config.problems import KeyPath, Problem

GUESSED_WORDS = frozenset(("workspaceFolder", "workspaceRoot", "cwd", "workspaceFolderBasename"))
"""Words for the folder that an editor has open; a gateway takes the folder of the configuration file."""


@dataclass(slots=True)
class Entry:
    """A backend before variables are put in.

    `renamed` maps our top keys to those of the file, `places` single values in them (`("args", 0)`).
    """

    name: str
    raw: dict[str, Any]
    document: Document
    prefix: KeyPath
    renamed: Mapping[str, KeyPath] = field(default_factory=dict)
    places: dict[KeyPath, KeyPath] = field(default_factory=dict, kw_only=True)
    dollars: bool = True
    words: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    notes: list[Problem] = field(default_factory=list)
    from_env_file: frozenset[str] = frozenset()
    """Names in `env` that come from an `envFile`: such files hold keys, so their values are secrets."""
    env_file: Path | None = None

    def source_path(self, path: KeyPath) -> KeyPath:
        """A path in our names (`("url",)`) as the file has it (`("mcpServers", "a", "httpUrl")`)."""
        if path[:2] in self.places:
            return (*self.prefix, *self.places[path[:2]], *path[2:])
        if path and isinstance(path[0], str) and path[0] in self.renamed:
            return (*self.prefix, *self.renamed[path[0]], *path[1:])
        return (*self.prefix, *path)

    def problem(self, path: KeyPath, found: str, **more: Any) -> Problem:
        """A finding at a key of this entry; `more` as in `Document.problem`."""
        return self.document.problem(self.source_path(path), found, **more)

    @property
    def is_self(self) -> bool:
        """Whether this entry starts this gateway, which would start itself without end."""
        return starts_gatemini(self.raw.get("command"), self.raw.get("args"))
