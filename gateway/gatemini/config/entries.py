"""Entries: one backend each as a file has it, in our key names, with its lines. Every file format becomes entries."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

from gatemini.config.documents.document import Document
from gatemini.config.problems import KeyPath, Problem

_OWN_NAME = "gatemini"
_VERSION = re.compile(r"(?:@|==|~=|>=).*\Z|\[.*\]\Z")
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
        command = self.raw.get("command")
        if not isinstance(command, str):
            return False
        args = self.raw.get("args")
        words = [command, *(str(a) for a in args)] if isinstance(args, list) else [command]
        return program(words) == _OWN_NAME


def program(words: Sequence[str]) -> str:
    """What a command line really runs: `uvx --from x gatemini` → `gatemini`, `python -m a.b` → `a`."""
    first, *rest = [word for word in words if word] or [""]
    runner = _base(first)
    is_python = _PYTHON.fullmatch(runner) is not None
    while rest and (is_python or runner in _RUNNERS):
        word, *rest = rest
        if word in ("-c", "-lc", "-ic", "-Command", "/c") and runner in _SHELLS and rest:
            try:
                return program(shlex.split(rest[0]) if runner != "cmd" else rest)
            except ValueError:
                return runner
        if runner in _SHELLS or (word == "-c" and is_python):
            return runner
        if word == "-m":
            return rest[0].partition(".")[0] if rest else ""
        if word in _OPTIONS_WITH_VALUE:
            rest = rest[1:]
        elif not word.startswith("-") and "=" not in word.partition("==")[0] and word not in _VERBS:
            return program([word.removesuffix(".py"), *rest])
    return "" if runner in _RUNNERS and runner not in _SHELLS else runner


def _base(word: str) -> str:
    """`/usr/bin/gatemini`, `gatemini.exe`, `gatemini@latest` → `gatemini`."""
    path = PureWindowsPath(word) if "\\" in word else PurePath(word)
    name = re.sub(r"\.(exe|cmd|bat)\Z", "", path.name.lower())
    return _VERSION.sub("", name) if not name.startswith("@") else name


_PYTHON = re.compile(r"python(?:w|\d(?:\.\d+)?)?|py")
_SHELLS = ("sh", "bash", "zsh", "dash", "fish", "cmd", "powershell", "pwsh")
_RUNNERS = frozenset(
    (*_SHELLS, "env", "nohup", "nice", "exec", "sudo", "command", "timeout", "uvx", "pipx", "uv", "npx", "bunx",
     "poetry", "hatch", "rye", "pdm", "mise")
)  # fmt: skip
_VERBS = ("run", "tool", "x", "exec")
"""Subcommands of package runners."""
_OPTIONS_WITH_VALUE = frozenset(
    ("--from", "--with", "--with-editable", "--python", "-p", "--directory", "--project", "--index", "--index-url",
     "--extra-index-url", "--spec", "--package", "--cwd", "-C", "--env-file", "--extra", "--group", "-X", "-W")
)  # fmt: skip
