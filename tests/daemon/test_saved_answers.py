"""The first answers of a client come from the last daemon's, and only while nothing that they depend on has changed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.daemons import LEDGER, WAIT_SECONDS, Home, until
from gatemini.proxy.memory import saved_answers


def saved(home: Home) -> dict[str, object]:
    return saved_answers(home.place.hello, home.environ)


def prepared(home: Home) -> None:
    """Leave saved answers, and no daemon."""
    client = home.client()
    client.greet()
    client.answer(client.send("tools/list"))
    client.value(client.call("ledger.look"))
    client.close()
    later = home.client()  # by now the tools are known
    later.greet()
    later.answer(later.send("tools/list"))
    until(lambda: saved(home), "answers are saved")
    later.close()
    assert home.run("stop", "-c", str(home.config)).returncode == 0
    assert saved(home)


def test_the_first_answers_come_before_the_daemon_serves_and_are_its_own(home: Home) -> None:
    prepared(home)
    client = home.client()
    greeting = client.greet()
    listed = client.answer(client.send("tools/list"))
    assert (home.status() or {"state": "starting"})["state"] == "starting"
    home.serving()
    again = client.answer(client.send("tools/list"))
    assert again["result"] == listed["result"]
    other = home.client()
    assert other.greet()["result"] == greeting["result"]
    assert client.value(client.call("ledger.look")) == "xx"
    assert [i for i in client.sent if len(client.answers(i)) != 1] == []


def touch(path: Path) -> None:
    path.write_text(path.read_text() + " ")


CHANGES: dict[str, Callable[[Home], object]] = {
    "the configuration": lambda home: touch(home.config),
    "a .env file": lambda home: (home.root / ".env").write_text("A=1\n"),
    "the cache": lambda home: touch(home.root / "cache" / "gatemini" / "cache.json"),
    "a variable that the configuration names": lambda home: home.environ.update(LEDGER_TOKEN="2"),
    "the version": lambda home: Path(home.place.hello).write_text(
        json.dumps({**json.loads(Path(home.place.hello).read_text()), "version": "0.0.0"})
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_answer_is_not_used_after_a_change_of(home: Home, change: str) -> None:
    home.write_config(aliases={"LEDGER_TOKEN": "ledger.look"})
    home.environ["LEDGER_TOKEN"] = "1"
    prepared(home)
    CHANGES[change](home)
    assert saved(home) == {}


def test_other_clients_and_revisions_have_answers_of_their_own(home: Home) -> None:
    prepared(home)
    keys = set(saved(home)["answers"])  # type: ignore[call-overload]
    assert keys == {"initialize 2025-06-18 legacy", "tools/list 2025-06-18 legacy"}


def test_a_client_is_notified_where_the_daemon_s_own_answer_differs(home: Home) -> None:
    server = home.root / "server.py"
    server.write_text(LEDGER.read_text())
    home.write_config(
        backends={"ledger": {"command": sys.executable, "args": ["-I", "-S", str(server), str(home.ledger)]}}
    )
    prepared(home)
    tools = 'TOOLS = [{"name": "later", "inputSchema": {"type": "object"}},'
    server.write_text(server.read_text().replace("TOOLS = [", tools))
    client = home.client()
    before = client.greet()["result"]
    client.answer(client.send("tools/list"))
    while not client.notified("notifications/resources/list_changed"):
        client.read(WAIT_SECONDS)
    search = {"name": "search_tools", "arguments": {"task_description": "later"}}
    until(
        lambda: "ledger.later" in json.dumps(client.value(client.send("tools/call", search))),
        "the later tool",
    )
    after = home.client().greet()["result"]
    assert after["instructions"] != before["instructions"]


def test_the_file_is_private(home: Home) -> None:
    prepared(home)
    assert os.stat(home.place.hello).st_mode & 0o077 == 0
