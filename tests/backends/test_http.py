"""Backends behind a URL: sloppy answers, broken connections, refusals; every error says what to do."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSListener

from fixtures.backend_bench import Bench, running_bench
from fixtures.certificates import self_signed
from fixtures.odd_http import Handler, OddHttp, Request, serving
from gatemini.backends.status import State
from gatemini.config.model.schema import BackendConfig, HealthConfig
from gatemini.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendProtocol,
    BackendStopped,
    BackendTimeout,
    BackendUnreachable,
    ResultTooLarge,
)
from gatemini.processes import throttle

pytestmark = pytest.mark.anyio

TEXT = {"content": [{"type": "text", "text": '"fine"'}]}


def stateless(**more: Any) -> Handler:
    """What a server of the stateless revision says it is, with whatever else."""

    async def discovered(request: Request) -> None:
        await request.result({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **more})

    return discovered


@pytest.fixture
async def server() -> AsyncIterator[OddHttp]:
    async with serving(OddHttp()) as server:
        yield server


async def connect(bench: Bench, server: OddHttp, **keys: Any) -> None:
    config = {"name": "odd", "url": server.url, "connect_timeout": 10, **keys}
    bench.manager.add(BackendConfig.model_validate(config))
    await bench.manager.wait_ready("odd", 60)


def answering(status: int, body: bytes | dict[str, Any] = b"", **rest: str) -> Handler:
    async def handler(request: Request) -> None:
        await request.answer(status, body, **rest)

    return handler


async def test_a_call_carries_session_version_and_the_configured_headers(
    bench: Bench, server: OddHttp
) -> None:
    await connect(bench, server, headers={"Authorization": "  Bearer x\t"})
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
    headers = server.seen[-1].headers
    assert headers["mcp-session-id"] == "s1"
    assert headers["mcp-protocol-version"] == "2025-11-25"
    assert headers["authorization"] == "Bearer x"
    await bench.manager.remove("odd")
    assert server.seen[-1].verb == "DELETE"


async def test_an_answer_may_come_as_events_with_progress_before_it(bench: Bench, server: OddHttp) -> None:
    async def handler(request: Request) -> None:
        await request.begin_events()
        token = request.message["params"]["_meta"]["progressToken"]
        await request.event(
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1},
            }
        )
        await request.event(request.reply(TEXT))
        await request.stream.aclose()

    server.handlers["echo"] = handler
    await connect(bench, server)
    steps: list[float] = []
    await bench.manager.call_tool("odd", "echo", {}, timeout=5, on_progress=lambda p, _t, _m: steps.append(p))
    assert steps == [1.0]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"id":ID,"result":{"content":"fine"}}', "text/plain"),
        (b'[{"jsonrpc":"2.0","id":ID,"result":{"content":"fine"}}]', "application/json; charset=utf-8"),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":"ID","result":{"content":["fine"]}}', "application/json"),
        (b'data: {"jsonrpc":"2.0","id":ID,"result":{"content":"fine"}}', "text/event-stream"),
        (b'data:{"jsonrpc":"2.0",\r\ndata:"id":ID,"result":{"content":"fine"}}\r\n\r\n', "text/event-stream"),
        (b'\xef\xbb\xbfdata: {"jsonrpc":"2.0","id":ID,"result":{"content":"fine"}}\n', "text/event-stream"),
        (b'data: {"jsonrpc":"2.0","id":ID,"result":{"content":"fine"}}', "Text/Event-Stream; charset=utf-8"),
        (b'{"jsonrpc":"2.0","id":ID,"result":{"content":"fine"}}', "text/event-stream"),
        (b'{\n "jsonrpc": "2.0",\n "id": ID,\n "result": {"content": "fine"}\n}', "application/json"),
        (b'{"jsonrpc":"2.0","id":null,"result":{"content":"fine"}}', "application/json"),
        (b'data: {"jsonrpc":"2.0","id":"x","result":{"content":"fine"}}\n\n', "text/event-stream"),
    ],
)
async def test_bodies_that_deviate_from_the_protocol_are_read(
    bench: Bench, server: OddHttp, body: bytes, kind: str
) -> None:
    async def handler(request: Request) -> None:
        await request.answer(200, body.replace(b"ID", str(request.message["id"]).encode()), kind=kind)

    server.handlers["echo"] = handler
    await connect(bench, server)
    outcome = await bench.call("echo")
    assert outcome.result["content"] == [{"type": "text", "text": "fine"}]


REFUSALS: list[tuple[int, dict[str, str], type[BackendError], str]] = [
    (401, {"www_authenticate": 'Bearer realm="x"'}, BackendProtocol, "Authorization"),
    (403, {}, BackendProtocol, "Authorization"),
    (404, {}, BackendProtocol, "transport: sse"),
    (405, {}, BackendProtocol, "transport: sse"),
    (410, {}, BackendProtocol, "transport: sse"),
    (429, {"retry_after": "120"}, BackendBusy, "120 s"),
    (500, {}, BackendProtocol, ""),
    (502, {}, BackendUnreachable, "down"),
    (302, {"location": "https://elsewhere.example/x?token=s"}, BackendProtocol, "use it as `url`"),
]


@pytest.mark.parametrize(("status", "headers", "kind", "remedy"), REFUSALS)
async def test_a_refused_call_names_status_and_remedy_and_is_sent_once(
    bench: Bench, server: OddHttp, status: int, headers: dict[str, str], kind: type[BackendError], remedy: str
) -> None:
    server.session = None
    await connect(bench, server)
    server.handlers["echo"] = answering(status, b"the reason", **headers)
    with pytest.raises(kind) as refused:
        await bench.call("echo")
    assert f"HTTP {status}" in refused.value.message
    assert "the reason" in refused.value.message
    assert remedy in (refused.value.hint or "")
    assert "token=s" not in refused.value.text()
    assert server.calls("echo") == 1
    assert await bench.value("other", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize(
    ("status", "body", "says", "times"),
    [
        (400, b'{"error": "no such city"}', "HTTP 400 Bad Request", 1),
        (
            400,
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad"}}',
            "HTTP 400 Bad Request",
            1,
        ),
        (400, b"Bad Request: No valid session ID provided", "has ended our session", 2),
        (404, b"", "has ended our session", 2),
        (410, b"Gone", "has ended our session", 2),
        (401, b"Unauthorized: Session not found", "has ended our session", 2),
        (401, b"bad key", "HTTP 401", 1),
        (
            400,
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}',
            "has ended our session",
            2,
        ),
        (
            400,
            b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"session_id is required"}}',
            "session_id is required",
            1,
        ),
        (
            404,
            b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no such tool"}}',
            "no such tool",
            2,
        ),
        (500, b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"inner"}}', "inner", 1),
        (307, b"", "redirects in a circle", 5),
    ],
)
async def test_only_errors_about_the_session_renew_it_and_only_once(
    bench: Bench, server: OddHttp, status: int, body: bytes, says: str, times: int
) -> None:
    """A server may answer 400 to a call that has had its effect."""

    async def handler(request: Request) -> None:
        said = body.replace(b"ID", str(request.message["id"]).encode())
        await request.answer(status, said, location="/mcp")

    await connect(bench, server)
    server.handlers["echo"] = handler
    with pytest.raises(BackendError, match=says):
        await bench.call("echo")
    assert server.calls("echo") == times
    assert await bench.value("other", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize(
    ("tool", "status", "times"), [("change", 429, 2), ("change", 503, 1), ("look", 503, 2)]
)
async def test_a_refused_call_is_sent_again_after_retry_after_if_it_cannot_run_twice(
    bench: Bench, server: OddHttp, tool: str, status: int, times: int
) -> None:
    """503 may come from a proxy after the server got the call; 429 means that it was not processed."""

    async def handler(request: Request) -> None:
        if server.calls(tool) == 1:
            await request.answer(status, retry_after="0")
        else:
            await request.result(TEXT)

    tools = [{"name": "change"}, {"name": "look", "annotations": {"readOnlyHint": True}}]
    server.handlers["tools/list"] = lambda request: request.result({"tools": tools})
    server.handlers[tool] = handler
    await connect(bench, server)
    if times == 1:
        with pytest.raises(BackendBusy, match="HTTP 503") as caught:
            await bench.call(tool)
        assert caught.value.sent
    else:
        assert await bench.value(tool) == "fine"
    assert server.calls(tool) == times


@pytest.mark.parametrize("ident", [None, "server-error", "", "own", 987654])
@pytest.mark.parametrize("status", [404, 400])
async def test_a_lost_session_is_renewed_and_the_call_sent_again(
    bench: Bench, server: OddHttp, status: int, ident: str | int | None
) -> None:
    async def handler(request: Request) -> None:
        if request.headers["mcp-session-id"] == "s1":
            said = request.message["id"] if ident == "own" else ident
            error = {"jsonrpc": "2.0", "id": said, "error": {"code": -32001, "message": "Session not found"}}
            await request.answer(status, error)
        else:
            await request.result(TEXT)

    await connect(bench, server)
    server.handlers["echo"] = handler
    server.session = "s2"
    assert await bench.value("echo") == "fine"


NO_ID = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Unknown Mcp-Session-Id header"}}'
OWN_ID = b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"Session not found"}}'


@pytest.mark.parametrize(
    ("status", "body", "kind", "times"),
    [
        # actionhero/keryx#503: a stream that says nothing else
        (200, b'event: message\ndata: {"error":"Session not found"}\n\n', "text/event-stream", 2),
        (200, b'{"error":"Session not found"}', "application/json", 2),
        (200, NO_ID, "application/json", 2),
        (409, b'{"error":{"message":"Session expired."}}', "application/json", 2),
        (500, b"No valid session ID provided", "text/plain", 2),
        (503, NO_ID, "application/json", 2),
        # with the id of the call it may be about a session of the tool's own
        (200, OWN_ID, "application/json", 1),
        (500, OWN_ID, "application/json", 1),
        (500, b"Session not found in the database after the order was stored", "text/plain", 1),
        (409, b'{"error":"the session is locked"}', "application/json", 1),
    ],
)
async def test_a_session_that_is_lost_with_another_status_is_renewed_where_the_text_says_only_that(
    bench: Bench, server: OddHttp, status: int, body: bytes, kind: str, times: int
) -> None:
    async def handler(request: Request) -> None:
        if request.headers["mcp-session-id"] == "s1":
            said = body.replace(b"ID", str(request.message["id"]).encode()) if body is OWN_ID else body
            await request.answer(status, said, kind=kind)
        else:
            await request.result(TEXT)

    await connect(bench, server)
    server.handlers["echo"] = handler
    server.session = "s2"
    if times == 2:
        assert await bench.value("echo") == "fine"
    else:
        with pytest.raises(BackendError, match="ession"):
            await bench.call("echo")
    assert server.calls("echo") == times


async def test_parallel_calls_in_a_lost_session_wait_for_the_one_new_session(
    bench: Bench, server: OddHttp
) -> None:
    """As after a restart of the server; a call that it still knows reads its own answer meanwhile."""
    still_known, renewed = anyio.Event(), anyio.Event()

    async def handler(request: Request) -> None:
        if request.message["params"]["arguments"].get("n") == 0:
            still_known.set()
            await renewed.wait()
            await request.result(TEXT)
        elif request.headers.get("mcp-session-id") == "s2":
            await request.result(TEXT)
        else:
            await request.answer(404, b"Session not found")

    async def initialize(request: Request) -> None:
        await request.result(server.result_of(request.message), mcp_session_id="s2")
        renewed.set()

    await connect(bench, server)
    server.handlers |= {"echo": handler, "initialize": initialize}
    values: list[Any] = []

    async def call(n: int) -> None:
        values.append(await bench.value("echo", {"n": n}))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, 0)
            await still_known.wait()
            for n in range(1, 12):
                tasks.start_soon(call, n)
    assert values == ["fine"] * 12
    assert server.calls("echo") == 1 + 11 * 2
    assert sum(request.message.get("method") == "initialize" for request in server.seen) == 2
    assert bench.manager.status("odd").restarts == 0
    assert await bench.value("echo", {"n": 1}) == "fine"


async def test_without_a_new_session_each_call_says_whether_it_may_have_run(
    bench: Bench, server: OddHttp
) -> None:
    arrived = anyio.Event()

    async def handler(request: Request) -> None:
        if request.message["params"]["arguments"].get("n") == 0:
            arrived.set()
            await anyio.sleep_forever()
        await request.answer(404, b"Session not found")

    await connect(bench, server, retry={"max_retries": 0})
    server.handlers |= {"echo": handler, "initialize": answering(400, b"not today")}
    errors: dict[int, BackendError] = {}

    async def call(n: int) -> None:
        try:
            await bench.call("echo", {"n": n})
        except BackendError as error:
            errors[n] = error

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, 0)
            await arrived.wait()
            for n in (1, 2):
                tasks.start_soon(call, n)
    assert [errors[n].sent for n in range(3)] == [True, False, False]
    assert errors[0].hint == "the call may have run: look before you repeat it"
    assert "was not run" in (errors[1].hint or "")


async def test_a_result_with_status_404_counts_and_the_call_is_not_sent_again(
    bench: Bench, server: OddHttp
) -> None:
    async def handler(request: Request) -> None:
        await request.answer(404, {"jsonrpc": "2.0", "id": request.message["id"], "result": TEXT})

    await connect(bench, server)
    server.handlers["echo"] = handler
    assert await bench.value("echo") == "fine"
    assert server.calls("echo") == 1


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_beyond_the_limit_fails_by_name(bench: Bench, server: OddHttp, kind: str) -> None:
    async def handler(request: Request) -> None:
        text = json.dumps(request.reply({"content": "x" * (2 << 20)})).encode()
        await request.answer(200, b"data: " + text + b"\n\n" if "event" in kind else text, kind=kind)

    await connect(bench, server, max_message_mb=1)
    server.handlers["echo"] = handler
    with pytest.raises(ResultTooLarge, match="max_message_mb"):
        await bench.call("echo", timeout=10)


async def never_ending_events(request: Request) -> None:
    await request.begin_events()
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    "refusal", [answering(400, b"what?"), answering(500), answering(404), never_ending_events]
)
async def test_responses_to_notifications_are_ignored(
    bench: Bench, server: OddHttp, refusal: Handler
) -> None:
    server.session = None
    server.handlers["notifications/initialized"] = refusal
    await connect(bench, server)
    assert await bench.value("echo", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"", "answered with HTTP 200 and nothing in it"),
        (202, b"", "answered with HTTP 202 and nothing in it"),
        (200, b'{"error": "unauthorized"}', 'instead of JSON-RPC: {"error": "unauthorized"}'),
    ],
)
async def test_the_error_of_a_call_without_a_json_rpc_answer_says_that_it_may_have_run(
    bench: Bench, server: OddHttp, status: int, body: bytes, said: str
) -> None:
    await connect(bench, server)
    server.handlers["echo"] = answering(status, body)
    with pytest.raises(BackendProtocol) as refused:
        await bench.call("echo")
    assert said in refused.value.message
    assert "may have run" in (refused.value.hint or "")


async def test_a_broken_stream_is_resumed_after_its_last_event(bench: Bench, server: OddHttp) -> None:
    waiting: list[Request] = []

    async def handler(request: Request) -> None:
        waiting.append(request)
        await request.begin_events()
        await request.write(b"retry: 10\nid: e1\ndata:\n\n")
        await request.write(b'id: e2\ndata: {"jsonrpc":')  # incomplete, so the stream is resumed after it
        await request.stream.aclose()

    async def resumed(request: Request) -> None:
        if "last-event-id" not in request.headers:
            await request.answer(405)
            return
        await request.begin_events()
        await request.event(waiting[0].reply({"content": request.headers["last-event-id"]}))
        await request.stream.aclose()

    server.handlers.update(echo=handler, GET=resumed)
    await connect(bench, server)
    assert (await bench.call("echo")).result["content"][0]["text"] == "e1"


async def test_a_stream_that_ends_without_an_answer_is_an_error_at_once(
    bench: Bench, server: OddHttp
) -> None:
    async def handler(request: Request) -> None:
        await request.begin_events()
        await request.stream.aclose()

    server.handlers["echo"] = handler
    await connect(bench, server)
    with pytest.raises(BackendCrashed, match="ended without an answer"):
        await bench.call("echo")


async def test_changes_arrive_on_the_stream_for_notifications(bench: Bench, server: OddHttp) -> None:
    async def notifying(request: Request) -> None:
        await request.begin_events()
        await request.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await anyio.sleep_forever()

    server.handlers["GET"] = notifying
    await connect(bench, server)
    await bench.until(lambda: bench.listings.count("odd") == 2)


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("http://127.0.0.1:1/mcp?key=secret", "cannot be reached"),
        ("https://127.0.0.1:PORT/mcp?key=secret", "no secure connection"),
        ("ftp://127.0.0.1/x", "request could not be made"),
    ],
)
async def test_the_error_of_an_unreachable_url_names_it_without_secrets(
    bench: Bench, server: OddHttp, url: str, cause: str
) -> None:
    bench.manager.add(BackendConfig(name="odd", url=url.replace("PORT", str(server.port))))
    with pytest.raises(BackendStopped) as out:
        await bench.call("echo")
    assert cause in out.value.message
    assert "secret" not in out.value.text()


async def test_the_error_of_an_untrusted_certificate_names_the_remedy(bench: Bench, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path / "own.pem"))
    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with TLSListener(plain, context) as listener, anyio.create_task_group() as tasks:
        server = OddHttp(port=plain.extra(anyio.abc.SocketAttribute.local_port))
        tasks.start_soon(listener.serve, server.serve)
        url = f"https://user:pass@127.0.0.1:{server.port}/mcp?key=hidden"
        bench.manager.add(BackendConfig(name="odd", url=url))
        with pytest.raises(BackendStopped) as refused:
            await bench.call("echo")
        tasks.cancel_scope.cancel()
    assert "no secure connection to https://127.0.0.1" in refused.value.message
    assert "certificate" in refused.value.message.lower()
    assert "SSL_CERT_FILE" in (refused.value.hint or "")
    assert "hidden" not in refused.value.text()
    assert "pass@" not in refused.value.text()
    assert server.seen == []


async def test_an_unreachable_server_is_unhealthy_until_a_call_is_answered(bench: Bench) -> None:
    keys = {"retry": {"max_retries": 0}}
    async with serving(OddHttp()) as first:
        await connect(bench, first, **keys)
        port = first.port
    with pytest.raises(BackendUnreachable):
        await bench.call("echo")
    status = bench.manager.status("odd")
    assert status.state is State.UNHEALTHY
    assert "cannot be reached" in (status.error or "")
    assert status.remedy
    async with serving(OddHttp(port=port)):
        assert await bench.value("echo", {"n": 1}) == {"n": 1}
        assert bench.manager.state("odd") is State.HEALTHY


async def test_the_status_shows_a_refused_sign_in_at_the_start(bench: Bench, server: OddHttp) -> None:
    server.handlers["POST"] = answering(401, b"who are you?")
    bench.manager.add(BackendConfig(name="odd", url=server.url))
    with pytest.raises(BackendStopped, match="HTTP 401"):
        await bench.call("echo")
    assert bench.manager.state("odd") is State.STOPPED


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("/messages?session=1", "endpoint"),
        ("/messages?session=1", None),
        ('"/messages?session=1"', "endpoint"),
        ("?session=1", "endpoint"),
    ],
)
async def test_servers_of_the_http_sse_transport_are_supported(
    bench: Bench, server: OddHttp, written: str, name: str | None
) -> None:
    streams: list[Request] = []
    plain = server.handle

    async def opened(request: Request) -> None:
        streams.append(request)
        await request.begin_events()
        await request.event(written, name=name)
        await anyio.sleep_forever()

    async def posted(request: Request) -> None:
        """Accepted here; the answer goes out on the stream."""
        await request.answer(202)
        if "id" in request.message and "method" in request.message:
            result: Any = {"content": [{"type": "text", "text": '"over sse"'}]}
            if request.message["method"] == "initialize":
                result = {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}
            elif request.message["method"] == "tools/list":
                result = {"tools": [{"name": "echo"}]}
            elif request.message["params"].get("arguments") == {"end": True}:
                await streams[0].stream.aclose()
                return
            await streams[0].event(request.reply(result), name="message")

    server.handlers.update(GET=opened, POST=posted)
    for method in ("initialize", "tools/list", "tools/call", "echo"):
        server.handlers.pop(method, None)
    server.handle = plain  # type: ignore[method-assign]
    await connect(bench, server, transport="sse")
    assert await bench.value("echo") == "over sse"
    assert bench.manager.status("odd").protocol_version == "2024-11-05"
    with pytest.raises(BackendCrashed, match="event stream"):
        await bench.call("echo", {"end": True})


async def test_a_lost_session_of_an_http_sse_server_is_renewed_and_the_call_sent_again(
    bench: Bench, server: OddHttp
) -> None:
    """Its sessions are part of the address that takes POSTs; 404 there means that the call was not run."""
    streams: dict[str, Request] = {}
    forgotten: set[str] = set()

    async def opened(request: Request) -> None:
        path = f"/messages?session={len(streams)}"
        streams[path] = request
        await request.begin_events()
        await request.event(path, name="endpoint")
        await anyio.sleep_forever()

    async def posted(request: Request) -> None:
        if request.path in forgotten:
            await request.answer(404, b"no such session")
            return
        await request.answer(202)
        if "id" in request.message:
            result = {"content": "done"} if request.verb == "CALL" else server.result_of(request.message)
            await streams[request.path].event(request.reply(result))

    server.handlers.update(
        {"GET": opened, "POST": posted, "initialize": posted, "tools/list": posted, "tools/call": posted}
    )
    await connect(bench, server, transport="sse")
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
    forgotten.add("/messages?session=0")
    assert await bench.value("echo", {"n": 2}) == {"n": 2}
    assert [r.path for r in server.seen if r.message.get("method") == "tools/call"] == [
        "/messages?session=0",
        "/messages?session=0",
        "/messages?session=1",
    ]


async def test_connections_are_reused_after_an_answer_as_events(bench: Bench, server: OddHttp) -> None:
    async def handler(request: Request) -> None:
        await request.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        event = b"data: " + json.dumps(request.reply(TEXT)).encode() + b"\n\n"
        await request.write(b"%x\r\n%s\r\n" % (len(event), event))
        await request.write(b"0\r\n\r\n")

    server.handlers["echo"] = handler
    await connect(bench, server)
    before = server.connections
    for _ in range(5):
        assert await bench.value("echo") == "fine"
    assert server.connections - before <= 1


@pytest.mark.parametrize("data", [b": still here\n\n", b"\n", b'data: {"jsonrpc":"2.0","method":"x"}\n\n'])
@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_endless_unsolicited_events_are_throttled(
    bench: Bench, server: OddHttp, monkeypatch: pytest.MonkeyPatch, transport: str, data: bytes
) -> None:
    monkeypatch.setattr(throttle, "IDLE_BURST_SECONDS", 0.01)
    rests: list[float] = []
    charge = throttle.Throttle.charge

    def noted(account: throttle.Throttle, seconds: float) -> float:
        rests.append(charge(account, seconds))
        return rests[-1]

    monkeypatch.setattr(throttle.Throttle, "charge", noted)
    streams: list[Request] = []

    async def pouring(request: Request) -> None:
        streams.append(request)
        await request.begin_events()
        if transport == "sse":
            await request.event("/messages", name="endpoint")
        while transport != "sse" or not any(rests):  # there, answers wait behind what was poured out before
            await request.write(data * 1000)
        await anyio.sleep_forever()

    async def posted(request: Request) -> None:
        await request.answer(202)
        if "id" in request.message:
            await streams[0].event(request.reply(server.result_of(request.message)))

    server.handlers["GET"] = pouring
    if transport == "sse":
        methods = ("POST", "initialize", "tools/list", "tools/call")
        server.handlers.update(dict.fromkeys(methods, posted))
    await connect(bench, server, transport=transport)
    await bench.until_true(lambda: any(rests))
    assert await bench.value("echo", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize(
    ("handlers", "kept"), [({"server/discover": stateless()}, ["good"]), ({}, ["good", "odd"])]
)
async def test_the_stateless_revision_leaves_out_tools_whose_arguments_fit_no_header(
    bench: Bench, server: OddHttp, handlers: dict[str, Any], kept: list[str]
) -> None:
    def wants(header: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}}

    async def listed(request: Request) -> None:
        tools = [
            {"name": "good", "inputSchema": wants("Region")},
            {"name": "odd", "inputSchema": wants("a b")},
        ]
        await request.result({"tools": tools})

    server.handlers.update({**handlers, "tools/list": listed})
    await connect(bench, server)
    assert [tool.name for tool in bench.tools["odd"] or ()] == kept
    said = " ".join(bench.manager.status("odd").repairs)
    assert ("odd was left out: property 'region'" in said) is ("odd" not in kept)


async def test_the_stateless_revision_mirrors_method_name_and_marked_arguments_in_headers(
    bench: Bench, server: OddHttp
) -> None:
    marked = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

    async def listed(request: Request) -> None:
        await request.result({"tools": [{"name": "écho", "inputSchema": marked}]})

    server.handlers.update({"server/discover": stateless(), "tools/list": listed})
    await connect(bench, server)
    await bench.call("écho", {"region": "eu"})
    headers = server.seen[-1].headers
    assert headers["mcp-method"] == "tools/call"
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert headers["mcp-name"].startswith("=?base64?")
    assert headers["mcp-param-region"] == "eu"
    assert "mcp-session-id" not in headers


async def hangs(request: Request) -> None:
    """No answer until the client gives up."""
    await request.stream.receive()


async def reconnected(
    bench: Bench, server: OddHttp, meanwhile: Callable[[], None] = lambda: None
) -> list[str]:
    """Methods that the server is sent from when its probes stay unanswered until it is healthy again."""
    times = bench.states.count(("odd", State.HEALTHY))
    server.handlers["tools/list"] = server.handlers["ping"] = hangs
    await bench.until(lambda: ("odd", State.STARTING) in bench.states[1:])
    server.seen.clear()
    meanwhile()
    del server.handlers["tools/list"], server.handlers["ping"]
    await bench.until(lambda: bench.states.count(("odd", State.HEALTHY)) > times)
    assert await bench.value("echo", {"n": 1}) == {"n": 1}
    return [r.message["method"] for r in server.seen if "method" in r.message]


@pytest.mark.parametrize(
    ("saved", "asked"),
    [({"ttlMs": 60_000}, False), ({"ttlMs": 0}, True), ({}, True), ({"ttlMs": "long"}, True)],
)
async def test_a_reconnect_uses_the_kept_discovery_as_long_as_the_server_allows(
    tmp_path: Path, server: OddHttp, quick_health: HealthConfig, saved: dict[str, Any], asked: bool
) -> None:
    server.handlers["server/discover"] = stateless(instructions="Hello.", **saved)
    async with running_bench(tmp_path, health=quick_health) as bench:
        await connect(bench, server)
        methods = await reconnected(bench, server)
        assert ("server/discover" in methods) is asked
        assert "initialize" not in methods
        assert bench.manager.status("odd").instructions == "Hello."


async def test_a_kept_discovery_is_dropped_when_the_server_has_changed(
    tmp_path: Path, server: OddHttp, quick_health: HealthConfig
) -> None:
    plain, old, refused = server.handle, list[bool](), list[str]()

    async def older(request: Request) -> None:
        """What comes with the envelope of the stateless revision is refused."""
        if old and "mcp-method" in request.headers:
            refused.append(request.headers["mcp-method"])
            await request.answer(400, b"no such revision")
        else:
            await plain(request)

    def grow_old() -> None:
        old.append(True)
        del server.handlers["server/discover"]

    server.handlers["server/discover"] = stateless(ttlMs=60_000)
    server.handle = older  # type: ignore[method-assign]
    async with running_bench(tmp_path, health=quick_health) as bench:
        await connect(bench, server)
        assert bench.manager.status("odd").era == "modern"
        methods = await reconnected(bench, server, grow_old)
        assert refused[:2] == ["tools/list", "server/discover"]
        assert methods[0] == "initialize"
        assert bench.manager.status("odd").era == "legacy"


async def test_a_stateless_server_that_now_wants_a_session_gets_a_new_handshake(
    tmp_path: Path, server: OddHttp, quick_health: HealthConfig
) -> None:
    """It was replaced by an older one; the call that met it first is not sent again."""

    plain, old = server.handle, list[bool]()

    async def older(request: Request) -> None:
        method = request.message.get("method", "")
        sessionless = "mcp-session-id" not in request.headers and method not in (
            "initialize",
            "server/discover",
        )
        if old and sessionless and "id" in request.message:
            server.seen.append(request)
            await request.answer(400, b"Bad Request: no valid session id")
        else:
            await plain(request)

    server.handlers["server/discover"] = stateless(ttlMs=60_000)
    server.handle = older  # type: ignore[method-assign]
    async with running_bench(tmp_path, health=quick_health) as bench:
        await connect(bench, server)
        assert bench.manager.status("odd").era == "modern"
        old.append(True)
        del server.handlers["server/discover"]
        with pytest.raises(BackendCrashed, match="no valid session id") as met:
            await bench.call("echo", {"n": 1})
        assert met.value.sent
        assert server.calls("echo") == 1
        assert await bench.value("echo", {"n": 2}) == {"n": 2}
        assert bench.manager.status("odd").era == "legacy"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"session_id is required"}}', False),
        (b'{"jsonrpc":"2.0","id":"ID","error":{"code":-32601,"message":"no tool session"}}', False),
        (b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no valid session id"}}', True),
        (b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32600,"message":"missing session id"}}', True),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no session"}}', True),
        (b'{"jsonrpc":"2.0","error":{"code":-32602,"message":"no session"}}', True),
    ],
)
@pytest.mark.parametrize("status", [400, 404])
async def test_an_error_of_the_call_that_mentions_a_session_keeps_the_connection(
    bench: Bench, server: OddHttp, status: int, body: bytes, wanted: bool
) -> None:
    async def refusing(request: Request) -> None:
        await request.answer(status, body.replace(b"ID", str(request.message["id"]).encode()))

    server.handlers["server/discover"] = stateless()
    server.handlers["echo"] = refusing
    await connect(bench, server)
    with pytest.raises(BackendError, match="session") as met:
        await bench.call("echo", {"n": 1})
    assert isinstance(met.value, BackendCrashed) is wanted
    assert server.calls("echo") == 1


async def test_cancelling_a_call_in_the_stateless_revision_closes_its_response(
    bench: Bench, server: OddHttp
) -> None:
    closed = anyio.Event()

    async def hanging(request: Request) -> None:
        try:
            await request.stream.receive()
        finally:
            closed.set()

    server.handlers.update({"server/discover": stateless(), "echo": hanging})
    await connect(bench, server)
    with pytest.raises(BackendTimeout):
        await bench.call("echo", timeout=0.2)
    with anyio.fail_after(60):
        await closed.wait()
    assert not any(r.message.get("method") == "notifications/cancelled" for r in server.seen)


SDK_SERVER = """
import sys, socket
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("sdk")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

sock = socket.socket()
sock.bind(("127.0.0.1", 0))
sock.listen()
print(sock.getsockname()[1], flush=True)
app = server.streamable_http_app() if sys.argv[1] == "http" else server.sse_app()
uvicorn.Server(uvicorn.Config(app, ws="none", log_level="error")).run(sockets=[sock])
"""


@pytest.mark.parametrize(
    ("transport", "path", "era"), [("streamable-http", "/mcp", "modern"), ("sse", "/sse", "legacy")]
)
async def test_servers_of_the_python_sdk_are_supported(
    bench: Bench, tmp_path: Path, transport: str, path: str, era: str
) -> None:
    script = tmp_path / "server.py"
    script.write_text(SDK_SERVER)
    kind = "http" if transport == "streamable-http" else "sse"
    process = await anyio.open_process([sys.executable, "-P", str(script), kind], stderr=None)
    try:
        assert process.stdout is not None
        port = int(await process.stdout.receive())
        url = f"http://127.0.0.1:{port}{path}"
        bench.manager.add(BackendConfig.model_validate({"name": "sdk", "url": url, "transport": transport}))
        outcome = await bench.call("add", {"a": 2, "b": 3}, name="sdk", timeout=15)
        assert outcome.result["structuredContent"] == {"result": 5}
        assert bench.manager.status("sdk").era == era
    finally:
        process.kill()
        await process.aclose()
