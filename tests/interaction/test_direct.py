"""`gatemini --direct` as a process: stdout is protocol only, it ends when it should, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from fixtures.backend_bench import ODD
from fixtures.direct import TESTS, write_config

WAIT_SECONDS = 60.0

DEMO: dict[str, Any] = {"demo": {"transport": "python", "module": "fixtures.demo_server:server"}}
LEGACY: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "raw", "version": "1"},
}


class Raw:
    """A client that writes and reads lines itself."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[bytes] = []
        self._id = 0

    def send(self, message: dict[str, Any] | bytes) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params or {}})
        return self.answer_to(self._id)

    def answer_to(self, ident: Any) -> dict[str, Any]:
        while (message := self.receive()).get("id") != ident:
            pass
        return message

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the gateway closed stdout"
        self.lines.append(line)
        message: dict[str, Any] = json.loads(line)
        return message

    def initialize(self) -> dict[str, Any]:
        answer = self.request("initialize", LEGACY)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def chain(self, code: str) -> dict[str, Any]:
        result: dict[str, Any] = self.request(
            "tools/call", {"name": "call_tool_chain", "arguments": {"code": code}}
        )["result"]
        return result


@contextmanager
def direct(config: Path | None, **environ: str) -> Iterator[Raw]:
    arguments = [sys.executable, "-P", "-m", "gatemini", "--direct"]
    process = subprocess.Popen(
        arguments + (["-c", str(config)] if config else []),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS), **environ},
    )
    try:
        yield Raw(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raw]:
    """One gateway for all tests that leave it as it was; its client supports elicitation."""
    with direct(write_config(tmp_path_factory.mktemp("direct"), DEMO)) as raw:
        raw.initialize()
        yield raw


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Raw]:
    """A gateway that has got no message yet."""
    with direct(write_config(tmp_path, DEMO)) as raw:
        yield raw


def gone(pids: list[int]) -> bool:
    """Whether none of these processes runs any more (a zombie does not)."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        if not any(psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE for p in pids):
            return True
        time.sleep(0.05)  # other processes' end has no event to wait for
    return False


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """A backend module that prints on stdout when imported and when called."""
    (tmp_path / "noisy_backend.py").write_text(
        "import os, sys\n"
        "print('import noise')\n"
        "os.write(1, b'raw noise\\n')\n"
        "from fixtures.demo_server import server as make\n"
        "def server():\n    print('factory noise', flush=True)\n    return make() if callable(make) else make\n"
    )
    return write_config(tmp_path, {"demo": {"transport": "python", "module": "noisy_backend:server"}})


def test_stdout_carries_protocol_only_whatever_prints(noisy: Path) -> None:
    with direct(noisy, PYTHONPATH=f"{TESTS}{os.pathsep}{noisy.parent}") as raw:
        raw.initialize()
        assert raw.chain("return (await demo.echo({ n: 1 })).n;")["content"][0]["text"] == "1"
        for line in raw.lines:
            assert json.loads(line)["jsonrpc"] == "2.0"


def test_garbage_lines_do_not_end_the_server(shared: Raw) -> None:
    for garbage in (
        b"",
        b"{",
        b"null",
        b"[1,2]",
        b"\xff\xfe",
        b"hello",
        b'{"jsonrpc":"2.0"}',
        b"x" * 300_000,
    ):
        shared.send(garbage)
    assert shared.chain("return 2 * 3;")["content"][0]["text"] == "6"


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b'"params":{"name":"call_tool_chain"', "not valid JSON"),
        (b'"params":{"arguments":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", "nested too deeply"),
    ],
    ids=["broken", "deep"],
)
def test_a_request_that_cannot_be_parsed_gets_its_answer(shared: Raw, rest: bytes, reason: str) -> None:
    shared.send(b'{"jsonrpc":"2.0","id":804,"method":"tools/call",' + rest)
    error = shared.answer_to(804)["error"]
    shared.lines.clear()
    assert error["code"] == -32700
    assert reason in error["message"]


def test_a_cancel_of_what_is_no_request_ends_nothing(shared: Raw) -> None:
    for ident in ([1], {}, None, 1.5, True):
        shared.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ident}})
    assert len(shared.request("tools/list")["result"]["tools"]) == 7


def test_a_request_with_half_a_character_is_answered(shared: Raw) -> None:
    """JSON.stringify writes a lone surrogate for a string that was cut inside an emoji."""
    code = b'return \\"\\ud83d\\".length;'
    shared.send(
        b'{"jsonrpc":"2.0","id":802,"method":"tools/call","params":'
        b'{"name":"call_tool_chain","arguments":{"code":"' + code + b'"}}}'
    )
    shared.send({"jsonrpc": "2.0", "method": "notifications/nothing"})
    assert shared.answer_to(802)["result"]["content"][0]["text"] == "1"


def test_arguments_that_are_no_object_are_a_tool_error(shared: Raw) -> None:
    for arguments in ("return 1", 5, [1], True):
        answer = shared.request("tools/call", {"name": "call_tool_chain", "arguments": arguments})
        assert answer["result"]["isError"] is True, answer
    sent_as_text = shared.request(
        "tools/call", {"name": "call_tool_chain", "arguments": json.dumps({"code": "return 7"})}
    )
    assert sent_as_text["result"]["content"][0]["text"] == "7"


def test_a_chain_with_its_arguments_sent_as_text_can_ask_and_report_progress(shared: Raw) -> None:
    code = "const { ok } = await demo.confirm({ q: 'sure?' }); await sleep(200); return ok;"
    arguments = json.dumps({"code": code})
    params = {"name": "call_tool_chain", "arguments": arguments, "_meta": {"progressToken": "t"}}
    shared.send({"jsonrpc": "2.0", "id": 900, "method": "tools/call", "params": params})
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1].get("id") != 900:
        seen.append(shared.receive())
        if seen[-1].get("method") == "elicitation/create":
            given = {"action": "accept", "content": {"ok": True}}
            shared.send({"jsonrpc": "2.0", "id": seen[-1]["id"], "result": given})
    assert seen[-1]["result"]["content"][0]["text"] == "true"
    assert [m["params"]["progress"] for m in seen if m.get("method") == "notifications/progress"] == [1]


def test_requests_before_the_handshake_are_answered_and_a_future_version_is_negotiated(fresh: Raw) -> None:
    for given in (b"1.5", b"null", b"true", b"[1]"):
        fresh.send(b'{"jsonrpc":"2.0","id":' + given + b',"method":"ping"}')
        answer = fresh.receive()
        assert answer["id"] is None, given
        assert "string or an integer" in answer["error"]["message"], given
    assert fresh.request("ping")["result"] == {}
    assert "before `initialize`" in fresh.request("tools/list")["error"]["message"]
    assert fresh.request("no/such")["error"]["code"] == -32601
    future = fresh.request("initialize", {**LEGACY, "protocolVersion": "2099-01-01"})
    assert future["result"]["protocolVersion"] in ("2025-11-25", "2025-06-18")
    fresh.initialize()
    assert len(fresh.request("tools/list")["result"]["tools"]) == 7


def test_a_future_version_of_the_stateless_era_is_refused_and_a_known_one_served(fresh: Raw) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    assert "error" in fresh.request("tools/list", {"_meta": meta})
    known = {**meta, "io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert len(fresh.request("tools/list", {"_meta": known})["result"]["tools"]) == 7


def test_batches_and_a_progress_token_of_zero_are_taken_with_and_without_the_shortcut(fresh: Raw) -> None:
    """The first call is served by the SDK, the next ones by the shortcut. The tokens of a widespread SDK begin at 0."""
    fresh.initialize()
    ping = {"jsonrpc": "2.0", "method": "ping"}
    step = "await demo.echo({ n: 1 }); await sleep(200);"
    call = {
        "name": "call_tool_chain",
        "arguments": {"code": f"{step} {step} return 1;"},
        "_meta": {"progressToken": 0},
    }
    for _ in range(2):
        fresh.send(json.dumps([{**ping, "id": 501}, 5, {**ping, "id": "b"}]).encode())
        fresh.send(b"[]")
        before = len(fresh.lines)
        fresh.request("tools/call", call)
        told = [json.loads(line) for line in fresh.lines[before:]]
        progress = [m["params"] for m in told if m.get("method") == "notifications/progress"]
        assert [(p["progressToken"], p["progress"]) for p in progress] == [(0, 1), (0, 2)]
    before = len(fresh.lines)
    fresh.request("tools/call", {**call, "arguments": {"code": "await demo.echo({ n: 1 }); return 1;"}})
    assert not any(b"notifications/progress" in line for line in fresh.lines[before:])
    answered = [json.loads(line).get("id") for line in fresh.lines]
    while min(answered.count(501), answered.count("b")) < 2:
        answered.append(fresh.receive().get("id"))  # answers come in any order
    assert (answered.count(501), answered.count("b")) == (2, 2)


def close_stdin(raw: Raw) -> None:
    assert raw.process.stdin is not None
    raw.process.stdin.close()
    raw.process.stdin = None


def test_what_was_asked_before_stdin_ended_is_answered(fresh: Raw) -> None:
    """As from `printf … | gatemini --direct`: every line is there, then the end."""
    chain = {"name": "call_tool_chain", "arguments": {"code": "return (await demo.add({ a: 1, b: 2 })).sum"}}
    wait = {"name": "call_tool_chain", "arguments": {"code": "await sleep(60_000); return 1"}}
    fresh.initialize()
    assert fresh.chain("return (await demo.add({ a: 1, b: 1 })).sum")["content"][0]["text"] == "2"
    fresh.send({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": wait})
    fresh.send({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": chain})
    fresh.send({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})
    close_stdin(fresh)
    answers: dict[str, Any] = {}
    while len(answers) < 3:
        if (
            ident := (message := fresh.receive()).get("id")
        ) is not None:  # what has changed is told in between
            answers[ident] = message
    assert answers["call"]["result"]["content"][0]["text"] == "3"
    assert len(answers["list"]["result"]["tools"]) == 7
    assert answers["long"]["error"]["message"] == "Connection closed"
    assert fresh.process.wait(WAIT_SECONDS) == 0


def stop_reading(raw: Raw) -> None:
    """Leave stdin open: the gateway finds out when it writes."""
    assert raw.process.stdout is not None
    raw.process.stdout.close()
    raw.process.stdout = None
    code = {"name": "call_tool_chain", "arguments": {"code": "return 1"}}
    raw.send({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": code})


@pytest.mark.parametrize(
    ("end", "exit_code"),
    [
        (close_stdin, 0),
        pytest.param(stop_reading, 0, marks=pytest.mark.long),
        pytest.param(lambda raw: raw.process.terminate(), 0, marks=pytest.mark.long),
        pytest.param(lambda raw: raw.process.send_signal(signal.SIGINT), 0, marks=pytest.mark.long),
        (lambda raw: raw.process.kill(), -signal.SIGKILL),
    ],
    ids=["stdin closed", "stdout closed", "SIGTERM", "SIGINT", "SIGKILL"],
)
def test_no_process_outlives_the_gateway(tmp_path: Path, end: Callable[[Raw], None], exit_code: int) -> None:
    """The backend is a shell that ignores SIGTERM and starts the server as its own child, as npx does."""
    launcher = f'trap "" TERM; "{sys.executable}" -I -S "{ODD}" "{{}}"; true'
    config = write_config(
        tmp_path, {"demo": {"command": "/bin/sh", "args": ["-c", launcher], "shutdown_grace_period": "300ms"}}
    )
    with direct(config) as raw:
        raw.initialize()
        assert raw.chain("return (await demo.echo({ n: 4 })).n;")["content"][0]["text"] == "4"
        family = [p.pid for p in psutil.Process(raw.process.pid).children(recursive=True)]
        assert len(family) >= 2
        end(raw)
        assert raw.process.wait(WAIT_SECONDS) == exit_code
        assert gone(family)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("half.yaml", "backends:\n  a: {command: [", "line"),
        pytest.param("binary.yaml", "\x00\x01\x02\x7f", "text", marks=pytest.mark.long),
        pytest.param("missing.yaml", None, "missing.yaml", marks=pytest.mark.long),
        pytest.param(".", None, "directory", marks=pytest.mark.long),
    ],
)
def test_a_config_that_cannot_be_used_ends_the_start_with_a_clear_error(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    """The other forms of unusable files are tested without a process, in tests/config."""
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gatemini", "--direct", "-c", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert str(path) in done.stderr
    assert said in done.stderr.lower()


def test_without_a_config_the_demo_backends_are_served(tmp_path: Path) -> None:
    with direct(None, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path)) as raw:
        raw.initialize()
        listed = raw.request("tools/call", {"name": "list_tools_meta", "arguments": {"page_size": 500}})
        names = json.loads(listed["result"]["content"][0]["text"])["tools"]
        assert {n.split(".")[0] for n in names} == {"shop", "notes", "clock"}


def test_the_folder_of_the_session_is_that_of_the_gateway(tmp_path: Path) -> None:
    place = {"cwd": "${session.cwd}", "tools": {"where": {"command": "pwd"}}}
    with direct(write_config(tmp_path, {"place": place})) as raw:
        raw.initialize()
        said = raw.chain('{"tool": "place.where", "arguments": {}}')["content"][0]["text"]
    assert said.strip() == str(Path.cwd())
