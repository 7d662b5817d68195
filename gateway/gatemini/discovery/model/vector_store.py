"""Vectors of texts on disk, shared by all gateways of a user: SQLite, keyed by a hash of model and text.

A store that cannot be opened or read only costs time: its vectors are computed again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

import numpy as np

from gatemini.discovery.model.embedder import Floats

MOST_VECTORS = 50_000
"""Rows kept, about 100 MB; the oldest are deleted first."""
BUSY_SECONDS = 2.0
"""How long a write waits for another gateway's."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"
_PRUNE = "DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?"


class VectorStore:
    """The vectors of one model."""

    def __init__(self, path: Path, model: str) -> None:
        self._model = model
        self._database: sqlite3.Connection | None = None
        with contextlib.suppress(OSError, sqlite3.Error):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # private from the beginning
            database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            database.execute(_SCHEMA)
            self._database = database

    def get(self, texts: Iterable[str]) -> dict[str, Floats]:
        """Return the vectors of those `texts` that are stored."""
        found: dict[str, Floats] = {}
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                for text in texts:
                    query = "SELECT vector FROM vectors WHERE key = ?"
                    row = self._database.execute(query, (self._key(text),)).fetchone()
                    if row is not None and isinstance(row[0], bytes) and len(row[0]) % 4 == 0:
                        found[text] = np.frombuffer(row[0], dtype="<f4").astype(np.float32)
        return found

    def put(self, vectors: Mapping[str, Floats]) -> None:
        """Store vectors of texts."""
        if self._database is None:
            return
        rows = [(self._key(text), np.asarray(vector, "<f4").tobytes()) for text, vector in vectors.items()]
        with contextlib.suppress(sqlite3.Error):
            self._database.execute("BEGIN IMMEDIATE")
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
                self._database.execute(_PRUNE, (MOST_VECTORS,))

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _key(self, text: str) -> bytes:
        return blake2b(f"{self._model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
