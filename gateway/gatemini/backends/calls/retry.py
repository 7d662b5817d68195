"""Decide by the rules of `retry` whether a call is sent again: only if it was not sent, or may run twice. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gatemini.backends.calls.failures import RENEWED, SESSION_ENDED
from gatemini.config.model.backend import RetryConfig
from gatemini.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendStarting,
    BackendUnhealthy,
    BackendUnreachable,
)


@dataclass(slots=True)
class Retries:
    """The retries of one call, until `deadline`; `repeatable`: running twice does no harm."""

    rules: RetryConfig
    deadline: float
    repeatable: bool
    _done: int = 0
    _renewed: bool = False
    _before: BackendError | None = None

    def wait_after(self, error: BackendError, now: float) -> float:
        """Return the seconds to wait before the call is sent again; raise the error that it fails with.

        If a retry only waited (for a start, a free place), the failure before it is raised: that is the cause.
        """
        if self._before is not None and _only_waited(error):
            raise self._before from error
        self._before = error
        rules = self.rules
        delay = rules.initial_delay
        if self._done:
            delay = min(delay * rules.multiplier**self._done, rules.max_delay)
        wait = _send_again_after(error, delay, repeatable=self.repeatable)
        if wait is None or self._done == rules.max_retries or now + wait >= self.deadline:
            raise error
        if error.details.get(SESSION_ENDED):
            if self._renewed or error.details.get(RENEWED):
                raise error  # the server does not know the new session either, so that is not the cause
            self._renewed = True
        self._done += 1
        return wait


def _send_again_after(error: BackendError, delay: float, *, repeatable: bool) -> float | None:
    """Seconds to wait before sending a call again; None: it may have run, or sending cannot help."""
    if error.sent and not repeatable:
        return None
    if isinstance(error, BackendBusy) and "retry_after" in error.details and error.details.get("remote"):
        return float(error.details["retry_after"])
    return delay if isinstance(error, BackendCrashed | BackendUnreachable) else None


def _only_waited(error: BackendError) -> bool:
    """Whether a call failed inside the gateway, before anything was tried at the backend."""
    waited = isinstance(error, BackendStarting | BackendBusy | BackendUnhealthy)
    return waited and not error.sent and not error.details.get("remote")
