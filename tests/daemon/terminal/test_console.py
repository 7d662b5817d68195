"""`gatemini approve`: calls of clients of a daemon, and of a gateway without one, decided from a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.daemons import GATEMINI, Home, ProxyClient, until
from gatemini.daemon.client import ask

POLICY: dict[str, Any] = {
    "rules": [
        {"tools": ["ledger.write"], "action": "ask", "ask": {"via": ["console"]}, "reason": "it writes"}
    ]
}


def listed(home: Home, *words: str) -> list[dict[str, Any]]:
    done = home.command("-c", str(home.config), "approve", "--json", *words)
    found: list[dict[str, Any]] = json.loads(done.stdout).get("approvals", [])
    return found


def pending(home: Home) -> list[dict[str, Any]]:
    """The same without a process of its own: from the daemon's socket."""
    told = ask(home.place, "approvals")
    assert told is not None
    found: list[dict[str, Any]] = told["approvals"]
    return found


def approve(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    return home.command("-c", str(home.config), "approve", *words)


def text_of(client: ProxyClient, ident: int) -> str:
    result = client.answer(ident)["result"]
    return "\n".join(block.get("text", "") for block in result["content"])


@pytest.fixture(
    params=[pytest.param(False, id="legacy", marks=pytest.mark.long), pytest.param(True, id="modern")]
)
def client(home: Home, request: pytest.FixtureRequest) -> ProxyClient:
    home.write_config(policy=POLICY)
    found = home.client(modern=request.param)
    found.greet()
    return found


def test_a_call_is_listed_approved_and_made_once(home: Home, client: ProxyClient) -> None:
    pending = text_of(client, client.call("ledger.write", key="a\u202eb"))
    (waits,) = listed(home)
    assert pending.startswith(f"ApprovalPending: ledger.write waits for an approval: {waits['id']}")
    assert f"gatemini approve {waits['id']}" in pending
    shown = approve(home).stdout
    assert f'{waits["id"]}: ledger.write with\n  key: "a\\u202eb"\n  rule: policy.rules[0]' in shown
    assert "reason: it writes" in shown
    done = home.run("-c", str(home.config), "approve", waits["id"])
    assert (done.returncode, done.stdout.split(":")[0]) == (0, f"approved {waits['id']}")
    assert home.writes() == []
    assert client.value(client.call("ledger.write", key="a\u202eb")) == "ok"
    assert home.writes() == ["a\u202eb"]
    assert text_of(client, client.call("ledger.write", key="a\u202eb")).startswith("ApprovalPending")


@pytest.mark.long
def test_long_arguments_are_shown_whole_on_request(home: Home, client: ProxyClient) -> None:
    text_of(client, client.call("ledger.write", key="x" * 100_000 + "END"))
    (waits,) = listed(home)
    short = approve(home).stdout
    assert len(short) < 5000
    assert f"all of it: gatemini approve {waits['id']} --whole" in short
    assert "98,00" in short
    whole = approve(home, waits["id"], "--whole").stdout
    assert 'END"\n  rule: policy.rules[0]' in whole.replace("\n    | ", "")
    assert len(listed(home)) == 1


def test_what_was_typed_before_a_question_is_shown_does_not_answer_it(home: Home) -> None:
    """A person who answers a question that another console has just decided must not answer the next one unread."""
    home.write_config(policy=POLICY)
    client = home.client(modern=False)
    client.greet()
    master, terminal = pty.openpty()
    command = [*GATEMINI, "-c", str(home.config), "approve", "--watch"]
    watch = subprocess.Popen(
        command, env=home.environ, cwd=home.root, stdin=terminal, stdout=subprocess.PIPE, text=True
    )
    assert watch.stdout is not None
    try:
        until(lambda: watched(home), "the console has looked")
        os.write(master, b"y\n")
        ident = client.call("ledger.write", key="a")
        while "approve?" not in watch.stdout.readline():
            pass
        assert len(pending(home)) == 1, "nobody has answered this question"
        os.write(master, b"n\n")
        assert "ApprovalDenied" in text_of(client, ident)
    finally:
        watch.kill()
        watch.wait(60)
        watch.stdout.close()
        os.close(master)
        os.close(terminal)
    assert home.writes() == []


def test_a_denied_call_stays_out(home: Home, client: ProxyClient) -> None:
    text_of(client, client.call("ledger.write", key="a"))
    (waits,) = pending(home)
    assert approve(home, waits["id"], "--deny").stdout.startswith(f"denied {waits['id']}")
    assert pending(home) == []
    again = approve(home, waits["id"])
    assert again.returncode == 1
    assert "there is no open approval" in again.stderr
    assert text_of(client, client.call("ledger.write", key="a")).startswith("ApprovalPending")
    assert home.writes() == []


@pytest.mark.long
def test_a_resumed_chain_makes_what_was_approved(home: Home, client: ProxyClient) -> None:
    code = 'await ledger.look({}); await ledger.write({ key: "a" }); return "end"'
    ended = text_of(client, client.chain(code))
    chain = ended.partition("`// @resume ")[2].partition("`")[0]
    approve(home, pending(home)[0]["id"])
    assert client.value(client.chain(f"// @resume {chain}\n{code}")) == "end"
    assert home.writes() == ["a"]


@pytest.mark.long
def test_a_watching_person_decides_while_the_chain_waits(home: Home, client: ProxyClient) -> None:
    client.value(client.call("ledger.look"))
    watch = subprocess.Popen(
        [*GATEMINI, "-c", str(home.config), "approve", "--watch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=home.environ,
        cwd=home.root,
    )
    assert watch.stdin is not None
    assert watch.stdout is not None
    assert watch.stderr is not None
    try:
        assert "watching" in watch.stderr.readline()
        # The gateway knows that somebody watches once the command has looked for the first time.
        until(lambda: watched(home), "the console has looked")
        code = """return (await Promise.allSettled(["a", "b"].map((key) => ledger.write({ key })))).map((one) => one.status)"""
        ident = client.chain(code)
        shown = [watch.stdout.readline()]
        while not shown[-1].startswith("approve?"):
            shown.append(watch.stdout.readline())
        text = "".join(shown)
        assert "1. apr_" in text
        assert "2. apr_" in text
        assert 'key: "b"' in text
        watch.stdin.write("2\n")
        watch.stdin.flush()
        assert client.value(ident) == ["rejected", "fulfilled"]
        assert home.writes() == ["b"]
    finally:
        watch.stdin.close()
        assert watch.wait(60) == 0
        watch.stdout.close()
        watch.stderr.close()


def watched(home: Home) -> bool:
    """Whether the daemon knows of a console that watches."""
    told = ask(home.place, "approvals")
    return told is not None and told["watched"]


@pytest.mark.long
def test_the_daemon_refuses_what_is_not_exactly_what_was_shown(home: Home, client: ProxyClient) -> None:
    text_of(client, client.call("ledger.write", key="a"))
    (waits,) = pending(home)
    right = {"id": waits["id"], "arguments_sha256": waits["arguments_sha256"], "granted": True}
    wrong: list[dict[str, Any]] = [
        {**right, "id": "apr_0000000000000000"},
        {**right, "arguments_sha256": "0" * 64},
        {**right, "arguments_sha256": ""},
        {**right, "granted": 1},
        {**right, "granted": "true"},
        {"id": waits["id"]},
        {},
    ]
    for arguments in wrong:
        told = ask(home.place, "approve", **arguments)
        assert told is not None
        assert not told["ok"], arguments
    assert text_of(client, client.call("ledger.write", key="a")).startswith("ApprovalPending")
    assert home.writes() == []
    told = ask(home.place, "approve", **right)
    assert told is not None
    assert told["ok"]
    told = ask(home.place, "approve", **right)
    assert told is not None
    assert not told["ok"]


@pytest.mark.long
def test_a_daemon_with_an_open_approval_does_not_end_when_idle(home: Home) -> None:
    home.write_config(policy=POLICY, daemon={"idle_timeout": "100ms"})
    client = home.client()
    client.greet()
    text_of(client, client.call("ledger.write", key="a"))
    client.process.kill()
    client.process.wait()
    (daemon,) = home.daemons()
    (waits,) = pending(home)
    until(lambda: (home.status() or {}).get("sessions") == [], "the client has gone")
    for _ in range(3):  # each answer is a round of its upkeep later
        assert home.status() is not None
    assert daemon.is_running()
    approve(home, waits["id"], "--deny")
    until(lambda: not home.daemons(), "the daemon ends")


def test_without_a_gateway_the_command_says_so(home: Home) -> None:
    done = approve(home)
    assert done.returncode == 1
    assert "no gateway runs with this configuration" in done.stderr


@pytest.mark.parametrize("words", [["--deny"], ["--watch", "apr_1"], ["--watch", "--json"]])
def test_words_that_make_no_sense_together_are_a_usage_error(home: Home, words: list[str]) -> None:
    assert approve(home, *words).returncode == 2


# -- without a daemon ------------------------------------------------------------------------------------


def direct(home: Home) -> ProxyClient:
    process = subprocess.Popen(
        [*GATEMINI, "--direct", "-c", str(home.config)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=home.environ,
        cwd=home.root,
    )
    home.clients.append(ProxyClient(process, modern=False))
    home.clients[-1].greet()
    return home.clients[-1]


def sockets(home: Home) -> list[Path]:
    return list((home.root / "run").rglob("*.direct"))


def test_a_gateway_without_a_daemon_takes_approvals_on_a_socket_of_its_own(home: Home) -> None:
    home.write_config(policy=POLICY)
    client = direct(home)
    text_of(client, client.call("ledger.write", key="a"))
    (socket,) = sockets(home)
    assert socket.stat().st_mode & 0o777 == 0o600
    assert home.place.folder not in home.command("status", "--all", "--json").stdout
    (waits,) = listed(home)
    assert approve(home, waits["id"]).returncode == 0
    assert client.value(client.call("ledger.write", key="a")) == "ok"
    assert client.close() == 0
    assert sockets(home) == []


@pytest.mark.long
def test_it_opens_none_where_nothing_can_ask(home: Home) -> None:
    home.write_config(policy={"rules": [{"tools": ["ledger.write"], "action": "deny"}]})
    client = direct(home)
    assert text_of(client, client.call("ledger.write", key="a")).startswith("PolicyDenied")
    assert sockets(home) == []


@pytest.mark.long
def test_it_opens_one_when_a_changed_configuration_begins_to_ask(home: Home) -> None:
    home.write_config(policy={"rules": [{"tools": ["ledger.write"], "action": "deny"}]})
    client = direct(home)
    client.value(client.call("ledger.look"))
    home.write_config(policy=POLICY)
    until(lambda: sockets(home), "the changed configuration is in force")
    text_of(client, client.call("ledger.write", key="a"))
    assert len(listed(home)) == 1


@pytest.mark.long
def test_a_socket_that_a_killed_gateway_left_is_removed_by_the_next(home: Home) -> None:
    home.write_config(policy=POLICY)
    first = direct(home)
    (left,) = until(lambda: sockets(home), "the first socket")
    first.process.kill()
    first.process.wait()
    client = direct(home)
    text_of(client, client.call("ledger.write", key="a"))
    assert left not in sockets(home)
    assert len(listed(home)) == 1
