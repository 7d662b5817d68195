"""What passes the proxy as it is, what it refuses, and what it does when the provider cannot be reached."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fixtures.llm_clients import CLIENTS
from fixtures.llm_proxy import Proxy, environment, running_proxy
from fixtures.llm_upstream import FakeProvider, Said

ODD = b'{ "model" :"m","n": 1.50,  "text":"\\u00e9\xc3\xa9", "n": 2e0 }'


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/v1/responses"),
        ("POST", "/v1/embeddings?a=%2Fb&a=c"),
        ("PUT", "/v1/files/a%20b"),
        ("POST", "/v1beta/models/m:countTokens"),
        ("POST", "/v1/threads/t/messages"),
    ],
)
def test_other_requests_pass_byte_for_byte(
    method: str, target: str, provider: FakeProvider, filtering: Proxy
) -> None:
    headers = {"authorization": "Bearer k", "x-own": "a, b", "x-gatemini-session": "s"}
    if target.endswith("messages"):
        provider.answers = [Said("fine")]
    answer = httpx2.request(method, f"{filtering.address}{target}", content=ODD, headers=headers, timeout=60)
    (got,) = provider.got
    assert answer.status_code == 200
    assert (got.method, got.body) == (method, ODD)
    assert f"{got.path}?{got.query}".rstrip("?") == target.replace("%20", " ")
    sent = dict(got.headers)
    assert (sent["authorization"], sent["x-own"]) == ("Bearer k", "a, b")
    assert "x-gatemini-session" not in sent


def sent_as_is(proxy: Proxy, head: str) -> str:
    """The status line for a request that no client library would write."""
    host, port = proxy.address.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f"{head}\r\nhost: localhost\r\n\r\n".encode())
        return connection.recv(100).decode().split("\r\n")[0]


@pytest.mark.parametrize(
    "target",
    [
        "/../../x",
        "/v1/../../../x?y=1",
        "/v1/%2e%2e/x",
        "/v1/.%2E/x",
        "/v1/..%2fx",
        "/v1/..\\x",
        "/./x",
        "http://evil.example/x",
        "@evil.example/x",
        ":80/x",
        "x",
        "*",
    ],
)
def test_a_target_that_leaves_the_providers_address_is_refused(
    target: str, provider: FakeProvider, plain: Proxy
) -> None:
    assert sent_as_is(plain, f"GET {target} HTTP/1.1") == "HTTP/1.1 400 Bad Request"
    assert provider.got == []


@pytest.mark.parametrize("target", ["//x/y", "/v1/a{b}|c^", "/v1/a..b/...c?x=/../", f"/v1/{'a' * 30_000}"])
def test_odd_targets_pass_as_they_are(target: str, provider: FakeProvider, plain: Proxy) -> None:
    assert sent_as_is(plain, f"PUT {target} HTTP/1.1\r\ncontent-length: 0") == "HTTP/1.1 200 OK"
    (got,) = provider.got
    assert f"{got.path}?{got.query}".rstrip("?") == target


def test_fields_of_one_connection_end_at_the_proxy(provider: FakeProvider, plain: Proxy) -> None:
    fields = {
        "connection": "close, X-Mine",
        "x-mine": "1",
        "keep-alive": "timeout=5",
        "te": "trailers",
        "upgrade": "h2c",
        "proxy-authorization": "Basic x",
        "expect": "100-continue",
        "x-yours": "2",
    }
    httpx2.post(f"{plain.address}/v1/embeddings", content=b"{}", headers=fields, timeout=60)
    assert fields.keys() & dict(provider.got[0].headers).keys() <= {"connection", "x-yours"}
    assert dict(provider.got[0].headers)["x-yours"] == "2"


def test_a_length_beside_a_transfer_encoding_does_not_count(provider: FakeProvider, plain: Proxy) -> None:
    head = "POST /v1/embeddings HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked"
    host, port = plain.address.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f"{head}\r\nhost: localhost\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert provider.got[0].body == b"{}"


def test_answers_pass_with_their_fields_and_bytes(provider: FakeProvider, plain: Proxy) -> None:
    with httpx2.Client(timeout=60) as client:
        direct = client.get(f"{provider.url}/v1/models?limit=2")
        passed = client.get(f"{plain.address}/v1/models?limit=2")
    assert passed.content == direct.content
    named = ("date", "server")
    kept = [field for field in direct.headers.multi_items() if field[0] not in named]
    assert [field for field in passed.headers.multi_items() if field[0] not in named] == kept


@pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    "body", [b"no JSON", b"[]", b'{"messages":3,"contents":{}}', b'{"messages":[],"contents":[],"n":2}']
)
def test_requests_that_cannot_be_worked_on_pass_byte_for_byte(
    body: bytes, client: Any, provider: FakeProvider, filtering: Proxy
) -> None:
    provider.answers = [Said(status=400)]
    answer = httpx2.post(f"{filtering.address}{client.path}", content=body, timeout=60)
    assert provider.got[0].body == body
    assert answer.status_code == 400


def test_counting_tokens_counts_the_smaller_request_and_changes_no_session(
    provider: FakeProvider, filtering: Proxy
) -> None:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "mail", "fly")]
    request = {"model": "m", "tools": tools, "messages": [{"role": "user", "content": "go"}]}
    headers = {"x-gatemini-session": "counting"}
    for path in ("/v1/messages/count_tokens", "/v1/messages"):
        provider.answers = [Said("ok")]
        httpx2.post(f"{filtering.address}{path}", json=request, headers=headers, timeout=60)
    assert [got.tools for got in provider.got] == [["read", "tool_search"]] * 2


STREAM = "/v1beta/models/m-1:streamGenerateContent"


@pytest.mark.parametrize("query", ["", "?key=k", "?alt=json&key=k", "?$alt=json&key=k", "?%24alt=json"])
def test_a_stream_that_gemini_writes_as_one_array_is_worked_on(
    query: str, provider: FakeProvider, filtering: Proxy
) -> None:
    declared = [{"name": name} for name in ("read", "mail", "fly")]
    request = {"contents": [{"parts": [{"text": "go"}]}], "tools": [{"functionDeclarations": declared}]}
    provider.answers = [
        Said("Wait. ", [("tool_search", {"tool_name": "mail", "reason": "r"})]),
        Said("Found.", [("mail", {"to": "x"})]),
    ]
    headers = {"x-gatemini-session": f"array{query}"}
    answer = httpx2.post(f"{filtering.address}{STREAM}{query}", json=request, headers=headers, timeout=60)
    assert answer.headers["content-type"].startswith("application/json")
    parts = [part for item in answer.json() for part in item["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in parts) == "Wait. Found."
    assert [part["functionCall"]["name"] for part in parts if "functionCall" in part] == ["mail"]
    assert provider.got[1].tools == ["read", "mail", "tool_search"]
    assert [got.query for got in provider.got] == ["key=k&alt=sse" if "key" in query else "alt=sse"] * 2


def test_an_array_of_gemini_without_calls_of_ours_keeps_its_bytes(
    provider: FakeProvider, plain: Proxy
) -> None:
    request = {"contents": [{"parts": [{"text": "go"}]}]}
    provider.answers = [Said("one two"), Said("one two")]
    direct, passed = (
        httpx2.post(f"{each}{STREAM}", json=request, timeout=60) for each in (provider.url, plain.address)
    )
    assert re.sub(r'"r\d+"', "", passed.text) == re.sub(r'"r\d+"', "", direct.text)
    assert provider.got[-1].query == ""


def test_a_tool_of_the_client_keeps_its_name_and_ours_takes_another(
    provider: FakeProvider, filtering: Proxy
) -> None:
    client = CLIENTS[0](filtering.address, "names")
    provider.answers = [
        Said("", [("gatemini_tool_search", {"tool_name": "tool_search", "reason": "theirs"})]),
        Said("", [("tool_search", {"path": "theirs"})]),
    ]
    _, calls = client.ask(["tool_search", "read"])
    assert provider.got[0].tools == ["read", "gatemini_tool_search"]
    assert provider.got[1].tools == ["read", "tool_search"]
    assert calls == [("tool_search", json.dumps({"path": "theirs"}))]


def test_a_compressed_request_passes_as_it_is(provider: FakeProvider, filtering: Proxy) -> None:
    provider.answers = [Said(status=400)]
    body = b"\x1f\x8b not really"
    httpx2.post(
        f"{filtering.address}/v1/chat/completions", content=body, headers={"content-encoding": "gzip"}
    )
    assert provider.got[0].body == body


def test_a_provider_that_cannot_be_reached_is_a_bad_gateway(tmp_path: Path) -> None:
    with running_proxy("http://127.0.0.1:1", tmp_path) as proxy:
        answer = httpx2.post(f"{proxy.address}/v1/messages", json={"messages": [], "model": "m"}, timeout=60)
        assert answer.status_code == 502
        assert answer.json()["type"] == "error"
        assert "ConnectError" in answer.json()["error"]["message"]


def test_a_page_that_rebinds_its_name_to_this_machine_gets_nothing(
    provider: FakeProvider, plain: Proxy
) -> None:
    answer = httpx2.get(f"{plain.address}/v1/models", headers={"host": "evil.example"}, timeout=60)
    assert answer.status_code == 403
    assert provider.got == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--upstream", "https://x.example", "--listen", "0.0.0.0:0"], "--listen: found 0.0.0.0:0"),
        pytest.param(
            ["--upstream", "https://x.example", "--listen", "127.0.0.1:x"],
            "--listen: found 127.0.0.1:x",
            marks=pytest.mark.long,
        ),
        pytest.param(["--upstream", "x.example"], "--upstream: found x.example", marks=pytest.mark.long),
    ],
)
def test_the_command_refuses_addresses_it_cannot_use(options: list[str], named: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gatemini", "llm-proxy", *options],
        env=environment(tmp_path), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert named in done.stderr


@pytest.mark.parametrize("option", [pytest.param("--filter", marks=pytest.mark.long), "--all"])
def test_an_interrupt_ends_a_proxy_that_predicts_with_code_0(
    provider: FakeProvider, tmp_path: Path, option: str
) -> None:
    with running_proxy(provider.url, tmp_path, option) as proxy:
        said = proxy.stop()
    assert (proxy.process.returncode, said) == (0, "")
