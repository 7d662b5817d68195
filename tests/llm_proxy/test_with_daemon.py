"""With a daemon running, handles and totals of a proxy are the daemon's: they outlive the proxy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from fixtures.daemons import WAIT_SECONDS, home, until
from fixtures.llm_proxy import running_proxy
from fixtures.llm_upstream import FakeProvider, Said, running_provider
from gatemini.daemon.client import ask
from gatemini.daemon.llm_proxies import COMMAND, MOST_PROXIES, LlmProxies
from gatemini.llm_proxy.daemon_link import MOST_BYTES, MOST_WAITING_BYTES, DaemonLink, SharedStore

FOLD = {"fold": {"handle_over_tokens": 100}}
ROWS = json.dumps([{"id": f"row-{n}"} for n in range(100)])
HANDLE = re.compile(r"res_[0-9a-f]{8}")


def conversation(call_id: str, result: str) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]
    return {"model": "m", "messages": messages}


def send(address: str, session: str, request: dict[str, Any]) -> None:
    headers = {"x-gatemini-session": session, "authorization": "Bearer sk-kept-nowhere"}
    answer = httpx2.post(f"{address}/v1/chat/completions", json=request, headers=headers, timeout=30)
    assert answer.status_code == 200


def handles(provider: FakeProvider) -> list[str]:
    """The handle of the last request's result."""
    return HANDLE.findall(provider.got[-1].json["messages"][2]["content"])[:1]


def test_handles_and_totals_outlive_a_proxy_that_is_killed() -> None:
    with home() as owned, running_provider() as provider:
        owned.write_config(daemon={"idle_timeout": "10m"}, context=FOLD)
        client = owned.client()
        client.greet()
        owned.serving()

        def command(**arguments: Any) -> dict[str, Any]:
            return ask(owned.place, COMMAND, **arguments) or {}

        options = ("-c", str(owned.config))
        with running_proxy(provider.url, owned.root, *options, variables=owned.environ) as proxy:
            provider.answers = [Said("read")]
            send(proxy.address, "one", conversation("c1", ROWS))
            (handle,) = handles(provider)
            totals = until(lambda: command(do="list")["proxies"], "the daemon has the totals")
            assert totals[0]["requests"] == 1
            assert not (owned.root / "state" / "gatemini" / "llm-proxy").exists()
            proxy.process.kill()
        shown = json.loads(owned.run("stats", "--json", *options).stdout)["llm_proxy"]
        assert [(row["requests"], row["running"]) for row in shown] == [(1, False)]

        call = ("fetch_rows", {"handle": handle, "offset": 90})
        with running_proxy(provider.url, owned.root, *options, variables=owned.environ) as proxy:
            # The client has forgotten the first result; another one brings `fetch_rows` into the request.
            for session, found in (("one", True), ("other", False)):
                provider.answers = [Said("", [call]), Said("done")]
                send(proxy.address, session, conversation("c2", ROWS.replace("row", "other")))
                read = provider.got[-1].json["messages"][-1]["content"]
                assert ("row-99" in read) is found
                assert (f"handle {handle} does not exist in this run" in read) is not found
            provider.answers = [Said("read")]
            send(proxy.address, "one", conversation("c1", ROWS))
            assert handles(provider) == [handle]
            assert proxy.stop() == ""
        rows = json.loads(owned.run("stats", "--json", *options).stdout)["llm_proxy"]
        assert [row["requests"] for row in rows] == [3, 1]
        assert client.close() == 0
        written = b"".join(path.read_bytes() for path in owned.root.rglob("*") if path.is_file())
        assert b"sk-kept-nowhere" not in written


def test_where_a_daemon_is_silent_handles_and_totals_are_the_proxys_own(
    silent_socket: Callable[[Path], None],
) -> None:
    with home() as owned, running_provider() as provider:
        owned.write_config(context=FOLD)
        silent_socket(Path(owned.place.sock))
        options = ("-c", str(owned.config))
        with running_proxy(provider.url, owned.root, *options, variables=owned.environ) as proxy:
            call = ("fetch_rows", {"handle": "res_00000000"})
            provider.answers = [Said("", [call]), Said("done")]
            send(proxy.address, "one", conversation("c1", ROWS))
            assert "does not exist in this run" in provider.got[-1].json["messages"][-1]["content"]
            folder = owned.root / "state" / "gatemini" / "llm-proxy"
            until(lambda: list(folder.glob("proxy-*.json")), "the totals are in the state directory")


def answered(proxies: LlmProxies, arguments: dict[str, Any]) -> dict[str, Any]:
    return anyio.run(proxies.answer, arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "do: allowed are"),
        ({"do": "keep", "handle": "res_1", "body": "YQ=="}, "handle: allowed is"),
        ({"do": "keep", "handle": "res_00000000", "body": "?"}, "body: allowed is base64"),
        ({"do": "totals", "account": 3}, "account: allowed is an object"),
    ],
)
def test_the_daemon_names_what_is_wrong_in_a_command(arguments: dict[str, Any], says: str) -> None:
    answer = answered(LlmProxies(), arguments)
    assert answer["ok"] is False
    assert says in answer["error"]


def test_a_session_reads_its_own_results_only() -> None:
    proxies = LlmProxies()
    kept = {"do": "keep", "session": "a", "handle": "res_00000001", "body": "WzEsMl0="}
    assert answered(proxies, kept) == {"ok": True}
    rows = {"do": "rows", "arguments": {"handle": "res_00000001"}}
    found = {session: answered(proxies, {**rows, "session": session})["text"] for session in ("a", "b")}
    assert json.loads(found["a"])["rows"] == [1, 2]
    assert json.loads(found["b"]) == {"error": "handle res_00000001 does not exist in this run"}


def test_the_totals_of_the_last_proxies_are_held() -> None:
    proxies = LlmProxies()
    for pid in (*range(MOST_PROXIES + 5), 7):
        answered(proxies, {"do": "totals", "account": {"pid": pid, "process_started": 1.0}})
    held = answered(proxies, {"do": "list"})["proxies"]
    assert len(held) == MOST_PROXIES
    assert [account["pid"] for account in held[-2:]] == [MOST_PROXIES + 4, 7]


def test_totals_with_a_name_of_another_kind_are_held_too() -> None:
    proxies = LlmProxies()
    account = {"pid": [1], "process_started": {}}
    assert answered(proxies, {"do": "totals", "account": account}) == {"ok": True}


@pytest.mark.anyio
async def test_results_that_wait_for_the_daemon_are_bounded_by_their_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []

    async def kept(link: DaemonLink, **arguments: Any) -> dict[str, Any]:
        sent.append(arguments["handle"])
        return {"ok": True}

    monkeypatch.setattr(DaemonLink, "_ask", kept)
    monkeypatch.setattr(DaemonLink, "run_of_daemon", 1)
    body = b"x" * MOST_BYTES
    room = MOST_WAITING_BYTES // MOST_BYTES
    async with anyio.create_task_group() as tasks:
        link = DaemonLink(None, tasks)
        taken = [link.send_soon("s", f"res_{number:08x}", body, True) for number in range(room + 5)]
        assert taken == [True] * room + [False] * 5
        with anyio.fail_after(WAIT_SECONDS):
            while len(sent) < room:  # noqa: ASYNC110 - nothing says so
                await anyio.sleep(0.005)
        link.send_soon("s", "res_later", body, True)  # there is room again
    assert sent == [*(f"res_{number:08x}" for number in range(room)), "res_later"]


def test_a_result_is_sent_once_there_is_a_daemon_and_then_no_more() -> None:
    sent: list[str] = []
    runs = False

    def send(session: str, handle: str, body: bytes, is_text: bool) -> bool:
        sent.append(handle)
        return runs

    store = SharedStore(b"secret", "s", send)
    handle = store.keep("c1", b"[1]")
    runs = True
    assert [store.keep("c1", b"[1]") for _ in range(2)] == [handle] * 2
    assert sent == [handle] * 2
