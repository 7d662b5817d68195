"""Odd requests against the rules, read by a plain reader that shares no code with the steps."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.context_checks import calls_and_results
from fixtures.odd_requests import ERRORS, OddRequest
from gatemini.context import SessionStore, filter_tools, fold_results, mark_cache, trim_history

FORMATS = ("openai", "anthropic", "gemini")
STUB = re.compile(r'\{"status":"processed","handle":"res_[0-9a-f]{8}"\}')
ALWAYS = {"read", "exec", "bash", "write", "edit", "glob", "grep"}
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()
SEEDS = [range(12), pytest.param(range(12, 150), marks=pytest.mark.long)]
each_format = pytest.mark.parametrize("format", FORMATS)
each_seed = pytest.mark.parametrize("seeds", SEEDS, ids=["few", "many"])
Path = list[str | int]


def children(text: str, at: int) -> Iterator[tuple[str | int, int, int]]:
    """Key or index, begin and end of each value in the object or array that begins there."""
    closing, at = {"{": "}", "[": "]"}[text[at]], _behind(text, at + 1)
    for index in itertools.count():
        if text[at] == closing:
            return
        key: str | int = index
        if closing == "}":
            key, at = DECODER.raw_decode(text, at)
            at = _behind(text, _behind(text, at) + 1)
        end = DECODER.raw_decode(text, at)[1]
        yield key, at, end
        at = _behind(text, end)
        at = _behind(text, at + 1) if text[at] == "," else at


def _behind(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    assert found
    return found.end()


def place(text: str, path: Path) -> tuple[int, int]:
    at, end = _behind(text, 0), len(text)
    for step in path:
        at, end = next((begin, stop) for key, begin, stop in children(text, at) if key == step)
    return at, end


def without(text: str, paths: list[Path]) -> str:
    """The text without the values at these places."""
    for at, end in sorted((place(text, path) for path in paths), reverse=True):
        text = text[:at] + text[end:]
    return text


def key_of(format: str) -> str:
    return "contents" if format == "gemini" else "messages"


def spoken_by_model(message: Any) -> bool:
    return message.get("role") in ("assistant", "model")


def bodies(message: Any) -> Iterator[tuple[Path, Any, bool]]:
    """Place in its message, value, and whether it is an error, of each result."""
    if message.get("role") == "tool":
        content = message["content"]
        yield ["content"], content, isinstance(content, str) and content.startswith(ERRORS)
    content = message.get("content")
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if block.get("type") == "tool_result":
            yield ["content", index, "content"], block["content"], block.get("is_error") is True
    for index, part in enumerate(message.get("parts", ())):
        for key in ("functionResponse", "function_response"):
            if key in part:
                value = part[key]["response"]
                yield ["parts", index, key, "response"], value, value.get("error") is not None


def is_result(message: Any) -> bool:
    return next(bodies(message), None) is not None


def text_of(body: Any) -> str:
    if isinstance(body, list):
        return "\n".join(block["text"] for block in body if "text" in block)
    return body if isinstance(body, str) else json.dumps(body, separators=(",", ":"), ensure_ascii=False)


@each_format
@each_seed
def test_of_odd_requests_exactly_the_results_that_were_read_are_folded(format: str, seeds: range) -> None:
    for seed in seeds:
        data = OddRequest(seed, format).data
        keep, store = seed % 3, SessionStore()
        made, _ = fold_results(data, {"keep_turns": keep}, format=format, store=store)
        old, new = data.decode(), made.decode()
        messages, folded = json.loads(data)[key_of(format)], json.loads(made)[key_of(format)]
        stubs: list[Path] = []
        for number, message in enumerate(messages):
            read_by = sum(map(spoken_by_model, messages[number + 1 :]))
            pairs = zip(bodies(message), bodies(folded[number]), strict=True)
            for (inner, before, is_error), (_, after, _) in pairs:
                is_stub = bool(STUB.fullmatch(text_of(after)))
                size = len(text_of(before).encode())
                # Of an object the written size counts, which escapes make larger.
                if format != "gemini" or size > 46:
                    assert is_stub is (read_by > keep and not is_error and size > 46), (seed, number, inner)
                if is_stub:
                    stubs.append([key_of(format), number, *inner])
        assert without(old, stubs) == without(new, stubs), seed
        handles = [new[slice(*place(new, path))] for path in stubs]
        assert len(set(handles)) == len(handles) or format == "gemini", seed
        assert fold_results(made, {"keep_turns": keep}, format=format, store=store).request == made
        assert fold_results(data, {"keep_turns": keep}, format=format, store=store).request == made


def turns_of_user(messages: list[Any]) -> list[int]:
    """Indices at which the user begins to speak."""
    found, before = [], ""
    for index, message in enumerate(messages):
        role = "tool" if is_result(message) else str(message.get("role", "user"))
        if role in ("system", "developer"):
            continue
        if role == "user" != before:
            found.append(index)
        before = role
    return found


@each_format
@each_seed
def test_of_odd_requests_old_messages_are_trimmed_and_nothing_else(format: str, seeds: range) -> None:
    for seed in seeds:
        data, chance = OddRequest(seed, format).data, random.Random(seed)
        budget, keep = chance.choice((1, 50, 300, 1000, 3000)), chance.choice((1, 2, 20))
        options = {"max_history_tokens": budget, "keep_recent_exchanges": keep}
        made, report = trim_history(data, options, format=format)
        old, new, key = data.decode(), made.decode(), key_of(format)
        assert without(old, [[key]]) == without(new, [[key]]), seed
        before = [old[at:end] for _, at, end in children(old, place(old, [key])[0])]
        after = [new[at:end] for _, at, end in children(new, place(new, [key])[0])]
        messages, kept = list(map(json.loads, before)), list(map(json.loads, after))
        system = [
            text for text, m in zip(before, messages, strict=True) if m.get("role") in ("system", "developer")
        ]
        assert [text for text in after if text in system] == system, seed
        gone = len(messages) - len(kept)
        assert gone == report["dropped"]
        if messages and is_result(messages[-1]):
            keep = min(keep, 1)
        turns = turns_of_user(messages)
        recent = len(messages) - (turns[-keep] if len(turns) >= keep else len(system))
        assert after[len(after) - recent :] == before[len(before) - recent :], seed
        called, answered = calls_and_results(kept)
        assert sorted(called) == sorted(answered), seed
        for message, earlier in zip(kept[len(system) :], messages[len(system) + gone :], strict=True):
            assert list(message) == list(earlier)
        assert report["over_budget_by"] == max(0, report["tokens_after"] - budget)
        assert report["tokens_after"] <= budget or len(kept) - len(system) == recent, seed
        assert trim_history(made, options, format=format).request == made, seed


def definitions(text: str, format: str) -> list[tuple[str, str]]:
    """Name and text of each tool."""
    at, _ = place(text, ["tools"])
    found = [text[begin:end] for _, begin, end in children(text, at)]
    if format == "gemini":
        groups, found = found, []
        for group in groups:
            for key, begin, _ in children(group, 0):
                if key in ("functionDeclarations", "function_declarations"):
                    found += [group[a:b] for _, a, b in children(group, begin)]
    values = map(json.loads, found)
    return [(value.get("function", value)["name"], each) for value, each in zip(values, found, strict=True)]


@each_format
@each_seed
def test_of_odd_requests_tools_are_left_out_and_none_is_changed(format: str, seeds: range) -> None:
    for seed in seeds:
        data = OddRequest(seed, format).data
        made, _ = filter_tools(data, {"use_prediction": False}, format=format)
        if made == data:
            continue
        old, new = data.decode(), made.decode()
        assert without(old, [["tools"]]) == without(new, [["tools"]])
        given, kept = definitions(old, format), definitions(new, format)
        *left, (name, _) = kept
        assert set(left) < set(given)
        assert name == ("gatemini_tool_search" if "tool_search" in dict(given) else "tool_search")
        names = [each for each, _ in left]
        messages = json.loads(data)[key_of(format)]
        used = set(re.findall(r'"name": "(\w+)"', json.dumps(messages)))
        assert names == sorted((ALWAYS | used) & set(dict(given))), seed


@each_format
@each_seed
def test_of_odd_requests_only_markers_are_added(format: str, seeds: range) -> None:
    for seed in seeds:
        data = OddRequest(seed, format).data
        made, report = mark_cache(data, format=format)
        if format != "anthropic":
            assert made == data
            continue
        before, after = json.loads(data), json.loads(made)
        tools, system = after.get("tools"), after.get("system")
        if tools:
            assert tools[-1].pop("cache_control") == {"type": "ephemeral"}
        if system:
            assert system[-1].pop("cache_control") == {"type": "ephemeral"}
            if isinstance(before["system"], str):
                assert system == [{"type": "text", "text": before["system"]}]
                after["system"] = before["system"]
        assert after == before, seed
        assert report["markers_added"] == bool(tools) + bool(system)
        assert mark_cache(made, format=format).request == made
