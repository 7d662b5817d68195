"""`gatemini login` and `logout`, with a browser that is a program of the test's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from fixtures.audit import logins_of
from fixtures.command_line import Run
from fixtures.login_gate import Places
from fixtures.realm import realm_and_server

BROWSER = """\
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
"""


@pytest.fixture
def places() -> Iterator[Places]:
    """Both servers, on a thread of their own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(realm_and_server()) as found:
        yield found


@pytest.fixture
def config(home: Path, places: Places, monkeypatch: pytest.MonkeyPatch) -> Path:
    browser = home / "browser.py"
    browser.write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {browser} %s")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("GATEMINI_TOKEN_KEY", "k" * 40)
    path = home / "config.json"
    backends = {
        "web": {"url": places[1].url, "oauth": {}},
        "plain": {"module": "fixtures.demo_server:server"},
    }
    path.write_text(json.dumps({"backends": backends, "audit": {"path": str(home / "audit")}}))
    return path


def test_login_opens_a_browser_and_logout_gives_the_tokens_back(
    run: Run, config: Path, places: Places, home: Path
) -> None:
    done = run("login", "web", "-c", str(config))
    assert done.code == 0, done.err
    assert "logged in, until" in done.out
    assert "3 tools" in done.out
    assert "/openid-connect/auth?" in done.out
    [sealed] = (home / "state" / "gatemini" / "logins").glob("*.sealed")
    assert sealed.stat().st_mode & 0o077 == 0
    for token in (*places[0].tokens, *places[0].refresh):
        assert token.encode() not in sealed.read_bytes()
        assert token not in done.out + done.err

    called = run("call", "web.echo", '{"text": "hello"}', "--no-daemon", "-c", str(config))
    assert "hello" in called.out, called.err

    ended = run("logout", "web", "-c", str(config))
    assert (ended.code, ended.out) == (0, "web: logged out\n")
    assert not places[0].tokens
    assert not sealed.exists()
    logins = [(each["backend"], each["outcome"]) for each in logins_of(home)]
    assert logins == [("web", "accepted"), ("web", "ended")]
    refused = run("call", "web.echo", "{}", "--no-daemon", "--json", "-c", str(config))
    assert refused.code == 1
    assert "gatemini login web" in refused.out


def test_login_all_asks_only_for_what_is_missing(run: Run, config: Path, places: Places) -> None:
    for _ in range(2):
        done = run("login", "--all", "--json", "-c", str(config))
        [login] = json.loads(done.out[done.out.index("{") :])["logins"]
        assert (login["backend"], login["ok"], login["renewable"]) == ("web", True, True)
    assert len(places[0].asked("/auth")) == 1


def test_a_login_that_cannot_be_says_why(run: Run, config: Path, places: Places) -> None:
    plain = run("login", "plain", "-c", str(config))
    assert plain.code == 1
    assert "plain has no oauth" in plain.out + plain.err
    places[0].registers = False
    refused = run("login", "web", "-c", str(config))
    assert refused.code == 1
    assert "insufficient_scope" in refused.out
    assert run("login", "-c", str(config)).code == 1
    assert "did you mean web?" in run("login", "wep", "-c", str(config)).err
