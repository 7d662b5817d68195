"""What a client and a daemon write reaches the other end byte for byte, however it is split, and memory stays bounded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.between import MIB, Between, between, filled
from fixtures.daemons import Home
from fixtures.daemons import home as made


@pytest.fixture(scope="module")
def wire() -> Iterator[Between]:
    with made() as home, between(home) as found:
        yield found


LINES = st.lists(
    st.one_of(
        st.binary(max_size=60).filter(lambda b: b"\n" not in b and not b.startswith(b'{"gatemini":')),
        st.builds(
            lambda n: json.dumps({"jsonrpc": "2.0", "method": "x", "params": n}).encode(), st.integers()
        ),
        st.builds(
            lambda n: json.dumps({"jsonrpc": "2.0", "result": "y" * n, "id": n}).encode(),
            st.integers(0, 200_000),
        ),
        st.builds(lambda n: b'{"params":"' + b"z" * n + b'","id":"a"}', st.integers(0, 3 * MIB)),
    ),
    min_size=1,
    max_size=6,
).map(lambda lines: b"".join(line + b"\n" for line in lines))


def split(data: bytes, places: list[float]) -> list[bytes]:
    cuts = sorted({int(place * len(data)) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(cuts)]


@given(LINES, st.lists(st.floats(0, 1), max_size=6))
def test_a_client_s_bytes_reach_the_daemon_however_they_are_split(
    wire: Between, data: bytes, places: list[float]
) -> None:
    assert wire.up(split(data, places)) == data


@given(LINES, st.lists(st.floats(0, 1), max_size=6))
def test_a_daemon_s_bytes_reach_the_client_however_they_are_split(
    wire: Between, data: bytes, places: list[float]
) -> None:
    assert wire.down(split(data, places)) == data


def test_every_split_of_a_short_exchange_is_the_same(wire: Between) -> None:
    data = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n[]\n\n{"a"\n'
    for cut in range(len(data)):
        assert wire.up([data[:cut], data[cut:]]) == data
        assert wire.down([data[:cut], data[cut:]]) == data


@pytest.mark.long
def test_lines_of_64_mib_pass_both_ways(wire: Between) -> None:
    line = b'{"jsonrpc":"2.0","method":"x","params":"' + os.urandom(32 * MIB).hex().encode() + b'"}\n'
    assert wire.up([line]) == line
    assert wire.down([line]) == line


ODD = [
    *(b"", b"[]", b"5", b'"text"', b"\x00\xff", b"[" * 2000, b'{"a":' * 3000, b'{"gatemini":"bye"}'),
    *(b'{"method":5,"id":"x"}', b'{"method":"initialize","id":1,"params":[1]}', b'{"id":[1],"result":{}}'),
    b'{"method":"initialize","id":2,"params":{"protocolVersion":{},"clientInfo":5,"_meta":7}}',
    *(b'{"method":"notifications/cancelled","params":%s}' % p for p in (b"[]", b"7", b'{"requestId":{}}')),
    *(
        b'{"method":"resources/%s","id":3,"params":{"uri":[{}]}}' % verb
        for verb in (b"subscribe", b"unsubscribe")
    ),
    b'{"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"subscriptionId":[1]}}}',
    b'{"method":"notifications/subscriptions/acknowledged","params":[]}',
    *(b'{"id":%s,"method":"ping"}' % ident for ident in (b"null", b"1.5", b"{}", b"true", b'"x"')),
]


def test_messages_of_any_shape_pass_as_they_are(home: Home) -> None:
    data = b"".join(line + b"\n" for line in ODD)
    with between(home) as wire:
        asked = b'{"id":"open","method":"ping"}\n{"id":7,"method":"subscriptions/listen"}\n'
        assert wire.up([asked, data, data]) == asked + data + data
        shown = b"".join(line + b"\n" for line in ODD if not line.startswith(b'{"gatemini"'))
        assert wire.down([shown, shown]) == shown + shown


def test_private_lines_do_not_reach_the_client(wire: Between) -> None:
    private = b'{"gatemini":"chain","request":1,"chain":"chain_1"}\n'
    shown = b'{"jsonrpc":"2.0","method":"a"}\n'
    wire.sock.sendall(private)
    assert wire.down([shown]) == shown


def test_a_client_that_reads_nothing_leaves_the_proxy_small(home: Home) -> None:
    with between(home) as wire:
        wire.sock.setblocking(False)
        line = b'{"jsonrpc":"2.0","method":"x","params":"' + b"y" * 10_000 + b'"}\n'
        assert filled(wire.sock.fileno(), line, 8 * MIB) < 8 * MIB
        assert psutil.Process(wire.process.pid).memory_info().rss < 16 * MIB
