"""`gatemini serve --http` as a process: where it may listen, how it is found, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fixtures.certificates import self_signed, signed
from fixtures.daemons import GATEMINI, LEGACY, MODERN, Home, until
from fixtures.http_gateway import messages, result

HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "call_tool_chain",
}


DRAIN_SECONDS = 2.0


def chain(code: str, session: str = "a") -> dict[str, Any]:
    meta = {**MODERN, "gatemini/session": session}
    params = {"name": "call_tool_chain", "arguments": {"code": code}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


class Process:
    """A server of its own process."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url
        self.base = url.removesuffix("/mcp")

    def ready(self) -> int:
        try:
            return httpx2.get(f"{self.base}/readyz", trust_env=False).status_code
        except httpx2.HTTPError:
            return 0

    def post(self, message: dict[str, Any]) -> httpx2.Response:
        return httpx2.post(self.url, json=message, headers=HEADERS, timeout=60, trust_env=False)


@contextmanager
def server(home: Home, *words: str) -> Iterator[Process]:
    process = subprocess.Popen(
        [*GATEMINI, "serve", "--http", *words, "-c", str(home.config)],
        stdout=subprocess.PIPE,
        text=True,
        env=home.environ,
        cwd=home.root,
    )
    assert process.stdout is not None
    try:
        yield Process(process, json.loads(process.stdout.readline())["url"])
    finally:
        process.stdout.close()
        if process.poll() is None:
            process.terminate()
        assert process.wait(60) == 0


def refusal(home: Home, *words: str) -> str:
    """Why it does not start with these words, in this process."""
    found = home.command("serve", "--http", *words, "-c", str(home.config))
    assert found.returncode == 1, found.stderr
    return found.stderr


BEYOND = {"public_url": "https://tools.example.com/mcp", "trusted_proxies": ["10.0.0.1"]}


@pytest.mark.proves("http.listen")
def test_beyond_loopback_it_starts_only_with_authentication_a_url_and_encryption(home: Home) -> None:
    home.write_config(http={"listen": "0.0.0.0:0"})
    told = refusal(home)
    assert "http.auth, http.public_url, http.tls or http.trusted_proxies" in told
    home.write_config(http=BEYOND)
    assert "missing: http.auth\n" in refusal(home, "0.0.0.0:0")
    assert "missing: http.auth\n" in refusal(home, "[::]:0")
    assert "found 127.0.0.1, allowed is HOST:PORT" in refusal(home, "127.0.0.1")


def test_a_wrong_key_of_the_section_stops_the_start(home: Home) -> None:
    home.write_config(http={"allowed_origin": ["https://a.example"]})
    assert "allowed_origins" in refusal(home)


def test_on_loopback_without_authentication_it_serves_and_warns_and_status_finds_it(home: Home) -> None:
    """Another server on its port is refused."""
    home.write_config(http={"listen": "127.0.0.1:0", "drain_delay": "10ms"})
    with server(home) as process:
        assert result(process.post(chain("return 1;")))["content"][0]["text"] == "1"
        for words in (("status",), ("status", "--all")):
            shown = json.loads(home.command(*words, "--json", "-c", str(home.config)).stdout)["daemons"]
            found = [each for each in shown if each["socket"].startswith(home.place.folder)]
            assert [each["http"]["url"] for each in found] == [process.url]
            assert any("every user and program of this machine" in line for line in found[0]["trouble"])
            assert found[0]["sessions"][0]["requests"] == 1
        port = process.base.rpartition(":")[2]
        assert "cannot be used" in refusal(home, f"127.0.0.1:{port}")
        shown = home.command("status", "-c", str(home.config)).stdout
        assert process.url in shown
        assert "modern: as " in shown
        assert ", 1 request, 0 in flight" in shown
        assert home.run("stop", "-c", str(home.config)).returncode == 0
        assert process.process.wait(60) == 0
    assert not list(Path(home.place.folder).glob("*.sock"))


def test_no_log_of_any_level_has_answers_or_tokens_and_sighup_opens_it_again(home: Home) -> None:
    path, moved = home.root / "own.log", home.root / "moved.log"
    home.write_config(
        http={"listen": "127.0.0.1:0", "drain_delay": "10ms"}, log={"file": str(path), "level": "debug"}
    )
    with server(home) as process:
        posted = process.post(chain('return "of-the-" + "answer";'))
        assert "of-the-answer" in posted.text
        headers = {**HEADERS, "accept": "application/json, text/event-stream"}
        handshake = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": LEGACY}
        old = {"MCP-Protocol-Version": "2025-06-18", "Mcp-Method": "", "Mcp-Name": ""}
        opened = httpx2.post(
            process.url, json=handshake, headers={**headers, **old}, timeout=60, trust_env=False
        )
        session = {**headers, **old, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
        call = chain('await ledger.write({key: "a"}); return "of-the-" + "answer";')
        del call["params"]["_meta"]
        answered = httpx2.post(process.url, json=call, headers=session, timeout=60, trust_env=False)
        assert "of-the-answer" in answered.text
        before = path.stat().st_ino
        os.rename(path, moved)
        process.process.send_signal(signal.SIGHUP)
        until(path.exists, "SIGHUP opens the file anew")
        assert (moved.stat().st_ino, path.stat().st_ino != before) == (before, True)
        assert process.ready() == 200
        assert "of-the-answer" in process.post(chain('return "of-the-" + "answer";')).text
    log = moved.read_text() + path.read_text()
    assert " DEBUG " in log
    assert "of-the-answer" not in log
    assert session["Mcp-Session-Id"] not in log


@pytest.mark.proves("http.drain_delay")
def test_on_sigterm_it_says_so_finishes_what_runs_and_takes_no_more(home: Home) -> None:
    home.write_config(http={"listen": "127.0.0.1:0", "drain_delay": f"{DRAIN_SECONDS}s"})
    answers: list[httpx2.Response] = []
    with server(home) as process:
        code = 'await ledger.write({key: "a", seconds: 3}); await ledger.write({key: "b"}); return "done";'
        running = threading.Thread(target=lambda: answers.append(process.post(chain(code))))
        running.start()
        until(lambda: home.writes() == ["a"], "the chain runs")
        ended = time.monotonic()
        process.process.send_signal(signal.SIGTERM)
        until(lambda: process.ready() == 503, "it is not ready any more")
        early = process.post(chain("return 1;", "b")).status_code
        if time.monotonic() - ended < DRAIN_SECONDS:  # a busy machine may take longer
            assert early == 200, "balancers may not have seen it yet"
        until(lambda: process.post(chain("return 1;", "b")).status_code == 503, "no new chains")
        running.join()
        process.process.wait(60)
    assert result(answers[0])["content"][0]["text"] == "done"
    assert home.writes() == ["a", "b"]


@pytest.mark.long
def test_what_is_cut_off_at_the_end_is_resumed_after_a_restart(home: Home) -> None:
    home.write_config(
        http={"listen": "127.0.0.1:0", "drain_delay": "10ms"}, daemon={"client_drain_timeout": "500ms"}
    )
    code = 'await ledger.write({key: "a"}); await ledger.look({seconds: 4}); return "done";'
    with server(home) as process:
        answers: list[httpx2.Response] = []
        running = threading.Thread(target=lambda: answers.append(process.post(chain(code))))
        running.start()
        until(lambda: home.writes() == ["a"], "the chain runs")
        process.process.send_signal(signal.SIGTERM)
        process.process.wait(60)
        running.join()
        told = messages(answers[0])[-1]["error"]["message"]
        assert told.startswith("the gateway is stopping")
    with server(home) as process:
        ident = told.partition("// @resume ")[2].split("`")[0]
        again = result(process.post(chain(f"// @resume {ident}\n{code}")))
        assert again["content"][0]["text"].startswith("done"), again
    assert home.writes() == ["a"]


@pytest.mark.proves("http.tls.cert", "http.tls.key", "http.tls.client_ca")
def test_it_serves_tls_reads_a_changed_certificate_and_takes_only_known_clients(home: Home) -> None:
    authority, own = signed(home.root)
    for name in ("cert.pem", "key.pem"):
        (home.root / name).write_bytes(own.read_bytes())
    tls = {"cert": "cert.pem", "key": "key.pem"}
    home.write_config(http={"listen": "127.0.0.1:0", "drain_delay": "10ms", "tls": tls})

    def status(verify: Path, cert: Path | None = None) -> int:
        context = ssl.create_default_context(cafile=verify)
        if cert is not None:
            context.load_cert_chain(cert)
        try:
            with httpx2.Client(verify=context, trust_env=False, timeout=60) as http:
                return http.get(f"{process.base}/healthz").status_code
        except (httpx2.HTTPError, ssl.SSLError):
            return 0

    with server(home) as process:
        assert process.url.startswith("https://")
        assert status(authority) == 200
        other = self_signed(home.root / "other.pem")
        os.replace(self_signed(home.root / "new.pem"), home.root / "cert.pem")
        (home.root / "key.pem").write_bytes((home.root / "cert.pem").read_bytes())
        until(lambda: status(home.root / "cert.pem") == 200, "the new certificate is served")
        assert status(other) == 0
    home.write_config(
        http={
            "listen": "127.0.0.1:0",
            "drain_delay": "10ms",
            "tls": {"cert": str(own), "client_ca": str(authority)},
        }
    )
    with server(home) as process:
        assert status(authority) == 0
        assert status(authority, own) == 200


def test_it_ends_within_its_time_with_streams_open(home: Home) -> None:
    home.write_config(http={"listen": "127.0.0.1:0", "drain_delay": "10ms"})
    with server(home) as process:
        wanted = {"notifications": {"resourcesListChanged": True}, "_meta": MODERN}
        listen = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": wanted}
        headers = {**HEADERS, "Mcp-Method": "subscriptions/listen"}
        headers.pop("Mcp-Name")
        with (
            httpx2.Client(timeout=60, trust_env=False) as http,
            http.stream("POST", process.url, json=listen, headers=headers) as stream,
        ):
            lines = stream.iter_lines()
            assert next(lines).startswith("event")
            began = time.monotonic()
            process.process.send_signal(signal.SIGTERM)
            assert process.process.wait(60) == 0
            assert time.monotonic() - began < 30
            list(lines)


@pytest.mark.long
def test_a_call_of_an_http_client_is_approved_at_a_terminal(home: Home) -> None:
    home.write_config(
        policy={"rules": [{"tools": ["ledger.write"], "action": "ask", "ask": {"via": ["console"]}}]}
    )
    write = chain('{"tool": "ledger.write", "arguments": {"key": "a"}}')
    with server(home, "127.0.0.1:0") as process:
        until(lambda: process.ready() == 200, "the server is ready")
        assert "ApprovalPending" in process.post(write).text
        (waits,) = json.loads(home.command("-c", str(home.config), "approve", "--json").stdout)["approvals"]
        assert home.command("-c", str(home.config), "approve", waits["id"]).returncode == 0
        assert "ApprovalPending" in process.post(chain(write["params"]["arguments"]["code"], "b")).text
        assert home.writes() == []
        assert "ApprovalPending" not in process.post(write).text
        assert home.writes() == ["a"]
