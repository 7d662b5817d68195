"""Vectors by slot, their cosines with a query, and the store that keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gatemini.discovery.model.embedder import Floats
from gatemini.discovery.model.vector_store import MOST_VECTORS, VectorStore
from gatemini.discovery.model.vectors import Vectors

ONE, OTHER = np.eye(2, dtype=np.float32)


def filled(**texts: Floats) -> Vectors:
    vectors = Vectors()
    for slot, text in enumerate(texts):
        vectors.put(slot, [(text, 1.0)])
    vectors.supply(texts)
    return vectors


def test_a_vector_is_the_weighted_sum_of_its_texts() -> None:
    vectors = Vectors()
    vectors.put(0, [("a", 1.0), ("b", 0.5), ("b", 0.5)])
    vectors.supply({"a": ONE})
    assert not vectors.cosines(ONE).any(), "a slot counts once it has the vectors of all its texts"
    vectors.supply({"b": OTHER})
    assert vectors.cosines(ONE)[0] == pytest.approx(0.5**0.5)


def test_a_reused_slot_has_no_vector_of_its_former_tool() -> None:
    vectors = filled(a=ONE, b=OTHER)
    vectors.put(0, [("c", 1.0)])
    assert vectors.cosines(ONE)[:2] == pytest.approx([0, 0])
    vectors.supply({"c": OTHER})
    assert vectors.cosines(OTHER)[:2] == pytest.approx([1, 1])
    vectors.put(0, [])
    assert (len(vectors), vectors.cosines(OTHER)[:2].tolist()) == (1, [0, 1])


def test_texts_of_removed_slots_are_not_pending() -> None:
    vectors = Vectors()
    vectors.put(0, [("shared", 1.0)])
    vectors.put(1, [("shared", 1.0), ("own", 1.0)])
    vectors.put(1, [])
    assert vectors.pending() == ["shared"]
    vectors.put(0, [])
    assert vectors.pending() == []


@pytest.mark.parametrize("vector", [np.ones(7, np.float32), np.full(2, np.nan, np.float32)])
def test_a_vector_of_another_size_or_not_finite_is_ignored(vector: Floats) -> None:
    vectors = filled(a=ONE)
    vectors.put(1, [("new", 1.0)])
    vectors.supply({"new": vector, "unknown": ONE})
    assert vectors.pending() == ["new"]


def test_a_store_returns_the_vectors_of_its_own_model(tmp_path: Path) -> None:
    VectorStore(tmp_path / "v.sqlite", "m").put({"a": ONE, "\ud800": OTHER})
    kept = VectorStore(tmp_path / "v.sqlite", "m").get(["a", "\ud800", "c"])
    assert {text: vector.tolist() for text, vector in kept.items()} == {"a": [1, 0], "\ud800": [0, 1]}
    assert VectorStore(tmp_path / "v.sqlite", "other").get(["a"]) == {}
    assert (tmp_path / "v.sqlite").stat().st_mode & 0o077 == 0


def test_a_store_deletes_its_oldest_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatemini.discovery.model.vector_store.MOST_VECTORS", 2)
    assert MOST_VECTORS > 2
    store = VectorStore(tmp_path / "v.sqlite", "m")
    for text in "abc":
        store.put({text: ONE})
    assert set(store.get("abc")) == {"b", "c"}


@pytest.mark.parametrize("content", [b"no database at all", None])
def test_a_store_that_cannot_be_used_is_empty(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "v.sqlite"
    path.write_bytes(content) if content else path.mkdir()
    store = VectorStore(path, "m")
    store.put({"a": ONE})
    assert store.get(["a"]) == {}
