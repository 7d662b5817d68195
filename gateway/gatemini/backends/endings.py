"""What the error that ended a connection or a call allows: to start the backend again, to send the call again.

Pure. Above: actor.py. Below: the error tree.
"""

from __future__ import annotations

from gatemini.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendProtocol,
    BackendTimeout,
    BackendUnreachable,
)


def worth_starting_again(error: BackendError | None, *, connected: bool) -> bool:
    """Not after a tidy exit, and not when starting again cannot help (no such command …)."""
    if isinstance(error, BackendCrashed):
        return error.details.get("exit_code") != 0 or not connected
    if isinstance(error, BackendProtocol):
        return int(error.details.get("http_status", 0)) >= 500
    return isinstance(error, BackendTimeout | BackendUnreachable | BackendBusy)


def send_again_after(error: BackendError, delay: float, *, repeatable: bool) -> float | None:
    """Seconds to wait before sending a call again; None: it may have run, or sending cannot help."""
    if isinstance(error, BackendBusy) and "retry_after" in error.details and error.details.get("remote"):
        return float(error.details["retry_after"])
    if not isinstance(error, BackendCrashed | BackendUnreachable):
        return None
    return delay if repeatable or not error.sent else None


def only_backend_error(fault: Exception) -> BackendError | None:
    """The first backend error of a group that holds nothing else: task groups wrap what a transport raises."""
    if not isinstance(fault, ExceptionGroup):
        return None
    ours, others = fault.split(BackendError)
    while others is None and isinstance(ours, ExceptionGroup):
        first = ours.exceptions[0]
        if isinstance(first, BackendError):
            return first
        ours = first if isinstance(first, ExceptionGroup) else None
    return None
