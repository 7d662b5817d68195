"""`log`: the log of a serving gateway."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gatemini.config.model.audit import HomePath
from gatemini.config.model.backend import Strict

Level = Literal["debug", "info", "warning", "error"]


class LogConfig(Strict):
    """What is logged, where and how. A daemon logs to a file of its own, other gateways to stderr."""

    level: Level | None = None
    """The least level that is logged; else `log_level`."""
    file: HomePath = None
    """Log to this file: a daemon instead of its own, other gateways beside stderr. A relative one is in the state folder."""
    format: Literal["text", "json"] = "text"
    """One line for each event, as text or as a JSON object; also on stderr."""
    rotate_mb: float = Field(default=10, gt=0, le=100_000)
    """Size from which on a new file begins."""
    keep: int = Field(default=5, ge=1, le=1000)
    """Earlier files that stay, as `FILE.1`, `FILE.2` …"""
