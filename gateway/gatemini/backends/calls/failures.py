"""What the error that ended a connection or a call allows: to start the backend again, to send the call again.

Also what callers are told of it. Pure. Above: actor.py. Below: the error tree, `stdio.py` for words on stderr.
"""

from __future__ import annotations

from gatemini.backends.transports.stdio import SHOWN_STDERR_LINES, stderr_text
from gatemini.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendProtocol,
    BackendStarting,
    BackendStopped,
    BackendTimeout,
    BackendUnhealthy,
    BackendUnreachable,
)

SESSION_ENDED = "session_ended"
"""In an error's details: a server did not know the session of a call."""


def worth_starting_again(error: BackendError | None, *, connected: bool) -> bool:
    """Not after a tidy exit, and not when starting again cannot help (no such command …)."""
    if isinstance(error, BackendCrashed):
        return error.details.get("exit_code") != 0 or not connected
    if isinstance(error, BackendProtocol):
        return int(error.details.get("http_status", 0)) >= 500
    return isinstance(error, BackendTimeout | BackendUnreachable | BackendBusy)


def send_again_after(error: BackendError, delay: float, *, repeatable: bool) -> float | None:
    """Seconds to wait before sending a call again; None: it may have run, or sending cannot help."""
    if error.sent and not repeatable:
        return None
    if isinstance(error, BackendBusy) and "retry_after" in error.details and error.details.get("remote"):
        return float(error.details["retry_after"])
    if not isinstance(error, BackendCrashed | BackendUnreachable):
        return None
    return delay


def only_waited(error: BackendError) -> bool:
    """Whether a call got no further than our own door: it waited for a start or a place, or was refused there."""
    waited = isinstance(error, BackendStarting | BackendBusy | BackendUnhealthy)
    return waited and not error.sent and not error.details.get("remote")


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


def remedy_of(error: BackendError | None) -> str | None:
    """What mends a backend that is down; what a crash advises is for the calls it met."""
    return None if error is None or isinstance(error, BackendCrashed) else error.hint


def not_started(name: str, error: BackendError | None, blocked: float) -> BackendStopped:
    """What a call is told that cannot start the backend; `blocked`: seconds until one may."""
    cause = error.message if error else "it was stopped"
    again = (
        f"a call starts it again after {blocked:.1f} s" if blocked > 0 else "the next call starts it again"
    )
    remedy = remedy_of(error)
    hint = f"{remedy}; {again}" if remedy else again
    details = error.details if error else {}
    return BackendStopped(f"{name} is not running: {cause}", hint=hint, details=details)


def not_started_yet(name: str, stderr: list[str]) -> BackendStarting:
    """What a call is told whose time to wait for a start is over."""
    return BackendStarting(
        f"{name} is still starting; the time to wait for it is over{stderr_text(stderr)}",
        hint="try again in a few seconds",
    )


def circuit_open(name: str, seconds: float) -> BackendUnhealthy:
    """What a call is told while probes stay unanswered; `seconds`: until the next one."""
    return BackendUnhealthy(
        f"{name} stopped answering health probes; the next one is due in {seconds:.0f} s",
        hint="use another tool, or try again after that",
    )


def not_ready(name: str, limit: float, named: str, slow: BackendTimeout, stderr: list[str]) -> BackendTimeout:
    """A start that took longer than `limit` seconds, which the key `named` allows."""
    return BackendTimeout(
        f"{name} did not get ready within {limit:g} s ({named}): {slow.message}{stderr_text(stderr)}",
        hint=f"raise {named} if it needs longer; else start it by hand to see what it waits for",
        details={"stderr": stderr[-SHOWN_STDERR_LINES:]},
    )


def not_answered(
    name: str, tool: str, own: float | None, slow: BackendTimeout, stderr: list[str]
) -> BackendTimeout:
    """A call whose time is over; `own`: the backend's own limit in seconds, where that is what ended it."""
    in_time = "in time" if own is None else f"within {own:g} s (backends.{name}.timeout)"
    what, end = "did not answer", "; it was told to cancel"
    if not slow.sent:
        what, end = "was not taken", ": the backend does not read, and nothing was sent"
    return BackendTimeout(
        f"{name}.{tool} {what} {in_time}{end}{stderr_text(stderr)}",
        sent=slow.sent,
        hint="give the call more time, or ask for less"
        if own is None
        else "ask for less, or raise that limit",
    )
