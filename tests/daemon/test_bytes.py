"""What a client and a daemon write reaches the other end byte for byte, however it is split, and memory stays bounded."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.daemons import GATEMINI, Home, until
from fixtures.daemons import home as made
from gatemini.daemon.listener import Listener
from gatemini.proxy.places import take_lock

GREETING = b'{"gatemini":1,"version":"0","features":[]}\n'
MIB = 1 << 20


class Between:
    """A proxy whose daemon is this test."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process = process
        self.sock = sock
        self.lines = sock.makefile("rb")
        hello = json.loads(self.lines.readline())
        assert hello["gatemini"] == 1

    def up(self, parts: list[bytes]) -> bytes:
        """Write parts as the client; what the daemon gets of them."""
        assert self.process.stdin is not None
        stdin = self.process.stdin.fileno()

        def write() -> None:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[os.write(stdin, view) :]

        writer = threading.Thread(target=write)
        writer.start()
        found = self.lines.read(sum(map(len, parts)))
        writer.join()
        return found

    def down(self, parts: list[bytes]) -> bytes:
        """Write parts as the daemon; what the client gets of them."""
        assert self.process.stdout is not None
        writer = threading.Thread(target=lambda: [self.sock.sendall(part) for part in parts])
        writer.start()
        found = bytearray()
        while len(found) < sum(map(len, parts)):
            found += os.read(self.process.stdout.fileno(), MIB)
        writer.join()
        return bytes(found)


@contextmanager
def between(home: Home) -> Iterator[Between]:
    lock = take_lock(home.place.lock)
    assert lock is not None
    listener = Listener(home.place, lock)
    listener.open()
    listener.sock.setblocking(True)
    process = subprocess.Popen(
        [*GATEMINI, "-c", str(home.config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=home.environ,
    )
    sock, _ = listener.sock.accept()
    found = Between(process, sock)
    try:
        sock.sendall(GREETING)
        yield found
    finally:
        process.kill()
        process.wait()
        for each in (process.stdin, process.stdout, found.lines, sock):
            assert each is not None
            with suppress(OSError):
                each.close()
        listener.close()
        os.close(lock)


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


def test_private_lines_do_not_reach_the_client(wire: Between) -> None:
    private = b'{"gatemini":"chain","request":1,"chain":"chain_1"}\n'
    shown = b'{"jsonrpc":"2.0","method":"a"}\n'
    wire.sock.sendall(private)
    assert wire.down([shown]) == shown


def test_a_client_that_reads_nothing_leaves_the_proxy_small(home: Home) -> None:
    with between(home) as wire:
        wire.sock.setblocking(False)
        sent = 0
        line = b'{"jsonrpc":"2.0","method":"x","params":"' + b"y" * 10_000 + b'"}\n'

        def full() -> bool:
            nonlocal sent
            try:
                for _ in range(2000):
                    sent += wire.sock.send(line)
            except BlockingIOError:
                return True
            return False

        until(full, "the proxy stops reading")
        assert sent < 8 * MIB
        assert psutil.Process(wire.process.pid).memory_info().rss < 16 * MIB
