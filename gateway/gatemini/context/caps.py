"""How many tokens an old message may keep, and the head and tail that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gatemini.context.request.messages import Counter, tokens_of
from gatemini.output.compact import BYTES_PER_TOKEN

HEAD_SHARE = 0.6
"""Of what stays of a text, this part is its beginning."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Tokens of the newest and the oldest of the old messages; results of tools have their own."""

    near: int
    oldest: int
    tool_near: int
    tool_oldest: int

    def at(self, age: int, old: int, *, tool: bool) -> int:
        """The cap of an old message: 0 is the age of the newest, `old - 1` of the oldest; linear between."""
        near, oldest = (self.tool_near, self.tool_oldest) if tool else (self.near, self.oldest)
        return near - -(-(near - oldest) * age // max(1, old - 1))


def caps(budget_tokens: int, old: int) -> Caps:
    """The caps for a budget and a number of old messages, in whole numbers: floats would miss 128 by one."""
    base = max(160, min(260, budget_tokens * 16 // 1000))
    count = max(1, old)
    # base * (0.7 + 0.3 * min(1, 8 / count))
    near = max(120, base if count <= 8 else base * (7 * count + 24) // (10 * count))
    oldest = max(48, near * 38 // 100)
    return Caps(near, oldest, max(72, near * 6 // 10), max(32, oldest * 6 // 10))


def marker(tokens: int, handle: str | None) -> str:
    """The text that replaces the middle of a longer one."""
    under = f": {handle}" if handle else ""
    return f"\n[{tokens} tokens cut{under}]\n"


def capped(text: str, cap: int, handle: Callable[[], str | None], count: Counter = tokens_of) -> str:
    """Head and tail of a text with a marker between them, together at most `cap` tokens; never longer than the text."""
    total = count(text)
    if total <= cap:
        return text
    between = marker(total, handle())  # as long as the final one
    room = cap * BYTES_PER_TOKEN if count is tokens_of else _bytes_for(text, cap, total)
    while True:
        kept = max(0, room - len(between.encode()))
        head = _head(text, int(kept * HEAD_SHARE))
        tail = _tail(text[len(head) :], kept - len(head.encode("utf-8", "surrogatepass")))
        gone = total - count(head) - count(tail)
        made = f"{head}{between.replace(str(total), str(gone), 1)}{tail}"
        if count(made) <= cap or not kept:
            return made if count(made) < total else text
        room = room * 9 // 10


def _bytes_for(text: str, cap: int, total: int) -> int:
    return len(text.encode("utf-8", "surrogatepass")) * cap // total


def _head(text: str, most: int) -> str:
    """The beginning of a text in at most so many bytes."""
    return text[:most].encode("utf-8", "surrogatepass")[:most].decode("utf-8", "ignore")


def _tail(text: str, most: int) -> str:
    if most <= 0:
        return ""
    return text[-most:].encode("utf-8", "surrogatepass")[-most:].decode("utf-8", "ignore")
