"""The audit log of real gateways: calls of every tier, registrations, reloads; full disks and gateways that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from fixtures.direct import TESTS, chain_value, gateway, run_chain, text_of, write_config
from fixtures.running import DEMO, answer, client_of, running_app, threaded_app, until
from gatemini.policy.audit.export import ocsf
from gatemini.policy.audit.files import audit_files
from gatemini.policy.audit.show import Filter, records
from gatemini.policy.audit.verify import verify
from gatemini.policy.canonical import canonical
from gatemini.policy.pins.observed import digest

pytestmark = pytest.mark.anyio

LEDGER = TESTS / "fixtures" / "ledger_server.py"


def written(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    return list(records(audit_files(folder / "audit"), Filter(kind=kind)))


def ledger(folder: Path) -> dict[str, Any]:
    return {"book": {"command": sys.executable, "args": ["-I", "-S", str(LEDGER), str(folder / "ledger")]}}


TIERS = [
    ('{"tool": "demo.add", "arguments": {"a": 1, "b": 2}}', ["demo.add"]),
    ("await demo.add({ a: 1, b: 2 })", ["demo.add"]),
    (
        "const x = await demo.add({ a: 1, b: 2 }); return x + (await demo.add({ a: 1, b: 3 })).length;",
        ["demo.add"] * 2,
    ),
    ("return await composite.twice({});", ["composite.twice", "demo.add"]),
    ("return await demo.readResource('demo://nothing');", ["demo.readResource"]),
    ("return await demo.fail({ message: 'no' });", ["demo.fail"]),
]


async def test_calls_of_every_tier_have_an_intent_and_an_outcome(tmp_path: Path) -> None:
    composite = {"twice": {"code": "return await demo.add({ a: 1, b: 1 });"}}
    async with threaded_app(tmp_path, DEMO, audit={"path": "audit"}, composite_tools=composite) as app:
        for code, _ in TIERS:
            await answer(app, code)
    called = [tool for _, tools in TIERS for tool in tools]
    assert [record["tool"] for record in written(tmp_path, "intent")] == called
    outcomes = {record["intent"]: record["outcome"] for record in written(tmp_path, "outcome")}
    assert list(outcomes.values()).count("ok") == len(called) - 2
    report = verify(audit_files(tmp_path / "audit"))
    assert report.findings == report.unfinished == report.unsealed == []


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_records_have_the_trace_of_the_request_where_it_has_one(tmp_path: Path, mode: str) -> None:
    code = {"code": "const x = await demo.add({ a: 1, b: 2 }); return await composite.twice({});"}
    composite = {"twice": {"code": "return await demo.add({ a: 1, b: 1 });"}}
    top = {
        "audit": {"path": "audit"},
        "composite_tools": composite,
        "policy": {"rules": [{"tools": ["demo.text"], "action": "deny"}]},
    }
    parents = [
        f"00-{TRACE}-00f067aa0ba902b7-01",
        "",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"ff-{TRACE}-x",
        7,
    ]
    async with threaded_app(tmp_path, DEMO, **top) as app, client_of(app, mode=mode) as client:
        for parent in parents:
            meta: Any = {"traceparent": parent}
            assert not (await client.call_tool("call_tool_chain", code, meta=meta)).is_error
        meta = {"traceparent": parents[0]}
        await client.call_tool("call_tool_chain", {"code": "await demo.text({ n: 1 })"}, meta=meta)
    called = written(tmp_path, "intent")
    assert [record.get("trace") for record in called] == [TRACE] * 3 + [None] * 12
    assert [record.get("trace") for record in written(tmp_path, "decision")] == [TRACE]
    assert {record.get("trace") for record in written(tmp_path, "outcome")[:3]} == {TRACE}
    event = json.loads(next(ocsf(called)))
    assert event["metadata"]["correlation_uid"] == TRACE


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_with_an_endless_name_does_not_fill_the_log(tmp_path: Path, mode: str) -> None:
    info = Implementation(name="x" * 1_000_000, version="1")
    async with (
        threaded_app(tmp_path, DEMO, audit={"path": "audit"}) as app,
        client_of(app, client_info=info, mode=mode) as client,
    ):
        await client.call_tool("call_tool_chain", {"code": "return await demo.add({ a: 1, b: 2 })"})
    (intent,) = written(tmp_path, "intent")
    assert intent["client"] == "x" * 200


async def test_a_gateway_without_an_audit_log_writes_none_and_has_no_door(tmp_path: Path) -> None:
    async with threaded_app(tmp_path) as app:
        assert app.chain.door is None
        await answer(app, "await demo.add({ a: 1, b: 2 })")
    assert not (tmp_path / "audit").exists()


async def test_registrations_are_recorded_before_and_after_with_names_of_variables_only(
    tmp_path: Path,
) -> None:
    template = {"name": "near", "command": "true", "env": {"TOKEN": "tok-very-secret"}}
    async with threaded_app(tmp_path, DEMO, audit={"path": "audit"}, registration={"stdio": "deny"}) as app:
        for call in ({"manual_call_template": template}, {}):
            await app.call_meta_tool("register_manual", call)
        await app.call_meta_tool("deregister_manual", {"manual_name": "demo"})
    asked, refused, *_ = made = written(tmp_path, "registration")
    assert asked["template"] == {"name": "near", "command": "true", "env": ["TOKEN"]}
    assert (asked["asked"], refused["outcome"]) == ("register_manual", "registration.refused")
    assert len(made) == 6
    assert "very-secret" not in json.dumps(made)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("extra", ["y" * 1_000_000, nested(300), nested(900)], ids=["long", "deep", "deeper"])
async def test_a_large_registration_is_recorded_as_its_size_and_hash(tmp_path: Path, extra: Any) -> None:
    template = {"name": "n" * 1_000_000, "command": "true", "args": [extra]}
    async with threaded_app(tmp_path, DEMO, audit={"path": "audit"}, registration={"stdio": "deny"}) as app:
        await app.call_meta_tool("register_manual", {"manual_call_template": template})
    asked, _ = written(tmp_path, "registration")
    assert asked["backend"] == "n" * 200
    assert asked["template"] == {"bytes": len(canonical(template)), "sha256": digest(template)}


async def test_a_changed_configuration_is_recorded_with_its_sections(tmp_path: Path) -> None:
    async with running_app(tmp_path, DEMO, audit={"path": "audit"}) as app:
        write_config(tmp_path, DEMO, audit={"path": "audit"}, aliases={"add": "demo.add"})
        await until(lambda: bool(written(tmp_path, "config")))
        assert app.problems() == []
    assert [record["changed"] for record in written(tmp_path, "config")] == [["aliases"]]


async def test_a_gateway_killed_while_a_call_is_under_way_leaves_its_intent(tmp_path: Path) -> None:
    code = '{"tool": "book.write", "arguments": {"key": "k", "seconds": 60}}'

    async with gateway(tmp_path, ledger(tmp_path), top={"audit": {"path": "audit"}}) as client:
        await chain_value(client, '{"tool": "book.look", "arguments": {}}')
        (started,) = written(tmp_path, "start")

        async def lost() -> None:
            with suppress(MCPError):
                await run_chain(client, code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lost)
            await until((tmp_path / "ledger").exists)
            os.kill(started["pid"], signal.SIGKILL)
    report = verify(audit_files(tmp_path / "audit"))
    assert report.findings == []
    assert [each.tool for each in report.unfinished] == ["book.write"]
    assert len(report.unsealed) == 1


LIMITED = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh"]
"""No file of the gateway may have more than 64 blocks of 512 bytes (of 1,024 in some shells)."""


def small_disk(folder: Path) -> list[str] | None:
    """A command that runs another one with a file system of 64 KB at `folder`; None where that is not permitted."""
    line = f"mount -t tmpfs -o size=64k none '{folder}' && exec \"$@\""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", line, "sh"]
    try:
        works = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return None
    return command if works else None


@asynccontextmanager
async def gateway_under(prefix: list[str], config: Path) -> AsyncIterator[Client]:
    command, *words = [*prefix, sys.executable, "-P", "-m", "gatemini", "--direct", "-c", str(config)]
    # Under a limit the interpreter writes bytecode in part, and each later process would read it.
    environ = {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1"}
    parameters = StdioServerParameters(command=command, args=words, env=environ)
    with (config.parent / "stderr.log").open("w") as errlog:
        async with Client(stdio_client(parameters, errlog=errlog)) as client:
            yield client


@pytest.mark.parametrize(
    "how", ["a limit of file sizes", pytest.param("a file system without room", marks=pytest.mark.long)]
)
async def test_on_a_full_disk_no_call_leaves_a_gateway_that_blocks(tmp_path: Path, how: str) -> None:
    (tmp_path / "audit").mkdir()
    prefix = LIMITED if how == "a limit of file sizes" else small_disk(tmp_path / "audit")
    if prefix is None:
        pytest.skip("no file system may be mounted here")
    config = write_config(tmp_path, ledger(tmp_path), audit={"path": "audit", "on_failure": "block"})
    answered, refused = 0, []
    async with gateway_under(prefix, config) as client:
        for number in range(400):
            result = await run_chain(client, f'{{"tool": "book.write", "arguments": {{"key": "{number}"}}}}')
            if not result.is_error:
                answered += 1
            else:
                refused.append(text_of(result))
            if len(refused) == 5:
                break
    assert len(refused) == 5
    assert all(text.startswith("AuditFailed: ") for text in refused), refused
    assert len((tmp_path / "ledger").read_text().splitlines()) == answered > 10
    if prefix == LIMITED:
        assert len(written(tmp_path, "intent")) == answered
        assert verify(audit_files(tmp_path / "audit")).findings == []
