"""Values that `gatemini secret set` keeps: one private file each, read by `${input:NAME}`.

A folder beside the configuration, mode 0700, files 0600. Above: cli, importing, build. Below: `own_files.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gatemini.errors import ConfigError
from gatemini.processes.own_files import replace_own

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")


@dataclass(frozen=True, slots=True)
class SecretStore:
    """The stored inputs in one folder."""

    folder: Path

    def path(self, name: str) -> Path:
        """Where a value lies. Raises `ConfigError` for a name that is no file name."""
        if not _NAME.match(name):
            raise ConfigError(
                f"{name!r} is no secret name", hint="Use letters, digits, _, - and dots, at most 100."
            )
        return self.folder / name

    def put(self, name: str, value: str) -> Path:
        """Keep a value; the file is never readable by others, not even for a moment."""
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


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file by this text, on the disk once this returns."""
    replace_own(path, text.encode(), mode=mode, lasting=True)
