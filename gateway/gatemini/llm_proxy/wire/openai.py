"""Answers of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from gatemini.llm_proxy.wire.answer import (
    Answer,
    AnswerStream,
    ModelCall,
    Value,
    Wire,
    arguments_of,
    member,
    objects,
    usage_sum,
)
from gatemini.llm_proxy.wire.events import Event, written


class OpenAIWire(Wire):
    """`choices[0]`; requests for several choices pass untouched."""

    def answer(self, body: Value) -> Answer:
        message = member(_choice(body), "message")
        kept = {key: value for key, value in message.items() if value not in (None, [])}
        calls = [_call(call) for call in objects(message.get("tool_calls"))]
        return Answer(calls, {"role": "assistant", "content": message.get("content"), **kept})

    def text(self, body: Value) -> str:
        content = member(_choice(body), "message").get("content")
        return content if isinstance(content, str) else ""

    def results(self, calls: Iterable[ModelCall], texts: Iterable[str]) -> list[Value]:
        pairs = zip(calls, texts, strict=True)
        return [{"role": "tool", "tool_call_id": call.call_id, "content": text} for call, text in pairs]

    def without(self, body: Value, own: Collection[str], note: str) -> Value:
        choice = _choice(body)
        message = member(choice, "message")
        left = [call for call in objects(message.get("tool_calls")) if _name(call) not in own]
        changed = {key: value for key, value in message.items() if key != "tool_calls"}
        content = message.get("content")
        changed["content"] = "\n\n".join(filter(None, (content if isinstance(content, str) else "", note)))
        if left:
            changed["tool_calls"] = left
        choice = {**choice, "message": changed, "finish_reason": _finish(choice.get("finish_reason"), left)}
        return {**body, "choices": [choice]}

    def stream(self) -> AnswerStream:
        return OpenAIStream()

    def error(self, message: str, status: int) -> Value:
        return {"error": {"message": message, "type": "upstream_error", "param": None, "code": status}}


class OpenAIStream(AnswerStream):
    """Chunks with deltas; `id` and role are those of the first answer."""

    def __init__(self) -> None:
        super().__init__()
        self._id: Any = None
        self._begin()

    def _begin(self) -> None:
        self._message: Value = {}
        self._calls: dict[Any, Value] = {}
        self._finished = False

    def answer(self) -> Answer:
        calls = list(self._calls.values())
        message = {
            "role": "assistant",
            "content": None,
            **self._message,
            **({"tool_calls": calls} if calls else {}),
        }
        return Answer([_call(call) for call in calls], message, self._finished)

    def _collect(self, value: Value) -> None:
        choice = _choice(value)
        self._usage = member(value, "usage") or self._usage
        if self._id is None:
            self._id = value.get("id")
        self._finished = self._finished or choice.get("finish_reason") is not None
        for key, part in member(choice, "delta").items():
            if key == "tool_calls":
                for call in objects(part):
                    _add_call(self._calls.setdefault(call.get("index", 0), {}), call)
            elif isinstance(part, str) and key != "role":
                self._message[key] = self._message.get(key, "") + part
            elif isinstance(part, list):
                self._message[key] = [*self._message.get(key, []), *part]

    def _has_call(self, value: Value) -> bool:
        return bool(objects(member(_choice(value), "delta").get("tool_calls")))

    def _divided(self, event: Event) -> tuple[Event | None, Event]:
        """Some models write text, and all the role, beside their first call."""
        choice = _choice(event.value)
        delta = member(choice, "delta")
        before = {key: part for key, part in delta.items() if key != "tool_calls"}
        if not any(before.values()):
            return None, event
        first = {**choice, "delta": before, "finish_reason": None}
        rest = {**choice, "delta": {"tool_calls": delta["tool_calls"]}}
        return _with_choice(event, first), _with_choice(event, rest)

    def _continued(self, event: Event) -> bytes:
        value, choice = event.value, _choice(event.value)
        delta = {key: part for key, part in member(choice, "delta").items() if key != "role"}
        if (
            choice
            and not any(delta.values())
            and choice.get("finish_reason") is None
            and not value.get("usage")
        ):
            return b""  # the beginning of the repeated answer
        choices = [{**choice, "delta": delta}] if choice else []
        usage = member(value, "usage")
        summed = {"usage": usage_sum(self._usage_before, usage)} if usage else {}
        return written({**value, "id": self._id, "choices": choices, **summed})

    def _stripped(self, events: Iterable[Event], own: Collection[str], note: str) -> Iterator[Event]:
        kept = [index for index, call in self._calls.items() if _name(call) not in own]
        noted = not note
        for event in events:
            choice = _choice(event.value)
            if choice.get("finish_reason") is not None and not noted:
                noted = True
                said = {"index": 0, "delta": {"content": note}, "finish_reason": None}
                yield _with_choice(event, said)
            delta = dict(member(choice, "delta"))
            if "tool_calls" in delta:
                calls = [call for call in objects(delta["tool_calls"]) if call.get("index", 0) in kept]
                delta["tool_calls"] = [{**call, "index": kept.index(call.get("index", 0))} for call in calls]
                if not delta["tool_calls"]:
                    del delta["tool_calls"]
            if not choice:
                yield event
            elif any(delta.values()) or choice.get("finish_reason") is not None:
                finish = _finish(choice.get("finish_reason"), kept)
                changed = {**choice, "delta": delta, "finish_reason": finish}
                yield _with_choice(event, changed)


def _choice(body: Any) -> Value:
    choices = objects(body.get("choices")) if isinstance(body, dict) else []
    return choices[0] if choices else {}


def _with_choice(event: Event, choice: Value) -> Event:
    return Event(written({**event.value, "choices": [choice]}))


def _name(call: Value) -> str:
    return str(member(call, "function").get("name") or member(call, "custom").get("name") or "")


def _call(call: Value) -> ModelCall:
    return ModelCall(
        call.get("id"), _name(call), arguments_of(str(member(call, "function").get("arguments") or ""))
    )


def _add_call(call: Value, delta: Value) -> None:
    """Add the part of a call to what is there."""
    for key, part in delta.items():
        if key in ("function", "custom") and isinstance(part, dict):
            inner = call.setdefault(key, {})
            for name, text in part.items():
                joined = name in ("arguments", "input") and isinstance(text, str)
                inner[name] = inner.get(name, "") + text if joined else text
        elif key != "index" and part is not None:
            call[key] = part


def _finish(reason: Any, left: Collection[Any]) -> Any:
    return "stop" if reason == "tool_calls" and not left else reason
