"""Decode what a guest says, and encode what it gets; runs beside the guest, never in the gateway.

What the guest says is checked for size, depth and shape; every violation raises GuestFault. The vocabulary is
protocol.json.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

import msgspec
import orjson

from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.json_text import deeper_than, keep_digits
from gatemini_sandbox.limits import DEPTH, RESULT, Limits
from gatemini_sandbox.messages import Call, Console, ErrorInfo, Kind, Name, Reply, Whole

PROTOCOL: Mapping[str, Any] = json.loads(files("gatemini_js").joinpath("protocol.json").read_text("utf-8"))
DONE, FAILED = PROTOCOL["state"]["done"], PROTOCOL["state"]["failed"]

End = Literal["done", "failed", "deadlock", "trapped", "broken"]


@dataclass(slots=True)
class Raw:
    """One step of a guest as bytes, not yet checked.

    `end` is None while the chain goes on. `text` is the value or the error's JSON, `reason` and `detail` say how it was
    trapped or broke, `full` that its memory was nearly used up, `console` is head and body of the console buffer."""

    outboxes: list[bytes] = field(default_factory=list)
    end: End | None = None
    text: bytes = b""
    summary: bytes = b""
    console: bytes = b""
    reason: str = ""
    detail: str = ""
    full: bool = False
    readings: list[int] = field(default_factory=list)
    """All wall clock readings of the chain so far, in ns."""


# --- to the guest ----------------------------------------------------------------------------------------------


def encode_replies(replies: Sequence[Reply], limits: Limits, notes: list[str]) -> bytes:
    """`[[id, ok, value], …]`; a reply that is too large or too deep becomes a rejection that says so."""
    parts = []
    for reply in replies:
        ok, value = reply.ok, reply.value
        fault = _refused(value, limits)
        if fault is not None:
            ok, value = False, orjson.dumps({"name": "LimitError", **fault})
        else:
            value = keep_digits(value, notes)
        parts.append(b"[%d,%d,%s]" % (reply.id, 1 if ok else 0, value or b"null"))
    return b"[" + b",".join(parts) + b"]"


def _refused(value: bytes, limits: Limits) -> dict[str, str] | None:
    if len(value) > limits.result_bytes:
        size, most = len(value), limits.result_bytes
        text = f"the result has {size} bytes and code takes {most} at a time ({RESULT})"
        hint = "ask for less: results.chunks(handle, { rows: 100 }) gives fewer rows at a time"
        return {"message": text, "code": RESULT, "hint": hint}
    if deeper_than(value, limits.depth):
        text = f"the result is nested deeper than {limits.depth} levels ({DEPTH})"
        return {"message": text, "code": DEPTH}
    return None


# --- from the guest --------------------------------------------------------------------------------------------


def decode(raw: bytes, what: str) -> Any:
    """JSON from the guest, or GuestFault. Half surrogate pairs and bad UTF-8 become U+FFFD first."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(raw.decode("utf-8", "replace"))
    except orjson.JSONDecodeError as exc:
        raise GuestFault(f"the guest's {what} is not JSON: {exc}") from None


_HEAD = re.compile(rb'\{"state":(\d),"open":(\d{1,9}),"wake":(null|[0-9][0-9.e+-]{0,30}),')


def outbox_head(raw: bytes) -> tuple[int, int, float | None]:
    """State, open calls and time to the next timer, without decoding the calls."""
    match = _HEAD.match(raw)
    if match is None:
        raise GuestFault("the guest's outbox has no head")
    state, opened, wake = match.groups()
    try:
        return int(state), int(opened), None if wake == b"null" else float(wake)
    except ValueError:
        raise GuestFault("the guest's timer is no time") from None


class _Sent(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A call as the guest writes it: the members of `call` in protocol.json."""

    id: Whole
    kind: Kind
    backend: Name
    tool: Name
    raw: bool
    arguments: msgspec.Raw
    digits: list[list[str | Whole]]


class Outbox(msgspec.Struct):
    """What the guest has to say: its state, how many calls are open, ms to the next timer, the new calls.

    `raced` are open calls that lost a race, once the code has ended.
    """

    state: Literal[0, 1, 2]
    open: Whole
    calls: list[_Sent]
    wake: float | None = None
    raced: list[Whole] = []

    def __post_init__(self) -> None:
        if self.wake is not None and not self.wake >= 0:
            raise ValueError("the guest's timer is no time")


_outboxes = msgspec.json.Decoder(Outbox)


def decode_outbox(raw: bytes, limits: Limits, known: set[int]) -> tuple[Outbox, list[Call]]:
    """A `collect` message. `known` holds the ids seen so far; a repeated one is a fault."""
    if not raw.isascii():
        raw = raw.decode("utf-8", "replace").encode()
    deep: list[bytes] = []
    try:
        try:
            outbox = _outboxes.decode(raw)
        except RecursionError:
            flat, deep = _without_arguments(raw)
            outbox = _outboxes.decode(flat)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise GuestFault(f"the guest's outbox has the wrong shape: {exc}") from None
    most = limits.calls + limits.other_messages
    if len(known) + len(outbox.calls) > most:
        raise GuestFault("the guest made more calls than its limits allow")
    calls = []
    for index, sent in enumerate(outbox.calls):
        if sent.id in known:
            raise GuestFault(f"the guest used call id {sent.id} twice")
        known.add(sent.id)
        text = deep[index] if deep else bytes(sent.arguments)
        decode(
            text, "argument"
        )  # the gateway reads it again, and takes nonsense for a lie of the whole process
        calls.append(Call(sent.id, sent.kind, sent.backend, sent.tool, sent.raw, text, sent.digits))
    return outbox, calls


_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_CALL_DEPTH, _ARGUMENTS = 3, PROTOCOL["call"].index("arguments")


def _without_arguments(raw: bytes) -> tuple[bytes, list[bytes]]:
    """The outbox with null for the arguments of each call, and those: they may nest as deep as no recursive decoder
    follows (the interpreter's limit is 1,000 frames)."""
    kept, found = [], []
    depth = place = start = at = 0
    for token in _BRACKET.finditer(raw):
        sign = token.group()
        before = depth
        if sign in (b"[", b"{"):
            depth += 1
            place = 0 if depth == _CALL_DEPTH else place
        elif sign in (b"]", b"}"):
            depth -= 1
        if sign == b"," and depth == _CALL_DEPTH:
            place += 1
            if place == _ARGUMENTS:
                start = token.end()
        if (
            place >= _ARGUMENTS
            and start
            and ((sign == b"," and place > _ARGUMENTS) or depth < _CALL_DEPTH <= before)
        ):
            kept += [raw[at:start], b"null"]
            found.append(raw[start : token.start()])
            at, start = token.start(), 0
    return b"".join((*kept, raw[at:])), found


class Summary(msgspec.Struct):
    """What goes with the end of a chain; `places` are ids of calls with the stacks of their places in the code."""

    kind: Literal["string", "json", "undefined"] = "undefined"
    notes: list[Name] = []
    unawaited: list[Whole] = []
    refs: list[Name] = []
    places: list[tuple[Whole, Name]] = []


_summaries = msgspec.json.Decoder(Summary)


def decode_summary(raw: bytes) -> Summary:
    try:
        return _summaries.decode(raw.decode("utf-8", "replace"))
    except msgspec.MsgspecError as exc:
        raise GuestFault(f"the guest's summary has the wrong shape: {exc}") from None


_ERROR_TEXTS = ("name", "message", "stack", "limit", "tool", "backend", "hint", "cause")


def decode_error(raw: bytes) -> tuple[ErrorInfo, str]:
    """The error and its stack text; anything of the wrong type is left out, never trusted."""
    message = decode(raw, "error")
    if not isinstance(message, dict):
        raise GuestFault("the guest's error is not an object")

    texts = {key: message[key] for key in _ERROR_TEXTS if isinstance(message.get(key), str)}
    name, stack = texts.pop("name", "") or "Error", texts.pop("stack", "")
    texts.setdefault("message", "")
    error = ErrorInfo(name, **texts, code=message.get("code"), structured=message.get("structured"))
    return error, stack


def decode_console(raw: bytes) -> Console:
    """The console buffer: 16 bytes of head (bytes used, lines, lines dropped, lines cut), then lines ended by 0x0A."""
    if len(raw) < 16:
        return Console()
    used, _, dropped, _ = struct.unpack("<4i", raw[:16])
    lines = raw[16 : 16 + max(used, 0)].decode("utf-8", "replace").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return Console([line.replace("\x0b", "\n") for line in lines], max(dropped, 0))
