"""`gatemini --direct` as a process: stdout is protocol only, it ends when it should, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from fixtures.direct import DEMO_SERVER, TESTS, write_config

WAIT_SECONDS = 20.0

LEGACY = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
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
    """One gateway for tests after which it must go on as if nothing had been."""
    with direct(write_config(tmp_path_factory.mktemp("direct"), {})) as raw:
        raw.initialize()
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


def test_a_request_with_half_a_character_is_answered(tmp_path: Path) -> None:
    """As JSON.stringify writes a string that was cut inside an emoji."""
    with direct(write_config(tmp_path, {})) as raw:
        raw.initialize()
        code = b'return \\"\\ud83d\\".length;'
        raw.send(
            b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":'
            b'{"name":"call_tool_chain","arguments":{"code":"' + code + b'"}}}'
        )
        raw._id = 1
        raw.send({"jsonrpc": "2.0", "method": "notifications/nothing"})
        assert raw.process.stdout is not None
        answer = json.loads(raw.process.stdout.readline())
        assert answer["id"] == 2
        assert answer["result"]["content"][0]["text"] == "1"


@pytest.mark.parametrize(
    "bad",
    [
        '{"id":77,"method":"ping"}',
        '{"jsonrpc":"1.0","id":77,"method":"ping"}',
        '{"jsonrpc":"2.0","id":77,"method":"ping","params":[1]}',
    ],
)
def test_a_bad_request_with_a_readable_id_is_not_left_waiting(shared: Raw, bad: str) -> None:
    shared.send(bad.encode())
    assert shared.answer_to(77)["error"]["code"] == -32600


def test_arguments_that_are_no_object_are_a_tool_error(shared: Raw) -> None:
    for arguments in ("return 1", 5, [1], True):
        answer = shared.request("tools/call", {"name": "call_tool_chain", "arguments": arguments})
        assert answer["result"]["isError"] is True, answer
    sent_as_text = shared.request(
        "tools/call", {"name": "call_tool_chain", "arguments": json.dumps({"code": "return 7"})}
    )
    assert sent_as_text["result"]["content"][0]["text"] == "7"


def test_a_future_protocol_version_gets_a_clean_answer(tmp_path: Path) -> None:
    with direct(write_config(tmp_path, {})) as raw:
        answer = raw.request("initialize", {**LEGACY, "protocolVersion": "2099-01-01"})
        assert answer["result"]["protocolVersion"] in ("2025-11-25", "2025-06-18")
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2099-01-01",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    with direct(write_config(tmp_path, {})) as raw:
        assert "error" in raw.request("tools/list", {"_meta": meta})
        known = {**meta, "io.modelcontextprotocol/protocolVersion": "2026-07-28"}
        assert len(raw.request("tools/list", {"_meta": known})["result"]["tools"]) == 7


def test_closing_stdin_ends_the_gateway_and_its_backends(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}})
    with direct(config) as raw:
        raw.initialize()
        assert raw.chain("return (await demo.echo({ n: 4 })).n;")["content"][0]["text"] == "4"
        family = [p.pid for p in psutil.Process(raw.process.pid).children(recursive=True)]
        assert family
        assert raw.process.stdin is not None
        raw.process.stdin.close()
        assert raw.process.wait(WAIT_SECONDS) == 0
        raw.process.stdin = None
        assert gone(family)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_survives_the_gateway(tmp_path: Path, sign: signal.Signals) -> None:
    """As with npx: a shell that starts the server as its own child, ignoring SIGTERM."""
    launcher = f'trap "" TERM; "{sys.executable}" -P "{DEMO_SERVER}"; true'
    config = write_config(
        tmp_path, {"demo": {"command": "/bin/sh", "args": ["-c", launcher], "shutdown_grace_period": "300ms"}}
    )
    with direct(config) as raw:
        raw.initialize()
        assert raw.chain("return (await demo.echo({ n: 4 })).n;")["content"][0]["text"] == "4"
        family = [p.pid for p in psutil.Process(raw.process.pid).children(recursive=True)]
        assert len(family) >= 2
        raw.process.send_signal(sign)
        raw.process.wait(WAIT_SECONDS)
        assert gone(family)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.yaml", "", "empty"),
        ("half.yaml", "backends:\n  a: {command: [", "line"),
        ("half.json", '{"mcpServers": {"a": {"command": "x"', "line"),
        ("list.yaml", "- a\n- b\n", "mapping"),
        ("binary.yaml", "\x00\x01\x02\x7f", "text"),
    ],
)
def test_a_config_that_cannot_be_used_is_a_clear_error(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gatemini", "--direct", "-c", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert name in done.stderr
    assert said in done.stderr.lower()
    assert done.stdout == ""


def test_a_directory_or_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml"):
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


def test_one_bad_backend_never_stops_the_others(tmp_path: Path) -> None:
    config = write_config(
        tmp_path,
        {
            "demo": {"transport": "python", "module": "fixtures.demo_server:server"},
            "gone": {"command": "/no/such/command"},
            "typo": {"comand": "x"},
            "keyless": {"command": "x", "env": {"TOKEN": "${SURELY_NOT_SET_ANYWHERE}"}},
        },
    )
    with direct(config) as raw:
        raw.initialize()
        assert raw.chain("return (await demo.echo({ n: 9 })).n;")["content"][0]["text"] == "9"
        failed = raw.chain("return await gone.x({});")
        assert failed["isError"] is True
        assert "/no/such/command" in failed["content"][0]["text"]


def test_without_a_config_the_demo_backends_are_served(tmp_path: Path) -> None:
    with direct(None, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path)) as raw:
        raw.initialize()
        listed = raw.request("tools/call", {"name": "list_tools_meta", "arguments": {"page_size": 500}})
        names = json.loads(listed["result"]["content"][0]["text"])["tools"]
        assert {n.split(".")[0] for n in names} == {"shop", "notes", "clock"}


def test_a_progress_token_of_zero_is_a_token(tmp_path: Path) -> None:
    """The ids of a widespread SDK begin at 0, and it uses them as tokens."""
    with direct(
        write_config(tmp_path, {"demo": {"transport": "python", "module": "fixtures.demo_server:server"}})
    ) as raw:
        raw.initialize()
        code = "await demo.echo({ n: 1 }); await demo.echo({ n: 2 }); return 1;"
        for _ in range(2):  # the first call goes through the SDK, the next ones take the short way
            before = len(raw.lines)
            raw.request(
                "tools/call",
                {"name": "call_tool_chain", "arguments": {"code": code}, "_meta": {"progressToken": 0}},
            )
            told = [json.loads(line) for line in raw.lines[before:]]
            progress = [m["params"] for m in told if m.get("method") == "notifications/progress"]
            assert [(p["progressToken"], p["progress"]) for p in progress] == [(0, 1), (0, 2)]


def test_a_batch_is_taken_message_by_message(tmp_path: Path) -> None:
    with direct(write_config(tmp_path, {})) as raw:
        raw.initialize()
        ping = {"jsonrpc": "2.0", "method": "ping"}
        for _ in range(2):  # before and after the short way is known
            raw.send(json.dumps([{**ping, "id": 501}, 5, {**ping, "id": "b"}]).encode())
            raw.send(b"[]")
            assert raw.chain("return 1")["content"][0]["text"] == "1"
        answered = [json.loads(line).get("id") for line in raw.lines]
        while min(answered.count(501), answered.count("b")) < 2:
            answered.append(raw.receive().get("id"))  # answers come in any order
        assert (answered.count(501), answered.count("b")) == (2, 2)


def test_a_request_with_an_impossible_id_is_refused_by_name(tmp_path: Path) -> None:
    with direct(write_config(tmp_path, {})) as raw:
        for given, told in ((b"1.5", 1.5), (b"null", None), (b"true", None), (b"[1]", None)):
            raw.send(b'{"jsonrpc":"2.0","id":' + given + b',"method":"ping"}')
            answer = raw.receive()
            assert answer["id"] == told, given
            assert "string or an integer" in answer["error"]["message"], given
        assert raw.initialize()["result"]["serverInfo"]


def test_what_comes_before_the_handshake_is_told_so(tmp_path: Path) -> None:
    with direct(write_config(tmp_path, {})) as raw:
        assert raw.request("ping")["result"] == {}
        assert "before `initialize`" in raw.request("tools/list")["error"]["message"]
        assert raw.request("no/such")["error"]["code"] == -32601
        raw.initialize()
        raw.initialize()
        assert len(raw.request("tools/list")["result"]["tools"]) == 7


def test_a_client_that_reads_no_more_ends_the_gateway(tmp_path: Path) -> None:
    """Its stdin may be held open by somebody else."""
    config = write_config(tmp_path, {"demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}})
    with direct(config) as raw:
        raw.initialize()
        raw.chain("return await demo.echo({});")
        family = [p.pid for p in psutil.Process(raw.process.pid).children(recursive=True)]
        assert raw.process.stdout is not None
        raw.process.stdout.close()
        code = {"name": "call_tool_chain", "arguments": {"code": "return 1"}}
        raw.send({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": code})
        assert raw.process.wait(WAIT_SECONDS) == 0
        assert gone(family)
        raw.process.stdout = None


def test_a_chain_whose_arguments_came_as_text_is_asked_and_told_like_any_other(tmp_path: Path) -> None:
    config = write_config(
        tmp_path, {"demo": {"transport": "python", "module": "fixtures.demo_server:server"}}
    )
    with direct(config) as raw:
        raw.request("initialize", {**LEGACY, "capabilities": {"elicitation": {}}})
        raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        arguments = json.dumps({"code": "return (await demo.confirm({ q: 'sure?' })).ok;"})
        params = {"name": "call_tool_chain", "arguments": arguments, "_meta": {"progressToken": "t"}}
        raw.send({"jsonrpc": "2.0", "id": 900, "method": "tools/call", "params": params})
        assert raw.process.stdout is not None
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1].get("id") != 900:
            seen.append(json.loads(raw.process.stdout.readline()))
            if seen[-1].get("method") == "elicitation/create":
                given = {"action": "accept", "content": {"ok": True}}
                raw.send({"jsonrpc": "2.0", "id": seen[-1]["id"], "result": given})
        assert seen[-1]["result"]["content"][0]["text"] == "true"
        assert [m["params"]["progress"] for m in seen if m.get("method") == "notifications/progress"] == [1]
