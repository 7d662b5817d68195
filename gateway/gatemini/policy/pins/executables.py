"""Hash the program of a command and the files among its arguments.

They are hashed when the lock file is read, in a thread. After that only size and time are compared, and a file that was
replaced counts as changed until the lock file is read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendError
from gatemini.processes.child_environment import child_environment, find_program

REPLACED = "replaced while the gateway runs"

_State = tuple[tuple[str, int, int, int], ...]


class Executables:
    """Hashes by backend; empty where programs are not pinned."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}
        self._files: dict[str, tuple[list[Path], _State]] = {}

    def read(self, configs: Iterable[BackendConfig]) -> None:
        """Hash the files of all these backends; blocks."""
        self._hashes, self._files = {}, {}
        for config in configs:
            files = files_of(config)
            if files:
                self._files[config.name] = files, _state(files)
                self._hashes[config.name] = _hash(files)

    def of(self, backend: str) -> str:
        """Return the hash of a backend's files, `REPLACED` where they are other ones by now, "" for none."""
        if backend not in self._hashes:
            return ""
        files, state = self._files[backend]
        return self._hashes[backend] if _state(files) == state else REPLACED


def files_of(config: BackendConfig) -> list[Path]:
    """Return the program of a backend and those of its arguments that are files; nothing for one without a command."""
    if not config.command:
        return []
    environment = child_environment(config.env, inherit=config.inherit_env)
    folder = Path(config.cwd or ".")
    try:
        program = [Path(find_program(config.command, environment, config.cwd))]
    except BackendError:
        program = []
    arguments = [folder / str(argument) for argument in config.args if argument and len(str(argument)) < 4096]
    return program + [path for path in arguments if path.is_file()]


def _state(files: Iterable[Path]) -> _State:
    return tuple(_facts(path) for path in files)


def _facts(path: Path) -> tuple[str, int, int, int]:
    try:
        info = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), info.st_ino, info.st_mtime_ns, info.st_size


def _hash(files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            whole.update(b"cannot be read")
    return whole.hexdigest()
