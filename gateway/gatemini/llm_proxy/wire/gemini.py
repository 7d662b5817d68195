"""Answers of Gemini's `generateContent`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from gatemini.llm_proxy.wire.answer import (
    Answer,
    AnswerStream,
    ModelCall,
    Value,
    Wire,
    json_object,
    member,
    objects,
    text_of,
    usage_sum,
)
from gatemini.llm_proxy.wire.events import Event, written

USAGE = "usageMetadata"


class GeminiWire(Wire):
    """Parts of `candidates[0].content`; requests for several candidates pass untouched."""

    usage_key = USAGE

    def answer(self, body: Value) -> Answer:
        return _answer(_parts(body))

    def text(self, body: Value) -> str:
        return text_of(part for part in _parts(body) if not part.get("thought"))

    def results(self, calls: Iterable[ModelCall], texts: Iterable[str]) -> list[Value]:
        parts = [_response(call, text) for call, text in zip(calls, texts, strict=True)]
        return [{"role": "user", "parts": parts}]

    def without(self, body: Value, own: Collection[str], note: str) -> Value:
        left = [part for part in _parts(body) if _called(part) not in own]
        return _with_parts(body, [*left, *_said(note)])

    def stream(self) -> AnswerStream:
        return GeminiStream()

    def error(self, message: str, status: int) -> Value:
        return {"error": {"code": status, "message": message, "status": "UNAVAILABLE"}}


class GeminiStream(AnswerStream):
    """Each event is an answer with some of the parts."""

    def __init__(self) -> None:
        super().__init__()
        self._begin()

    def _begin(self) -> None:
        self._collected: list[Value] = []
        self._finished = False

    def answer(self) -> Answer:
        return _answer(self._collected, self._finished)

    def _collect(self, value: Value) -> None:
        self._usage = member(value, USAGE) or self._usage
        candidates = objects(value.get("candidates"))
        self._finished = self._finished or any(c.get("finishReason") is not None for c in candidates)
        for part in _parts(value):
            last = self._collected[-1] if self._collected else {}
            if part.keys() == last.keys() == {"text"}:
                self._collected[-1] = {"text": str(last["text"]) + str(part["text"])}
            else:
                self._collected.append(part)

    def _has_call(self, value: Value) -> bool:
        return any(_called(part) is not None for part in _parts(value))

    def _divided(self, event: Event) -> tuple[Event | None, Event]:
        parts = _parts(event.value)
        at = next(index for index, part in enumerate(parts) if _called(part) is not None)
        if at == 0:
            return None, event
        candidate = {
            key: value
            for key, value in objects(event.value.get("candidates"))[0].items()
            if key != "finishReason"
        }
        before = _with_parts({**event.value, "candidates": [candidate]}, parts[:at])
        return Event(written(before)), Event(written(_with_parts(event.value, parts[at:])))

    def _continued(self, event: Event) -> bytes:
        usage = member(event.value, USAGE)
        if not usage:
            return event.raw
        return written({**event.value, USAGE: usage_sum(self._usage_before, usage)})

    def _stripped(self, events: Iterable[Event], own: Collection[str], note: str) -> Iterator[Event]:
        held = list(events)
        for number, event in enumerate(held, 1):
            if not isinstance(event.value, dict):
                yield event
                continue
            left = [part for part in _parts(event.value) if _called(part) not in own]
            if number == len(held):
                left += _said(note)
            yield Event(written(_with_parts(event.value, left)))


def _answer(parts: list[Value], complete: bool = True) -> Answer:
    calls = [
        ModelCall(call.get("id"), str(call.get("name") or ""), member(call, "args"))
        for part in parts
        if (call := member(part, "functionCall"))
    ]
    return Answer(calls, {"role": "model", "parts": parts}, complete)


def _parts(body: Any) -> list[Value]:
    candidates = objects(body.get("candidates")) if isinstance(body, dict) else []
    return objects(member(candidates[0], "content").get("parts")) if candidates else []


def _with_parts(body: Value, parts: list[Value]) -> Value:
    first, *others = objects(body.get("candidates")) or [{}]
    content = {"role": "model", **member(first, "content"), "parts": parts}
    return {**body, "candidates": [{**first, "content": content}, *others]}


def _called(part: Value) -> Any:
    return member(part, "functionCall").get("name")


def _said(note: str) -> list[Value]:
    return [{"text": note}] if note else []


def _response(call: ModelCall, text: str) -> Value:
    value = json_object(text) or {"result": text}
    ident = {"id": call.call_id} if call.call_id is not None else {}
    return {"functionResponse": {**ident, "name": call.name, "response": value}}
