"""The real client libraries through the proxy: answers, streams, errors and broken connections as without it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fixtures.llm_clients import CLIENTS, KEY, AnthropicClient, OpenAIClient
from fixtures.llm_proxy import NO_PREDICTION, Proxy, running_proxy
from fixtures.llm_upstream import FakeProvider, Got, Said, running_provider
from fixtures.raw_upstream import raw_upstream

TOOLS = ["read", "send_mail", "book_flight", "play_song"]
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda each: each.__name__)
each_way = pytest.mark.parametrize("way", ["ask", "stream"])
WAIT_SECONDS = 60


@each_client
@each_way
def test_text_and_calls_are_those_that_the_client_gets_without_the_proxy(
    client: Any, way: str, provider: FakeProvider, plain: Proxy
) -> None:
    said = Said("Two files then. ", [("read", {"path": "a"}), ("send_mail", {"path": "b"})])
    provider.answers = [said, said]
    direct = getattr(client(provider.url), way)(TOOLS)
    assert getattr(client(plain.address), way)(TOOLS) == direct
    assert direct[0] == "Two files then. "
    assert len(direct[1]) == 2


@each_client
def test_text_before_tool_search_streams_and_the_repeated_answer_continues_it(
    client: Any, provider: FakeProvider, filtering: Proxy
) -> None:
    provider.answers = [
        Said("Let me look. ", [("tool_search", {"tool_name": "send_mail", "reason": "to write"})]),
        Said("Here it is. ", [("send_mail", {"path": "x"}), ("read", {"path": "y"})]),
    ]
    text, calls = client(filtering.address, f"before {client.__name__}").stream(TOOLS)
    assert text == "Let me look. Here it is. "
    assert [name for name, _ in calls] == ["send_mail", "read"]
    assert provider.got[0].tools == ["read", "tool_search"]
    assert provider.got[1].tools == ["read", "send_mail", "tool_search"]


@each_client
@each_way
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "no tool_name"),
        ({"tool_name": ""}, "no tool_name"),
        ({"tool_name": None}, "no tool_name"),
        ({"tool_name": ["read", "send_mail"]}, "no tool_name"),
        ({"tool_name": 3, "reason": {}}, "no tool_name"),
        ({"name": "send_mail"}, "no tool_name"),
        ({"tool_name": "Send Mail"}, "the closest name is send_mail"),
        ({"tool_name": "x" * 100_000}, "there is no tool xxx"),
    ],
)
def test_bad_arguments_of_tool_search_are_named_to_the_model(
    client: Any, way: str, arguments: dict[str, Any], says: str, provider: FakeProvider, filtering: Proxy
) -> None:
    provider.answers = [Said("", [("tool_search", arguments)]), Said("Well then.")]
    session = f"bad {client.__name__} {way} {str(arguments)[:40]}"
    assert getattr(client(filtering.address, session), way)(TOOLS)[0] == "Well then."
    given = provider.got[1].body.decode()
    assert says in given
    assert len(given) < 5_000 + len(json.dumps(arguments))


@each_client
@each_way
def test_after_the_last_repeat_the_client_reads_what_was_asked_for(
    client: Any, way: str, provider: FakeProvider, filtering: Proxy
) -> None:
    wanted = ["send_mail", "no_such_tool", "play_song"]
    provider.answers = [
        Said("", [("tool_search", {"tool_name": name, "reason": "why not"}), ("read", {"path": name})])
        for name in wanted
    ]
    text, calls = getattr(client(filtering.address, f"last {client.__name__} {way}"), way)(TOOLS)
    assert len(provider.got) == 3
    assert all(name in text for name in wanted)
    assert [name for name, _ in calls] == ["read"]


@each_client
def test_the_usage_of_a_streamed_answer_counts_all_its_repeats(
    client: Any, provider: FakeProvider, filtering: Proxy
) -> None:
    search = ("tool_search", {"tool_name": "send_mail", "reason": "to write"})
    provider.answers = [Said("once")]
    once = client(filtering.address, f"once {client.__name__}").usage(TOOLS)
    provider.answers = [Said("Wait. ", [search]), Said("", [search]), Said("done")]
    thrice = client(filtering.address, f"thrice {client.__name__}").usage(TOOLS)
    assert len(provider.got) == 4
    assert thrice == (3 * once[0], 3 * once[1])


@each_client
@each_way
def test_an_answer_of_429_reaches_the_client_with_its_fields(
    client: Any, way: str, provider: FakeProvider, filtering: Proxy
) -> None:
    provider.answers = [Said(status=429, headers={"retry-after": "7"})]
    with pytest.raises(client.limited()) as caught:
        getattr(client(filtering.address, "429"), way)(TOOLS)
    assert "try later" in str(caught.value)
    response = caught.value.response
    assert response.headers["retry-after"] == "7"


@each_client
def test_an_error_of_a_repeated_request_reaches_the_client(
    client: Any, provider: FakeProvider, filtering: Proxy
) -> None:
    search = Said("", [("tool_search", {"tool_name": "play_song", "reason": "music"})])
    provider.answers = [search, Said(status=429)]
    with pytest.raises(client.limited(), match="try later"):
        client(filtering.address, f"repeated {client.__name__}").ask(TOOLS)
    provider.answers = [Said("Well. ", search.calls), Said(status=429)]
    with pytest.raises(client.error(), match="try later"):
        client(filtering.address, f"repeated in stream {client.__name__}").stream(TOOLS)


@each_client
def test_an_answer_that_breaks_is_no_short_answer(client: Any, provider: FakeProvider, plain: Proxy) -> None:
    provider.answers = [Said("one two three four five six", breaks=True)]
    with pytest.raises(Exception, match=r"(?i)peer|closed|incomplete|disconnect|chunk|connection|read"):
        list(client(plain.address).words())


@each_client
def test_words_arrive_while_the_provider_still_thinks(
    client: Any, provider: FakeProvider, plain: Proxy
) -> None:
    provider.answers = [Said("first second third", waits=True)]
    words = client(plain.address).words()
    assert next(words) == "first "
    provider.go_on.set()
    assert "".join(words) == "second third"


@each_client
@pytest.mark.parametrize("kind", ["plain", "filtering"])
def test_a_client_that_hangs_up_ends_the_request_to_the_provider(
    client: Any, kind: str, provider: FakeProvider, request: pytest.FixtureRequest
) -> None:
    proxy: Proxy = request.getfixturevalue(kind)
    provider.answers = [Said("first second third", waits=True)]
    made = client(proxy.address)
    words = made.words()
    next(words)
    words.close()
    with suppress(AttributeError):
        made.sdk.close()
    assert provider.hung_up.wait(WAIT_SECONDS)


def test_keys_pass_and_are_written_nowhere(provider: FakeProvider, tmp_path: Path) -> None:
    with running_proxy(provider.url, tmp_path, config=NO_PREDICTION) as proxy:
        for client in CLIENTS:
            provider.answers = [Said("fine")]
            client(proxy.address, "keys").ask(TOOLS)
            assert KEY in str(provider.got[-1].headers)
        noise = proxy.stop()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY not in noise
    assert KEY.encode() not in written


DEBUG = {
    "PYTHONDEVMODE": "1",
    "PYTHONASYNCIODEBUG": "1",
    "HTTPX_LOG_LEVEL": "trace",
    "HTTPX2_LOG_LEVEL": "trace",
}


def test_keys_are_written_nowhere_in_debug_modes_and_after_errors(tmp_path: Path) -> None:
    config = {"context": {"tools": {"use_prediction": False}, "fold": {}}, "log": {"level": "debug"}}
    text = {"contents": [{"parts": [{"text": "go"}]}]}
    with (
        raw_upstream() as upstream,
        running_proxy(upstream.url, tmp_path, config=config, variables=DEBUG) as proxy,
    ):
        for answer in (
            b"",
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            b"no HTTP\r\n\r\n",
            b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        ):
            for body in (text, {"contents": 3}):
                upstream.answers = [answer]
                with suppress(httpx2.HTTPError):
                    httpx2.post(
                        f"{proxy.address}/v1beta/models/m:generateContent?key={KEY}",
                        json=body,
                        headers={"authorization": f"Bearer {KEY}", "x-goog-api-key": KEY, "x-api-key": KEY},
                        timeout=WAIT_SECONDS,
                    )
        assert len(upstream.got) == 8
        assert all(KEY.encode() in head for head, _ in upstream.got)
        noise = proxy.stop()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY not in noise
    assert KEY.encode() not in written
    assert b'"passed":4' in written.replace(b" ", b"")


def test_sessions_at_once_get_their_own_tools_and_answers(tmp_path: Path) -> None:
    wanted = {f"session {n}": TOOLS[1 + n % 3] for n in range(24)}

    def answer(got: Got) -> Said:
        session = got.json["messages"][0]["content"]
        if wanted[session] not in got.tools:
            return Said(
                f"{session} looks. ", [("tool_search", {"tool_name": wanted[session], "reason": "r"})]
            )
        return Said(f"{session} found.", [(wanted[session], {"path": session})])

    with (
        running_provider(answer) as provider,
        running_proxy(provider.url, tmp_path, config=NO_PREDICTION) as proxy,
        ThreadPoolExecutor(8) as pool,
    ):
        kinds = [OpenAIClient, AnthropicClient]
        clients = [kinds[n % 2](proxy.address, session) for n, session in enumerate(wanted)]
        for way in ("stream", "ask"):
            turns = pool.map(lambda c, s, way=way: getattr(c, way)(TOOLS, s), clients, wanted)
            for (session, tool), (text, calls) in zip(wanted.items(), turns, strict=True):
                before = f"{session} looks. " if way == "stream" else ""
                assert (text, [name for name, _ in calls]) == (f"{before}{session} found.", [tool])
        assert len(provider.got) == 3 * len(wanted)
        assert all(
            set(got.tools) <= {"read", "tool_search", wanted[got.json["messages"][0]["content"]]}
            for got in provider.got
        )
