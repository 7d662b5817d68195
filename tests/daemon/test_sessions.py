"""What belongs to one client and what outlives a daemon."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fixtures.daemons import Home, until
from gatemini.daemon.client import ask


def test_a_handle_and_a_journal_outlive_the_daemon_that_made_them(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    handle = client.value(client.chain("return (await results.save({rows: [1, 2, 3]})).handle"))
    [daemon] = home.daemons()
    assert home.run("restart", "-c", str(home.config)).returncode == 0
    assert daemon.pid not in {p.pid for p in home.daemons()}
    assert client.value(client.chain(f"return (await results.load('{handle}')).rows[2]")) == 3


@pytest.mark.proves("daemon.client_drain_timeout")
def test_a_chain_that_a_stop_cuts_off_is_resumed_by_the_next_daemon(home: Home) -> None:
    home.write_config(daemon={"client_drain_timeout": "500ms"})
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    code = "await ledger.write({key: 'once'}); await ledger.look({seconds: 5}); return Math.random() < 2"
    ident = client.chain(code, timeout=60000)
    until(home.writes, "the chain has begun")
    home.daemons()[0].send_signal(signal.SIGTERM)
    error = client.answer(ident)["error"]
    chain = error["data"]["chain"]
    assert error["message"].endswith(
        f": find out with `// @resume {chain}` as the first line of the same code"
    )
    assert client.value(client.chain(f"// @resume {chain}\n{code}", timeout=60000)) is True
    assert home.writes() == ["once"]


def test_a_chain_whose_daemon_is_killed_is_not_said_to_be_resumable(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    ident = client.chain(
        "await ledger.write({key: 'once'}); await ledger.look({seconds: 20});", timeout=60000
    )
    until(home.writes, "the chain has begun")
    home.daemons()[0].kill()
    message = client.answer(ident)["error"]["message"]
    assert "look what happened before you send it again" in message
    assert "@resume" not in message


def test_a_daemon_that_stops_says_how_long_its_open_calls_may_take(home: Home) -> None:
    home.write_config(daemon={"client_drain_timeout": "2m"})
    home.client().greet()
    home.serving()
    stopped = ask(home.place, "stop")
    assert stopped is not None
    assert stopped["drain_seconds"] == 120


def test_a_session_that_said_goodbye_leaves_no_file(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.chain("return await results.save([1])"))
    client.close()
    until(lambda: not home.daemons(), "the daemon ends")
    assert not list((home.root / "state").rglob("*.session"))


def test_two_clients_do_not_see_each_other_s_handles_and_journals(home: Home) -> None:
    first, second = home.client(), home.client(modern=True)
    for client in (first, second):
        client.greet()
    made = first.answer(first.chain("return (await results.save([1, 2])).handle"))["result"]
    handle = made["content"][0]["text"].strip('"')
    chain = made["_meta"]["gatemini/chain"]["id"]
    for code in (
        f"return await results.load('{handle}')",
        f"// @resume {chain}\nreturn (await results.save([1, 2])).handle",
    ):
        assert second.answer(second.chain(code))["result"]["isError"] is True


def test_the_folder_of_a_socket_that_is_not_private_is_refused(home: Home) -> None:
    folder = Path(home.environ["XDG_RUNTIME_DIR"], "gatemini")
    folder.mkdir(0o755)
    folder.chmod(0o755)
    found = home.run("-c", str(home.config), stdin=None)
    assert found.returncode == 1
    assert "chmod 700" in found.stderr
    folder.rmdir()
    os.symlink(home.root, folder)
    found = home.run("-c", str(home.config))
    assert found.returncode == 1
    assert "is no directory of its own" in found.stderr
    folder.unlink()


def test_the_labels_of_what_a_session_has_read_outlive_the_daemon(home: Home) -> None:
    guard = {
        "flow": "deny",
        "override_annotations": {"ledger.*": {"openWorld": False}, "ledger.look": {"readOnly": True}},
        "labels": {"untrusted": ["ledger.look"]},
    }
    home.write_config(policy=guard)
    client = home.client()
    client.greet()
    assert client.value(client.call("ledger.write", key="before")) == "ok"
    client.value(client.call("ledger.look"))
    client.value(client.chain("return (await results.save([1])).handle"))
    assert home.run("restart", "-c", str(home.config)).returncode == 0
    refused = client.answer(client.call("ledger.write", key="after"))["result"]
    assert refused["isError"]
    assert "untrusted content (ledger.look)" in refused["content"][0]["text"]
    fresh = home.client()
    fresh.greet()
    assert fresh.value(fresh.call("ledger.write", key="fresh")) == "ok"
    assert home.writes() == ["before", "fresh"]
