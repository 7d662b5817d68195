"""What a command line really starts, behind shells, interpreters and package runners."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Any

_OWN_NAME = "gatemini"
_VERSION = re.compile(r"(?:@|==|~=|>=).*\Z|\[.*\]\Z")


def starts_gatemini(command: Any, args: Any) -> bool:
    """Whether a command with these arguments starts this program."""
    if not isinstance(command, str):
        return False
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
