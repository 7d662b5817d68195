"""Say what interrupted a chain; a chain that its own code ended is not interrupted, and cannot be resumed."""

from __future__ import annotations

from gatemini.chain.replay.recorded_calls import RecordedCalls
from gatemini.errors import OUT_OF_TIME, ApprovalPending
from gatemini.explain.error_facts import ErrorFacts


def interruption(error: ErrorFacts, calls: RecordedCalls) -> str:
    """Return what interrupted a chain that failed with `error`; "" if its own code failed."""
    limit = error.limit or error.code
    # The other limits are the code's own doing: the same code would meet them again.
    if limit in OUT_OF_TIME:
        return "was over its time"
    if limit == ApprovalPending.code:
        return "waits for an approval"
    if isinstance(limit, str) and limit.startswith("sandbox."):
        return "lost its sandbox"
    return "lost a backend" if calls.broken else ""


def interruption_by(raised: BaseException) -> str:
    """Return what interrupted a chain that has no answer since `raised` left it."""
    return "met an error of the gateway" if isinstance(raised, Exception) else "was cancelled"
