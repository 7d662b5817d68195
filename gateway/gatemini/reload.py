"""Hot reload: a changed configuration file is read again and applied, or reported and left out of force.

The folder is watched, not the file: editors replace files instead of writing into them. Above: app.py. Below:
watchfiles, config/load.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from watchfiles import Change, awatch

from gatemini.config.load import Loaded
from gatemini.errors import ConfigError

logger = logging.getLogger(__name__)

DEBOUNCE_MS = 300
"""Changes that follow each other within this time are one reload: editors write in several steps."""


async def watch_config(
    files: Callable[[], frozenset[Path]],
    load: Callable[[], Loaded],
    apply: Callable[[Loaded], Awaitable[list[str]]],
    failed: Callable[[str | None], None],
) -> None:
    """Until cancelled: reload when one of `files` changes (asked anew after each reload).

    `load` blocks and runs in a worker thread; `apply` gives the names of backends it touched; `failed` gets
    the text of a configuration that cannot be used, None once one is in force again.
    """
    while True:
        watched = files()
        folders = {path.parent for path in watched if path.parent.is_dir()}
        if not folders:
            return

        def ours(_: Change, path: str, watched: frozenset[Path] = watched) -> bool:
            return Path(path) in watched

        async for _ in awatch(*folders, watch_filter=ours, debounce=DEBOUNCE_MS, recursive=False):
            break
        try:
            loaded = await anyio.to_thread.run_sync(load)
        except ConfigError as exc:
            logger.warning("the changed configuration is not used: %s", exc.text())
            failed(exc.text())
            continue
        touched = await apply(loaded)
        failed(None)
        logger.info("configuration reloaded; backends touched: %s", ", ".join(touched) or "none")
