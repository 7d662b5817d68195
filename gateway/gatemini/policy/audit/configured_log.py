"""Where the audit log of a configuration is, and the log of a gateway that runs with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from gatemini.config.model.audit import AuditConfig
from gatemini.config.variables.redaction import Redactor
from gatemini.folders import state_folder
from gatemini.policy.audit.log import AuditLog

CLOSING_SECONDS = 25.0
"""The most that the end of a log may take: a slow disk, and places for anchors that do not answer."""


def audit_folder(config: AuditConfig, source: Path | None) -> Path | None:
    """Return the folder of the log, None where none is configured. `source` is the configuration's file."""
    if config.path is None:
        return None
    return (source.absolute().parent if source is not None else Path.cwd()) / config.path


def open_log(config: AuditConfig, source: Path | None, redactor: Redactor) -> AuditLog | None:
    """Return the log of a gateway, None where none is configured; nothing is written yet."""
    folder = audit_folder(config, source)
    if folder is None:
        return None
    key_file = config.key_file or state_folder() / "audit.key"
    return AuditLog(config, folder, key_file, redactor, {"config": str(source)} if source is not None else {})


@asynccontextmanager
async def kept_log(log: AuditLog | None, serving: bool | None) -> AsyncIterator[None]:
    """Run the log's tasks meanwhile, and close it with a seal at the end. `serving` (not False): write the start record at once."""
    if log is None:
        yield
        return
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run, serving is not False)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await log.close()
