"""Make a step of what a guest said: decode its bytes, word its limits, find the exact place of its error.

A Reader goes with one chain: it knows the ids used so far, the notes, and the way from the guest's positions to the
submitted text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from gatemini_sandbox import limits as codes
from gatemini_sandbox.errors import GuestFault, ReadingTooLong
from gatemini_sandbox.guest_messages import (
    DONE,
    PROTOCOL,
    Raw,
    Summary,
    decode_console,
    decode_error,
    decode_outbox,
    decode_summary,
    encode_replies,
)
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.messages import Call, Calls, Done, ErrorInfo, Failed, Reply, Step
from gatemini_sandbox.typescript.diagnosis.early_errors import find_early
from gatemini_sandbox.typescript.diagnosis.places import Frame, refine
from gatemini_sandbox.typescript.diagnosis.unplaced import find_unplaced
from gatemini_sandbox.typescript.parse_deadline import patience
from gatemini_sandbox.typescript.prepare import Program

MOST_FRAMES = 20
PLACING_SECONDS = 1.0
"""How long the place of an error may be looked for: the chain has ended, and its answer waits."""
UNAWAITED = "(…) is a promise here and was "
"""Part of the error of a call that was never awaited; its place is where the call was made."""
OUT_OF_MEMORY_NULL = "null (thrown as null"
"""What is thrown when there is no memory left even for the error."""
_FRAME = re.compile(r"at ([^\n]*?) ?\(?" + re.escape(PROTOCOL["program"]) + r":(\d{1,9}):(\d{1,9})\)?")


class Reader:
    """Reads the steps of one chain."""

    def __init__(self, program: Program, limits: Limits) -> None:
        self._program = program
        self._limits = limits
        self._known: set[int] = set()
        self._notes: list[str] = []

    @property
    def called(self) -> bool:
        """Whether the chain has made calls."""
        return bool(self._known)

    def replies(self, replies: Sequence[Reply]) -> bytes:
        """The message for the guest; notes what had to be changed."""
        return encode_replies(replies, self._limits, self._notes) if replies else b""

    def too_long(self, source: bytes) -> Failed | None:
        """The end of code over its limit; erasing types may have lengthened it a little."""
        most = self._limits.code_bytes
        if len(source) <= 2 * most:
            return None
        return Failed(
            ErrorInfo("LimitError", f"the code is larger than {most} bytes ({codes.CODE})", limit=codes.CODE)
        )

    def step(self, raw: Raw) -> Step:
        try:
            return self._step(raw)
        except GuestFault as exc:
            error = self._fault(f"the chain broke its sandbox: {exc}")
            return Failed(error, list(self._notes), decode_console(raw.console))

    def _step(self, raw: Raw) -> Step:
        outboxes = [decode_outbox(text, self._limits, self._known) for text in raw.outboxes]
        calls = [call for _, made in outboxes for call in made]
        if raw.end is None:
            if not outboxes:
                raise GuestFault("the guest said nothing")
            last, _ = outboxes[-1]
            if last.state != DONE:
                return Calls(calls, last.wake)
            return Calls(calls, None, settled=True, raced=last.raced)
        if raw.end == "done":
            summary = self._summary(raw)
            return Done(
                raw.text.decode("utf-8", "replace"),
                summary.kind,
                [*self._notes, *summary.notes],
                decode_console(raw.console),
                summary.unawaited,
                summary.refs,
                self._lines(summary),
            )
        self._note_unsent(calls)
        summary = self._summary(raw)
        notes = [*self._notes, *summary.notes]
        return Failed(
            self._error(raw), notes, decode_console(raw.console), summary.unawaited, self._lines(summary)
        )

    @staticmethod
    def _summary(raw: Raw) -> Summary:
        return decode_summary(raw.summary) if raw.summary else Summary()

    def _lines(self, summary: Summary) -> dict[int, int]:
        found = ((ident, _FRAME.search(stack)) for ident, stack in summary.places)
        return {
            ident: self._program.position(int(frame[2]), int(frame[3]))[0] for ident, frame in found if frame
        }

    def _note_unsent(self, calls: Sequence[Call]) -> None:
        if calls:
            counts = Counter(f"{call.backend or call.kind}.{call.tool or 'readResource'}" for call in calls)
            names = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())
            self._notes.append(f"not sent, because the code ended first: {names}"[:2000])

    def _error(self, raw: Raw) -> ErrorInfo:
        if raw.end == "failed":
            return self._placed(*decode_error(raw.text), raw.full)
        if raw.full and (raw.end != "trapped" or raw.reason == "fault"):
            return ErrorInfo("MemoryError", self._memory_text("out of memory"), limit=codes.MEMORY)
        if raw.end == "deadlock":
            text = "the code waits for a promise that nothing will settle: nothing left to run"
            return self._placed(
                ErrorInfo("DeadlockError", f"{text}, no call open, no timer set"), "", raw.full
            )
        if raw.end == "trapped":
            return self._trapped(raw)
        return self._fault(f"the bridge of this chain was broken by its own code. {raw.detail}".strip())

    def _placed(self, error: ErrorInfo, stack: str, full: bool) -> ErrorInfo:
        """Positions of the program's frames, as the author sees them; a memory error in our words."""
        if error.hint:  # one that code can catch says it in its message too
            error.message = error.message.removesuffix(f": {error.hint}")
        # QuickJS counts the columns of the first line, and of no other, from 0.
        frames = [
            (name, int(line), int(column) + (line == "1"))
            for name, line, column in _FRAME.findall(stack)[:MOST_FRAMES]
        ]
        with suppress(ReadingTooLong), patience(PLACING_SECONDS):  # else the engine's own places have to do
            frames = self._exact(error, frames)
        error.stack = [(name, *self._program.position(line, column)) for name, line, column in frames]
        if error.stack:
            _, error.line, error.column = error.stack[0]
        no_room = error.name == "InternalError" and not error.message  # not even for the message
        if error.limit is None and full and (no_room or error.message.startswith(OUT_OF_MEMORY_NULL)):
            error.limit, error.message = codes.MEMORY, "out of memory"
        if error.limit == codes.MEMORY:
            error.name, error.message = "MemoryError", self._memory_text(error.message)
        return error

    def _exact(self, error: ErrorInfo, frames: list[Frame]) -> list[Frame]:
        """The frames with the place of what failed, which the engine only comes near to."""
        js = self._program.js
        if error.name == "SyntaxError" and len(frames) == 1 and not frames[0][0]:
            # The program itself was not taken: a frame of running code has a name.
            return [("", *find_early(js, error.message, *frames[0][1:]))]
        if frames and error.limit is None:
            unawaited = error.message.partition(UNAWAITED)[0] if UNAWAITED in error.message else None
            index, line, column = refine(js, error.name, error.message, frames, tool=error.tool or unawaited)
            return [(frames[index][0], line, column), *frames[index + 1 :]]
        place = None if frames else find_unplaced(js, error.name, error.message)
        return [("", *place)] if place else frames

    def _memory_text(self, cause: str) -> str:
        return f"{cause}: the code may use {self._limits.memory_mb} MiB ({codes.MEMORY})"

    @staticmethod
    def _fault(text: str) -> ErrorInfo:
        return ErrorInfo("InternalError", text, limit=GuestFault.code)

    def _trapped(self, raw: Raw) -> ErrorInfo:
        limits = self._limits
        cpu = f"the code used more than {limits.cpu_seconds:g} s of CPU time ({codes.CPU})"
        wall = f"the chain ran longer than {limits.wall_seconds:g} s, waiting included ({codes.WALL})"
        stack = f"the code nests its calls, brackets or values too deeply: the stack is full ({codes.STACK})"
        known = {
            codes.CPU: ("TimeoutError", cpu),
            codes.WALL: ("TimeoutError", wall),
            codes.STACK: ("StackError", stack),
            codes.MEMORY: ("MemoryError", self._memory_text("out of memory")),
            codes.TOTAL_MEMORY: ("MemoryError", limits.total_memory_text),
            "cancelled": ("CancelledError", "the chain was cancelled"),
        }
        if raw.reason in known:
            return ErrorInfo(*known[raw.reason], limit=raw.reason)
        return self._fault(f"the guest ended itself: {raw.detail[:200]}")
