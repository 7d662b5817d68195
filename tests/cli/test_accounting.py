"""`gatemini stats` and `gatemini recent` beside a real gateway that a real client talks to."""

import json
import sys
from pathlib import Path

import anyio
import pytest

from fixtures.command_line import Run
from fixtures.direct import DEMO_SERVER, chain_value, gateway
from gatemini.cli.accounting import BAR_CELLS, bar

DEMO = {"demo": {"command": sys.executable, "args": ["-P", str(DEMO_SERVER)]}}


async def _session(folder: Path) -> dict[str, object]:
    """Three answers to a client; what `gatemini://stats` said at the end."""
    async with gateway(folder, DEMO) as client:
        await client.call_tool("search_tools", {"task_description": "echo a value"})
        assert await chain_value(client, "return (await demo.rows({ n: 2000 })).length;") == 2000
        failed = await client.call_tool("call_tool_chain", {"code": "await demo.fail({ message: 'no' });"})
        assert failed.is_error
        stats: dict[str, object] = json.loads(
            (await client.read_resource("gatemini://stats")).contents[0].text
        )  # type: ignore[union-attr]
        return stats


@pytest.mark.slow
def test_after_a_session_the_terminal_tells_what_each_answer_put_into_the_context(
    run: Run, tmp_path: Path
) -> None:
    told = anyio.run(_session, tmp_path)
    config = str(tmp_path / "config.yaml")
    answer = run("stats", "-c", config, "--json").json
    assert answer["session"]["per_call"] == told["per_call"]
    assert answer["session"]["total_bytes_processed"] == told["total_bytes_processed"]
    assert answer["backends"][0]["name"] == "demo"
    (row,) = answer["gateways"]
    assert (row["running"], row["answers"], row["calls"]) == (False, 3, 2)
    assert row["client"]
    shown = run("stats", "-c", config).out
    assert shown.count("█") >= 3
    assert "search_tools" in shown
    assert run("stats", "-c", config, "--limit", "1").out.count("call_tool_chain") == 1

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
