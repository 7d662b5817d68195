"""A proxy by itself: what it loads, what it leaves as it is, and what it answers where no daemon does."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from fixtures.between import GREETING, MIB, between, filled
from fixtures.daemons import GATEMINI, LEGACY, Home, ProxyClient, until
from gatemini import __version__
from gatemini.proxy.places import take_lock
from gatemini.proxy.stdio import Proxy
from gatemini.proxy.wire import WAITING_BYTES, WAITING_REQUESTS

LISTING = """
import os, sys
before = set(sys.modules)
end, proxy = os._exit, os.getpid()
def listed(code):
    if os.getpid() == proxy:  # and not what it has forked
        os.write(2, repr(sorted(set(sys.modules) - before)).encode())
    end(code)
os._exit = listed
from gatemini.proxy.stdio import main
main(sys.argv[1])
"""
LOADED = {
    *("gatemini", "gatemini.proxy"),
    *(f"gatemini.proxy.{name}" for name in ("lines", "memory", "places", "stdio", "wire")),
    *("_json", "_sha2", "_sha256", "_signal", "_socket", "fcntl", "select", "time"),
}


def test_a_proxy_has_loaded_nothing_more_when_it_has_started_a_daemon_and_served(home: Home) -> None:
    listing = subprocess.Popen(
        [sys.executable, "-I", "-c", LISTING, str(home.config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.environ,
    )
    client = ProxyClient(listing, modern=False)
    client.greet()
    assert client.value(client.chain("return 6 * 7")) == 42
    os.kill(home.serving()["pid"], signal.SIGKILL)
    until(lambda: "result" in client.answer(client.chain("return 1")), "the next daemon serves")
    assert client.close() == 0
    assert listing.stderr is not None
    new = set(ast.literal_eval(listing.stderr.read().decode()))
    listing.stderr.close()
    assert new <= LOADED, new - LOADED


def test_lines_are_read_where_the_interpreter_has_no_json_in_c() -> None:
    code = """
import sys
sys.modules["_json"] = None
from gatemini.proxy.lines import look, read, written
assert written({"a": [1, None, "\\u00e9"]}) == b'{"a":[1,null,"\\\\u00e9"]}'
assert read(b'{"a": [1, null]}') == {"a": [1, None]}
assert look(b'{"id": 1, "method": "tools/call", "params": {}}') == [{"id": 1, "method": "tools/call"}]
assert look(b'{"method": "tools/list", "id": 2, "params": {"cursor": "x"}}')[0]["params"] == {"cursor": "x"}
assert look(b'{"id": 1, "result": {"cut') == [{"id": 1}]
assert look(b"no json") == [{}]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_client_s_pipes_stay_blocking(lasting: Home) -> None:
    (stdin, to_proxy), (from_proxy, stdout) = os.pipe(), os.pipe()
    process = subprocess.Popen(
        [*GATEMINI, "-c", str(lasting.config)], stdin=stdin, stdout=stdout, env=lasting.environ
    )
    os.write(
        to_proxy,
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY}).encode() + b"\n",
    )
    assert b'"id":1' in os.read(from_proxy, MIB)
    flags = [fcntl.fcntl(number, fcntl.F_GETFL) for number in (stdin, stdout)]
    assert [flag & os.O_NONBLOCK for flag in flags] == [0, 0]
    for number in (stdin, to_proxy, from_proxy, stdout):
        os.close(number)
    assert process.wait(10) == 0


def test_a_daemon_that_reads_nothing_leaves_the_proxy_small(home: Home) -> None:
    line = b'{"jsonrpc":"2.0","method":"x","params":"' + b"y" * 10_000 + b'"}\n'
    with between(home) as wire:
        stdin = wire.process.stdin
        assert stdin is not None
        os.set_blocking(stdin.fileno(), False)
        assert filled(stdin.fileno(), line, 8 * MIB) < 8 * MIB
        assert psutil.Process(wire.process.pid).memory_info().rss < 16 * MIB


def test_what_waits_for_a_daemon_is_bounded_in_number_and_size(home: Home) -> None:
    home.write_config(daemon={"start_timeout": "60s"})
    Path(home.place.folder).mkdir(mode=0o700, exist_ok=True)
    lock = take_lock(home.place.lock)  # as a daemon that is still starting
    assert lock is not None
    client = home.client()
    idents = [client.send("ping") for _ in range(WAITING_REQUESTS + 3)]
    refused = [client.answer(ident)["error"] for ident in idents[WAITING_REQUESTS:]]
    assert {error["data"]["sent"] for error in refused} == {False}
    assert f"{WAITING_REQUESTS} requests wait for the daemon already" in refused[0]["message"]
    assert client.process.stdin is not None
    stdin = client.process.stdin.fileno()
    os.set_blocking(stdin, False)
    line = b'{"jsonrpc":"2.0","method":"x","params":"' + b"y" * 60_000 + b'"}\n'
    most = WAITING_BYTES + 2 * MIB
    assert filled(stdin, line, most) < most
    assert psutil.Process(client.process.pid).memory_info().rss < 60 * MIB
    os.set_blocking(stdin, True)
    os.close(lock)
    assert client.answer(idents[0])["result"] == {}
    assert client.answer(idents[WAITING_REQUESTS - 1])["result"] == {}


@pytest.mark.long
def test_a_daemon_that_does_not_listen_in_time_is_not_waited_for(home: Home) -> None:
    home.write_config(daemon={"start_timeout": "1s"})
    first = home.client()
    first.greet()
    until(lambda: '"start_timeout":1.0' in _text(home.place.hello), "the daemon leaves its limit")
    first.close()
    assert home.command("stop", "-c", str(home.config)).returncode == 0
    lock = take_lock(home.place.lock)
    assert lock is not None
    client = home.client()
    begun = time.monotonic()
    error = client.answer(client.send("ping"))["error"]
    assert "did not answer within 1 s" in error["message"]
    assert f"gatemini logs -c {home.config}" in error["message"]
    assert time.monotonic() - begun < 10
    os.close(lock)
    until(lambda: "result" in client.answer(client.send("ping")), "a later request tries once more")


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except FileNotFoundError:
        return ""


def test_questions_of_a_daemon_that_ends_are_cancelled(home: Home) -> None:
    with between(home) as wire:
        question = b'{"jsonrpc":"2.0","id":%d,"method":"roots/list"}\n'
        wire.sock.sendall(question % 5 + question % 6)
        assert [wire.answer()["id"], wire.answer()["id"]] == [5, 6]
        assert wire.up([b'{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}\n'])
        wire.sock.shutdown(2)
        cancelled = wire.answer()
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == 6


@pytest.mark.parametrize("greeting", [b"", GREETING], ids=["starting", "serving"])
def test_what_a_daemon_got_before_it_served_was_not_carried_out(home: Home, greeting: bytes) -> None:
    with between(home, greeting) as wire:
        assert wire.up([b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n'])
        wire.sock.shutdown(2)
        data = wire.answer()["error"]["data"]
    assert data == {"retryable": True, "sent": bool(greeting)}


@pytest.mark.parametrize(("features", "serves"), [(["sessions", "drain", "later"], True), (["later"], False)])
def test_a_daemon_of_another_version_serves_while_their_features_overlap(
    home: Home, features: list[str], serves: bool
) -> None:
    greeting = json.dumps({"gatemini": 1, "version": "99.0", "features": features}).encode() + b"\n"
    with between(home, b"") as wire:
        assert wire.hello["version"] == __version__
        assert wire.up([b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'])
        wire.sock.sendall(greeting)
        if serves:
            answer = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
            assert wire.down([answer]) == answer
        else:
            error = wire.answer()["error"]
            assert "is of version 99.0, which cannot serve version" in error["message"]
            assert "gatemini restart" in error["message"]


def test_a_request_that_ends_stdin_is_answered_by_a_daemon_that_has_to_start(home: Home) -> None:
    with between(home, b"") as wire:
        assert wire.process.stdin is not None
        request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        os.write(wire.process.stdin.fileno(), request)
        wire.process.stdin.close()
        assert wire.lines.readline() == request + b"\n"
        with pytest.raises(subprocess.TimeoutExpired):
            wire.process.wait(3)  # longer than answers of a daemon that serves are waited for
        wire.sock.sendall(GREETING)
        assert wire.lines.readline() == b'{"gatemini":"bye"}\n'
        wire.sock.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        assert wire.answer()["id"] == 1
        assert wire.process.wait(10) == 0


def test_a_signal_does_not_wait_for_a_daemon_that_starts(home: Home) -> None:
    with between(home, b"") as wire:
        assert wire.up([b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'])
        wire.process.send_signal(signal.SIGTERM)
        assert wire.process.wait(8) == 0


def test_stdin_that_ends_is_answered_for_at_most_two_seconds(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    client.call("ledger.look", seconds=30)
    assert client.process.stdin is not None
    begun = time.monotonic()
    client.process.stdin.close()
    assert client.process.wait(20) == 0
    assert 1.9 < time.monotonic() - begun < 8


def test_a_line_that_is_dropped_may_have_an_id_of_any_kind(home: Home) -> None:
    proxy = Proxy(home.place, None, {})
    proxy.dropping = True
    proxy.from_client(b'{"id": [1], "method": "tools/call"}\n')
    assert (proxy.dropping, bytes(proxy.down)) == (False, b"")
