"""The nouns that cross the sandbox's boundary, and their hostile decoding.

What the guest says is checked for size, depth and shape before anyone believes it; every violation raises
GuestFault. What the host says is put into the one JSON text the guest parses. The vocabulary is protocol.json.
Above: steps.py, guest.py, worker.py. Below: errors.py, limits.py, jsontext.py.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

import orjson

from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.jsontext import deeper_than, keep_digits
from gatemini_sandbox.limits import DEPTH, RESULT, Limits

PROTOCOL: Mapping[str, Any] = json.loads(files("gatemini_js").joinpath("protocol.json").read_text("utf-8"))
PENDING, DONE, FAILED = (PROTOCOL["state"][name] for name in ("pending", "done", "failed"))
KINDS = frozenset(PROTOCOL["kinds"])
SEED_WORDS = struct.Struct("<8I")
MOST_NAME: int = PROTOCOL["most_name"]
"""Characters of a tool or backend name, an error name, a note: far above anything real."""

Kind = Literal["tool", "resource", "gatemini", "results"]


@dataclass(frozen=True, slots=True)
class Start:
    """What a guest is told before it runs. `backends` are (global identifier, name) pairs; an identifier that
    could be several comes with the name "" and its owners in `ambiguous`; a backend that has no identifier of its
    own comes with the identifier "". `seed` is 32 bytes."""

    backends: Sequence[tuple[str, str]]
    seed: bytes
    now_ms: float
    ambiguous: Mapping[str, Sequence[str]] = field(default_factory=dict)
    catalog: Mapping[str, Sequence[str]] | None = None
    interfaces: Mapping[str, Any] | None = None
    args: Any | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    """Name -> what to say where the code reads it: globals of other hosts, and "import" for `import(…)`."""
    clock: Sequence[int] = ()
    """Wall clock readings of an earlier run, in ns: the guest reads these again, in order, before the real ones."""


@dataclass(slots=True)
class Call:
    """One message of the guest. `arguments` is the object, or the raw list when it was not exactly one; `digits` are
    the paths in it at which the digits of a BigInt stand as text."""

    id: int
    kind: Kind
    backend: str
    tool: str
    arguments: Any
    raw: bool
    digits: Sequence[Sequence[str | int]] = ()


@dataclass(slots=True)
class Reply:
    """An answer: `value` is JSON text; with `ok` False an object of name, message, tool, backend, code, structured."""

    id: int
    ok: bool
    value: bytes | str


@dataclass(slots=True)
class Console:
    """Lines kept, and how many were dropped once the buffer was full."""

    lines: list[str] = field(default_factory=list)
    dropped: int = 0


@dataclass(slots=True)
class Calls:
    """The guest is idle. `wake_ms`: until its next timer. `settled`: the code itself is done, open calls are not."""

    calls: list[Call]
    wake_ms: float | None = None
    settled: bool = False


@dataclass(slots=True)
class Done:
    """The value as text: a string as it is, everything else JSON; `unawaited` are ids of calls never awaited."""

    text: str
    kind: Literal["string", "json", "undefined"]
    notes: list[str] = field(default_factory=list)
    console: Console = field(default_factory=Console)
    unawaited: list[int] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    lines: dict[int, int] = field(default_factory=dict)
    """Where calls were made that nobody awaited, or that were open when the code had come to its end."""


@dataclass(slots=True)
class ErrorInfo:
    """What was thrown, or which limit ended the chain; positions are those of the submitted text, 1-based."""

    name: str
    message: str
    line: int | None = None
    column: int | None = None
    limit: str | None = None
    tool: str | None = None
    backend: str | None = None
    code: Any = None
    structured: Any = None
    hint: str | None = None
    cause: str | None = None
    stack: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Failed:
    """The chain ended with an error. `unawaited` and `lines` as in Done."""

    error: ErrorInfo
    notes: list[str] = field(default_factory=list)
    console: Console = field(default_factory=Console)
    unawaited: list[int] = field(default_factory=list)
    lines: dict[int, int] = field(default_factory=dict)

    @classmethod
    def placeholder(cls) -> Failed:
        """For a place that must hold an end before there is one."""
        return cls(ErrorInfo("InternalError", "the chain has not ended"))


Step = Calls | Done | Failed


@dataclass(slots=True)
class Outbox:
    """A decoded `collect`: the state, how many calls are open, the next timer, the new calls."""

    state: int
    open: int
    wake_ms: float | None
    calls: list[Call]


End = Literal["done", "failed", "deadlock", "trapped", "broken"]


@dataclass(slots=True)
class Raw:
    """One step of a guest as bytes, to be believed by nobody yet: what crosses a worker's pipe.

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
    memory: int = 0
    """Bytes of the guest's memory after the step; told by workers only."""

    @property
    def size(self) -> int:
        """Bytes to be read."""
        return sum(map(len, self.outboxes)) + len(self.text) + len(self.summary) + len(self.console)


# --- host to guest ---------------------------------------------------------------------------------------------


def encode_start(start: Start, limits: Limits) -> bytes:
    """The start message; raises ValueError for a seed that is not 32 bytes."""
    if len(start.seed) != SEED_WORDS.size:
        raise ValueError("the seed must be 32 bytes")
    message: dict[str, Any] = {
        "backends": list(start.backends),
        "ambiguous": {name: list(owners) for name, owners in start.ambiguous.items()},
        "seed": SEED_WORDS.unpack(start.seed),
        "now": int(start.now_ms),
        "catalog": None if start.catalog is None else {k: list(v) for k, v in start.catalog.items()},
        "limits": {
            "depth": limits.depth,
            "calls": limits.calls,
            "argument_bytes": limits.argument_bytes,
            "value_bytes": limits.value_bytes,
            "other_messages": limits.other_messages,
        },
    }
    if start.interfaces is not None:
        message["interfaces"] = dict(start.interfaces)
    if start.args is not None:
        message["args"] = start.args
    if start.absent:
        message["absent"] = dict(start.absent)
    return orjson.dumps(message)


def encode_replies(replies: Sequence[Reply], limits: Limits, notes: list[str]) -> bytes:
    """`[[id, ok, value], …]`; a reply that is too large or too deep becomes a rejection that says so."""
    parts = []
    for reply in replies:
        ok, value = reply.ok, reply.value
        if isinstance(value, str):
            value = value.encode("utf-8", "replace")
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


# --- guest to host ---------------------------------------------------------------------------------------------


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


def decode_outbox(raw: bytes, limits: Limits, known: set[int]) -> Outbox:
    """A `collect` message. `known` holds the ids seen so far; a repeated one is a fault."""
    message = decode(raw, "outbox")
    if not isinstance(message, dict):
        raise GuestFault("the guest's outbox is not an object")
    state: Any = message.get("state")
    opened: Any = message.get("open")
    wake, entries = message.get("wake"), message.get("calls")
    if not _whole(state) or state not in (PENDING, DONE, FAILED) or not _whole(opened):
        raise GuestFault("the guest's outbox has no state")
    if wake is not None and (not isinstance(wake, int | float) or isinstance(wake, bool) or not wake >= 0):
        raise GuestFault("the guest's timer is no time")
    if not isinstance(entries, list) or len(entries) > limits.calls + limits.other_messages:
        raise GuestFault("the guest's outbox holds no list of calls, or too many")
    calls = [_decode_call(entry) for entry in entries]
    for call in calls:
        if call.id in known:
            raise GuestFault(f"the guest used call id {call.id} twice")
        known.add(call.id)
    if len(known) > limits.calls + limits.other_messages:
        raise GuestFault("the guest made more calls than its limits allow")
    return Outbox(state, opened, None if wake is None else float(wake), calls)


def _decode_call(entry: Any) -> Call:
    if not isinstance(entry, list) or len(entry) != len(PROTOCOL["call"]):
        raise GuestFault("a call of the guest has the wrong shape")
    call_id, kind, backend, tool, raw, arguments, digits = entry
    if not _whole(call_id) or kind not in KINDS or not isinstance(raw, bool):
        raise GuestFault("a call of the guest has the wrong fields")
    if not _name(backend) or not _name(tool):
        raise GuestFault("a call of the guest has no names")
    if not isinstance(digits, list) or not all(map(_is_path, digits)):
        raise GuestFault("a call of the guest tells no places of its BigInts")
    return Call(call_id, kind, backend, tool, arguments, raw, digits)


@dataclass(slots=True)
class Summary:
    """What goes with the end of a chain."""

    kind: Literal["string", "json", "undefined"]
    notes: list[str]
    unawaited: list[int]
    refs: list[str]
    stacks: dict[int, str]


def decode_summary(raw: bytes) -> Summary:
    message = decode(raw, "summary")
    if not isinstance(message, dict) or message.get("kind") not in ("string", "json", "undefined"):
        raise GuestFault("the guest's summary has the wrong shape")
    notes, unawaited, refs, places = (
        _listed(message, key) for key in ("notes", "unawaited", "refs", "places")
    )
    placed = (place for place in places if isinstance(place, list) and len(place) == 2)
    return Summary(
        message["kind"],
        [note for note in notes if _name(note)],
        [number for number in unawaited if _whole(number)],
        [ref for ref in refs if _name(ref)],
        {ident: stack for ident, stack in placed if _whole(ident) and _name(stack)},
    )


def _listed(message: dict[str, Any], key: str) -> list[Any]:
    value = message.get(key)
    if not isinstance(value, list):
        raise GuestFault("the guest's summary has the wrong fields")
    return value


def decode_error(raw: bytes) -> tuple[ErrorInfo, str]:
    """The error and its stack text; anything of the wrong type is left out, never trusted."""
    message = decode(raw, "error")
    if not isinstance(message, dict):
        raise GuestFault("the guest's error is not an object")

    def text(key: str) -> str | None:
        value = message.get(key)
        return value if isinstance(value, str) else None

    error = ErrorInfo(
        name=text("name") or "Error",
        message=text("message") or "",
        limit=text("limit"),
        tool=text("tool"),
        backend=text("backend"),
        code=message.get("code"),
        structured=message.get("structured"),
        hint=text("hint"),
        cause=text("cause"),
    )
    return error, text("stack") or ""


def decode_console(raw: bytes) -> Console:
    """The console buffer: 16 bytes of head (bytes used, lines, lines dropped, lines cut), then lines ended by 0x0A."""
    if len(raw) < 16:
        return Console()
    used, _, dropped, _ = struct.unpack("<4i", raw[:16])
    lines = raw[16 : 16 + max(used, 0)].decode("utf-8", "replace").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return Console([line.replace("\x0b", "\n") for line in lines], max(dropped, 0))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_path(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(step, str) or _whole(step) for step in value)


def _name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MOST_NAME
