"""What belongs to one client and what outlives a daemon."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.daemons import MODERN, WAIT_SECONDS, Home, ProxyClient, until
from gatemini import __version__
from gatemini.daemon.client import ask
from gatemini.daemon.hello import FEATURES


def test_a_handle_and_a_journal_outlive_the_daemon_that_made_them(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    handle = client.value(client.chain("return (await results.save({rows: [1, 2, 3]})).handle"))
    [daemon] = home.daemons()
    assert home.run("restart", "-c", str(home.config)).returncode == 0
    assert daemon.pid not in {p.pid for p in home.daemons()}
    assert client.value(client.chain(f"return (await results.load('{handle}')).rows[2]")) == 3


@pytest.mark.long
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


@contextmanager
def reached(home: Home, token: str) -> Iterator[Callable[[str], str]]:
    """Run chains on a connection with this token, which ends without a goodbye, as that of a proxy that is cut off."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(home.place.sock)
        hello = {
            "gatemini": 1,
            "version": __version__,
            "pid": os.getpid(),
            "cwd": str(home.root),
            "token": token,
        }
        sock.sendall(json.dumps(hello).encode() + b"\n")
        with sock.makefile("rb") as lines:
            greeting = json.loads(lines.readline())
            assert greeting == {"gatemini": 1, "version": __version__, "features": list(FEATURES)}

            def run(code: str) -> str:
                arguments = {"name": "call_tool_chain", "arguments": {"code": code}, "_meta": MODERN}
                request = {"jsonrpc": "2.0", "id": code, "method": "tools/call", "params": arguments}
                sock.sendall(json.dumps(request).encode() + b"\n")
                while (message := json.loads(lines.readline())).get("id") != code:
                    pass
                result = message["result"]
                assert not result["isError"], result
                return str(result["content"][0]["text"])

            yield run


@pytest.mark.long
def test_a_session_is_found_by_its_token_again_also_after_an_idle_end(home: Home) -> None:
    home.write_config(daemon={"idle_timeout": "200ms"})
    client = home.client()
    client.greet()
    home.serving()
    with reached(home, "mine") as run:
        handle = run("return (await results.save({rows: [1, 2, 3]})).handle")
    with reached(home, "mine") as run:
        assert run(f"return (await results.load('{handle}')).rows[1]") == "2"
    [daemon] = home.daemons()
    assert client.close() == 0
    daemon.wait(30)
    home.client().greet()
    home.serving()
    with reached(home, "mine") as run:
        assert run(f"return (await results.load('{handle}')).rows[2]") == "3"


def kill(home: Home) -> None:
    [daemon] = home.daemons()
    daemon.kill()
    daemon.wait(WAIT_SECONDS)


def lost_chain(client: ProxyClient, ident: int) -> str:
    """The id by which the chain of a request that was cut off can be resumed."""
    data = client.answer(ident)["error"]["data"]
    assert data["sent"] is True
    chain: str = data["chain"]
    return chain


@pytest.mark.long
def test_a_chain_of_a_killed_daemon_is_resumed_by_the_next_one(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    code = """const first = [await ledger.write({key: 'once'}), Math.random(), Date.now()];
await ledger.look({seconds: 3, first});
return first;"""
    ident = client.chain(code, timeout=60000)
    until(home.writes, "the chain has begun")
    client.read(0.5)
    kill(home)
    chain = lost_chain(client, ident)
    first = client.value(client.chain(f"// @resume {chain}\n{code}", timeout=60000))
    assert client.value(client.chain(f"// @resume {chain}\n{code}", timeout=60000)) == first
    kill(home)
    assert client.value(client.chain(f"// @resume {chain}\n{code}", timeout=60000)) == first
    assert home.writes() == ["once"]


@pytest.mark.long
def test_a_write_that_a_killed_daemon_had_sent_is_not_sent_again(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.call("ledger.look"))
    call = '{"tool": "ledger.write", "arguments": {"key": "once", "seconds": 30}}'
    ident = client.chain(call)
    until(home.writes, "the write is under way")
    kill(home)
    chain = lost_chain(client, ident)
    refused = client.answer(client.chain(f"// @resume {chain}\n{call}"))["result"]
    assert refused["isError"] is True
    assert "was sent and never answered" in refused["content"][0]["text"]
    assert home.writes() == ["once"]


def test_what_is_written_of_a_session_is_for_its_user_alone_and_gone_with_it(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.chain("return await ledger.look({})"))
    kept = home.root / "state" / "gatemini" / "sessions"
    [journal] = kept.rglob("*.journals")
    assert journal.stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o077 for path in (kept, *kept.rglob("*"))} == {0}
    client.close()
    until(lambda: not list(kept.rglob("*.journals")), "the journal is removed")


@pytest.mark.long
def test_a_locked_daemon_seals_what_it_writes_and_the_next_one_reads_it(home: Home) -> None:
    home.write_config(profile="locked")
    home.config.chmod(0o600)
    client = home.client()
    client.greet()
    code = "return (await results.save(['a value to hide'])).handle"
    result = client.answer(client.chain(code))["result"]
    chain, handle = result["_meta"]["gatemini/chain"]["id"], client.value(client.sent[-1])
    [journals] = (home.root / "state" / "gatemini" / "sessions").rglob("*.journals")
    assert chain.encode() not in journals.read_bytes()
    kill(home)
    assert client.value(client.chain(f"// @resume {chain}\n{code}")) == handle
    assert client.value(client.chain("return (await results.save(['a value to hide'])).handle"))
    assert home.command("stop", "-c", str(home.config)).returncode == 0
    [kept] = (home.root / "state" / "gatemini" / "sessions").rglob("results")
    assert b"a value to hide" not in kept.read_bytes()


@pytest.mark.long
def test_a_killed_daemon_loses_results_and_says_so(home: Home) -> None:
    client = home.client()
    client.greet()
    handle = client.value(client.chain("return (await results.save([1])).handle"))
    kill(home)
    answer = client.answer(client.chain(f"return await results.load('{handle}')"))["result"]
    assert "from before a restart" in answer["content"][0]["text"]


@pytest.mark.long
def test_a_daemon_that_stops_says_how_long_its_open_calls_may_take(home: Home) -> None:
    home.write_config(daemon={"client_drain_timeout": "2m"})
    home.client().greet()
    home.serving()
    stopped = ask(home.place, "stop")
    assert stopped is not None
    assert stopped["drain_seconds"] == 120


@pytest.mark.long
def test_a_session_that_said_goodbye_leaves_no_file(home: Home) -> None:
    client = home.client()
    client.greet()
    client.value(client.chain("return await results.save([1])"))
    client.close()
    until(lambda: not home.daemons(), "the daemon ends")
    assert [
        path for path in (home.root / "state" / "gatemini" / "sessions").rglob("*") if path.is_file()
    ] == []


def test_two_clients_do_not_see_each_other_s_handles_and_journals(lasting: Home) -> None:
    first, second = lasting.client(), lasting.client(modern=True)
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


GUARD = {
    "flow": "deny",
    "override_annotations": {"ledger.*": {"openWorld": False}, "ledger.look": {"readOnly": True}},
    "labels": {"untrusted": ["ledger.look"]},
}


def guarded(home: Home) -> ProxyClient:
    """A client that has greeted a daemon with this policy."""
    home.write_config(policy=GUARD)
    client = home.client()
    client.greet()
    return client


@pytest.mark.long
def test_the_labels_of_what_a_session_has_read_outlive_the_daemon(home: Home) -> None:
    client = guarded(home)
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


@pytest.mark.long
@pytest.mark.parametrize("swept", [False, True], ids=["with journals", "an hour later"])
def test_of_a_killed_daemon_s_session_anything_may_have_been_read(home: Home, swept: bool) -> None:
    client = guarded(home)
    client.value(client.call("ledger.look"))
    kill(home)
    if swept:  # journals and folders are deleted an hour after their last use
        shutil.rmtree(home.root / "state" / "gatemini" / "sessions")
    refused = client.answer(client.call("ledger.write", key="after"))["result"]
    assert refused["isError"]
    assert "untrusted content" in refused["content"][0]["text"]
    assert home.writes() == []


@pytest.mark.long
def test_a_session_that_has_read_nothing_is_not_asked_after_a_restart(home: Home) -> None:
    client = guarded(home)
    assert client.value(client.call("ledger.write", key="before")) == "ok"
    assert home.run("restart", "-c", str(home.config)).returncode == 0
    assert client.value(client.call("ledger.write", key="after")) == "ok"
    assert home.writes() == ["before", "after"]
