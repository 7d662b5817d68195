"""Trim a history that is over its budget: cap old messages by age, then drop the oldest units of the protocol."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatemini.config.model.context import HistoryConfig
from gatemini.context.bodies import WRAPPERS, wrapped
from gatemini.context.caps import Caps, capped, caps
from gatemini.context.options import Given, Outcome, opened, outcome, read_options
from gatemini.context.request.formats import Request, user_message
from gatemini.context.request.json_places import Edit, Json, spliced, without_items
from gatemini.context.request.messages import Counter, Format, Message, tokens_of
from gatemini.context.stores import Store
from gatemini.output.json.json_text import dump
from gatemini.text.utf8 import encode

LEAST_ROOM = 12
"""Tokens that a text must have for the marker in it."""
MARK_TOKENS = 12
"""What the message that names the dropped ones has at most."""


@dataclass(slots=True)
class _Old:
    """An old message: its tokens as it is and as it will be, its caps, and the edits that bring it there."""

    index: int
    message: Message
    whole: int
    tokens: int
    cap: int = 0
    tool_cap: int = 0
    edits: list[Edit] = field(default_factory=list)


def trim_history(
    request: Given | Request,
    options: Mapping[str, Any] | HistoryConfig | None = None,
    *,
    format: Format | None = None,
    store: Store | None = None,
    mark_dropped: bool = False,
    count: Counter = tokens_of,
) -> Outcome:
    """Shorten the history of a request to `max_history_tokens`; the request and a report.

    System and developer messages are neither counted nor touched, recent exchanges stay byte for byte, and a call is
    dropped with all its results or not at all. With a `store` what goes is kept under handles; `mark_dropped` puts a
    user message with the handle in the place of what was dropped.
    """
    settings = read_options(HistoryConfig, options)
    opened_request = opened(request, format)
    messages = opened_request.messages
    if not (settings.enabled and settings.history_trimming):
        return outcome(request, opened_request, opened_request.data, {"enabled": False})
    sizes = [0 if m.role == "system" else m.tokens(count) for m in messages]
    budget, before = settings.max_history_tokens, sum(sizes)
    report: dict[str, Any] = {"tokens_before": before, "tokens_after": before, "budget": budget}
    report |= {"capped": 0, "dropped": 0, "over_budget_by": max(0, before - budget)}
    if before <= budget:
        return outcome(request, opened_request, opened_request.data, report)
    recent = recent_from(messages, turn_starts(messages), len(messages), settings)
    old = [_Old(i, m, sizes[i], sizes[i]) for i, m in enumerate(messages[:recent]) if m.role != "system"]
    trimmer = _Trimmer(opened_request, caps(budget, len(old)), store, count)
    for position, each in enumerate(old):
        trimmer.estimate(each, age=len(old) - 1 - position, old=len(old))
    rest = sum(sizes[recent:])
    gone = _dropped(opened_request, old, budget - rest, MARK_TOKENS if mark_dropped and store else 0)
    stay = old[gone:]
    for each in stay:
        trimmer.cap(each)
    edits = [edit for each in stay for edit in each.edits]
    dropped, added = trimmer.drop([each.index for each in old[:gone]], mark=mark_dropped)
    edits += dropped
    after = rest + sum(each.tokens for each in stay) + added
    report |= {"tokens_after": after, "over_budget_by": max(0, after - budget), "dropped": gone}
    report |= {"capped": sum(bool(each.edits) for each in stay), "recent": len(messages) - recent}
    report["handles"] = list(trimmer.handles)
    return outcome(request, opened_request, spliced(opened_request.data, edits), report)


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Indices at which exchanges begin; user messages in a row are one turn."""
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    return [index for index in users if index == 0 or messages[index - 1].role != "user"]


def recent_from(messages: Sequence[Message], starts: Sequence[int], end: int, settings: HistoryConfig) -> int:
    """The index from which on the messages before `end` are recent and stay."""
    last = next((messages[i] for i in range(end - 1, -1, -1) if messages[i].role != "system"), None)
    keep = settings.keep_recent_exchanges
    if last is not None and last.role == "tool":
        keep = min(keep, settings.keep_recent_user_turns_in_chained_tool_calls)
    if keep == 0:
        return end - _pending(messages[:end])
    there = bisect_left(starts, end)
    return starts[there - keep] if there >= keep else 0


def _pending(messages: Sequence[Message]) -> int:
    """Messages at the end that the model must see whole: calls whose results it has not read, else the last one."""
    at = max(0, len(messages) - 1)
    while at > 0 and messages[at].role in ("tool", "system"):
        at -= 1
    return len(messages) - at


def units(messages: Sequence[Message]) -> list[list[int]]:
    """Group the indices of messages that are kept or dropped as one: a message with calls, to the last of their results.

    System messages are in no group. A user may speak before all results are there.
    """
    found: list[list[int]] = []
    called: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.role == "system":
            continue
        if message.role == "tool" and found:
            ids = (result.call_id for result in message.results)
            first = min((called[each] for each in ids if each in called), default=index)
            while len(found) > 1 and found[-1][0] > first:
                last = found.pop()
                found[-1] += last
            found[-1].append(index)
        else:
            found.append([index])
        called.update({call.call_id: index for call in message.calls if call.call_id is not None})
    return found


def _dropped(request: Request, old: Sequence[_Old], room: int, mark: int) -> int:
    """How many old messages go, whole units from the oldest, so that the others and `mark` tokens fit `room`."""
    total, gone = sum(each.tokens for each in old), 0
    if total <= room:
        return 0
    room -= mark
    sizes = {each.index: each.tokens for each in old}
    # Anthropic and Gemini refuse a history that does not begin with the user.
    user_first = request.format != "openai"
    for unit in units(request.messages):
        if any(index not in sizes for index in unit):  # it ends in the recent part
            break
        if total <= room and not (user_first and request.messages[unit[0]].role != "user"):
            break
        total -= sum(sizes[index] for index in unit)
        gone += len(unit)
    return gone


class _Trimmer:
    """Makes the edits of one request, and keeps what they take away."""

    def __init__(self, request: Request, limits: Caps, store: Store | None, count: Counter) -> None:
        self._request = request
        self._limits = limits
        self._store = store
        self._count = count
        self.handles: dict[str, None] = {}

    def estimate(self, each: _Old, *, age: int, old: int) -> None:
        """Set the caps of an old message, and the tokens it has at most under them."""
        each.cap = self._limits.at(age, old, tool=False)
        each.tool_cap = self._limits.at(age, old, tool=True)
        if each.tokens > each.tool_cap:
            sizes = [self._count(piece.text) for piece in each.message.texts]
            each.tokens -= sum(sizes) - sum(shares(sizes, each.cap))
            for result in each.message.results:
                each.tokens -= max(0, self._count(result.text) - each.tool_cap)

    def cap(self, each: _Old) -> None:
        """Note the edits that bring an old message to its caps, and what it has then."""
        saved = 0
        texts = each.message.texts
        sizes = [self._count(piece.text) for piece in texts]
        for piece, size, share in zip(texts, sizes, shares(sizes, each.cap), strict=True):
            if size > share:
                new = self._capped(piece.text, share, f"{each.index}", is_text=True)
                each.edits.append(piece.place.replaced(encode(dump(new))))
                saved += size - self._count(new)
        for result in each.message.results:
            size = self._count(result.text)
            if size > each.tool_cap:
                key = result.call_id or f"{each.index}"
                made, left = self._capped_body(result.body, result.text, each.tool_cap, key)
                each.edits.append(result.body.replaced(made))
                saved += size - left
        each.tokens = each.whole - saved

    def drop(self, indices: Sequence[int], *, mark: bool) -> tuple[list[Edit], int]:
        """Remove messages from the list; with `mark` a message names them, and its tokens are returned too."""
        if not indices:
            return [], 0
        items = [message.place for message in self._request.messages]
        gone = set(indices)
        edits = without_items(self._request.array, [index in gone for index in range(len(items))])
        if self._store is None:
            return edits, 0
        body = b"[%b]" % b",".join(items[index].written for index in indices)
        handle = self._keep("dropped", body, is_text=False)
        if not mark:
            return edits, 0
        text = f"[{len(indices)} earlier messages cut: {handle}]"
        at = items[max(indices) + 1].start
        message = user_message(self._request.format, text)
        return [*edits, Edit(at, at, message + b",")], self._count(text)

    def _capped_body(self, body: Json, text: str, cap: int, call_id: str) -> tuple[bytes, int]:
        """The body of a result at its cap, in its own form, and the tokens it has then."""
        if not body.is_object:
            new = self._capped(text, cap, call_id)
            if body.is_array:
                others = [item.written for item in body.items() if item.text_of("text") is None]
                block = encode(dump({"type": "text", "text": new}))
                return b"[%b]" % b",".join([block, *others]), self._count(new)
            return encode(dump(new)), self._count(new)
        key, inner = wrapped(body) or (WRAPPERS[0], text)
        frame = self._count(dump({key: ""}))
        room = max(1, cap - frame)
        made = dump({key: self._capped(inner, room, call_id)})
        while self._count(made) > cap and room > LEAST_ROOM:  # escapes
            room = max(LEAST_ROOM, room * cap // (self._count(made) + 1))
            made = dump({key: self._capped(inner, room, call_id)})
        return encode(made), self._count(made)

    def _capped(self, text: str, cap: int, call_id: str, *, is_text: bool = False) -> str:
        return capped(text, cap, lambda: self._keep(call_id, encode(text), is_text=is_text), self._count)

    def _keep(self, call_id: str, body: bytes, *, is_text: bool) -> str | None:
        if self._store is None:
            return None
        handle = self._store.keep(call_id, body, is_text=is_text)
        self.handles[handle] = None
        return handle


def shares(sizes: Sequence[int], cap: int) -> list[int]:
    """Share a cap among texts of these sizes: small ones keep all they have, the others get equal parts.

    Each gets room for a marker at least, even if they are over the cap together then.
    """
    given = [0] * len(sizes)
    left, waiting = cap, sorted(range(len(sizes)), key=lambda index: sizes[index])
    for done, index in enumerate(waiting):
        given[index] = min(sizes[index], max(LEAST_ROOM, left // (len(waiting) - done)))
        left = max(0, left - given[index])
    return given
