"""What each key of the section `log` changes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import LEGACY, Home, until

MISSING = {"m": {"command": "/no/such/program"}}


def served(home: Home, **log: Any) -> dict[str, Any]:
    """Serve a client by a daemon with this section, and return its status."""
    home.write_config(log=log)
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    answer = home.serving()
    return answer


@pytest.mark.proves("log.file", "log.format")
def test_the_log_goes_on_in_the_configured_file_in_its_form(home: Home) -> None:
    path = home.root / "own.log"
    assert served(home, file=str(path), format="json")["log"] == str(path)
    [daemon] = home.daemons()
    os.rename(path, home.root / "kept.log")
    daemon.send_signal(signal.SIGHUP)
    until(path.exists, "SIGHUP opens the file anew")
    assert daemon.is_running()
    home.command("logs", "-c", str(home.config), "--level", "chain=debug")
    client = home.client()
    client.greet()
    client.answer(client.chain("throw new Error('no')"))
    [event] = until(
        lambda: [e for e in map(json.loads, path.read_text().splitlines()) if "code" in e], "an event"
    )
    assert event["chain"]
    assert event["session"]
    assert f"the log goes on in {path}" in Path(home.place.log).read_text()
    assert event["message"] in home.command("logs", "-c", str(home.config)).stdout
    home.command("stop", "-c", str(home.config))
    assert event["message"] in home.command("logs", "-c", str(home.config)).stdout


@pytest.mark.long
@pytest.mark.proves("log.level")
def test_the_level_of_the_section_wins(home: Home) -> None:
    status = served(home, level="error")
    assert "backend" not in Path(status["log"]).read_text()
    home.command("stop", "-c", str(home.config))
    status = served(home, level="debug")
    assert "DEBUG gatemini.parts" in Path(status["log"]).read_text()


@pytest.mark.long
@pytest.mark.proves("log.rotate_mb", "log.keep")
def test_the_log_of_a_daemon_rotates_at_its_size(home: Home) -> None:
    status = served(home, level="debug", rotate_mb=0.0002, keep=2)
    path = Path(status["log"])
    client = home.client()
    client.greet()
    for _ in range(6):
        client.answer(client.chain("throw new Error('no')"))
    assert path.with_name(f"{path.name}.2").exists()
    assert not path.with_name(f"{path.name}.3").exists()
    assert path.stat().st_size < 300


def test_a_direct_gateway_logs_to_the_file_beside_stderr(home: Home) -> None:
    path = home.root / "state" / "gatemini" / "logs" / "own.log"
    home.write_config(log={"file": "logs/own.log", "format": "json", "level": "debug"})
    call = json.dumps({"tool": "ledger.look", "arguments": {}})
    messages = [
        {"id": 1, "method": "initialize", "params": LEGACY},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "call_tool_chain", "arguments": {"code": call}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    said = home.run("--direct", "-c", str(home.config), input=lines).stderr
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert any(event.get("backend") == "ledger" for event in events)
    assert f"the log goes on in {path}" in said
    assert events[0]["message"] in said
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_named_and_the_gateway_serves(home: Home) -> None:
    status = served(home, file="/proc/none/own.log")
    assert "log.file: /proc/none/own.log cannot be written" in Path(status["log"]).read_text()
    assert status["log"] == home.place.log
