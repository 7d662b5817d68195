"""A key that backends repeat in every place where a backend may say something is found in none that a gateway writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp_types import (
    ElicitResult,
    EmptyResult,
    ResourceTemplateReference,
    SetLevelRequest,
    SetLevelRequestParams,
)

from fixtures import engine_cache
from fixtures.command_line import Ran
from fixtures.direct import TESTS, gateway_parameters, write_config
from gatemini.cli.main import dispatch

SECRET = 'sk_live"9fZ+q/7Lw=x81'
"""With characters that JSON, URLs and header values write in other ways."""
PIECE = "9fZ+q/7Lw"
"""Enough of it to know it by, in whatever way the rest was written."""
INDISCREET = TESTS / "fixtures" / "indiscreet_server.py"
WAYS = ("text", "structured", "error", "image", "link", "unknown", "rows", "rpc_error", "notify", "ask")

pytestmark = [pytest.mark.anyio]


class _Telltale(BaseHTTPRequestHandler):
    """Refuses everybody, and repeats in status line, header and body what it was sent."""

    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key = self.headers.get("Authorization", "")
        body = json.dumps({"error": f"bad key {key} for {self.path}"}).encode()
        self.send_response(403, f"no entry with {key}")
        self.send_header("WWW-Authenticate", f'Bearer error="{key}"')
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = _refuse

    def log_message(self, *_: Any) -> None:
        """Nothing on the test's stderr."""


@contextmanager
def telltale() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Telltale)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def backends(port: int) -> dict[str, Any]:
    python, env = [sys.executable, "-I", "-S", str(INDISCREET)], {"TOKEN": "${THE_KEY}"}
    headers = {"Authorization": "Bearer ${THE_KEY}"}
    run = {"description": "Runs.", "command": [*python, "cli"]}
    return {
        "spy": {"command": python[0], "args": python[1:], "env": env},
        "exits": {"command": python[0], "args": [*python[1:], "start"], "env": env},
        "web": {"url": f"http://127.0.0.1:{port}/mcp?key=${{THE_KEY}}", "headers": headers},
        "nowhere": {"url": "http://${THE_KEY}@127.0.0.1:1/mcp", "headers": headers},
        "absent": {"command": "no-such-program-here", "args": ["--key", "secretref:env:THE_KEY"]},
        "shell": {"transport": "cli-adapter", "env": env, "tools": {"run": run}},
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key is the only thing that the gateway and the commands below share with this machine's user."""
    home = tmp_path / "home"
    home.mkdir()
    engine_cache.share(home / "cache")
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "CACHE", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("THE_KEY", SECRET)
    return home


def recorded(config: Path, home: Path) -> StdioServerParameters:
    """The gateway as a client starts it; every byte it says to the client also goes to a file."""
    plain = gateway_parameters(config)
    line = f'"$0" "$@" | tee "{home}/wire.log"'
    env = {**(plain.env or {}), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "THE_KEY": SECRET}
    return StdioServerParameters(command="sh", args=["-c", line, plain.command, *plain.args], env=env)


async def ask_for_everything(client: Client) -> None:
    """Every tool, resource, prompt and completion there is, and each way in which a call can go."""
    request = SetLevelRequest(params=SetLevelRequestParams(level="debug"))
    await client.session.send_request(request, EmptyResult)
    await client.list_tools()
    await client.list_prompts()
    uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
    await client.list_resource_templates()
    await client.call_tool("list_tools_meta", {})
    for task in ("tells secrets", f"what is {SECRET} for"):
        await client.call_tool("search_tools", {"task_description": task})
        await client.get_prompt("find_tool", {"task": task})
    for prompt in ("discover", "health"):
        with suppress(MCPError):
            await client.get_prompt(prompt)
    tool = ResourceTemplateReference(uri="gatemini://tool/{name}")
    for name in ("name", "backend", "tool"):
        await client.complete(tool, {"name": name, "value": "spy"})
    for tool in ("spy.tell", f"spy.whisper_{SECRET}", "spy.broken", f"spy.{SECRET}"):
        await client.call_tool("tool_info", {"tool_name": tool, "detail": "full"})
        await client.call_tool("get_required_keys_for_tool", {"tool_name": tool})
    for way in WAYS:
        for code in (
            f'const told = await spy.tell({{ how: "{way}" }}); await sleep(80); return told;',
            f'try {{ const r = await spy.tell({{ how: "{way}" }}); console.log(r); throw r; }} '
            "catch (e) { console.log(e); throw new Error(JSON.stringify([e, e.message])); }",
        ):
            seen: list[str | None] = []

            async def progress(_done: float, _total: float | None, message: str | None) -> None:
                seen.append(message)  # noqa: B023 - used up within this turn

            await client.call_tool("call_tool_chain", {"code": code}, progress_callback=progress)
    for code in (
        f"return await spy[{json.dumps('whisper_' + SECRET)}]({{}});",
        "return await spy.tell({ how: 5 });",
        "return await shell.run({});",
        "return await web.anything({});",
        "return await spy.tell({ how: 'die' });",
    ):
        await client.call_tool("call_tool_chain", {"code": code})
    uris += [str(resource.uri) for resource in (await client.list_resources()).resources]
    uris += ["gatemini://backend/spy", "gatemini://tool/spy.tell"]
    for uri in dict.fromkeys(uris):
        with suppress(MCPError):  # what it says is on the wire as well
            await client.read_resource(uri)


async def drive(folder: Path, config: Path, home: Path) -> None:
    async def elicited(_context: Any, params: Any) -> ElicitResult:
        assert PIECE not in params.model_dump_json()
        return ElicitResult(action="accept", content={"ok": True})

    async def told(_: Any) -> None:
        """That it has one makes the client ask for logs."""

    with (folder / "stderr.log").open("w") as errlog:
        transport = stdio_client(recorded(config, home), errlog=errlog)
        async with Client(
            transport, elicitation_callback=elicited, logging_callback=told, mode="legacy"
        ) as client:
            await ask_for_everything(client)
            health = await client.read_resource("gatemini://health")
            assert "spy" in health.contents[0].model_dump_json()


def files_with_it(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and PIECE.encode() in path.read_bytes()]


async def test_a_key_that_backends_repeat_is_on_no_wire_and_in_no_file(tmp_path: Path, home: Path) -> None:
    with telltale() as port:
        config = write_config(tmp_path, backends(port), log_level="debug")
        await drive(tmp_path, config, home)
    wire = (home / "wire.log").read_text()
    assert wire.count("«secret THE_KEY»") > 50, "the backends did say it"
    assert "notifications/message" in wire
    assert "notifications/progress" in wire
    assert "elicitation/create" in wire
    for name in ("cache.json", "searches.jsonl", "stderr.log"):
        assert "secret THE_KEY" in (tmp_path / name).read_text(), name
    assert list((tmp_path / "accounts").iterdir())
    assert files_with_it(tmp_path) == []
    assert files_with_it(home) == []


@pytest.mark.long
def test_a_key_that_backends_repeat_is_printed_by_no_command(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with telltale() as port:
        config = write_config(tmp_path, backends(port), log_level="debug")

        def ran(*words: str) -> Ran:
            capsys.readouterr()
            code = dispatch([*words, "-c", str(config)])
            captured = capsys.readouterr()
            return Ran(code, captured.out, captured.err)

        said = ""
        queries = tmp_path / "queries.json"
        queries.write_text(json.dumps([{"query": "tells secrets", "tools": ["spy.whisper"]}]))
        for words in (
            ("doctor",),
            ("doctor", "--json"),
            ("search", "tells secrets", "--explain"),
            ("search", "tells secrets", "--json"),
            ("info", "spy.tell", "--full"),
            ("info", f"spy.whisper_{SECRET}", "--full", "--json"),
            ("info", f"spy.{SECRET}"),
            ("types", "spy"),
            ("types", "exits"),
            ("call", "spy.tell", '{"how": "structured"}', "--json"),
            ("call", "spy.tell", '{"how": "error"}'),
            ("call", "spy.tell", '{"how": "die"}'),
            ("call", "shell.run"),
            ("stats",),
            ("recent", "--json"),
            ("eval", str(queries), "--json"),
            ("config", "show"),
            ("config", "check"),
        ):
            done = ran(*words)
            assert PIECE not in done.out + done.err, words
            said += done.out + done.err
    assert said.count("«secret THE_KEY»") > 20, "the backends did say it"
    assert files_with_it(tmp_path) == []


def test_the_answer_of_a_call_from_the_terminal_is_whole_but_for_the_key(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, {"spy": backends(1)["spy"]})
    assert dispatch(["call", "spy.tell", '{"how": "text"}', "-c", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == "text «secret THE_KEY»"
