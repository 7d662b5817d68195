"""What is refused before a tool is called: hosts, origins, sizes, slow and too many connections, long requests."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from fixtures.daemons import LEDGER
from fixtures.http_gateway import BOTH, raw, rest, result, served, text, until
from gatemini.config.model.http.server import HttpConfig
from gatemini.http import body
from gatemini.http.network import connections
from gatemini.http.network.guard import Guard

pytestmark = pytest.mark.anyio


@pytest.mark.proves("http.allowed_hosts", "http.public_url")
@pytest.mark.parametrize(
    ("keys", "served_hosts", "refused_hosts"),
    [
        (
            {},
            ["127.0.0.1:1", "localhost:8080", "LOCALHOST", "[::1]:9"],
            ["evil.example", "127.0.0.1.evil.example", ""],
        ),
        (
            {"public_url": "https://tools.example.com/mcp"},
            ["tools.example.com", "localhost"],
            ["example.com"],
        ),
        ({"allowed_hosts": ["only.example.com"]}, ["only.example.com:443"], ["localhost", "127.0.0.1:8080"]),
    ],
)
async def test_a_request_that_names_another_host_is_refused(
    tmp_path: Path, keys: dict[str, Any], served_hosts: list[str], refused_hosts: list[str]
) -> None:
    """A page that rebinds its name to 127.0.0.1 sends that name."""
    async with served(tmp_path, http=keys) as gateway:
        message, headers = gateway.modern("tools/list")
        for host in served_hosts:
            answer = await gateway.post(message, headers={**headers, "Host": host})
            assert answer.status_code == 200, (host, answer.text)
        for host in refused_hosts:
            answer = await gateway.post(message, headers={**headers, "Host": host})
            assert answer.status_code == 421, (host, answer.text)
            assert (
                await gateway.http.get(f"{gateway.base}/healthz", headers={"Host": host})
            ).status_code == 200


@pytest.mark.proves("http.allowed_origins")
async def test_a_page_of_an_origin_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    allowed = "https://console.example.com"
    async with served(tmp_path / "none") as gateway:
        message, headers = gateway.modern("tools/list")
        for origin in (allowed, "null", "http://localhost:3000", gateway.base):
            answer = await gateway.post(message, headers={**headers, "Origin": origin})
            assert answer.status_code == 403
    async with served(tmp_path / "one", http={"allowed_origins": [allowed]}) as gateway:
        answer = await gateway.post(message, headers={**headers, "Origin": allowed})
        assert answer.headers["access-control-allow-origin"] == allowed
        answer = await gateway.post(message, headers={**headers, "Origin": f"{allowed}.evil.example"})
        assert answer.status_code == 403
        asked = {"Origin": allowed, "Access-Control-Request-Method": "POST"}
        preflight = await gateway.http.options(gateway.url, headers=asked)
        assert preflight.status_code == 200


def test_without_tls_of_its_own_only_the_proxy_and_this_machine_are_served() -> None:
    config = HttpConfig(trusted_proxies=("10.0.0.0/8",))
    beyond = Guard(config, "0.0.0.0")
    assert beyond.peer("10.1.2.3") == beyond.peer("127.0.0.1") == beyond.peer("::ffff:10.1.2.3") == ""
    assert beyond.peer("192.0.2.7")
    assert Guard(config, "127.0.0.1").peer("192.0.2.7") == ""


@pytest.mark.proves("http.trusted_proxies")
async def test_the_address_that_a_proxy_names_counts_only_where_the_proxy_is_trusted(tmp_path: Path) -> None:
    assert await seen_address(tmp_path / "one") == "127.0.0.1"
    assert await seen_address(tmp_path / "two", trusted_proxies=["127.0.0.0/8"]) == "192.0.2.7"


async def seen_address(folder: Path, **keys: Any) -> str:
    """The address that a login is judged by, of a request that names another one."""
    seen: list[str] = []
    async with served(folder, http=keys) as gateway:
        login = gateway.server.logins.login

        async def noting(scope: Any, headers: Any) -> Any:
            seen.append(scope["client"][0])
            return await login(scope, headers)

        gateway.server.logins.login = noting  # type: ignore[method-assign]
        message, headers = gateway.modern("tools/list")
        await gateway.post(message, headers={**headers, "X-Forwarded-For": "192.0.2.7"})
    return seen[0]


@pytest.mark.proves("http.max_body")
async def test_a_body_over_the_limit_is_refused_whatever_length_it_declares(tmp_path: Path) -> None:
    async with served(tmp_path, http={"max_body": "1MiB"}) as gateway:
        message, headers = gateway.modern_chain("return 1;" + " " * (5 << 20))
        assert (await gateway.post(message, headers=headers)).status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield b" " * (64 << 10)

        sent = {"content-type": "application/json", "accept": "*/*"}
        answer = await gateway.http.post(gateway.url, content=chunks(), headers=sent)
        assert answer.status_code == 413
        assert text(await gateway.chain("return 1;")) == "1"


async def test_what_is_no_message_is_refused_and_ends_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        session = await gateway.handshake()
        modern = {"MCP-Protocol-Version": "2026-07-28"}
        for content in (
            b"",
            b"{",
            b"[]",
            b"null",
            b"\xff\xfe",
            b'{"jsonrpc": "2.0"}',
            b"[" * 100_000,
            b'{"id": {}}',
        ):
            for headers in (modern, session, {}):
                assert 400 <= (await gateway.post(content, headers=headers)).status_code < 500, content
        for key in (7, "", "x" * 200, "a\nb"):
            message, headers = gateway.modern("tools/list")
            message["params"]["_meta"]["gatemini/session"] = key
            assert (await gateway.post(message, headers=headers)).status_code == 400
        assert text(await gateway.chain("return 1;")) == "1"


@pytest.mark.proves("http.request_timeout")
async def test_a_request_over_its_time_is_answered_so_and_its_chain_ends(tmp_path: Path) -> None:
    ledger = {
        "ledger": {"command": sys.executable, "args": ["-I", "-S", str(LEDGER), str(tmp_path / "ledger")]}
    }
    async with served(tmp_path, ledger, http={"request_timeout": "1s"}) as gateway:
        message, headers = gateway.modern_chain("return await ledger.look({seconds: 20});")
        answer = await gateway.post(message, headers=headers)
        assert answer.status_code == 504
        assert "http.request_timeout" in answer.json()["error"]["message"]
        await until(lambda: gateway.server.endpoint.in_flight == 0)


async def test_a_client_that_never_finishes_its_header_or_body_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(body, "BODY_SECONDS", 0.3)
    head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n"
    async with served(tmp_path) as gateway:
        async with raw(gateway) as stream:
            assert await rest(stream) == b""
        async with raw(gateway) as stream:
            await stream.send(head)
            assert await rest(stream) == b""
        async with raw(gateway) as stream:
            await stream.send(head + b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{")
            assert (await rest(stream)).startswith(b"HTTP/1.1 408")
        async with raw(gateway) as stream:  # the second request of a connection
            await stream.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await stream.receive()).startswith(b"HTTP/1.1 200")
            await stream.send(head)
            await rest(stream)
        async with raw(gateway) as stream:  # a body without an end, after it was refused
            await stream.send(head + b"content-type: application/json\r\ncontent-length: 99999999\r\n\r\n{")
            assert (await rest(stream)).startswith(b"HTTP/1.1 413")
        await until(lambda: gateway.server.connections == 0)


async def test_a_client_that_reads_nothing_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.3)
    async with served(tmp_path) as gateway:
        message, headers = gateway.modern("tools/list")
        content = json.dumps(message).encode()
        fields = {"Host": "localhost", "Accept": BOTH, "Content-Type": "application/json", **headers}
        fields["Content-Length"] = str(len(content))
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        request = f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + content
        async with raw(gateway) as stream, anyio.create_task_group() as tasks:

            async def write() -> None:
                with contextlib.suppress(anyio.BrokenResourceError):
                    while True:
                        await stream.send(request)

            tasks.start_soon(write)
            await until(lambda: gateway.server.connections == 1)
            await until(lambda: gateway.server.connections == 0, seconds=60)
            tasks.cancel_scope.cancel()


@pytest.mark.proves("http.max_connections")
async def test_connections_over_the_limit_are_refused_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, http={"max_connections": 5}) as gateway, anyio.create_task_group() as tasks:
        opened: list[anyio.abc.SocketStream] = []

        async def hold() -> None:
            async with raw(gateway) as stream:
                opened.append(stream)
                await anyio.sleep_forever()

        for _ in range(5):
            tasks.start_soon(hold)
        await until(lambda: gateway.server.connections == 5)
        for _ in range(30):
            async with raw(gateway) as stream:
                assert (await rest(stream)).startswith(b"HTTP/1.1 503")
        await opened[0].send(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await opened[0].receive()).startswith(b"HTTP/1.1 200")
        tasks.cancel_scope.cancel()


@pytest.mark.long
async def test_of_ten_thousand_connections_the_first_are_served_and_the_rest_refused(tmp_path: Path) -> None:
    async with served(tmp_path, http={"max_connections": 300}) as gateway, anyio.create_task_group() as tasks:
        opened: list[anyio.abc.SocketStream] = []

        async def hold() -> None:
            async with raw(gateway) as stream:
                opened.append(stream)
                await stream.send(b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n")
                await anyio.sleep_forever()

        for _ in range(300):
            tasks.start_soon(hold)
        await until(lambda: gateway.server.connections == 300)
        refused = 0
        began = time.monotonic()
        while refused < 9_700 and time.monotonic() - began < body.BODY_SECONDS - 5:
            async with raw(gateway) as stream:
                refused += (await rest(stream)).startswith(b"HTTP/1.1 503")
        assert refused > 1_000
        tasks.cancel_scope.cancel()


async def test_probes_answer_and_metrics_are_not_there(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        status = {}
        for path in (
            "/healthz",
            "/readyz",
            "/metrics",
            "/",
            "/mcp/",
            "/.well-known/oauth-protected-resource",
        ):
            status[path] = (await gateway.http.get(gateway.base + path)).status_code
        assert status == {
            "/healthz": 200, "/readyz": 200, "/metrics": 404, "/": 404, "/mcp/": 404,
            "/.well-known/oauth-protected-resource": 404,
        }  # fmt: skip


async def test_it_is_ready_once_its_sandbox_has_started(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        started, gateway.server.app.warmed = gateway.server.app.warmed, anyio.Event()
        answer = await gateway.http.get(gateway.base + "/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "starting"})
        gateway.server.app.warmed = started
        assert (await gateway.http.get(gateway.base + "/readyz")).status_code == 200


async def test_an_unknown_method_is_answered_as_json_and_ends_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        message, headers = gateway.modern("nothing/there")
        answer = await gateway.post(message, headers=headers)
        assert json.loads(answer.text)["error"]["code"] == -32601
        message, headers = gateway.modern_chain("return 1;")
        assert not result(await gateway.post(message, headers=headers))["isError"]
