"""A large document read branch by branch says the same as one parsed at once, and no less than it."""

import json
import re
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.output import branches as branches_module
from gatemini.output.branches import Branch, Stretch, read_tree
from gatemini.output.jsontext import parse
from gatemini.output.pipeline import OutputOptions, Reduced, reduce_output
from gatemini.output.results import ResultStore
from gatemini.output.survey import Bulk, NotSurveyed

texts = st.text(max_size=12)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.sampled_from(['}, {"a": {', '\\"', "],[", "x" * 700]),
)
documents = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.dictionaries(texts, inner, max_size=8),
        st.tuples(inner, st.integers(1, 60)).map(lambda pair: [pair[0]] * pair[1]),
        st.tuples(inner, st.integers(1, 60)).map(lambda pair: {f"k{n}": pair[0] for n in range(pair[1])}),
    ),
    max_leaves=12,
).filter(lambda value: isinstance(value, dict | list))


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of a few kilobytes are read as if they were of many megabytes."""
    monkeypatch.setattr(branches_module, "LEAST_BATCH", 64)
    monkeypatch.setattr(branches_module, "PIECES", 1000)
    monkeypatch.setattr(branches_module, "SHOWN_BYTES", 300)


def agrees(node: Any, value: Any, data: bytes) -> None:
    """Every child is where and what the document says; counts add up; what is kept is exact."""
    if isinstance(node, Bulk):
        assert node.summary.total == len(value)
        assert node.head == value[: len(node.head)]
        rows = [r for b in node.batches for r in json.loads(b"[" + data[b.start : b.end] + b"]")]
        assert rows == value
        return
    if not isinstance(node, Branch):
        assert node == value
        assert type(node) is type(value)
        return
    assert node.array == isinstance(value, list)
    assert node.count == len(value)
    told = 0
    places = {key: at for at, key in enumerate(value)} if isinstance(value, dict) else range(len(value))
    for key, child in node.children:
        if isinstance(child, Stretch):
            assert child.first == key
            assert places[child.last] - places[child.first] + 1 >= child.count
            told += child.count
        else:
            agrees(child, value[key], data)
            told += 1
    assert told == len(value)


@pytest.mark.usefixtures("small_batches")
class TestTree:
    @given(value=documents, indent=st.sampled_from([None, 1, "\t"]))
    def test_what_is_read_is_what_the_document_says(self, value: Any, indent: Any) -> None:
        data = json.dumps(value, indent=indent, ensure_ascii=False).encode()
        try:
            tree = read_tree(data)
        except NotSurveyed:
            depth = max(line.count("\t") for line in json.dumps(value, indent="\t").split("\n"))
            assert depth > branches_module.MAX_DEPTH
            return
        agrees(tree.root, value, data)

    @given(value=documents, data=st.data())
    def test_a_damaged_document_is_never_read(self, value: Any, data: st.DataObject) -> None:
        text = json.dumps(value).encode()
        at = data.draw(st.integers(0, len(text)))
        until = data.draw(st.integers(at, min(len(text), at + 40)))
        put = data.draw(st.sampled_from([b"", b"}", b"]", b"{", b"[", b'"', b",", b":", b"0", b"NaN", b"\\"]))
        damaged = text[:at] + put + text[until:]
        if parse(damaged) is None:
            with pytest.raises(NotSurveyed):
                read_tree(damaged)


def reduced(value: Any) -> tuple[Reduced, Any]:
    text = json.dumps(value, separators=(",", ":"))
    with closing(ResultStore()) as store:
        answer = reduce_output(text, is_json=True, options=OutputOptions(max_chars=100_000), store=store)
        assert answer.handle is not None
        assert store.text(answer.handle) == text
    return answer, json.loads(answer.text)


def test_a_large_map_of_objects_shows_its_small_facts_and_stretches_of_its_keys() -> None:
    packages = {f"package-{n:05}": {"version": f"1.{n}.0", "sum": f"{n:0200}"} for n in range(9000)}
    answer, seen = reduced({"registry": "main", "packages": packages, "count": 12345678901234567890123})
    assert seen["shown"]["registry"] == "main"
    assert seen["shown"]["count"] == 12345678901234567890123
    listed = [re.fullmatch(r"packages > (\S+) … (\S+) \((\d+) keys\)", path) for path in seen["chunks"]]
    first = seen["shown"]["packages"]
    assert first == {key: packages[key] for key in first}
    assert len(first) + sum(int(found[3]) for found in listed if found) == 9000
    assert listed[0] is not None
    assert listed[0][1] == f"package-{len(first):05}"
    assert listed[-1] is not None
    assert listed[-1][2] == "package-08999"
    assert len(answer.text) < 10_240


def test_long_arrays_anywhere_in_a_large_document_are_collapsed_where_they_stand() -> None:
    rows = [{"id": n, "name": f"row {n}", "note": "word " * 10} for n in range(9000)]
    answer, seen = reduced([rows, {"deep": [rows[:5000], rows]}, {"small": [1, 2]}])
    assert [seen[0]["total_rows"], *(part["total_rows"] for part in seen[1]["deep"])] == [9000, 5000, 9000]
    assert seen[0]["first_rows"] == rows[:3]
    assert seen[2] == {"small": [1, 2]}
    assert "[1] > deep > [0]: 5000 rows, 3 shown" in answer.notes[0]


def test_a_giant_text_is_told_by_its_beginning_and_what_is_beside_it_is_exact() -> None:
    _, seen = reduced({"n": 123456789012345678901, "text": "word " * 500_000, "m": 1.0})
    assert seen["shown"] == {"n": 123456789012345678901, "m": 1.0}
    (what,) = seen["chunks"].values()
    assert what.startswith("2441.4KB, string: word word")


def test_keys_of_the_document_that_look_like_ours_are_data() -> None:
    rows = [{"$reduced": f"{n}", "shown_rows": 3, "first_rows": [1], "text": "x" * 90} for n in range(100)]
    answer, seen = reduced({"items": rows})
    assert seen["items"]["total_rows"] == 100
    assert seen["items"]["first_rows"] == rows[:3]
    assert answer.notes[0].startswith("Arrays collapsed (items: 100 rows, 3 shown)")


def test_rows_that_hold_long_arrays_of_their_own_are_described_with_these_as_arrays() -> None:
    points = [{"id": n, "name": f"point {n}", "note": "word " * 8} for n in range(3000)]
    rows = [{"id": n, "points": points} for n in range(8)]
    _, seen = reduced({"series": rows})
    assert seen["series"]["types"] == {"id": "integer", "points": "array"}
    assert seen["series"]["first_rows"][0]["points"]["total_rows"] == 3000
