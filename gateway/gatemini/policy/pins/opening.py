"""The pins of a gateway with a configuration."""

from __future__ import annotations

from pathlib import Path

from gatemini.config.load import Loaded
from gatemini.config.model.policy import LOCK_NAME
from gatemini.config.variables.redaction import Redactor
from gatemini.policy.audit.log import AuditLog
from gatemini.policy.pins.pins import Mode, Pins


def mode_of(loaded: Loaded) -> Mode:
    """Return how pins are used; off without a file beside which the lock file could be."""
    policy = loaded.config.policy
    return "off" if policy is None or loaded.source is None else policy.pins


def open_pins(loaded: Loaded, redactor: Redactor, audit: AuditLog | None) -> Pins:
    """Return the pins; `read` reads the lock file."""
    beside = (loaded.source or Path("none")).absolute()
    return Pins(
        mode_of(loaded),
        beside.with_name(LOCK_NAME),
        redact=redactor.redact,
        record=None if audit is None else audit.event,
    )
