"""The platform's folders for the gateway's own configuration and cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

APP = "gatemini"
NOWHERE = Path(os.devnull, APP)
"""The folder of a user without a home (no HOME, not in the list of users, as in some containers): it cannot be made, and
no folder that others can write to takes its place."""


def home_folder() -> Path:
    """The user's home; the path `~` where there is none (`Path.home` would raise)."""
    return Path(os.path.expanduser("~"))


def from_home(path: str | Path) -> Path:
    """The path with a leading `~` filled in, where there is a home."""
    return Path(os.path.expanduser(path))


def config_folder() -> Path:
    """`~/.config/gatemini`, or the platform's equivalent."""
    return _of(platformdirs.user_config_path)


def cache_folder() -> Path:
    """`~/.cache/gatemini`, or the platform's equivalent."""
    return _of(platformdirs.user_cache_path)


def state_folder() -> Path:
    """`~/.local/state/gatemini`, or the platform's equivalent."""
    return _of(platformdirs.user_state_path)


def _of(found: Callable[..., Path]) -> Path:
    try:
        return found(APP, appauthor=False)
    except RuntimeError:
        return NOWHERE
