"""Squashed tool names in sorted order, to find exact names and beginnings."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

_FEW = 64
"""Up to one new name in this many is inserted in place; more are appended and the list is sorted again."""


class NameOrder:
    """Sorted (name, slot) pairs; pairs of removed slots stay until they are half of the list."""

    def __init__(self) -> None:
        self._pairs: list[tuple[str, int]] = []
        self._fresh: list[tuple[str, int]] = []
        self._names: dict[int, set[str]] = {}
        self._dead = 0

    def add(self, slot: int, names: Iterable[str]) -> None:
        """Find `slot` by each of `names` from now on; empty names are skipped."""
        self._names[slot] = {name for name in names if name}
        self._fresh += [(name, slot) for name in self._names[slot]]

    def remove(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._dead += len(self._names.pop(slot, ()))
        if self._dead * 2 > len(self._pairs) + len(self._fresh):
            self._pairs = sorted({pair for pair in (*self._pairs, *self._fresh) if self._is_alive(pair)})
            self._fresh = []
            self._dead = 0

    def beginning(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the pairs whose name begins with `text`, in order, each once."""
        self._settle()
        before = None
        for index in range(bisect_left(self._pairs, (text, -1)), len(self._pairs)):
            pair = self._pairs[index]
            if not pair[0].startswith(text):
                return
            if pair != before and self._is_alive(pair):
                yield pair
            before = pair

    def _settle(self) -> None:
        if len(self._fresh) * _FEW < len(self._pairs):
            for pair in self._fresh:
                insort(self._pairs, pair)
        else:
            self._pairs += self._fresh
            self._pairs.sort()
        self._fresh = []

    def _is_alive(self, pair: tuple[str, int]) -> bool:
        return pair[0] in self._names.get(pair[1], ())
