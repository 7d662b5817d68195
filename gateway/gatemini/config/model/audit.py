"""`audit`: the log of calls, decisions and changes, which shows when it was changed itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gatemini.config.model.backend import Strict, Text
from gatemini.folders import from_home


def _expanded(value: Path | None) -> Path | None:
    return from_home(value) if value is not None else None


HomePath = Annotated[Path | None, AfterValidator(_expanded)]

KeptArguments = Literal["hash", "full", "none"]


class AnchorConfig(Strict):
    """Where the hash of the last record goes: a chain alone cannot show that its end was cut."""

    every: int = Field(default=1000, ge=1)
    """Records between two anchors; the start and the end of the gateway are anchored too."""
    file: HomePath = None
    """A file to append a line to: on another disk, or of another user. Each log needs one of its own."""
    command: tuple[Text, ...] = ()
    """Program and arguments that get the line on their standard input."""
    url: str | None = Field(default=None, pattern=r"^https?://")
    """An address that the line is posted to as JSON."""


class AuditConfig(Strict):
    """A log of every call to a backend, written before it leaves and after it ended. Without `path` nothing is written."""

    path: HomePath = None
    """Folder of the log; each running gateway has files of its own in it. A relative one is below the configuration's folder."""
    on_failure: Literal["block", "warn"] = "warn"
    """Where a record cannot be written: no call leaves, or a warning."""
    arguments: KeptArguments = "hash"
    """What is kept of a call's arguments: an HMAC, the arguments without secrets (up to 64 KB), or nothing."""
    key_file: HomePath = None
    """The key of that HMAC, made when it is missing; else `audit.key` in the state folder."""
    fsync: Literal["each", "second", "none"] = "second"
    """When records are forced to the disk: before each call leaves, once a second, or when the system does."""
    rotate_mb: float = Field(default=100, gt=0, le=100_000)
    """Size from which on a new file begins."""
    keep: int = Field(default=0, ge=0)
    """Files that stay, of all gateways together; 0 keeps all. What is deleted is recorded."""
    anchor: AnchorConfig = AnchorConfig()
    """Where the hash of the last record goes."""
