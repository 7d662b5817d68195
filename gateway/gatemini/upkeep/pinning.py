"""Compare what backends list with their pins, and keep the lock file."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from gatemini.backends.manager import Manager
from gatemini.backends.status import BackendStatus
from gatemini.config.load import Loaded
from gatemini.config.model.policy import PINS_FILE, PinsMode
from gatemini.config.model.schema import BackendConfig
from gatemini.config.profile import LOCKED
from gatemini.config.variables.redaction import Redactor
from gatemini.errors import ConfigError
from gatemini.model import Tool
from gatemini.policy.audit.log import AuditLog
from gatemini.policy.pins.observed import Said
from gatemini.policy.pins.pins import Pins

SAVE_DELAY_SECONDS = 0.5
"""Backends that start at the same time are written into the lock file together."""

logger = logging.getLogger(__name__)


class Pinning:
    """The pins of a running gateway; those of the configuration are off where there is no file of it."""

    def __init__(self, loaded: Loaded, redactor: Redactor, audit: AuditLog | None, manager: Manager) -> None:
        self.pins = Pins(
            _mode(loaded),
            (loaded.source or Path(PINS_FILE)).absolute().with_name(PINS_FILE),
            redact=redactor.redact,
            record=None if audit is None else audit.event,
            trusts_first_use=loaded.config.profile != LOCKED,
        )
        self._manager = manager
        self._written: dict[str, BackendConfig] = {}

    def configured(self, written: BackendConfig) -> None:
        """Note a backend of the configuration; all others are registered."""
        self._written[written.name] = written

    def listed(self, name: str, tools: list[Tool], *, live: bool) -> None:
        """Compare a new listing, `live` or of the cache."""
        status = self._manager.status(name) if live else None
        said = None if status is None else Said(status.server_info, status.instructions)
        config = self._written.get(name) or self._manager.config(name)
        self.pins.listed(config, said, tools, registered=name not in self._written)

    def removed(self, name: str) -> None:
        """Forget a backend."""
        self.pins.removed(name)
        self._written.pop(name, None)

    def statuses(self, session: str) -> list[BackendStatus]:
        """Return the status of each backend that a session may use, without the resources and prompts that are withheld."""
        return [
            replace(status, offers=tuple(self.pins.shown_offers(status.name, status.offers)))
            for status in self._manager.statuses(session)
        ]

    async def read(self, loaded: Loaded) -> None:
        """Read the lock file, at the start and when it may have changed, and compare all backends with it."""
        self.pins.mode = _mode(loaded)
        await anyio.to_thread.run_sync(self.pins.read, pinned_programs(loaded))
        self.pins.judge_all()
        self._manager.check_tool = self.pins.check if self.pins.mode == "enforce" else None

    async def run(self) -> None:
        """Write the first pins of backends into the lock file, until cancelled and once more then."""
        try:
            while True:
                await self.pins.unsaved.wait()
                await anyio.sleep(SAVE_DELAY_SECONDS)
                await self._save()
        finally:
            if self.pins.unsaved.is_set():
                with anyio.CancelScope(shield=True):
                    await self._save()

    async def _save(self) -> None:
        try:
            await anyio.to_thread.run_sync(self.pins.save)
        except (OSError, ConfigError) as error:
            self.pins.problem = f"the pins of servers cannot be kept (policy.pins: off does without): {error}"
            self.pins.unsaved = anyio.Event()
            logger.warning("%s", self.pins.problem)


def pinned_programs(loaded: Loaded) -> list[BackendConfig]:
    """Return the backends whose programs are pinned too."""
    policy = loaded.config.policy
    return list(loaded.config.backends.values()) if policy is not None and policy.pin_executables else []


def _mode(loaded: Loaded) -> PinsMode:
    policy = loaded.config.policy
    return "off" if policy is None or loaded.source is None else policy.pins
