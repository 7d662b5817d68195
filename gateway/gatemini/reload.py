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

        await _one_change(folders, ours)
        try:
            loaded = await anyio.to_thread.run_sync(load)
        except ConfigError as exc:
            logger.warning("the changed configuration is not used: %s", exc.text())
            failed(exc.text())
            continue
        touched = await apply(loaded)
        failed(None)
        logger.info("configuration reloaded; backends touched: %s", ", ".join(touched) or "none")


async def _one_change(folders: set[Path], ours: Callable[[Change, str], bool]) -> None:
    """Until one of the files has changed.

    The library waits in a thread that only its own event ends, within some 50 ms; without it, cancelling (and so the
    end of the gateway) would take seconds.
    """
    stop = anyio.Event()

    async def stop_with_us() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stop.set()

    async with anyio.create_task_group() as group:
        group.start_soon(stop_with_us)
        async for _ in awatch(
            *folders, watch_filter=ours, debounce=DEBOUNCE_MS, recursive=False, stop_event=stop
        ):
            break
        group.cancel_scope.cancel()
