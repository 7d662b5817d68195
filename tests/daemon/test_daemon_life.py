"""What a daemon does when it is idle, short of something, signalled twice, or of another version."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest

from fixtures.daemons import Home, ProxyClient, until
from gatemini import __version__


def served(home: Home) -> ProxyClient:
    """A client that has made its first call, of a daemon that does not end when it is idle for a moment."""
    home.write_config(daemon={"idle_timeout": "60s"})
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    return client


def test_a_daemon_does_not_end_while_a_client_is_connected(home: Home) -> None:
    home.write_config(daemon={"idle_timeout": "200ms"})
    client = home.client()
    client.greet()
    home.serving()
    [daemon] = home.daemons()
    with pytest.raises(psutil.TimeoutExpired):
        daemon.wait(1.5)
    assert client.value(client.call("ledger.look")) == "xx"


def test_a_second_signal_ends_the_daemon_and_its_children_at_once(home: Home) -> None:
    client = served(home)
    ident = client.call("ledger.look", seconds=30)
    until(lambda: home.serving()["sessions"][0]["in_flight"] == 1, "the call is open")
    [daemon] = home.daemons()
    children = daemon.children(recursive=True)
    assert children
    begun = time.monotonic()
    daemon.send_signal(signal.SIGTERM)
    until(lambda: not Path(home.place.sock).exists(), "it accepts no more")
    with pytest.raises(psutil.TimeoutExpired):
        daemon.wait(0.5)
    daemon.send_signal(signal.SIGTERM)
    daemon.wait(5)
    _, alive = psutil.wait_procs(children, 10)
    assert alive == []
    assert time.monotonic() - begun < 20
    assert client.answer(ident)["error"]["data"]["sent"] is True


@pytest.mark.long
def test_without_a_descriptor_left_clients_are_served_and_others_get_the_reason(home: Home) -> None:
    client = served(home)
    pid = home.serving()["pid"]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, limits[1]))
    holes = used + 1 - len(os.listdir(f"/proc/{pid}/fd"))
    waiting = [home.client() for _ in range(holes + 3)]
    for each in waiting:
        each.send("tools/list")

    def refused() -> bool:
        for each in waiting:
            each.read(0.05)
        return any("Too many open files" in str(each.answers(1)) for each in waiting)

    until(refused, "one is refused with the reason")
    assert client.value(client.call("ledger.look")) == "xx"
    note = "note: no new clients: Too many open files"
    until(lambda: note in home.command("status", "-c", str(home.config)).stdout, "status says so")
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    later = home.client()
    later.greet()
    until(lambda: not home.serving()["trouble"], "it is over")


def test_with_a_full_disk_calls_are_answered_and_status_says_so(home: Home) -> None:
    client = served(home)
    pid = home.serving()["pid"]
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, limits[1]))  # each write to a file fails
    assert client.value(client.call("ledger.write", key="a")) == "ok"
    assert client.value(client.chain("return await ledger.look({})")) == "xx"
    trouble = until(lambda: home.serving()["trouble"], "the trouble is named")
    assert "chains cannot be resumed after a crash" in trouble[0]
    assert f"note: {trouble[0]}" in home.command("status", "-c", str(home.config)).stdout
    later = home.client(modern=True)
    later.greet()
    assert later.value(later.call("ledger.look")) == "xx"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    assert client.value(client.call("ledger.write", key="b")) == "ok"
    until(lambda: not home.serving()["trouble"], "it is over")
    assert home.writes() == ["a", "b"]


@pytest.mark.parametrize("lost", [pytest.param("the socket", marks=pytest.mark.long), "the folder"])
def test_what_was_deleted_under_a_daemon_is_there_again_within_5_seconds(home: Home, lost: str) -> None:
    home.write_config(daemon={"idle_timeout": "60s"})
    client = home.client()
    client.greet()
    pid = home.serving()["pid"]
    if lost == "the socket":
        os.unlink(home.place.sock)
    else:
        shutil.rmtree(Path(home.place.sock).parent)
    until(lambda: Path(home.place.sock).exists(), "it is bound again", 5)
    assert home.serving()["pid"] == pid
    assert client.value(client.call("ledger.look")) == "xx"
    assert home.command("stop", "-c", str(home.config)).returncode == 0


def test_a_restart_waits_for_open_calls_and_with_now_it_does_not(home: Home) -> None:
    client = served(home)
    before = home.serving()["pid"]
    ident = client.call("ledger.look", seconds=1)
    until(lambda: home.serving()["sessions"][0]["in_flight"] == 1, "the call is open")
    assert home.run("restart", "-c", str(home.config)).returncode == 0
    assert client.value(ident) == "xx"
    second = home.serving()["pid"]
    assert second != before
    client.value(client.call("ledger.look"))
    ident = client.call("ledger.look", seconds=30)
    until(lambda: home.serving()["sessions"][0]["in_flight"] == 1, "the call is open")
    begun = time.monotonic()
    assert home.run("restart", "--now", "-c", str(home.config)).returncode == 0
    assert time.monotonic() - begun < 20
    assert client.answer(ident)["error"]["data"]["sent"] is True
    assert home.serving()["pid"] not in (before, second)


@pytest.mark.long
def test_a_busy_daemon_of_an_earlier_version_serves_on_and_status_names_both(home: Home) -> None:
    copy = home.install_copy()
    busy = served(home)
    pid = home.serving()["pid"]
    ident = busy.call("ledger.look", seconds=4)
    source, newer = copy / "__init__.py", f"{__version__}.post1"
    source.write_text(source.read_text().replace(f'"{__version__}"', f'"{newer}"'))
    later = home.client()
    later.greet()
    status = home.serving()
    assert (status["pid"], status["version"], status["installed"]) == (pid, __version__, newer)
    assert (
        f"version {__version__} (installed: {newer}, used after a restart)"
        in home.run("status", "-c", str(home.config)).stdout
    )
    assert busy.value(ident) == "xx"
    until(lambda: home.serving()["version"] == newer, "it is replaced when it is idle")
    assert later.value(later.call("ledger.look")) == "xx"
    assert len(home.daemons()) == 1
