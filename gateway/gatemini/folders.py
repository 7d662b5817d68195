"""Where the gateway's own files lie on this machine: the platform's folders for configuration and cache.

Above: config/load.py, cache.py. Below: platformdirs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

APP = "gatemini"
NOWHERE = Path(os.devnull, APP)
"""The folder of a user who has no home (no HOME, no entry among the users, as in some containers): nothing is there
and nothing can be made there. A folder that others can write to would be taken for the user's own."""


def home_folder() -> Path:
    """The user's home; `~` itself, which is nowhere, where there is none (`Path.home` would raise)."""
    return Path(os.path.expanduser("~"))


def from_home(path: str | Path) -> Path:
    """The path with a leading `~` filled in, as far as that can be: no shell has done so for a client's file."""
    return Path(os.path.expanduser(path))


def config_folder() -> Path:
    """`~/.config/gatemini`, or the platform's equivalent."""
    return _of(platformdirs.user_config_path)


def cache_folder() -> Path:
    """`~/.cache/gatemini`, or the platform's equivalent."""
    return _of(platformdirs.user_cache_path)


def _of(found: Callable[..., Path]) -> Path:
    try:
        return found(APP, appauthor=False)
    except RuntimeError:
        return NOWHERE
