"""The search model's process: vectors of all tools, and the cosine of a query with each.

Run by a `WorkerPool`, so that the gateway needs neither numpy nor the model (about 140 MB while it is loaded).
A request and its answer are JSON objects.

request  `model`, `store`  the model's name and the file of known vectors; opened by the first request
         `texts`           slot → [[text, weight], ...] that changed; an empty list removes the slot
         `encode`          how many texts without a vector are encoded now
         `query`           a text to compare with every tool, or null
answer   `pid`, `name`     of this process and of the model
         `held`            number of slots with texts
         `pending`         number of texts without a vector
         `cosines`         base64 of little-endian 32-bit floats by slot, where there was a query
   or    `problem`         why the model cannot be loaded
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np

from gatemini.discovery.model.embedder import Embedder, load_embedder
from gatemini.discovery.model.vector_store import VectorStore
from gatemini.discovery.model.vectors import Vectors
from gatemini.errors import ConfigError


class ModelProcess:
    """A loaded model, the vectors of the catalog and their store on disk."""

    def __init__(self, embedder: Embedder, store: VectorStore) -> None:
        self._embedder = embedder
        self._store = store
        self._vectors = Vectors()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        texts = request["texts"]
        for slot, weighted in texts.items():
            self._vectors.put(int(slot), [(text, weight) for text, weight in weighted])
        if texts:
            self._vectors.supply(self._store.get(self._vectors.pending()))
        if some := self._vectors.pending(request["encode"]):
            made = dict(zip(some, self._embedder.encode(some), strict=True))
            self._vectors.supply(made)
            self._store.put(made)
        answer: dict[str, Any] = {
            "pid": os.getpid(),
            "name": self._embedder.name,
            "held": len(self._vectors),
            "pending": len(self._vectors.pending()),
        }
        if request["query"] is not None:
            cosines = self._vectors.cosines(self._embedder.encode([request["query"]])[0])
            answer["cosines"] = b64encode(np.asarray(cosines, "<f4").tobytes()).decode()
        return answer


_opened: list[ModelProcess] = []
"""The one model of this process, once it is loaded."""


def answer(request: bytes) -> bytes:
    """Answer one request of the pool. A model that cannot be loaded is an answer as well."""
    wanted = json.loads(request)
    if not _opened:
        try:
            embedder = load_embedder(wanted["model"])
        except ConfigError as error:
            return json.dumps({"problem": error.text()}).encode()
        embedder.encode(["read a file"])  # the first one builds the model's tables: a second
        _opened.append(ModelProcess(embedder, VectorStore(Path(wanted["store"]), embedder.name)))
    return json.dumps(_opened[0].answer(wanted)).encode()
