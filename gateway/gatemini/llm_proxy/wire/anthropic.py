"""Answers of Anthropic's messages."""

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
    text_of,
    usage_sum,
)
from gatemini.llm_proxy.wire.events import Event, written

_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class AnthropicWire(Wire):
    """Blocks of `content`."""

    error_event = "error"

    def answer(self, body: Value) -> Answer:
        blocks = objects(body.get("content"))
        return Answer(list(_calls(blocks)), {"role": "assistant", "content": blocks})

    def text(self, body: Value) -> str:
        return text_of(block for block in objects(body.get("content")) if block.get("type") == "text")

    def results(self, calls: Iterable[ModelCall], texts: Iterable[str]) -> list[Value]:
        pairs = zip(calls, texts, strict=True)
        blocks = [
            {"type": "tool_result", "tool_use_id": call.call_id, "content": text} for call, text in pairs
        ]
        return [{"role": "user", "content": blocks}]

    def without(self, body: Value, own: Collection[str], note: str) -> Value:
        left = [block for block in objects(body.get("content")) if not _is_call_of(block, own)]
        said = [{"type": "text", "text": note}] if note else []
        at = next((i for i, block in enumerate(left) if block.get("type") == "tool_use"), len(left))
        reason = _reason(body.get("stop_reason"), left)
        return {**body, "content": [*left[:at], *said, *left[at:]], "stop_reason": reason}

    def stream(self) -> AnswerStream:
        return AnthropicStream()

    def error(self, message: str, status: int) -> Value:
        kind = "overloaded_error" if status == 529 else "rate_limit_error" if status == 429 else "api_error"
        return {"type": "error", "error": {"type": kind, "message": message}}


class AnthropicStream(AnswerStream):
    """Events of blocks, which are numbered on from the first answer's."""

    def __init__(self) -> None:
        super().__init__()
        self._sent_blocks = 0
        self._begin()

    def _begin(self) -> None:
        self._first_index = self._sent_blocks
        self._blocks: dict[Any, Value] = {}
        self._inputs: dict[Any, str] = {}
        self._finished = False

    def answer(self) -> Answer:
        read = {index: arguments_of(text) for index, text in self._inputs.items()}
        for index, given in read.items():
            self._blocks[index]["input"] = given or {}
        calls = [
            ModelCall(call.call_id, call.name, read.get(index, call.arguments))
            for index, block in self._blocks.items()
            for call in _calls([block])
        ]
        return Answer(calls, {"role": "assistant", "content": list(self._blocks.values())}, self._finished)

    def _collect(self, value: Value) -> None:
        index, delta = value.get("index"), member(value, "delta")
        match value.get("type"):
            case "message_start":
                self._usage = member(member(value, "message"), "usage")
            case "message_delta":
                self._usage = {**self._usage, **member(value, "usage")}
            case "content_block_start":
                self._blocks[index] = dict(member(value, "content_block"))
            case "content_block_delta" if index in self._blocks:
                block, kind = self._blocks[index], delta.get("type")
                if kind == "input_json_delta":
                    self._inputs[index] = self._inputs.get(index, "") + str(delta.get("partial_json") or "")
                elif kind == "citations_delta":
                    block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
                elif kind in _JOINED:
                    key = _JOINED[kind]
                    block[key] = str(block.get(key) or "") + str(delta.get(key) or "")
            case "message_stop":
                self._finished = True

    def _has_call(self, value: Value) -> bool:
        is_start = value.get("type") == "content_block_start"
        return is_start and member(value, "content_block").get("type") == "tool_use"

    def _shown(self, event: Event) -> bytes:
        if isinstance(event.value, dict) and event.value.get("type") == "content_block_start":
            self._sent_blocks += 1
        return super()._shown(event)

    def _continued(self, event: Event) -> bytes:
        kind = event.value.get("type")
        if kind == "message_start":
            return b""
        if kind == "message_delta":  # of a stream its only usage that counts for all answers
            return written({**event.value, "usage": usage_sum(self._usage_before, self._usage)}, kind)
        if isinstance(event.value.get("index"), int) and self._first_index:
            return written({**event.value, "index": event.value["index"] + self._first_index}, kind)
        return event.raw

    def _stripped(self, events: Iterable[Event], own: Collection[str], note: str) -> Iterator[Event]:
        before = self._sent_blocks - self._first_index
        numbers: dict[Any, int] = {}
        left = [block for block in self._blocks.values() if not _is_call_of(block, own)]
        if note:
            block = {"type": "text", "text": ""}
            said = {"type": "text_delta", "text": note}
            yield _event("content_block_start", index=before, content_block=block)
            yield _event("content_block_delta", index=before, delta=said)
            yield _event("content_block_stop", index=before)
            before += 1
        for event in events:
            value = event.value if isinstance(event.value, dict) else {}
            index, kind = value.get("index"), value.get("type")
            if index is not None and kind is not None:
                if _is_call_of(self._blocks.get(index, {}), own):
                    continue
                number = numbers.setdefault(index, before + len(numbers))
                yield Event(written({**value, "index": number}, kind))
            elif kind == "message_delta":
                delta = member(value, "delta")
                reason = _reason(delta.get("stop_reason"), left)
                yield Event(written({**value, "delta": {**delta, "stop_reason": reason}}, kind))
            else:
                yield event


def _event(kind: str, **members: Any) -> Event:
    return Event(written({"type": kind, **members}, kind))


def _calls(blocks: Iterable[Value]) -> Iterator[ModelCall]:
    for block in blocks:
        if block.get("type") == "tool_use":
            given = block.get("input")
            arguments = given if isinstance(given, dict) else None
            yield ModelCall(block.get("id"), str(block.get("name") or ""), arguments)


def _is_call_of(block: Value, own: Collection[str]) -> bool:
    return block.get("type") == "tool_use" and block.get("name") in own


def _reason(reason: Any, blocks: Iterable[Value]) -> Any:
    has_call = any(block.get("type") == "tool_use" for block in blocks)
    return "end_turn" if reason == "tool_use" and not has_call else reason
