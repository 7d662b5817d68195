"""Errors of the sandbox itself. What a chain does wrong is a `Failed` step instead."""

from __future__ import annotations


class SandboxError(Exception):
    """Base; `code` is stable."""

    code = "sandbox.error"


class GuestMissing(SandboxError):
    """The package with the guest's WebAssembly is not installed."""

    code = "sandbox.guest_missing"


class GuestTampered(SandboxError):
    """The guest's WebAssembly is not the build whose hash is pinned."""

    code = "sandbox.guest_tampered"


class GuestFault(SandboxError):
    """The guest said something that is no message, or trapped where it should not."""

    code = "sandbox.guest_fault"


class ReadingTooLong(SandboxError):
    """The code nests too deeply or takes too long to parse: no person writes such code."""

    code = "sandbox.reading_too_long"


class SessionClosed(SandboxError):
    """A session that is closed or has ended was to go on."""

    code = "sandbox.closed"


class WorkerLost(SandboxError):
    """The sandbox process of this chain ended, was killed, or cannot be started."""

    code = "sandbox.worker_lost"

    def __init__(self, text: str, *, unread: bool = False) -> None:
        super().__init__(text)
        self.unread = unread
        """Whether the process ended before it had read what was sent last."""


class HostExhausted(SandboxError):
    """This machine gives no thread, or no memory, for another guest."""

    code = "sandbox.host_exhausted"
