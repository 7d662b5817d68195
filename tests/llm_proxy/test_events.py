"""Events of a stream as the proxy reads and writes them."""

from __future__ import annotations

from gatemini.llm_proxy.wire.events import EventSplitter, written


def test_half_of_a_surrogate_pair_stays_an_escape() -> None:
    raw = b'data: {"delta":"\\ud83d"}\n\n'
    (event,) = EventSplitter().feed(raw)
    assert written(event.value) == raw
