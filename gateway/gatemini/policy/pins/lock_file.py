"""`gatemini.lock.yaml`: the approved state of every backend, made for review in git.

Sorted, one key a line. Long parts are hashes; what a reviewer wants to read (source, version, hints) is in clear.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gatemini.errors import ConfigError
from gatemini.processes.own_files import NotOurs, read_own, replace_own

MAX_BYTES = 32 << 20
"""A larger file is not ours."""
_HEAD = b"# What each server was when it was approved; written by `gatemini pin`. Review a change like one of code.\n"


class ToolPin(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One tool or prompt: SHA-256 of each part, "" for a part it has not. `hints` are its annotations that are switches."""

    annotations: str = ""
    description: str = ""
    hints: dict[str, bool] = {}
    input: str = ""
    output: str = ""
    title: str = ""


class BackendPin(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One backend. `tools` and `prompts` are None where they have not been listed yet."""

    source: str = ""
    """Its command or url, without secrets."""
    server: str = ""
    """Name and version that the server gives itself."""
    instructions: str = ""
    """SHA-256 of its instructions."""
    executable: str = ""
    """SHA-256 of its program and of the files among its arguments, where `policy.pin_executables` wants it."""
    tools: dict[str, ToolPin] | None = None
    prompts: dict[str, ToolPin] | None = None


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    version: int = 1
    backends: dict[str, BackendPin] = {}


def read_lock(path: Path) -> Lock | None:
    """Return what the file holds, None where there is none. Raises ConfigError for anything that is no lock file."""
    try:
        lock = msgspec.yaml.decode(read_own(path, MAX_BYTES), type=Lock)
    except FileNotFoundError:
        return None
    except (NotOurs, msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = f"restore {path.name} from your repository, or delete it and run `gatemini pin`"
        raise ConfigError(f"{path}: not a lock file: {error}", hint=hint) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if lock.version != 1:
        raise ConfigError(f"{path}: version {lock.version} of the lock file is not known, only 1")
    return lock


def write_lock(path: Path, lock: Lock) -> None:
    """Replace the file. Raises OSError."""
    replace_own(path, _HEAD + msgspec.yaml.encode(lock, order="sorted"), mode=0o644, lasting=True)
