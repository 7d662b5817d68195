"""Messages between the gateway and a sandbox process, and the values chains are made of.

A message is a msgspec struct; `pack` frames it as msgpack behind its length, `Frames` reads frames from pieces of
a stream. The gateway distrusts the process: decoding checks types, sizes and shapes, and every violation is a
GuestFault. Nothing here imports the engine or a parser, so the gateway can import it cheaply.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
import orjson

from gatemini_sandbox.errors import GuestFault
from gatemini_sandbox.limits import Limits

SEED_WORDS = struct.Struct("<8I")
MOST_NAME = 100_000
"""Characters of a tool or backend name, an error name, a note: far above anything real. The guest has the same
number in protocol.json."""
MOST_FRAME_BYTES = 192 << 20
"""Bytes of one message: a batch of the largest replies a guest takes, with room to spare."""

Kind = Literal["tool", "resource", "gatemini", "results"]
Whole = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Name = Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
Place = tuple[int, int]
"""1-based line and column, columns in code points of the submitted text."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a guest learns before it runs. `backends` are (global identifier, name) pairs; an identifier that
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


class Call(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One call of the guest. `text` is the JSON of the arguments: the object, or the list of all arguments when it
    was not exactly one object. `digits` are the paths in it at which the digits of a BigInt stand as text."""

    id: Whole
    kind: Kind
    backend: Name
    tool: Name
    raw: bool
    text: bytes
    digits: list[list[str | Whole]] = []
    arguments: Any = None
    """What `text` says; filled in by the gateway."""


class Reply(msgspec.Struct, array_like=True):
    """An answer: `value` is JSON text; with `ok` False an object of name, message, tool, backend, code, structured."""

    id: int
    ok: bool
    value: bytes


class Console(msgspec.Struct):
    """Lines kept, and how many were dropped once the buffer was full."""

    lines: list[str] = []
    dropped: Whole = 0


class Source(msgspec.Struct, array_like=True):
    """Where a value comes from: the global of the backend, the tool, and the steps into its result.

    A step is a member's name, `["items"]` (each item), `["json"]` (the value of the text) or `["if", condition]`.
    """

    backend: Name
    tool: Name
    path: list[Any]


OfAKind = Literal["number", "added", "dated", "as number", "as text"]
"""Uses of a member that want a kind of value: code calculates with it, adds it to a number, gives it to `new Date`, or
compares it by `===` with a number or a text."""
OF_A_KIND: Final[frozenset[OfAKind]] = frozenset(get_args(OfAKind))
ReadKind = Literal["plain", "sifted", "paired", "asked", "entered", "called", "held", "looped", OfAKind]
"""What depends on a member that is read: a filter decides by it ("sifted"), two items are compared by it ("paired"), the
code asks whether it is there ("asked"), reads a member of it next ("entered"), calls it ("called", at the method's
name; "held": the method looks for text), goes through the value itself by `for … of` ("looped"); else "plain"."""


class Read(msgspec.Struct, array_like=True):
    """A member that code reads from results. `member` is empty with "looped", and with "called" where the value is
    spread or taken apart; `shown` is the text of the code."""

    line: Whole
    column: Whole
    shown: Name
    member: Name
    kind: ReadKind
    sources: list[Source]


class Calls(msgspec.Struct, tag="calls"):
    """The guest is idle. `wake_ms`: until its next timer. `settled`: the code itself is done, open calls are not.

    `raced`: of the open calls of settled code, those that lost a race and that nothing else waits for.
    """

    calls: list[Call]
    wake_ms: Annotated[float, msgspec.Meta(ge=0)] | None = None
    settled: bool = False
    raced: list[Whole] = []


class Done(msgspec.Struct, tag="done"):
    """The value as text: a string as it is, everything else JSON; `unawaited` are ids of calls never awaited."""

    text: str
    kind: Literal["string", "json", "undefined"]
    notes: list[Name] = []
    console: Console = msgspec.field(default_factory=Console)
    unawaited: list[Whole] = []
    refs: list[Name] = []
    lines: dict[int, int] = {}
    """Lines of calls that were never awaited, or that were open when the code had come to its end, by id."""
    given: list[tuple[int, int, str]] = []
    """Line, column and text of the expressions that may have given a value that is undefined."""
    reads: list[Read] = []


class ErrorInfo(msgspec.Struct):
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
    stack: list[tuple[str, int, int]] = []


class Failed(msgspec.Struct, tag="failed"):
    """The chain ended with an error. `unawaited` and `lines` as in Done."""

    error: ErrorInfo
    notes: list[Name] = []
    console: Console = msgspec.field(default_factory=Console)
    unawaited: list[Whole] = []
    lines: dict[int, int] = {}
    reads: list[Read] = []


Step = Calls | Done | Failed


class Facts(msgspec.Struct):
    """What the parse of a program says about it, for hints and notes."""

    shadowed: dict[str, Place] = {}
    """Backends hidden by a variable of the same name: where."""
    declared_never_called: str | None = None
    lost_value: tuple[int, int, str] | None = None
    rounded: list[tuple[int, int, str]] = []
    """Whole numbers that JavaScript cannot hold, with their place."""
    interface_literals: list[str] = []
    """Names in `__getToolInterface("…")`."""
    source: str = ""
    """The program itself; filled in by the gateway."""


# --- gateway to process ----------------------------------------------------------------------------------------


class Settings(msgspec.Struct, tag="settings"):
    """The first message. `watched` are the names whose reading needs an explanation from the gateway."""

    limits: Limits
    threads: int
    cache_dir: str | None = None
    watched: frozenset[str] = frozenset()


class Run(msgspec.Struct, tag="run"):
    """Begin a chain. `complete`: `start` holds all that the program may need, so no Needs is to be answered."""

    session: int
    source: bytes
    identifiers: list[str]
    start: bytes
    wall_seconds: float
    waited_seconds: float
    """How much of `wall_seconds` is over."""
    now_ms: float
    clock: bytes = b""
    complete: bool = False


class Replies(msgspec.Struct, tag="replies"):
    """Go on with these answers; none when only time has passed."""

    session: int
    replies: list[Reply] = []


class Conclude(msgspec.Struct, tag="conclude"):
    """End a chain whose code has come to its end, without waiting for its open calls."""

    session: int


class Drop(msgspec.Struct, tag="drop"):
    """End a chain, whatever it is doing, and free its guest; Dropped answers."""

    session: int


class Check(msgspec.Struct, tag="check"):
    """Instead of Settings: parse these programs, answer Checked, and end."""

    sources: list[bytes]


Request = Settings | Run | Replies | Conclude | Drop | Check


# --- process to gateway ----------------------------------------------------------------------------------------


class Ready(msgspec.Struct, tag="ready"):
    """The process takes chains. `walls` are what the kernel granted."""

    walls: list[str]
    cache_problem: str = ""


class Refused(msgspec.Struct, tag="refused"):
    """An error of the sandbox (errors.py) by its code; of the process as a whole when `session` is 0."""

    session: int
    code: str
    text: str


class NotCode(msgspec.Struct, tag="not_code"):
    """The source has a syntax error: the fields of SandboxSyntaxError."""

    session: int
    message: str
    line: int
    column: int
    source_line: str
    hint: str | None = None
    kind: Literal["syntax", "unsupported", "module"] = "syntax"


class Needs(msgspec.Struct, tag="needs"):
    """What the program asks of the gateway before it can run; a complete Run answers."""

    session: int
    facts: Facts
    catalog: bool = False
    interfaces: bool = False
    read: list[str] = []
    """Watched names that the program reads."""


class Stepped(msgspec.Struct, tag="stepped"):
    """A step of a chain, with the bytes of its guest after it, and the new clock readings in ns, 8 bytes each."""

    session: int
    step: Step
    memory: Whole = 0
    readings: bytes = b""
    facts: Facts | None = None


class Dropped(msgspec.Struct, tag="dropped"):
    """The guest of a dropped chain is freed."""

    session: int


class CodeCheck(msgspec.Struct):
    """One checked program: its syntax error if it has one, and `name.member(…)` calls of names it does not declare."""

    error: NotCode | None = None
    calls: list[tuple[str, str, int]] = []


class Checked(msgspec.Struct, tag="checked"):
    results: list[CodeCheck]


Answer = Ready | Refused | NotCode | Needs | Stepped | Dropped | Checked

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_length = struct.Struct("<I")


def pack(message: Request | Answer) -> bytes:
    """The frame of a message."""
    try:
        body = _encoder.encode(message)
    except RecursionError:  # the only value of any depth is what a thrown error carries
        if not isinstance(message, Stepped) or not isinstance(message.step, Failed):
            raise
        message.step.error.structured = message.step.error.code = None
        body = _encoder.encode(message)
    return _length.pack(len(body)) + body


def request_of(body: bytes | memoryview) -> Request:
    return _requests.decode(body)


def answer_of(body: bytes | memoryview) -> Answer:
    """A message of a process; raises GuestFault for anything else."""
    try:
        return _answers.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise GuestFault(f"no message: {exc}") from None


def frame_size(head: bytes | bytearray) -> int:
    """The size of a frame's body from its first 4 bytes; raises GuestFault for one above the bound."""
    size: int = _length.unpack_from(head)[0]
    if size > MOST_FRAME_BYTES:
        raise GuestFault(f"a frame of {size} bytes")
    return size


class Frames:
    """Bodies of frames from a stream that arrives in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that are complete with these bytes; raises GuestFault for a frame above the bound."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= _length.size:
            end = at + _length.size + frame_size(buffer[at : at + _length.size])
            if len(buffer) < end:
                break
            yield bytes(memoryview(buffer)[at + _length.size : end])
            at = end
        if at:
            del buffer[:at]


def encode_start(start: Start, limits: Limits) -> bytes:
    """The start message as the guest parses it; raises ValueError for a seed that is not 32 bytes."""
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
