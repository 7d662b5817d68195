"""One backend as some file wrote it, in our own key names, with the way back to the file's lines.

The native format and every client's format become entries; from there on there is one path. Above: build,
load, clients. Below: document, problems.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Literal

from gatemini.config.document import Document
from gatemini.config.problems import KeyPath, Problem, dotted

_OWN_NAME = "gatemini"
_VERSION = re.compile(r"(?:@|==|~=|>=).*\Z|\[.*\]\Z")
_MAX_NESTED_SHELLS = 3
EDITOR_WORDS = frozenset(
    ("file", "fileBasename", "fileBasenameNoExtension", "fileDirname", "fileDirnameBasename", "fileExtname",
     "fileWorkspaceFolder", "relativeFile", "relativeFileDirname", "lineNumber", "columnNumber", "selectedText",
     "execPath", "defaultBuildTask")
)  # fmt: skip
"""What an editor knows of the file it shows; no variable of the environment is called so by chance."""
GUESSED_WORDS = frozenset(("workspaceFolder", "workspaceRoot", "cwd", "workspaceFolderBasename"))
"""What an editor fills in from the folder it has open; a gateway takes the folder of the file."""


def guessed_word(word: str, value: str) -> str:
    """What is said where such a word is read, or written out by an import."""
    return f"${{{word}}} is read as {value}: here no editor says which folder is open"


@dataclass(slots=True)
class Entry:
    """A backend before anything is put in. `renamed` maps our top keys to where the file has them."""

    name: str
    raw: dict[str, Any]
    document: Document
    prefix: KeyPath
    renamed: Mapping[str, KeyPath] = field(default_factory=dict)
    dollars: bool = True
    words: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    notes: list[Problem] = field(default_factory=list)
    from_env_file: frozenset[str] = frozenset()
    """Names in `env` whose values an `envFile` gave: such files hold keys, so the values are hidden like them."""
    env_file: Path | None = None

    def source_path(self, path: KeyPath) -> KeyPath:
        """A path in our names (`("url",)`) as the file has it (`("mcpServers", "a", "httpUrl")`)."""
        if path and isinstance(path[0], str) and path[0] in self.renamed:
            return (*self.prefix, *self.renamed[path[0]], *path[1:])
        return (*self.prefix, *path)

    def problem(
        self,
        path: KeyPath,
        found: str,
        *,
        allowed: str = "",
        remedy: str = "",
        severity: Literal["error", "warning"] = "error",
        unresolved: bool = False,
    ) -> Problem:
        """A finding at one of this entry's keys."""
        full = self.source_path(path)
        line = self.document.line(full)
        return Problem(
            str(self.document.path), line, dotted(full), found, allowed, remedy, severity, unresolved
        )

    @property
    def is_self(self) -> bool:
        """Whether this entry starts this very gateway, which would start itself without end."""
        command = self.raw.get("command")
        if not isinstance(command, str):
            return False
        args = self.raw.get("args")
        words = [command, *(str(a) for a in args)] if isinstance(args, list) else [command]
        return program(words) == _OWN_NAME


def program(words: Sequence[str], depth: int = 0) -> str:
    """What a command line really runs: `uvx --from x gatemini` → `gatemini`, `python -m a.b` → `a`."""
    words = [w for w in words if w]
    if not words:
        return ""
    name = _base(words[0])
    rest = list(words[1:])
    if depth > _MAX_NESTED_SHELLS:
        return name
    if re.fullmatch(r"python(?:w|\d(?:\.\d+)?)?|py", name):
        return _python(rest)
    if name in ("sh", "bash", "zsh", "dash", "fish", "cmd", "powershell", "pwsh"):
        return _shell(name, rest, depth)
    if name in ("env", "nohup", "nice", "exec", "sudo", "command", "timeout"):
        while rest and (rest[0].startswith("-") or "=" in rest[0] or rest[0].isdigit()):
            rest.pop(0)
        return program(rest, depth + 1)
    if name in ("uvx", "pipx", "uv", "npx", "bunx", "poetry", "hatch", "rye", "pdm", "mise"):
        return _runner(rest, depth)
    return name


def _base(word: str) -> str:
    """`/usr/bin/gatemini`, `gatemini.exe`, `gatemini@latest` → `gatemini`."""
    path = PureWindowsPath(word) if "\\" in word else PurePath(word)
    name = path.name.lower()
    for suffix in (".exe", ".cmd", ".bat"):
        name = name.removesuffix(suffix)
    return _VERSION.sub("", name) if not name.startswith("@") else name


def _python(rest: list[str]) -> str:
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-m":
            return rest[0].split(".")[0] if rest else ""
        if option.startswith("-m") and len(option) > 2:
            return option[2:].split(".")[0]
        if option in ("-X", "-W") and rest:
            rest.pop(0)
        if option == "-c":
            return "python"
    return _base(rest[0]).removesuffix(".py") if rest else "python"


def _shell(name: str, rest: list[str], depth: int) -> str:
    if name == "cmd":
        while rest and rest[0].startswith("/"):
            rest.pop(0)
        return program(rest, depth + 1)
    for at, word in enumerate(rest):
        if word in ("-c", "-lc", "-ic", "-Command") and at + 1 < len(rest):
            try:
                return program(shlex.split(rest[at + 1]), depth + 1)
            except ValueError:
                return name
    return name


_RUNNER_VALUES = frozenset(
    ("--from", "--with", "--with-editable", "--python", "-p", "--directory", "--project", "--index", "--index-url",
     "--extra-index-url", "--spec", "--package", "--cwd", "-C", "--env-file", "--extra", "--group", "-c")
)  # fmt: skip


def _runner(rest: list[str], depth: int) -> str:
    """The first word that is no option, option value or subcommand of a package runner."""
    while rest:
        word = rest.pop(0)
        if word in _RUNNER_VALUES:
            if rest:
                rest.pop(0)
        elif not word.startswith("-") and word not in ("run", "tool", "x", "exec"):
            return program([word, *rest], depth + 1)
    return ""
