"""A vector for each tool's slot, and the cosine of a query with all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np

from gatemini.discovery.model.embedder import Floats

_LEAST_ROWS = 64


class Vectors:
    """One vector per slot: the weighted sum of the vectors of its texts, scaled to length one."""

    def __init__(self) -> None:
        self._rows: Floats = np.zeros((0, 0), dtype=np.float32)
        self._texts: dict[int, dict[str, float]] = {}
        self._waiting: dict[str, set[int]] = {}
        """Slots that lack the vector of a text, by text."""

    def __len__(self) -> int:
        return len(self._texts)

    def put(self, slot: int, texts: Iterable[tuple[str, float]]) -> None:
        """Replace the texts of a slot, each with its weight; no texts remove the slot."""
        for text in self._texts.pop(slot, {}):
            slots = self._waiting.get(text, set())
            slots.discard(slot)
            if not slots:
                self._waiting.pop(text, None)
        if slot < len(self._rows):
            self._rows[slot] = 0.0
        weights: dict[str, float] = {}
        for text, weight in texts:
            weights[text] = weights.get(text, 0.0) + weight
        if weights:
            self._texts[slot] = weights
            for text in weights:
                self._waiting.setdefault(text, set()).add(slot)

    def pending(self, limit: int | None = None) -> list[str]:
        """Return up to `limit` texts that have no vector yet."""
        return list(islice(self._waiting, limit))

    def supply(self, vectors: Mapping[str, Floats]) -> None:
        """Add the vectors of pending texts; ones of another size or with values that are not finite are ignored."""
        for text, vector in vectors.items():
            if text not in self._waiting or not self._fits(vector):
                continue
            for slot in self._waiting.pop(text):
                self._grow(slot, len(vector))
                row = self._rows[slot]
                row += vector * self._texts[slot][text]
                if not any(
                    other in self._waiting and slot in self._waiting[other] for other in self._texts[slot]
                ):
                    row /= float(np.linalg.norm(row)) or 1.0

    def cosines(self, query: Floats) -> Floats:
        """Return the cosine of every slot with the unit vector `query`, 0 for slots whose texts are pending."""
        if not len(self._rows) or not self._fits(query):
            return np.zeros(0, dtype=np.float32)
        found: Floats = self._rows @ query
        found[[slot for slots in self._waiting.values() for slot in slots if slot < len(found)]] = 0.0
        return found

    def _fits(self, vector: Floats) -> bool:
        size = self._rows.shape[1]
        return vector.ndim == 1 and size in (0, len(vector)) and bool(np.isfinite(vector).all())

    def _grow(self, slot: int, size: int) -> None:
        if slot >= len(self._rows):
            rows = np.zeros((max(_LEAST_ROWS, (slot + 1) * 3 // 2), size), dtype=np.float32)
            rows[: len(self._rows), : self._rows.shape[1]] = self._rows
            self._rows = rows
