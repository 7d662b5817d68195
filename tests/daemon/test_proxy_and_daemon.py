"""Clients, their proxies and one daemon, as processes: who starts it, who shares it, when it ends."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fixtures.daemons import WAIT_SECONDS, Home, until
from fixtures.paused import pause

EXTRA = {
    "__main__",
    "gatemini",
    "gatemini.proxy",
    "gatemini.proxy.lines",
    "gatemini.proxy.memory",
    "gatemini.proxy.places",
    "gatemini.proxy.stdio",
    "gatemini.proxy.wire",
}


def test_a_client_of_either_era_is_served_through_the_daemon(home: Home) -> None:
    home.write_config()
    for modern in (False, True):
        client = home.client(modern=modern)
        assert "instructions" in client.greet()["result"]
        assert client.value(client.chain("return 6 * 7")) == 42
        assert client.value(client.call("ledger.write", key=f"k{modern}")) == "ok"
    assert home.writes() == ["kFalse", "kTrue"]
    assert len(home.daemons()) == 1
    assert [session["client"] for session in home.serving()["sessions"]] == ["legacy", "modern"]


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.long)])
def test_many_proxies_at_once_start_one_daemon(home: Home, count: int) -> None:
    clients = [home.client(modern=number % 2 == 0) for number in range(count)]
    for client in clients:
        client.greet()
    for number, client in enumerate(clients):
        assert client.value(client.chain(f"return {number} + 1")) == number + 1
    assert len(home.daemons()) == 1


def test_the_proxy_imports_nothing_but_the_smallest_modules(home: Home) -> None:
    code = "import sys; before = set(sys.modules); import gatemini.__main__, gatemini.proxy.stdio; print(sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    new = set(ast.literal_eval(found))
    assert new <= {*EXTRA, "gatemini.__main__", "_signal", "_socket", "_json", "select", "time"}, new


def test_stdin_that_ends_ends_the_proxy_and_later_the_daemon(home: Home) -> None:
    home.write_config(daemon={"idle_timeout": "200ms"})
    client = home.client()
    client.greet()
    [daemon] = home.daemons()
    assert client.close() == 0
    until(lambda: not daemon.is_running(), "the daemon ends when it is idle")
    assert {path.suffix for path in Path(home.place.folder).iterdir()} <= {".hello", ".lock", ".log"}


def test_answers_in_flight_are_waited_for_when_stdin_ends(lasting: Home) -> None:
    client = lasting.client()
    client.greet()
    client.value(client.call("ledger.look"))
    ident = client.call("ledger.look", seconds=0.5)
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.answer(ident)["result"]["content"][0]["text"] == "xx"
    assert client.process.wait(WAIT_SECONDS) == 0


def test_sigterm_ends_the_proxy_with_code_0(lasting: Home) -> None:
    client = lasting.client()
    client.greet()
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(WAIT_SECONDS) == 0


BY_LOOKING = "import os, sys; del os.pidfd_open; from gatemini.proxy.stdio import main; main(sys.argv[2])"


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(["-P", "-m", "gatemini"], id="the system says so"),
        pytest.param(["-P", "-c", BY_LOOKING], id="it looks every 5 s", marks=pytest.mark.long),
    ],
)
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="elsewhere the parent is looked for every 5 s")
def test_the_proxy_ends_when_its_client_is_killed_although_stdin_stays_open(
    home: Home, tmp_path: Path, start: list[str]
) -> None:
    out = tmp_path / "out"
    code = (
        "import os, subprocess, sys, time\n"
        "keep = os.pipe()\n"
        f"p = subprocess.Popen({[sys.executable, *start, '-c', str(home.config)]!r}, stdin=keep[0])\n"
        "q = subprocess.Popen(['sleep', '600'], pass_fds=keep)\n"
        "print(p.pid, q.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with out.open("wb") as stdout:
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=stdout, env=home.environ)
        until(lambda: out.read_text().endswith("\n"), "the proxy runs")
        proxy, holder = map(int, out.read_text().split())
        try:
            until(lambda: home.status() is not None, "the daemon runs")
            parent.kill()
            parent.wait()
            until(lambda: proxy not in {p.pid for p in home.processes()}, "the proxy ends")
        finally:
            os.kill(holder, signal.SIGKILL)


def test_two_configurations_have_two_daemons_and_one_status(home: Home) -> None:
    first = home.client()
    first.greet()
    other = home.config.with_name("other.yaml")
    other.write_text(home.config.read_text())
    home.config = other
    second = home.client()
    second.greet()
    assert len(home.daemons()) == 2
    shown = home.command("status", "--all", "--json")
    configs = {each["config"] for each in json.loads(shown.stdout)["daemons"]}
    assert configs >= {str(home.root / "config.yaml"), str(other)}


def test_a_daemon_that_gives_no_answer_hides_no_other(lasting: Home) -> None:
    silent = Path(lasting.place.folder, "000000000000.sock")

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(silent))
        server.listen()
        answering = threading.Thread(target=lambda: server.accept()[0].close())
        answering.start()
        shown = lasting.command("status", "--all", "--json")
        answering.join()
    silent.unlink()
    assert str(lasting.config) in {each["config"] for each in json.loads(shown.stdout)["daemons"]}
    assert str(silent) in shown.stderr
    assert shown.returncode == 1


@pytest.mark.long
def test_a_line_longer_than_the_proxy_holds_starts_a_daemon(home: Home) -> None:
    client = home.client()
    client.greet()
    assert home.run("stop", "-c", str(home.config)).returncode == 0
    code = f"/* {'x' * (20 << 20)} */ return 1"
    error = client.answer(client.chain(code))["result"]
    assert error["isError"]
    assert "max_code_bytes" in error["content"][0]["text"]
    assert client.value(client.chain("return 2")) == 2


@pytest.mark.long
def test_a_line_longer_than_the_proxy_holds_is_answered_where_no_daemon_can_start(home: Home) -> None:
    client = home.client()
    client.greet()
    assert home.run("stop", "-c", str(home.config)).returncode == 0
    home.config.write_text("backends: [")
    error = client.answer(client.chain("x" * (20 << 20)))["error"]
    assert error["data"] == {"retryable": True, "sent": False}
    home.write_config()
    assert client.value(client.chain("return 2")) == 2


def test_a_refusal_that_arrives_together_with_a_request_answers_it(home: Home) -> None:
    Path(home.place.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(home.place.sock)
        listener.listen()
        client = home.client()
        daemon, _ = listener.accept()
        with daemon:
            daemon.recv(1 << 16)
            pause(client.process.pid)
            daemon.send(b'{"gatemini":"failed","reason":"no place is free"}\n')
        ident = client.send("tools/list")
        client.process.send_signal(signal.SIGCONT)
        error = client.answer(ident)["error"]
    assert "no place is free" in error["message"]
    assert error["data"]["sent"] is False


def test_a_proxy_whose_working_folder_was_removed_outlives_its_daemon(home: Home, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    client = home.client(cwd=tmp_path / "work")
    client.greet()
    (tmp_path / "work").rmdir()
    os.kill(home.serving()["pid"], signal.SIGKILL)
    until(lambda: "result" in client.answer(client.chain("return 1")), "the next daemon serves")
    assert home.serving()["sessions"][0]["cwd"] == str(tmp_path / "work")
    assert client.close() == 0
