"""The first answers of a client come from the last daemon's, and only while nothing that they depend on has changed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from fixtures.daemons import LEDGER, Home, until
from fixtures.daemons import home as made
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
    assert home.command("stop", "-c", str(home.config)).returncode == 0
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


@contextmanager
def changed(path: Path, text: str) -> Iterator[None]:
    """A file with another text, and afterwards as it was, its time too."""
    before = (path.read_bytes(), path.stat()) if path.exists() else None
    path.write_text(text)
    yield
    if before is None:
        path.unlink()
    else:
        path.write_bytes(before[0])
        os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))


@contextmanager
def variable(home: Home, value: str) -> Iterator[None]:
    before, home.environ["LEDGER_TOKEN"] = home.environ["LEDGER_TOKEN"], value
    yield
    home.environ["LEDGER_TOKEN"] = before


def appended(path: Path) -> AbstractContextManager[None]:
    return changed(path, path.read_text() + " ")


def another_version(home: Home) -> AbstractContextManager[None]:
    file = Path(home.place.hello)
    return changed(file, json.dumps({**json.loads(file.read_text()), "version": "0.0.0"}))


CHANGES: dict[str, Callable[[Home], AbstractContextManager[None]]] = {
    "the configuration": lambda home: appended(home.config),
    "a .env file": lambda home: changed(home.root / ".env", "A=1\n"),
    "the cache": lambda home: appended(home.root / "cache" / "gatemini" / "cache.json"),
    "a variable that the configuration names": lambda home: variable(home, "2"),
    "the version": another_version,
}


@pytest.fixture(scope="module")
def kept() -> Iterator[Home]:
    """Saved answers and no daemon, for tests that start none and leave everything as it is."""
    with made() as home:
        home.write_config(aliases={"LEDGER_TOKEN": "ledger.look"})
        home.environ["LEDGER_TOKEN"] = "1"
        prepared(home)
        yield home


@pytest.mark.parametrize("change", CHANGES)
def test_an_answer_is_not_used_after_a_change_of(kept: Home, change: str) -> None:
    with CHANGES[change](kept):
        assert saved(kept) == {}
    assert saved(kept), "nothing but the change was the reason"


def test_other_clients_and_revisions_have_answers_of_their_own(kept: Home) -> None:
    keys = set(saved(kept)["answers"])  # type: ignore[call-overload]
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

    def notified() -> bool:
        client.read(0.2)
        return bool(client.notified("notifications/resources/list_changed"))

    until(notified, "the answer differs")
    search = {"name": "search_tools", "arguments": {"task_description": "later"}}
    until(
        lambda: "ledger.later" in json.dumps(client.value(client.send("tools/call", search))),
        "the later tool",
    )
    after = home.client().greet()["result"]
    assert after["instructions"] != before["instructions"]


def test_the_file_is_private(kept: Home) -> None:
    assert os.stat(kept.place.hello).st_mode & 0o077 == 0
