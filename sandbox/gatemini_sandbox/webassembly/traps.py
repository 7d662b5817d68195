"""Name the reason for which an instance of the guest trapped."""

from __future__ import annotations

import wasmtime

from gatemini_sandbox import limits


class Trapped(Exception):
    """The instance is finished. `reason` is a limit code, "cancelled", or "fault" with wasmtime's text."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason, text)
        self.reason = reason
        self.text = text


def trapped(
    failure: wasmtime.WasmtimeError | wasmtime.Trap, stopped: str | None, *, below_stack: bool
) -> Trapped:
    """Return the error for what ended a call of the guest.

    `stopped` is the limit at which the guest was stopped, if it was; `below_stack` is whether the stack pointer left
    the stack: that is how a frame of any size traps (patched_module.py).
    """
    if not isinstance(failure, wasmtime.Trap):
        return Trapped(stopped or "fault", str(failure))
    if below_stack or failure.trap_code is wasmtime.TrapCode.STACK_OVERFLOW:
        return Trapped(limits.STACK, failure.message)
    return Trapped(stopped or "fault", failure.message)
