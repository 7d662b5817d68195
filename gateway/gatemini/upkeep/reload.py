"""Hot reload: read a changed configuration again and apply it, or report why it cannot be used.

Folders are watched, not files: editors replace files, and mounted configurations are symbolic links whose targets
change. An event only makes us compare the files with what was read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
from watchfiles import awatch

from gatemini.config.load import Loaded
from gatemini.config.model.schema import Config
from gatemini.errors import ConfigError

logger = logging.getLogger(__name__)

DEBOUNCE_MS = 300
"""Changes within this time lead to one reload, because editors write in several steps."""
LOOK_MS = 5000
"""Files are compared at least this often, for changes without an event (network file systems, between two watches)."""


READ_ONCE = ("audit", "cache_path", "daemon", "health", "results", "search", "semantic", "state")
"""Sections that a running gateway does not change."""

PROCESS_KEYS = ("isolation", "processes", "guests_per_process")
"""Keys of `sandbox` that it does not change either."""

HTTP_LIVE_KEYS = ("auth", "clients")
"""Keys of `http` that it does change."""

FileState = dict[Path, tuple[int, int, int] | None]
"""Inode, modification time and size by path; None where there is no file."""


async def watch_config(
    files: Callable[[], frozenset[Path]],
    load: Callable[[bool], Loaded],
    apply: Callable[[Loaded], Awaitable[list[str]]],
    failed: Callable[[str | None], None],
    seen: FileState,
    news: Callable[[], Awaitable[None]],
) -> None:
    """Until cancelled: reload when one of `files()` changes, or when `news()` returns.

    `load` blocks and runs in a worker thread; its argument is whether files have changed. `apply` returns the names of
    the backends it touched. `failed` is called with the reason why a configuration cannot be used, and with None once
    one is in force again. `seen` is the state of the files when they were first read.
    """
    while True:
        watched = files()
        folders = _folders(watched)
        differ = partial(_differ, watched, seen)
        arrived = False
        if not differ():  # else they changed while the gateway started or reloaded
            changed = lambda: differ() or _folders(watched) != folders  # noqa: B023, E731 - awaited here
            arrived = await _one_change(folders, changed, news)
        changed_files = differ()
        if not changed_files and not arrived:
            continue  # a folder was created or deleted, but no file changed
        seen = file_state(watched)
        try:
            loaded = await anyio.to_thread.run_sync(load, changed_files)
        except ConfigError as exc:
            logger.warning("the changed configuration is not used: %s", exc.text())
            failed(exc.text())
            continue
        except Exception as fault:  # no content of a file may end the gateway
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
    """The settings that a reload did not change although they differ, as a sentence; None without any."""
    waiting = [key for key in READ_ONCE if getattr(began, key) != getattr(now, key)]
    waiting += [
        f"sandbox.{key}" for key in PROCESS_KEYS if getattr(began.sandbox, key) != getattr(now.sandbox, key)
    ]
    if began.log.model_copy(update={"level": now.log.level}) != now.log:
        waiting.append("log")
    live = dict.fromkeys(HTTP_LIVE_KEYS)
    if began.http.model_copy(update=live) != now.http.model_copy(update=live):
        waiting.append("http")
    if not waiting:
        return None
    return (
        f"{', '.join(waiting)}: changed, but read only at the start: restart the gateway to put it in force"
    )


def _folders(files: frozenset[Path]) -> set[Path]:
    """The folder of each file, or the nearest existing one above it, in which it may be created again."""
    return {next(folder for folder in path.absolute().parents if folder.is_dir()) for path in files}


def _differ(files: frozenset[Path], seen: FileState) -> bool:
    return any(now != seen.get(path) for path, now in file_state(files).items())


def file_state(files: frozenset[Path]) -> FileState:
    """The state of files now."""
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
    """Wait until one of the files has changed or there is other news; whether there is other news."""
    stop = anyio.Event()
    arrived = False

    async def wait_for_news() -> None:
        nonlocal arrived
        try:
            await news()
            arrived = True
        finally:
            stop.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait_for_news)
        await _change(folders, changed, stop)
        group.cancel_scope.cancel()
    return arrived


async def _change(folders: set[Path], changed: Callable[[], bool], stop: anyio.Event) -> None:
    """Wait until one of the files has changed, or `stop` is set.

    watchfiles waits in a thread that only `stop_event` ends, within some 50 ms; without it, cancelling would take seconds.
    """
    try:
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
                return
    # inotify's limits of the user, a removed folder: watchfiles has an error of its own, a RuntimeError, for some of them.
    except (OSError, RuntimeError) as refusal:
        logger.warning("changes of the configuration are seen only every %d s: %s", LOOK_MS // 1000, refusal)
        while not (stop.is_set() or changed()):
            with anyio.move_on_after(LOOK_MS / 1000):
                await stop.wait()
