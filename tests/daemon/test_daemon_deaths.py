"""Whatever ends a daemon: each request is answered once, no write is made twice, stdio stays open."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from fixtures.daemons import WAIT_SECONDS, Home, ProxyClient, until
from gatemini import __version__
from gatemini.proxy.memory import LOST


def kill(home: Home, number: signal.Signals = signal.SIGKILL) -> None:
    [daemon] = home.daemons()
    daemon.send_signal(number)
    daemon.wait(WAIT_SECONDS)


def abort(home: Home) -> None:
    kill(home, signal.SIGABRT)


def freeze(home: Home) -> None:
    daemon = home.daemons()[0]
    daemon.suspend()
    for client in home.clients:
        client.read(0.1)
    daemon.resume()


def freeze_for_10_seconds(home: Home) -> None:
    daemon = home.daemons()[0]
    daemon.suspend()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for client in home.clients:
            client.read(0.01)
    daemon.resume()


def upgrade(home: Home) -> None:
    """Install another version, of which the next client is."""
    [source] = (home.root / "venv" / "lib").glob("*/site-packages/gatemini/__init__.py")
    source.write_text(source.read_text().replace(f'"{__version__}"', f'"{__version__}.post1"'))
    newer = home.client()
    newer.greet()
    until(lambda: (home.status() or {}).get("version") != __version__, "the newer daemon")


def break_config(home: Home) -> None:
    home.config.write_text("{not a config")
    kill(home)


def unlink(home: Home) -> None:
    os.unlink(home.place.sock)


def restart(home: Home) -> None:
    assert home.run("restart", "-c", str(home.config)).returncode == 0


def terminate(home: Home) -> None:
    home.daemons()[0].send_signal(signal.SIGTERM)


Death = Callable[[Home], None]
DEATHS: list[Death] = [kill, abort, freeze, unlink, restart, terminate]
LONG_DEATHS: list[Death] = [freeze_for_10_seconds, upgrade, break_config]
GENTLE = (freeze, freeze_for_10_seconds, unlink, restart, terminate, upgrade)
CASES = [
    pytest.param(kill, 4, id="kill-4"),
    *(
        pytest.param(death, 4, id=f"{death.__name__}-4", marks=pytest.mark.long)
        for death in DEATHS
        if death is not kill
    ),
    *(
        pytest.param(death, 16, id=f"{death.__name__}-16", marks=pytest.mark.long)
        for death in (*DEATHS, *LONG_DEATHS)
    ),
]


def keep_busy(clients: list[ProxyClient], round_: int) -> dict[ProxyClient, list[int]]:
    """Requests of every kind, in flight together."""
    return {
        client: [
            client.call("ledger.write", key=f"{number}-{round_}", seconds=0.2),
            client.chain(
                f"await ledger.write({{key: '{number}-{round_}-a'}}); await ledger.look({{seconds: 0.2}}); return 1"
            ),
            client.send("tools/list"),
            client.call("ledger.look", size=200_000),
        ]
        for number, client in enumerate(clients)
    }


def check(home: Home, asked: dict[ProxyClient, list[int]], *, gentle: bool) -> None:
    for client, idents in asked.items():
        for ident in idents:
            message = client.answer(ident)
            if "error" in message:
                assert not gentle, message
                assert message["error"]["code"] == LOST
                assert message["error"]["data"]["retryable"] is True
                assert isinstance(message["error"]["data"]["sent"], bool)
        client.read(0.05)
        assert [i for i in client.sent if len(client.answers(i)) != 1] == []
        assert client.process.poll() is None
    writes = home.writes()
    assert len(writes) == len(set(writes)), writes


@pytest.mark.parametrize(("death", "count"), CASES)
def test_each_request_is_answered_once_and_no_write_is_made_twice(
    home: Home, death: Death, count: int
) -> None:
    if death is upgrade:
        home.install_copy()
    config = home.config.read_text()
    clients = [home.client(modern=number % 2 == 1) for number in range(count)]
    for client in clients:
        client.greet()
        client.value(client.call("ledger.look"))
    first = keep_busy(clients, 1)
    until(lambda: home.writes(), "a write is under way")
    began = time.monotonic()
    death(home)
    second = keep_busy(clients, 2)
    check(home, {client: first[client] + second[client] for client in clients}, gentle=death in GENTLE)
    print(f"{death.__name__}, {count} clients: all answered {time.monotonic() - began:.1f} s after it began")
    if home.config.read_text() != config:
        home.config.write_text(config)
    for number, client in enumerate(clients):
        assert client.value(client.call("ledger.write", key=f"after-{number}")) == "ok"
    assert len(home.daemons()) == 1


@pytest.mark.long
def test_a_lost_request_tells_whether_it_was_sent_and_how_to_resume_its_chain(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    ident = client.chain("await ledger.write({key: 'a'}); await ledger.look({seconds: 30}); return 1")
    until(lambda: home.writes(), "the chain has begun")
    kill(home)
    data = client.answer(ident)["error"]["data"]
    assert data["sent"] is True
    assert data["chain"].startswith("chain_")


@pytest.mark.long
def test_the_handshake_settings_and_streams_are_repeated_to_the_next_daemon(home: Home) -> None:
    legacy, modern = home.client(), home.client(modern=True)
    for client in (legacy, modern):
        client.greet()
        client.value(client.call("ledger.look"))
    legacy.answer(legacy.send("resources/subscribe", {"uri": "gatemini://backends"}))
    legacy.answer(legacy.send("logging/setLevel", {"level": "debug"}))
    stream = modern.send(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["gatemini://backends"]}}
    )
    until(
        lambda: modern.read(0.1) or modern.notified("notifications/subscriptions/acknowledged"),
        "the stream is open",
    )
    kill(home)
    updated = "notifications/resources/updated"
    for client in (legacy, modern):
        client.value(client.call("ledger.look"))
        before = len(client.notified(updated))
        client.value(client.call("ledger.look"))
        while len(client.notified(updated)) <= before:
            client.read(WAIT_SECONDS)
    assert len(modern.notified("notifications/subscriptions/acknowledged")) == 1
    assert modern.answers(stream) == []
    assert [m for c in (legacy, modern) for m in c.messages if str(m.get("id")).startswith("gatemini-")] == []


@pytest.mark.long
def test_a_broken_configuration_is_told_and_the_next_request_tries_again(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    good = home.config.read_text()
    home.config.write_text("{not a config")
    kill(home)
    refused = client.answer(client.call("ledger.look"))["error"]
    assert refused["data"] == {"retryable": True, "sent": False}
    assert "config.yaml" in refused["message"]
    assert "gatemini logs" in refused["message"]
    home.config.write_text(good)
    assert client.value(client.call("ledger.look")) == "xx"


def test_a_first_request_learns_why_no_daemon_can_start(home: Home) -> None:
    home.config.write_text("{not a config")
    client = home.client()
    message = client.answer(client.send("initialize"))["error"]["message"]
    assert "config.yaml" in message
    assert client.process.poll() is None


@pytest.mark.long
def test_clients_that_wait_do_not_start_a_daemon_that_was_stopped(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    assert home.run("stop", "-c", str(home.config)).returncode == 0
    client.read(0.5)
    assert home.daemons() == []
    assert client.value(client.call("ledger.look")) == "xx"
