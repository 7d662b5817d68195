"""Server-sent events are read as the standard says, however the stream is split and however large they are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gatemini.backends.transports.event_stream import Event, EventReader

LINES = st.sampled_from(
    [
        b"data: one",
        b"data:two",
        b"data:",
        b"data: ",
        b"data",
        b"data:x",
        b"data:  x",
        b"data: " + b"z" * 30,
        b"dat: no",
        b"database: no",
        b'{"a":1}',
        b"[1]",
        b"event: named",
        b"id: 7",
        b": a comment",
        b": " + b"c" * 60,
        b"",
        b"",
    ]
)
MOST = 24
"""Bytes of data taken here."""


def as_told(lines: list[bytes]) -> list[Event]:
    """The events of whole lines, by the letter of the standard; a bare message counts as data."""
    events: list[Event] = []
    data: list[bytes] = []
    name, ident, large = "", None, False
    for line in [*lines, b""]:
        if not line:
            if data or large:
                whole = None if large or len(b"\n".join(data)) > MOST else b"\n".join(data)
                events.append(Event(name or "message", whole, ident))
            data, name, large = [], "", False
            continue
        bare = b"data:" + line if line[:1] in (b"{", b"[") else line
        field, _, value = bare.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif len(line) > MOST + 6:
            large = True
        elif field == b"event":
            name = value.decode()
        elif field == b"id":
            ident = value.decode()
    return events


@given(
    st.lists(LINES, max_size=12), st.lists(st.integers(0, 300), max_size=8), st.sampled_from([b"\n", b"\r\n"])
)
def test_events_are_the_same_however_the_stream_is_split(
    lines: list[bytes], cuts: list[int], end: bytes
) -> None:
    stream = end.join([*lines, b"", b""])
    reader = EventReader(MOST)
    read: list[Event] = []
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, stop in pairwise(places):
        read += reader.feed(stream[start:stop])
    assert read == as_told(lines)
