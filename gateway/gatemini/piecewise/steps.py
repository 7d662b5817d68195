"""Texts of megabytes put together, encoded, measured and searched in steps of a millisecond.

Any of that done at once holds the interpreter for 10 to 50 ms where there are forty of them. Between two steps other
threads, the event loop's first of all, have their turn; what is no longer than a step is done at once. Otherwise pure.
Above: the other files here, `chain/`, `output/`, `config/secrets.py`, `embedding.py`. Below: nothing of the project.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TypeVar

STEP = 1 << 20
"""Characters or bytes of one step."""

SPACES = 64
"""White space at either end of a text that is looked at first: there is hardly more."""
GIVEN_SECONDS = 50e-6
WORKED_SECONDS = 2e-3
"""Between two turns of others: on a busy machine each costs as much, for the processor has to be waited for again."""
REST_SECONDS = 500e-6
RESTS = 40
"""Who is ahead for longer than so many rests is not waited for at this step."""

_given = [0.0]
"""When others last had their turn."""
_ahead: list[None] = []
"""One entry for each; unlike a number it cannot be miscounted by two threads."""

_Part = TypeVar("_Part", str, bytes)


def give_way() -> None:
    """Other threads have their turn, if they had none for a while; somebody who is `ahead` has all of them. Nothing on
    the thread of an event loop: all that waits there would sleep too."""
    if not _ahead and time.perf_counter() - _given[0] < WORKED_SECONDS:
        return
    if asyncio._get_running_loop() is not None:
        return
    time.sleep(GIVEN_SECONDS)
    for _ in range(RESTS):
        if not _ahead:
            break
        time.sleep(REST_SECONDS)
    _given[0] = time.perf_counter()


@contextmanager
def ahead() -> Iterator[None]:
    """Whoever has work of a few milliseconds done on another thread, in many short steps: reading what is large rests
    meanwhile. Each of these steps would wait for the interpreter by itself."""
    _ahead.append(None)
    try:
        yield
    finally:
        _ahead.pop()


def joined(parts: Iterable[str]) -> str:
    """As `"".join`."""
    whole = ""
    for step in _steps(parts):
        whole += "".join(step)  # a string that nobody else has grows where it is
    return whole


def joined_bytes(parts: Iterable[bytes]) -> bytes:
    """As `b"".join`."""
    made = BytesIO()
    for step in _steps(parts):
        made.writelines(step)
    return made.getvalue()


def _steps(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """The parts, so many at a time as make a step."""
    step: list[_Part] = []
    size = 0
    for part in parts:
        step.append(part)
        size += len(part)
        if size >= STEP:
            yield step
            give_way()
            step, size = [], 0
    yield step


def stretches(start: int, end: int) -> Iterator[tuple[int, int]]:
    """From `start` to `end` in steps."""
    for at in range(start, end, STEP):
        if at > start:
            give_way()
        yield at, min(end, at + STEP)


def part(text: str, start: int, end: int) -> str:
    """As `text[start:end]`, of offsets within the text."""
    if start == 0 and end == len(text):
        return text
    whole = ""
    for begin, stop in stretches(start, end):
        whole += text[begin:stop]
    return whole


def stripped(text: str, signs: str) -> str:
    """As `text.strip(signs)`."""
    head, tail = text[:SPACES], text[-SPACES:]
    left, right = head.lstrip(signs), tail.rstrip(signs)
    if not left or not right:
        return text.strip(signs)
    return part(text, len(head) - len(left), len(text) - len(tail) + len(right))


def encoded(text: str) -> bytes:
    """UTF-8; lone surrogates, which a Python string can hold, are kept."""
    if len(text) <= STEP:
        return text.encode("utf-8", "surrogatepass")
    made = BytesIO()
    for begin, stop in stretches(0, len(text)):
        made.write(text[begin:stop].encode("utf-8", "surrogatepass"))
    return made.getvalue()


def byte_count(text: str, start: int = 0, end: int | None = None) -> int:
    """Bytes of `encoded(text[start:end])`."""
    end = len(text) if end is None else end
    if text.isascii():
        return end - start
    return sum(
        len(text[begin:stop].encode("utf-8", "surrogatepass")) for begin, stop in stretches(start, end)
    )


def found(text: str, word: str, start: int = 0) -> int:
    """As `text.find(word, start)`."""
    if len(text) <= STEP:
        return text.find(word, start)
    for begin, stop in stretches(start, len(text)):
        at = text.find(word, begin, stop + len(word) - 1)
        if at >= 0:
            return at
    return -1


def counted(text: str, sign: str, start: int, end: int) -> int:
    """As `text.count(sign, start, end)` of a single character."""
    return sum(text.count(sign, begin, stop) for begin, stop in stretches(start, end))
