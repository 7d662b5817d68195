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
