"""Where each tool's vector lies, which texts still lack one, and how like a query all of them are.

Rows lie in blocks, so that growing never copies what is there. Beyond `LARGE` slots a query is compared with
shortened rows first (their principal directions, which keep the cosine to about 0.01) and only the likeliest with
whole ones: memory bandwidth is what a search of 100,000 tools costs. Above: `index.py`. Below: numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from gatemini.search.postings import Floats, Ints

BLOCK = 2_048
"""Slots per matrix."""
LARGE = 16_384
"""Slots from which on rows are shortened."""
SHORT = 128
"""Length of a shortened row."""
LIKELIEST = 2_000
"""Rows compared whole."""
_SAMPLE = 2
"""Blocks that the principal directions are taken from."""


def text_key(model: str, text: str) -> str:
    """Key of a vector in the cache: hash of model and text."""
    return blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Vectors:
    """One vector per slot: the sum of its texts' vectors by their shares, at length one."""

    def __init__(self, model: str, *, large: int = LARGE) -> None:
        self.model = model
        self._large = large
        self._blocks: list[Floats] = []
        self._short: list[Floats] = []
        self._directions: Floats | None = None
        self._texts: dict[str, str] = {}
        self._waiting: dict[str, dict[int, float]] = {}
        self._missing: dict[int, set[str]] = {}
        self._ready = 0

    def add(self, slot: int, texts: Sequence[tuple[str, float]]) -> None:
        """Wait for the vectors of these texts, each with its share."""
        self._missing[slot] = set()
        for text, share in texts:
            key = text_key(self.model, text)
            self._texts[key] = text
            waiting = self._waiting.setdefault(key, {})
            waiting[slot] = waiting.get(slot, 0.0) + share
            self._missing[slot].add(key)

    def remove(self, slots: Sequence[int]) -> None:
        for slot in slots:
            missing = self._missing.pop(slot, None)
            if missing is None:
                continue
            self._ready -= not missing
            for key in missing:
                del self._waiting[key][slot]
                if not self._waiting[key]:
                    del self._waiting[key], self._texts[key]
            block, row = divmod(slot, BLOCK)
            for blocks in (self._blocks, self._short):
                if block < len(blocks):
                    blocks[block][row] = 0.0

    def pending(self, limit: int) -> dict[str, str]:
        """Up to `limit` texts without a vector, by key."""
        return {key: self._texts[key] for key in islice(self._waiting, limit)}

    def supply(self, vectors: Mapping[str, Floats]) -> int:
        """Take vectors by key; how many were still wanted."""
        taken = 0
        for key, vector in vectors.items():
            if key not in self._waiting or not self._fits(vector) or not np.isfinite(vector).all():
                continue  # a damaged cache entry would poison every score
            for slot, share in self._waiting.pop(key).items():
                self._place(slot, vector * share, key)
            del self._texts[key]
            taken += 1
        return taken

    def any(self) -> bool:
        """Whether any slot has its vector yet."""
        return self._ready > 0

    def likeness(self, query: Floats, capacity: int) -> Floats | None:
        """Cosine of every slot below `capacity` with the query; None while there is no vector at all."""
        if not self._ready or not self._fits(query):
            return None
        if self._directions is None:
            return _products(self._blocks, query, capacity)
        about = _products(self._short, query @ self._directions, capacity)
        found = np.argpartition(-about, min(LIKELIEST, capacity) - 1)[:LIKELIEST]
        likeliest: Ints = found[found < len(self._blocks) * BLOCK].astype(np.int32)
        about[likeliest] = self._rows(likeliest) @ query
        return about

    def _rows(self, slots: Ints) -> Floats:
        rows = np.empty((len(slots), self._blocks[0].shape[1]), dtype=np.float32)
        for number, block in enumerate(self._blocks):
            here = slots // BLOCK == number
            rows[here] = block[slots[here] % BLOCK]
        return rows

    def _fits(self, vector: Floats) -> bool:
        return vector.ndim == 1 and (not self._blocks or self._blocks[0].shape[1] == len(vector))

    def _place(self, slot: int, vector: Floats, key: str) -> None:
        number, place = divmod(slot, BLOCK)
        while number >= len(self._blocks):
            self._blocks.append(np.zeros((BLOCK, len(vector)), dtype=np.float32))
            if self._directions is not None:
                self._short.append(np.zeros((BLOCK, self._directions.shape[1]), dtype=np.float32))
        row = self._blocks[number][place]
        row += vector
        missing = self._missing[slot]
        missing.discard(key)
        if missing:
            return
        length = float(np.linalg.norm(row))
        row /= length if length > 0 else 1.0
        self._ready += 1
        if self._directions is not None:
            self._short[number][place] = row @ self._directions
        elif len(self._blocks) * BLOCK > self._large and self._ready > self._large // 2:
            self._shorten()

    def _shorten(self) -> None:
        """Find the principal directions in a sample and shorten what is there; once, in a tenth of a second."""
        sample = np.concatenate(self._blocks[:_SAMPLE])
        _, directions = np.linalg.eigh(sample.T @ sample)
        self._directions = np.ascontiguousarray(directions[:, ::-1][:, :SHORT], dtype=np.float32)
        self._short = [block @ self._directions for block in self._blocks]


def _products(blocks: Sequence[Floats], query: Floats, capacity: int) -> Floats:
    out = np.zeros(max(capacity, len(blocks) * BLOCK), dtype=np.float32)
    for index, block in enumerate(blocks):
        out[index * BLOCK : (index + 1) * BLOCK] = block @ query
    return out[:capacity]
