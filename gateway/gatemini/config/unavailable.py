"""Why a secret cannot be had, and what to do; never its value. Three kinds: not there, no answer, not asked yet.

Above: build, secrets, providers, commands, store, the CLI. Below: nothing.
"""

from __future__ import annotations


class SecretUnavailable(Exception):
    """A reference that cannot be resolved: why, and what to do. Never holds a value."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


class SecretSilent(SecretUnavailable):
    """The provider did not answer in time, or cannot be reached: its next secret would take as long."""


class SecretAwaited(SecretUnavailable):
    """Its provider may take its time and is asked in the background; the message says for what one waits."""
