"""Hot reload: a changed configuration file is read again and applied, or reported and left out of force.

Folders are watched, not files: editors replace files instead of writing into them, and mounted configurations are
links of which an inner one is exchanged. Whether something changed is told by the files themselves. Above: app.py. Below:
watchfiles, config/load.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
from watchfiles import awatch

from gatemini.config.load import Loaded
from gatemini.config.schema import Config
from gatemini.errors import ConfigError

logger = logging.getLogger(__name__)

DEBOUNCE_MS = 300
"""Changes that follow each other within this time are one reload: editors write in several steps."""
LOOK_MS = 5000
"""The longest that a change stays unseen which no watch told of (network file systems, a change between two watches)."""


READ_ONCE = ("cache_path", "health", "results", "search", "semantic")
"""Sections that a running gateway keeps as they were when it started."""

PROCESS_KEYS = ("isolation", "processes", "guests_per_process")
"""Keys of `sandbox` that it keeps as well."""

FileState = dict[Path, tuple[int, int, int] | None]
"""Files, and what each was like."""


async def watch_config(
    files: Callable[[], frozenset[Path]],
    load: Callable[[bool], Loaded],
    apply: Callable[[Loaded], Awaitable[list[str]]],
    failed: Callable[[str | None], None],
    seen: FileState,
    news: Callable[[], Awaitable[None]],
) -> None:
    """Until cancelled: reload when one of `files` changes (asked anew after each reload), or `news` returns.

    `load` blocks and runs in a worker thread, and is told whether files have changed; `apply` gives the names of backends
    it touched; `failed` gets the text of a configuration that cannot be used, None once one is in force again. `seen` is
    how the files were when they were read: the start of a gateway takes its time.
    """
    while True:
        watched = files()
        folders = _folders(watched)
        differ = partial(_differ, watched, seen)
        told = False
        if not differ():  # else it changed while the gateway was busy starting or reloading
            changed = lambda: differ() or _folders(watched) != folders  # noqa: B023, E731 - awaited here
            told = await _one_change(folders, changed, news)
        changed_files = differ()
        if not changed_files and not told:
            continue  # a folder has come or gone, not what is in it
        seen = file_state(watched)
        try:
            loaded = await anyio.to_thread.run_sync(load, changed_files)
        except ConfigError as exc:
            logger.warning("the changed configuration is not used: %s", exc.text())
            failed(exc.text())
            continue
        except Exception as fault:  # a file must not end the gateway, whatever stands in it
            logger.exception("the changed configuration could not be read")
            failed(f"it could not be read: {fault!r}")
            continue
        seen = {**file_state(loaded.files), **seen}
        touched = await apply(loaded)
        failed(None)
        for problem in loaded.problems:
            logger.warning("%s", problem)
        logger.info("configuration reloaded; backends touched: %s", ", ".join(touched) or "none")


def read_only_at_start(began: Config, now: Config) -> str | None:
    """What a reload has not put in force, in words: settings that are read once and differ from those of the start."""
    waiting = [key for key in READ_ONCE if getattr(began, key) != getattr(now, key)]
    waiting += [
        f"sandbox.{key}" for key in PROCESS_KEYS if getattr(began.sandbox, key) != getattr(now.sandbox, key)
    ]
    if not waiting:
        return None
    return (
        f"{', '.join(waiting)}: changed, but read only at the start: restart the gateway to put it in force"
    )


def _folders(files: frozenset[Path]) -> set[Path]:
    """The folder of each file, or the nearest above it that is there: it may be made again."""
    return {next(folder for folder in path.absolute().parents if folder.is_dir()) for path in files}


def _differ(files: frozenset[Path], seen: FileState) -> bool:
    return any(now != seen.get(path) for path, now in file_state(files).items())


def file_state(files: frozenset[Path]) -> FileState:
    """Which file each path leads to now, and when that was written; None where there is none."""
    state: FileState = {}
    for path in files:
        try:
            info = path.stat()
        except OSError:
            state[path] = None
        else:
            state[path] = (info.st_ino, info.st_mtime_ns, info.st_size)
    return state


async def _one_change(
    folders: set[Path], changed: Callable[[], bool], news: Callable[[], Awaitable[None]]
) -> bool:
    """Until one of the files has changed, or there is other news: whether there is.

    The files are also looked at every `LOOK_MS`: a change may fall between two watches. The library waits in a thread that
    only its own event ends, within some 50 ms; without it, cancelling (and so the end of the gateway) would take seconds.
    """
    stop = anyio.Event()
    told = False

    async def stop_with_us() -> None:
        nonlocal told
        try:
            await news()
            told = True
        finally:
            stop.set()

    async with anyio.create_task_group() as group:
        group.start_soon(stop_with_us)
        async for _ in awatch(
            *folders,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            recursive=False,
            stop_event=stop,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
        ):
            if changed():
                break
        group.cancel_scope.cancel()
    return told
