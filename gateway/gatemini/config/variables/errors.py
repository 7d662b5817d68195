"""Errors of secret references: why a value cannot be had, and what to do. Their texts never hold a value."""

from __future__ import annotations


class SecretUnavailable(Exception):
    """A reference cannot be resolved."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy


class SecretPending(SecretUnavailable):
    """The provider is slow and is called in the background; the message names the reference."""
