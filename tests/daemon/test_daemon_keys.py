"""What each key of the section `daemon` changes."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from fixtures.daemons import Home, until


@pytest.mark.long
@pytest.mark.proves("daemon.idle_timeout", "daemon.linger")
@pytest.mark.parametrize("linger", [False, True])
def test_an_idle_daemon_ends_after_its_time_unless_it_lingers(home: Home, linger: bool) -> None:
    home.write_config(daemon={"idle_timeout": "200ms", "linger": linger})
    client = home.client()
    client.greet()
    home.serving()
    [daemon] = home.daemons()
    client.close()
    if linger:
        with pytest.raises(psutil.TimeoutExpired):
            daemon.wait(3)
    else:
        until(lambda: not daemon.is_running(), "the daemon ends when it is idle")


@pytest.mark.proves("daemon.max_sessions")
def test_a_client_over_the_number_of_sessions_is_refused(home: Home) -> None:
    home.write_config(daemon={"max_sessions": 1})
    home.client().greet()
    home.serving()
    second = home.client()
    error = second.answer(second.send("tools/list"))["error"]
    assert "connected already" in error["message"]


@pytest.mark.long
@pytest.mark.proves("daemon.max_requests_per_session")
def test_requests_over_the_number_in_flight_wait_for_the_first(home: Home) -> None:
    home.write_config(daemon={"max_requests_per_session": 1})
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    slow, quick = client.call("ledger.look", seconds=1), client.call("ledger.look")
    client.answer(quick)
    order = [message.get("id") for message in client.messages]
    assert order.index(slow) < order.index(quick)


@pytest.mark.long
@pytest.mark.proves("daemon.instant", "daemon.start_timeout")
@pytest.mark.parametrize("instant", [False, True])
def test_answers_are_saved_for_the_next_start_with_the_time_to_wait_for_it(home: Home, instant: bool) -> None:
    home.write_config(daemon={"instant": instant, "start_timeout": "7s"})
    for _ in range(2):  # at the second greeting the tools are known
        client = home.client()
        client.greet()
        client.answer(client.send("tools/list"))
        client.value(client.call("ledger.look"))
    file = Path(home.place.hello)
    until(lambda: file.exists() and (not instant or json.loads(file.read_text())["answers"]), "it is saved")
    assert home.command("stop", "-c", str(home.config)).returncode == 0
    saved = json.loads(file.read_text())
    assert saved["start_timeout"] == 7
    assert bool(saved["answers"]) is instant
