"""Vectors for the search index, in the background: load the model, ask the cache, encode the rest.

Search works without and before all of this. Everything heavy runs in worker threads. Above: app.py. Below:
search/embeddings.py, search/index.py, piecewise/steps.py, cache.py.
"""

from __future__ import annotations

import functools
import logging
from itertools import islice

import anyio

from gatemini.cache import Cache
from gatemini.errors import ConfigError
from gatemini.indexing import Indexing
from gatemini.piecewise.steps import ahead
from gatemini.search.embeddings import BUNDLED, Embedder, as_bytes, as_vector, load_embedder
from gatemini.search.index import MEANING_CHARS, SearchIndex
from gatemini.search.postings import Floats

logger = logging.getLogger(__name__)

QUIET_START_SECONDS = 0.5
"""Loading a model takes a second or two of one core: it starts after backends and sandbox had theirs."""

SUPPLIED_AT_ONCE = 512
"""Vectors of the cache that the index takes before others have their turn: a few milliseconds."""


@functools.lru_cache(maxsize=2)
def _load_once(model: str) -> Embedder | None:
    """One model per process, however many gateways run in it. It has encoded once: the first time takes a second."""
    embedder = load_embedder(model)
    if embedder is not None:
        embedder.encode(["read a file"])
    return embedder


class Embedding:
    """Keeps `index` supplied with vectors of the configured model."""

    def __init__(self, index: SearchIndex, indexing: Indexing, cache: Cache, model: str) -> None:
        self._index = index
        self._indexing = indexing
        self._cache = cache
        self._model = model
        self._embedder: Embedder | None = None
        self._wanted = anyio.Event()
        self._idle = anyio.Event()
        self.problem: str | None = None
        """Why there are no vectors although a model is configured; for `doctor`."""
        self.loaded: str | None = None
        """Name of the model in use, once it is."""

    def tools_changed(self) -> None:
        """There may be texts without a vector."""
        self._wanted.set()
        if self._embedder is not None and self._idle.is_set():
            self._idle = anyio.Event()

    async def ready(self) -> None:
        """Until every tool known now can be found and has its vector, or it is known that there will be none."""
        await self._indexing.idle()
        await self._idle.wait()

    async def query_vector(self, text: str) -> Floats | None:
        """The vector of a query, made in a worker thread; None while there is no model."""
        if (embedder := self._embedder) is None:
            return None

        def encode() -> Floats:
            # Ahead while this thread works, not until the event loop comes to hear of it.
            with ahead():
                vector: Floats = embedder.encode([text[:MEANING_CHARS]])[0]
            return vector

        return await anyio.to_thread.run_sync(encode, abandon_on_cancel=True)

    async def run(self) -> None:
        """Until cancelled; returns at once where no model is to be had."""
        try:
            if self._model not in ("", "none"):
                await anyio.sleep(QUIET_START_SECONDS)
                await self._supply()
        finally:
            self._idle.set()

    async def _supply(self) -> None:
        try:
            embedder = await anyio.to_thread.run_sync(_load_once, self._model, abandon_on_cancel=True)
        except ConfigError as exc:
            self.problem = exc.text()
            # The default without the extra is a choice, not a fault: `doctor` tells, the log does not nag.
            logger.log(logging.INFO if self._model == BUNDLED else logging.WARNING, "%s", self.problem)
            return
        if embedder is None:
            return
        self._index.expect_embedder(embedder)
        self._indexing.work()
        self._embedder = embedder
        self.loaded = embedder.name
        await self._indexing.idle()
        await self._supply_from_cache(embedder)
        while True:
            self._wanted = anyio.Event()
            await self._indexing.idle()
            await self._encode_pending(embedder)
            if not self._wanted.is_set():
                self._idle.set()
                await self._wanted.wait()

    async def _supply_from_cache(self, embedder: Embedder) -> None:
        kept = await anyio.to_thread.run_sync(self._cache.embeddings, embedder.name)
        known = {key: as_vector(data) for key, data in kept.items() if len(data) % 4 == 0}
        sizes = {len(vector) for vector in known.values()}
        if len(sizes) == 1:  # a damaged or foreign entry would poison the whole matrix
            left = iter(known.items())
            while some := dict(islice(left, SUPPLIED_AT_ONCE)):
                self._index.supply(some)
                await anyio.lowlevel.checkpoint()

    async def _encode_pending(self, embedder: Embedder) -> None:
        while pending := self._index.pending():
            texts = list(pending.values())
            vectors = await anyio.to_thread.run_sync(embedder.encode, texts, abandon_on_cancel=True)
            made = dict(zip(pending, vectors, strict=True))
            if not self._index.supply(made):
                return
            self._cache.put_embeddings(embedder.name, {key: as_bytes(vector) for key, vector in made.items()})
