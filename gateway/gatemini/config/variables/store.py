"""Values that `gatemini secret set` stores, for `${input:NAME}`: one file of mode 0600 each in a folder of mode 0700."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gatemini.errors import ConfigError
from gatemini.processes.own_files import write_private

STORE = "secrets"
"""The folder beside the configuration."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")


@dataclass(frozen=True, slots=True)
class SecretStore:
    """The stored values in one folder."""

    folder: Path

    def path(self, name: str) -> Path:
        """The file of a value. Raises `ConfigError` for a name that cannot be a file name."""
        if not _NAME.match(name):
            raise ConfigError(
                f"{name!r} is not a secret name", hint="Use letters, digits, _, - and dots, at most 100."
            )
        return self.folder / name

    def put(self, name: str, value: str) -> Path:
        """Store a value; the file is never readable by others, not even for a moment."""
        path = self.path(name)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)
        write_private(path, value + "\n")
        return path

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(p.name for p in self.folder.iterdir() if p.is_file() and _NAME.match(p.name))

    def remove(self, name: str) -> bool:
        path = self.path(name)
        if not path.is_file():
            return False
        path.unlink()
        return True
