"""`gatemini stats` and `gatemini recent` beside a real gateway that a real client talks to."""

import dataclasses
import json
import re
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from fixtures.backend_bench import ODD
from fixtures.command_line import Run
from fixtures.direct import chain_value, gateway, write_config
from fixtures.running import DEMO, gateway_in_process
from gatemini.app import App
from gatemini.cli.bars import BAR_CELLS, bar
from gatemini.output.store.results import ResultStore


async def _session(folder: Path) -> dict[str, Any]:
    """Three answers to a client's calls; what `gatemini://stats` said at the end, which is one more answer."""
    async with gateway(folder, DEMO) as client:
        await client.call_tool("search_tools", {"task_description": "echo a value"})
        assert await chain_value(client, "return (await demo.rows({ n: 2000 })).length;") == 2000
        failed = await client.call_tool("call_tool_chain", {"code": "await demo.fail({ message: 'no' });"})
        assert failed.is_error
        return await _stats(client)


def test_a_command_that_ended_before_anything_was_listed_hides_no_tools(run: Run, tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    serves = f"import os, runpy, time\n{waits}\nrunpy.run_path({str(ODD)!r}, run_name='__main__')"
    config = write_config(
        tmp_path, {"demo": {"command": sys.executable, "args": ["-I", "-S", "-c", serves, "{}"]}}
    )
    (tmp_path / "chain.ts").write_text("return 1;")
    assert run("run", str(tmp_path / "chain.ts"), "-c", str(config)).code == 0
    go.touch()
    told = run("stats", "--json", "-c", str(config)).json
    assert told["tools"] == sum(row["tools"] for row in told["backends"]) > 0
    assert told["session"]["total_calls"] == 1


def test_stats_list_no_use_by_another_configuration(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    used = str(write_config(tmp_path, DEMO))
    other = str(write_config(tmp_path / "other", DEMO, cache_path=str(tmp_path / "cache.json")))
    assert run("call", "demo.echo", "x=1", "-c", used).code == 0
    assert run("stats", "--json", "-c", used).json["usage"] == {"demo.echo": 1}
    assert run("stats", "--json", "-c", other).json["usage"] == {}


async def _stats(client: Client) -> dict[str, Any]:
    stats: dict[str, Any] = json.loads((await client.read_resource("gatemini://stats")).contents[0].text)  # type: ignore[union-attr]
    return stats


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "handshake"), [("legacy", "initialize"), ("auto", "server/discover")])
async def test_every_answer_is_counted_once_after_it_is_made(
    mode: Any, handshake: str, tmp_path: Path
) -> None:
    async with gateway_in_process(tmp_path, DEMO, mode=mode) as client:
        listed = await client.list_tools()
        result = await client.call_tool("call_tool_chain", {"code": "return await demo.rows({ n: 2000 });"})
        handle = re.search(r"res_[0-9a-f]{8}", result.content[-1].text)[0]  # type: ignore[union-attr,index]
        read = [f"gatemini://result/{handle}", f"gatemini://result/{handle}/1500", "gatemini://overview"]
        sizes = [len((await client.read_resource(uri)).contents[0].text) for uri in read]  # type: ignore[union-attr]
        for unknown in ("gatemini://nothing", "gatemini://result/res_00000000"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(unknown)
            sizes.append(len(str(refused.value)))
        for uri in ("gatemini://recent", "gatemini://health", "gatemini://stats"):
            sizes.append(len((await client.read_resource(uri)).contents[0].text))  # type: ignore[union-attr]
        told = await _stats(client)
        again = await _stats(client)
        instructions = client.instructions or ""
    made = told["per_call"]
    assert [call["tool"] for call in made] == [
        *(handshake, "tools/list", "call_tool_chain"),
        *("gatemini://result", "gatemini://result", "gatemini://overview"),
        *("resources/read", "resources/read", "gatemini://recent", "gatemini://health", "gatemini://stats"),
    ]
    assert made[0]["returned"] == len(instructions) > 0
    assert made[1]["returned"] >= sum(len(tool.description or "") for tool in listed.tools)
    assert [call["returned"] for call in made[3:]] == sizes
    assert told["total_bytes_returned"] == sum(call["returned"] for call in made)
    assert [call["tool"] for call in again["per_call"]] == [
        *(call["tool"] for call in made),
        "gatemini://stats",
    ]


@pytest.mark.anyio
async def test_unknown_names_are_counted_together(tmp_path: Path) -> None:
    async with gateway_in_process(tmp_path, {}, mode="legacy") as client:
        for n in range(3):
            assert (await client.call_tool(f"nothing_{n}", {})).is_error
            with pytest.raises(MCPError):
                await client.get_prompt(f"nothing_{n}")
        told = await _stats(client)
    counted = {row["tool"]: row["calls"] for row in told["per_tool"]}
    assert counted["unknown tools"] == counted["prompts/get"] == 3
    assert not [name for name in counted if "nothing" in name]


@pytest.mark.anyio
async def test_prompts_are_counted_and_a_failed_chain_by_its_error(tmp_path: Path) -> None:
    async with gateway_in_process(tmp_path, DEMO) as client:
        asked = await client.get_prompt("find_tool", {"task": "add two numbers"})
        code = "await demo.rows({ n: 3000 }); return await demo.fail({ message: 'no' });"
        failed = await client.call_tool("call_tool_chain", {"code": code})
        told = await _stats(client)
        calls = json.loads((await client.read_resource("gatemini://recent")).contents[0].text)["recent"]  # type: ignore[union-attr]
    prompt, chain = told["per_call"][-2:]
    assert (prompt["tool"], prompt["returned"]) == (
        "prompt find_tool",
        len(asked.messages[0].content.text.encode()),
    )  # type: ignore[union-attr]
    assert chain["returned"] == len(failed.content[0].text.encode())  # type: ignore[union-attr]
    assert chain["processed"] == chain["returned"], "nothing was reduced"
    assert sum(call["bytes"] for call in calls) > 100_000


@pytest.mark.anyio
async def test_a_stored_result_is_first_parsed_off_the_event_loop(tmp_path: Path) -> None:
    threads: set[int] = set()

    def clock() -> float:
        threads.add(threading.get_ident())
        return 0.0

    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"cache_path": str(tmp_path / "cache.json"), "backends": {}}))
    async with App.open(config, environ={}) as app:
        session = dataclasses.replace(app.new_session(), results=ResultStore(clock=clock))
        handle = session.results.save([{"id": n} for n in range(100)])
        threads.clear()
        _, text = await app.surface(session).read_resource(f"gatemini://result/{handle}/90")
        assert json.loads(text)["rows"][0] == {"id": 90}
        assert threads
        assert threading.get_ident() not in threads


def test_after_a_session_the_terminal_shows_what_each_answer_put_into_the_context(
    run: Run, tmp_path: Path
) -> None:
    told = anyio.run(_session, tmp_path)
    config = str(tmp_path / "config.yaml")
    answer = run("stats", "-c", config, "--json").json
    *before, last = answer["session"]["per_call"]
    assert (before, last["tool"]) == (told["per_call"], "gatemini://stats")
    assert answer["session"]["total_bytes_processed"] == told["total_bytes_processed"] + last["processed"]
    assert answer["backends"][0]["name"] == "demo"
    (row,) = answer["gateways"]
    assert (row["running"], row["answers"], row["calls"]) == (False, len(before) + 1, 2)
    assert row["client"]
    shown = run("stats", "-c", config).out
    assert shown.count("█") >= 3
    assert "search_tools" in shown
    assert run("stats", "-c", config, "--limit", "2").out.count("call_tool_chain") == 1

    calls = run("recent", "-c", config, "--json").json["recent"]
    assert [(call["tool"], call["ok"]) for call in calls] == [("demo.fail", False), ("demo.rows", True)]
    assert len(run("recent", "-c", config, "--limit", "1", "--json").json["recent"]) == 1
    assert "demo.rows" in run("recent", "-c", config).out


def test_a_call_from_the_terminal_is_among_the_recent_ones(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "own.yaml"
    config.write_text(
        json.dumps(
            {
                "cache_path": str(tmp_path / "cache.json"),
                "backends": {"clock": {"transport": "python", "module": "gatemini.demo.clock:server"}},
            }
        )
    )
    assert run("recent", "-c", str(config)).err.count("no gateway") == 1
    assert run("call", "clock.now", "{}", "-c", str(config)).code == 0
    assert "clock.now" in run("recent", "-c", str(config)).out
    assert run("recent", "--limit", "0").code == 2


def test_a_bar_grows_by_what_is_added_and_is_never_longer_than_the_scale() -> None:
    assert bar(0, 100, 100) == "█" * BAR_CELLS
    assert bar(50, 50, 100) == "░" * (BAR_CELLS // 2) + "█" * (BAR_CELLS // 2)
    assert bar(0, 1, 10_000) == "▏"
    assert bar(0, 0, 0) == ""
    assert all(len(bar(n, 1000 - n, 1000)) <= BAR_CELLS + 1 for n in range(1001))
