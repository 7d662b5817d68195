"""What the three formats have in common: an answer with its calls, and a stream whose calls are held back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from gatemini.llm_proxy.wire.events import Event, written

Value = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The model calls a tool. `arguments` is None where they are no JSON object."""

    call_id: str | None
    name: str
    arguments: Value | None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the model. `message` is the assistant's message for a repeated request."""

    calls: list[ModelCall]
    message: Value
    complete: bool = True


class Wire(ABC):
    """One provider's answers."""

    error_event: str | None = None
    """The name of an event with an error."""
    usage_key = "usage"
    """The member of an answer that has the counts of its tokens."""

    @abstractmethod
    def answer(self, body: Value) -> Answer:
        """Read a whole answer; without calls where there are none."""

    @abstractmethod
    def text(self, body: Value) -> str:
        """All text of a whole answer, thoughts left out."""

    @abstractmethod
    def results(self, calls: Iterable[ModelCall], texts: Iterable[str]) -> list[Value]:
        """The messages with the results of calls, in their order."""

    @abstractmethod
    def without(self, body: Value, own: Collection[str], note: str) -> Value:
        """A whole answer without the calls of these tools, and with a note in their place."""

    @abstractmethod
    def stream(self) -> AnswerStream:
        """A new editor of the stream that a client sees."""

    @abstractmethod
    def error(self, message: str, status: int) -> Value:
        """An error in the provider's form."""

    def with_usage_of(self, body: Value, before: Value) -> Value:
        """A whole answer whose usage has the tokens of earlier answers, too."""
        own = member(body, self.usage_key)
        return {**body, self.usage_key: usage_sum(before, own)} if own else body

    def stream_error(self, body: bytes, status: int) -> bytes:
        """An error as an event of a stream that has begun."""
        value = json_object(body)
        shown = value if "error" in value else self.error(body.decode("utf-8", "replace"), status)
        return written(shown, self.error_event)


class AnswerStream(ABC):
    """The one stream that a client sees, made of the streams of one request and its repeats.

    Text goes on at once. From the first call on an answer is held back until it ends: a call of a tool of ours makes
    the request be repeated, and then the other calls of the same answer do not count.
    """

    def __init__(self) -> None:
        self._repeat = -1
        self._held: list[Event] = []
        self._holding = False
        self._usage_before: Value = {}
        """Tokens of the answers before this one."""
        self._usage: Value = {}

    def begin(self) -> None:
        """A request, or its repeat, begins to be answered."""
        self._repeat += 1
        self._usage_before = usage_sum(self._usage_before, self._usage)
        self._usage = {}
        self._held = []
        self._holding = False
        self._begin()

    def feed(self, event: Event) -> bytes:
        """What the client gets of an event now."""
        before = b""
        if isinstance(event.value, dict):
            self._collect(event.value)
            if not self._holding and self._has_call(event.value):
                self._holding = True
                first, event = self._divided(event)
                before = b"" if first is None else self._shown(first)
        if self._holding:
            self._held.append(event)
            return before
        return self._shown(event)

    def release(self) -> bytes:
        """All that was held back, at the end of an answer without calls of ours."""
        return b"".join(map(self._shown, self._held))

    def release_without(self, own: Collection[str], note: str) -> bytes:
        """All that was held back but calls of these tools, and a note in their place."""
        return b"".join(map(self._shown, self._stripped(self._held, own, note)))

    def _divided(self, event: Event) -> tuple[Event | None, Event]:
        """What comes before the first call in its event, and the event without that."""
        return None, event

    def _shown(self, event: Event) -> bytes:
        """An event as a part of the one stream; the first answer's are the very bytes."""
        if self._repeat == 0 or not isinstance(event.value, dict):
            return event.raw
        return self._continued(event)

    @abstractmethod
    def answer(self) -> Answer:
        """The answer so far, since `begin`."""

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _collect(self, value: Value) -> None:
        """Add an event to the answer."""

    @abstractmethod
    def _has_call(self, value: Value) -> bool:
        """Whether a call begins in an event."""

    @abstractmethod
    def _continued(self, event: Event) -> bytes:
        """An event of a repeated answer as the continuation of the first one."""

    @abstractmethod
    def _stripped(self, events: Iterable[Event], own: Collection[str], note: str) -> Iterable[Event]:
        """Events without the calls of these tools, with the note before what ends the answer."""


def usage_sum(before: Value, usage: Value) -> Value:
    """The counts of two usages added; of other members the later ones."""
    made = {**before, **usage}
    for key in before.keys() & usage.keys():
        old, new = before[key], usage[key]
        if isinstance(old, dict) and isinstance(new, dict):
            made[key] = usage_sum(old, new)
        elif type(old) is int and type(new) is int:
            made[key] = old + new
    return made


def json_object(text: str | bytes) -> Value:
    """The JSON object of a text; empty where it is none."""
    return arguments_of(text) or {}


def arguments_of(text: str | bytes) -> Value | None:
    """Arguments written as text: an empty one is an empty object, None is no object."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def text_of(blocks: Iterable[Value]) -> str:
    """The texts of blocks or parts, joined."""
    return "".join(str(block.get("text") or "") for block in blocks)


def objects(value: Any) -> list[Value]:
    """The objects of a list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def member(value: Any, key: str) -> Value:
    """The object under a key; empty where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
