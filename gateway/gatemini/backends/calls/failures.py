"""The errors that callers of a backend get."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from gatemini.config.model.schema import BackendConfig
from gatemini.errors import (
    BackendCrashed,
    BackendError,
    BackendNotFound,
    BackendStarting,
    BackendStopped,
    BackendTimeout,
    BackendUnhealthy,
)

SHOWN_STDERR_LINES = 10
"""Lines of stderr that an error text contains."""

SESSION_ENDED = "session_ended"
"""Key in an error's details: the HTTP server did not know the session of the call."""

RENEWED = "session_renewed"
"""Key in such an error's details: the call was refused again in a new session, so that is not the cause."""

MAY_HAVE_RUN = "the call may have run: look before you repeat it"
NOT_RUN = "it was not run: call again"


def no_backend(name: str, names: Collection[str]) -> BackendNotFound:
    """The error for a name that no backend has."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(names)}"
    return BackendNotFound(f"there is no backend {name!r}", hint=hint)


def copied(error: BackendError, *, sent: bool) -> BackendError:
    """A copy for one request: an exception raised in several tasks would share its traceback.

    The hint of a crash is about one call: it must say of this one whether it may have run.
    """
    hint = error.hint
    if isinstance(error, BackendCrashed) and sent is not error.sent:
        hint = MAY_HAVE_RUN if sent else NOT_RUN
    return type(error)(error.message, sent=sent, hint=hint, details=error.details)


def stderr_text(lines: list[str]) -> str:
    """The last lines of stderr as the end of an error message; empty without any."""
    last = [line for line in lines if line.strip()][-SHOWN_STDERR_LINES:]
    return "; its last stderr lines:\n" + "\n".join(f"  {line}" for line in last) if last else ""


def only_backend_error(fault: Exception) -> BackendError | None:
    """The first backend error of an exception group with nothing else: task groups wrap what a transport raises."""
    if not isinstance(fault, ExceptionGroup) or fault.split(BackendError)[1] is not None:
        return None
    first: Exception = fault
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first if isinstance(first, BackendError) else None


def remedy_of(error: BackendError | None) -> str | None:
    """How to repair a backend that does not run; the hint of a crash is about the open call instead."""
    return None if error is None or isinstance(error, BackendCrashed) else error.hint


def not_started(name: str, error: BackendError | None, blocked: float) -> BackendStopped:
    """For a call that cannot start the backend; a call may start it after `blocked` seconds."""
    cause = error.message if error else "it was stopped"
    again = (
        f"a call starts it again after {blocked:.1f} s" if blocked > 0 else "the next call starts it again"
    )
    remedy = remedy_of(error)
    hint = f"{remedy}; {again}" if remedy else again
    details = error.details if error else {}
    return BackendStopped(f"{name} is not running: {cause}", hint=hint, details=details)


def not_started_yet(name: str, stderr: list[str]) -> BackendStarting:
    """For a call whose time to wait for a start is over."""
    return BackendStarting(
        f"{name} is still starting; the time to wait for it is over{stderr_text(stderr)}",
        hint="try again in a few seconds",
    )


def not_added(
    failed: BackendError, config: BackendConfig, known: BackendError | None, stderr: list[str]
) -> BackendError:
    """For a registration that failed within its `connect_timeout`: unlike after a failed call, nothing is started again."""
    if isinstance(failed, BackendStarting):
        said = f"{config.connect_timeout:g} s (connect_timeout){stderr_text(stderr)}"
        failed = BackendStopped(f"{config.name} did not list its tools in {said}")
    failed.hint = remedy_of(known) or "nothing of it was kept: repair what it needs, then add it again"
    return failed


def circuit_open(name: str, seconds: float) -> BackendUnhealthy:
    """For calls while health probes get no answer; the next probe is due in `seconds`."""
    return BackendUnhealthy(
        f"{name} stopped answering health probes; the next one is due in {seconds:.0f} s",
        hint="use another tool, or try again after that",
    )


def not_ready(name: str, limit: float, named: str, slow: BackendTimeout, stderr: list[str]) -> BackendTimeout:
    """For a start that took longer than `limit` seconds, the value of the configuration key `named`."""
    return BackendTimeout(
        f"{name} did not get ready within {limit:g} s ({named}): {slow.message}{stderr_text(stderr)}",
        hint=f"raise {named} if it needs longer; else start it by hand to see what it waits for",
        details={"stderr": stderr[-SHOWN_STDERR_LINES:]},
    )


def not_answered(
    name: str, tool: str, own: float | None, slow: BackendTimeout, stderr: list[str]
) -> BackendTimeout:
    """For a call whose time is over; `own` is the backend's own limit in seconds, if that ended it."""
    in_time = "in time" if own is None else f"within {own:g} s (backends.{name}.timeout)"
    what, end = "did not answer", "; the call was cancelled there"
    if not slow.sent:
        what, end = "was not taken", ": the backend does not read, and nothing was sent"
    return BackendTimeout(
        f"{name}.{tool} {what} {in_time}{end}{stderr_text(stderr)}",
        sent=slow.sent,
        hint="give the call more time, or ask for less"
        if own is None
        else "ask for less, or raise that limit",
    )
