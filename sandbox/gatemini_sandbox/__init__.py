"""The sandbox's host side: one guest per chain, stepped by messages. Imports nothing of gatemini.

    sandbox = Sandbox(cache_dir=…)
    session = sandbox.session(prepare(code, identifiers), Start(…))
    step = await session.start()
    while isinstance(step, Calls):
        step = await session.resume(replies)

Above: the gateway. Below: session.py and what it names.
"""

from gatemini_sandbox.errors import (
    GuestFault,
    GuestMissing,
    GuestTampered,
    SandboxError,
    SessionClosed,
    WorkerLost,
)
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import (
    Call,
    Calls,
    Console,
    Done,
    ErrorInfo,
    Failed,
    Reply,
    Start,
    Step,
)
from gatemini_sandbox.session import Sandbox, Session

__all__ = [
    "Call",
    "Calls",
    "Console",
    "Done",
    "ErrorInfo",
    "Failed",
    "GuestFault",
    "GuestMissing",
    "GuestTampered",
    "Limits",
    "Reply",
    "Sandbox",
    "SandboxError",
    "Session",
    "SessionClosed",
    "Start",
    "Step",
    "WorkerLost",
]
