"""Records of commands that change logins, in the audit log of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gatemini.cli import shell

if TYPE_CHECKING:
    from gatemini.config.load import Loaded


async def record_login(loaded: Loaded, command: str, **fields: Any) -> None:
    """Write what a command has done to a login, where an audit log is configured; warn where it cannot be written.

    It is done already, and the user who may change logins need not be the one that writes the log.
    """
    from gatemini.config.variables.redaction import Redactor
    from gatemini.errors import AuditFailed
    from gatemini.policy.audit.configured_log import kept_log, open_log
    from gatemini.policy.principal import local

    log = open_log(loaded.config.audit, loaded.source, Redactor(loaded.secrets))
    if log is None:
        return
    try:
        async with kept_log(log, False):
            log.event("login", needed=True, principal=local("cli").id, client=f"gatemini {command}", **fields)
    except* AuditFailed as failed:
        why = "; ".join(str(error) for error in failed.exceptions)
        shell.note(f"the audit log has no record of this: {why}")
