"""Whether a key occurs twice in an object that is not held: told by the keys' hashes, eight bytes each.

Two keys of one hash count as one that occurs twice; whoever asks then reads the object in another way. Pure. Above:
`reading.py`, `output/branches.py`. Below: steps.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from gatemini.piecewise.steps import give_way

SHARE = 1 << 15
"""Keys that are compared together, about: a set of them is made in a few milliseconds."""


class Keys:
    """The keys of one object, as they pass by."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, keys: Iterable[str]) -> None:
        self._hashes.extend(map(hash, keys))

    def repeat(self) -> bool:
        """Whether one of them came twice."""
        count = 1
        while count * SHARE < len(self._hashes):
            count *= 2
        shares = [array("q") for _ in range(count)]
        takers = [share.append for share in shares]
        for start in range(0, len(self._hashes), SHARE):
            for item in self._hashes[start : start + SHARE]:
                takers[item & (count - 1)](item)
            give_way()
        for share in shares:
            if len(set(share)) < len(share):
                return True
            give_way()
        return False
