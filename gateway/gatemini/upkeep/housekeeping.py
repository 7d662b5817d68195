"""Write what a running gateway keeps when it is due: the cache, the search history, the account, the uses of tools."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from gatemini.cache import Cache
from gatemini.discovery.history import SearchHistory
from gatemini.model import Json
from gatemini.output.store.spill import sweep_abandoned
from gatemini.tracker import RECENT_CALLS, Tracker
from gatemini.upkeep.shared_usage import SharedUsage
from gatemini.upkeep.usage_files import AccountBook

logger = logging.getLogger(__name__)

HOUSEKEEPING_SECONDS = 5.0
"""How often is checked whether something is due."""


async def sweep_results() -> None:
    """Remove the spilled results of gateways that were killed."""
    swept = await anyio.to_thread.run_sync(sweep_abandoned, abandon_on_cancel=True)
    if swept:
        logger.info("removed the spilled results of %d gateways that were killed", swept)


class Housekeeping:
    """The files of one gateway. `client` names the client to account for, `sizes` the catalog's bytes by backend."""

    def __init__(
        self,
        cache: Cache,
        history: SearchHistory,
        tracker: Tracker,
        redact: Callable[[Any], Any],
        source: Path | None,
        client: Callable[[], str | None],
        sizes: Callable[[], Sequence[Json]],
        seen: Callable[[], dict[str, Json]],
        usage: SharedUsage,
    ) -> None:
        self._cache = cache
        self._history = history
        self._tracker = tracker
        self._redact = redact
        self._source = source
        self._client = client
        self._sizes = sizes
        self._seen = seen
        self.usage = usage
        self._accounts = AccountBook(account_folder(cache.path))
        self._accounted = 0

    async def run(self) -> None:
        """Write what is due, until cancelled."""
        while True:
            await anyio.sleep(HOUSEKEEPING_SECONDS)
            await self._save(cache=True, at_once=False)
            await self.write_account(ended=False)
            await self.usage.exchange_if_due()

    async def close(self) -> None:
        """Write everything at the end; a gateway without a configuration file keeps no cache."""
        await self._save(cache=self._source is not None, at_once=True)
        await self.usage.close()

    async def _save(self, *, cache: bool, at_once: bool) -> None:
        if self._history.due:
            await anyio.to_thread.run_sync(self._history.write)
        if cache:
            self._cache.put_usage(self._tracker.dump_usage())
            self._cache.put_seen(self._seen())
            if at_once or self._cache.due:
                await anyio.to_thread.run_sync(self._cache.save)

    async def write_account(self, *, ended: bool) -> None:
        """Write the statistics for the terminal; a gateway that was not used leaves none."""
        recorded = self._tracker.recorded
        if not recorded or (recorded == self._accounted and not ended):
            return
        self._accounted = recorded
        hide = self._redact  # a backend may have named a tool after its key
        write = partial(
            self._accounts.write,
            config=account_name(self._source),
            client=self._client(),
            stats=hide(self._tracker.stats()),
            recent=hide(self._tracker.recent(RECENT_CALLS)),
            backends=self._sizes(),
            usage=hide(self._tracker.own_usage()),
            ended=ended,
        )
        await anyio.to_thread.run_sync(write)


def account_folder(cache_path: Path) -> Path:
    """The folder of the accounts of gateways with this cache."""
    return cache_path.parent / "accounts"


def account_name(source: Path | None) -> str | None:
    """The name of a configuration in accounts: its real path."""
    return os.path.realpath(source) if source else None
