"""Server-sent events are read however the stream is split and however large they are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gatemini.backends.transports.event_stream import FIELD_BYTES, EventReader

MOST = 1000
"""Bytes of data that one event may have here."""

DATA = [b"data: one", b"data:two", b"data:", b"data:  x", b'{"a":1}', b"[1]"]
OTHER = [
    b"dat: no",
    b"database: no",
    b"event: named",
    b"id: 7",
    b": a comment",
    b":" + b"c" * 2 * FIELD_BYTES,
]
LINES = st.sampled_from([*DATA, *OTHER, b"data: " + b"z" * 2 * MOST, b"", b""])

Words = tuple[str, list[bytes] | None]
"""An event as its name and the words of its data (None: too large); blanks do not matter."""


def expected(lines: list[bytes]) -> list[Words]:
    """The events of whole lines by the standard; a bare message counts as data."""
    events: list[Words] = []
    data: list[bytes] = []
    name = "message"
    for line in [*lines, b""]:
        value = line.partition(b":")[2].strip()
        if not line:
            whole = b" ".join(data).split()
            if whole:
                events.append((name, None if len(b"".join(whole)) > MOST else whole))
            data, name = [], "message"
        elif line[:1] in (b"{", b"["):
            data.append(line)
        elif line.startswith(b"data:"):
            data.append(value)
        elif line.startswith(b"event:"):
            name = value.decode()
    return events


@given(
    st.lists(LINES, max_size=12), st.lists(st.integers(0, 300), max_size=8), st.sampled_from([b"\n", b"\r\n"])
)
def test_events_are_the_same_however_the_stream_is_split(
    lines: list[bytes], cuts: list[int], end: bytes
) -> None:
    stream = end.join([*lines, b"", b""])
    reader = EventReader(MOST)
    read: list[Words] = []
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, stop in pairwise(places):
        for event in reader.feed(stream[start:stop]):
            words = None if event.data is None else event.data.split()
            read.append((event.name, words))
    assert reader.last_id == ("7" if b"id: 7" in lines else None)
    assert [event for event in read if event[1] != []] == expected(lines)
