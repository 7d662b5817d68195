"""Answers that no client library of a provider gives: encodings, cut ends, other statuses, very large bodies."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from fixtures.llm_proxy import NO_PREDICTION, Proxy, running_proxy
from fixtures.llm_upstream import SHAPES, Said
from fixtures.raw_upstream import RawUpstream, raw_upstream

CHAT = SHAPES[0][1]
PATH = "/v1/chat/completions"
SEARCH = Said("", [("tool_search", {"tool_name": "mail", "reason": "r"})])
STREAM = "content-type: text/event-stream"


def request(**members: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in ("read", "mail", "fly")]
    return {"model": "m", "tools": tools, "messages": [{"role": "user", "content": "go"}], **members}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawUpstream, Proxy]]:
    folder = tmp_path_factory.mktemp("odd")
    with raw_upstream() as upstream, running_proxy(upstream.url, folder, config=NO_PREDICTION) as proxy:
        yield upstream, proxy


@pytest.fixture
def upstream(running: tuple[RawUpstream, Proxy]) -> RawUpstream:
    running[0].answers, running[0].got = [], []
    return running[0]


@pytest.fixture
def proxy(running: tuple[RawUpstream, Proxy]) -> Proxy:
    return running[1]


def raw_answer(proxy: Proxy, body: Any, path: str = PATH) -> tuple[httpx2.Response, bytes]:
    """The answer and its bytes as they are on the wire."""
    with (
        httpx2.Client(timeout=30) as client,
        client.stream("POST", f"{proxy.address}{path}", json=body) as got,
    ):
        return got, b"".join(got.iter_raw())


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br"])
def test_an_answer_in_an_encoding_that_cannot_be_read_passes_with_its_bytes(
    encoding: str, streamed: bool, upstream: RawUpstream, proxy: Proxy
) -> None:
    body = b"\x0b\x02\x80 not for us"
    upstream.answer(body, f"content-encoding: {encoding}", *([STREAM] if streamed else []))
    got, raw = raw_answer(proxy, request(stream=streamed))
    assert b"accept-encoding: identity" in upstream.got[0][0].lower()
    assert got.headers["content-encoding"] == encoding
    assert raw == body


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_of_ours_is_found_in_a_compressed_answer(
    encoding: str,
    compress: Callable[[bytes], bytes],
    streamed: bool,
    upstream: RawUpstream,
    proxy: Proxy,
) -> None:
    for said in (SEARCH, Said("Found.")):
        text = b"".join(CHAT.stream(said, 1)) if streamed else json.dumps(CHAT.whole(said, 1)).encode()
        upstream.answer(compress(text), f"content-encoding: {encoding}", *([STREAM] if streamed else []))
    got, raw = raw_answer(proxy, request(stream=streamed))
    assert "content-encoding" not in got.headers
    assert b"Found." in raw
    assert b"tool_search" not in raw
    assert len(upstream.got) == 2


@pytest.mark.parametrize("status", ["429 Too Many Requests", "529 Overloaded", "503 Service Unavailable"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_refusal_passes_with_its_fields_and_bytes(
    status: str, streamed: bool, upstream: RawUpstream, proxy: Proxy
) -> None:
    body = b'{ "error" : {"message":"later\\u00e9"} }'
    fields = ("retry-after: 9", "x-should-retry: true", "x-ratelimit-reset: 1.50")
    upstream.answer(body, *fields, status=status)
    got, raw = raw_answer(proxy, request(stream=streamed))
    assert got.status_code == int(status.split()[0])
    assert [got.headers[each.split(":")[0]] for each in fields] == ["9", "true", "1.50"]
    assert raw == body


def test_a_repeated_whole_answer_counts_the_tokens_of_all(upstream: RawUpstream, proxy: Proxy) -> None:
    for number, said in enumerate((SEARCH, SEARCH, Said("Found."))):
        upstream.answer(json.dumps(CHAT.whole(said, number)).encode())
    got, raw = raw_answer(proxy, request())
    assert got.status_code == 200
    assert json.loads(raw)["usage"] == {"prompt_tokens": 30, "completion_tokens": 15, "total_tokens": 45}
    assert int(got.headers["content-length"]) == len(raw)


def test_an_answer_without_calls_of_ours_keeps_its_bytes(upstream: RawUpstream, proxy: Proxy) -> None:
    body = b'{ "choices":[ {"message":{"content":"\\u00e9"}, "n":1.50} ], "usage": {"x":1e2} }'
    upstream.answer(body)
    assert raw_answer(proxy, request())[1] == body


@pytest.mark.parametrize(
    "cut", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\ncontent-type: application/json\r\n\r\n{"]
)
def test_a_provider_that_hangs_up_is_no_answer(cut: bytes, upstream: RawUpstream, proxy: Proxy) -> None:
    upstream.answers = [cut]
    got, raw = raw_answer(proxy, request())
    assert got.status_code == 502
    assert b"RemoteProtocolError" in raw


def test_a_repeated_stream_that_breaks_breaks_for_the_client(upstream: RawUpstream, proxy: Proxy) -> None:
    first, second = (
        b"".join(CHAT.stream(said, 1)) for said in (Said("Wait. ", SEARCH.calls), Said("one two"))
    )
    upstream.answer(first, STREAM)
    upstream.answer(second + b"x" * 100, STREAM)
    upstream.answers[1] = upstream.answers[1][: -len(second)]
    with pytest.raises(httpx2.RemoteProtocolError):
        raw_answer(proxy, request(stream=True))


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [("HEAD", "200 OK", "77"), ("DELETE", "204 No Content", None), ("GET", "304 Not Modified", None)],
)
def test_answers_without_a_body_pass(
    method: str, status: str, length: str | None, upstream: RawUpstream, proxy: Proxy
) -> None:
    field = f"content-length: {length}\r\n" if length else ""
    upstream.answers = [f"HTTP/1.1 {status}\r\n{field}etag: x\r\n\r\n".encode()]
    got = httpx2.request(method, f"{proxy.address}/v1/files/a", timeout=60)
    assert (got.status_code, got.headers["etag"]) == (int(status.split()[0]), "x")
    assert got.headers.get("content-length") == length


def test_a_connection_serves_requests_one_after_the_other_in_any_framing(
    upstream: RawUpstream, proxy: Proxy
) -> None:
    body = json.dumps(request()).encode()
    heads = (
        (f"content-length: {len(body)}", body),
        (f"content-length: {len(body)}\r\nexpect: 100-continue", body),
        ("transfer-encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)),
    )
    host, port = proxy.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        lines = connection.makefile("rb")
        for number, (head, sent) in enumerate(heads):
            upstream.answer(b"%d" % number)
            connection.sendall(f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n".encode())
            status = b""
            if "expect" in head:
                status = lines.readline()
                assert status == b"HTTP/1.1 100 Continue\r\n"
                assert lines.readline() == b"\r\n"
            connection.sendall(sent)
            assert lines.readline() == b"HTTP/1.1 200 OK\r\n"
            while lines.readline() != b"\r\n":
                pass
            assert lines.read(1) == b"%d" % number
    assert [b"tool_search" in got for _, got in upstream.got] == [True] * 3


@pytest.mark.parametrize(("megabytes", "smaller"), [(20, True), (40, False)])
def test_a_very_large_request_is_made_smaller_up_to_32_megabytes_and_passes_beyond(
    megabytes: int, smaller: bool, upstream: RawUpstream, proxy: Proxy
) -> None:
    body = request(messages=[{"role": "user", "content": "x" * (megabytes << 20)}])
    upstream.answer(b"{}")
    assert raw_answer(proxy, body)[0].status_code == 200
    assert (b"tool_search" in upstream.got[0][1]) is smaller
