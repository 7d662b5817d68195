"""README's examples do what they say: chain and search on the demo backends, configuration, clients, figures."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from gatemini import demo
from gatemini.app import App
from gatemini.cli.main import COMMANDS
from gatemini.config.clients.own_entry import stdio_entry
from gatemini.config.clients.table import INSTALLS
from gatemini.config.load import load_config

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.anyio
async def test_the_chain_of_the_readme_runs_on_the_demo_backends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # no configuration: the demo backends
    (chain,) = fenced("ts")
    async with App.open(None, environ={}) as app:
        assert await app.settled(60)
        result = await app.call_meta_tool("call_tool_chain", {"code": chain})
    assert result["isError"] is False, result["content"]
    lines = json.loads(result["content"][0]["text"])
    assert len(lines) == 3
    assert all(re.fullmatch(r".+: \d\d:\d\d", line) for line in lines)


@pytest.mark.anyio
async def test_the_search_of_the_readme_gives_what_it_shows(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^search_tools (\{.*\})\n  → (\S+) +(.+?)   +(.+)\n +(.+)$", README, re.MULTILINE)
    asked, name, description, call, types = shown
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"backends": {b.name: {"module": b.module} for b in demo.backends()}}))
    async with App.open(config, environ={}) as app:
        assert await app.settled(60)
        await app.embedding.ready()
        answer = await app.call_meta_tool("search_tools", json.loads(asked))
    first = json.loads(answer["content"][0]["text"])["results"][0]
    assert [first["name"], first["description"], first["call"]] == [name, description, call]
    parts = [re.escape(part) for part in types.removesuffix("   …").split("…")]
    assert re.fullmatch(".*".join(parts), f"{first['args']} → {first['returns']}")


def test_the_figures_of_the_readme_are_those_of_the_pages() -> None:
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text()
    discovery = (ROOT / "docs" / "concepts" / "discovery.md").read_text()
    flow = re.findall(r"\| ([\d,]+) tokens instead of ([\d,]+) for all schemas \|", README)
    every = re.findall(r"^\| every schema, as without a gateway \| ([\d,]+) \|$", discovery, re.MULTILINE)
    some = re.findall(r"^\| a search, two brief looks, one full look \| ([\d,]+) ", discovery, re.MULTILINE)
    assert flow == [(*some, *every)]
    (said,) = re.findall(r"\| (\d+) KB instead of ([\d,]+) KB: (\d+) % less \|", README)
    (whole,) = re.findall(r"^\| in all \| ([\d,.]+) \| .* \| ([\d,.]+) \|$", benchmarks, re.MULTILINE)
    most, least = (float(figure.replace(",", "")) for figure in whole)
    assert said == (f"{least:.0f}", f"{most:,.0f}", f"{100 - 100 * least / most:.0f}")
    (times,) = re.findall(r"\| (\d+) ms; FastMCP's code mode (\d+) ms \|", README)
    (measured,) = re.findall(r"^\| 50 calls at once \| ([\d.]+) \| ([\d.]+) \|", benchmarks, re.MULTILINE)
    assert times == tuple(f"{float(figure):.0f}" for figure in measured)


def test_every_command_of_the_readme_exists() -> None:
    lines = "".join(fenced("sh")).splitlines()
    used = [words[1] for words in map(str.split, lines) if words[:1] == ["gatemini"]]
    assert {"install", "search"} <= set(used)
    assert [name for name in used if name not in COMMANDS] == []
    targets = [words[1] for words in map(str.split, lines) if words[:1] == ["make"]]
    makefile = (ROOT / "Makefile").read_text()
    assert targets == [name for name in targets if f"\n{name}:" in makefile]


def test_the_configuration_of_the_readme_loads_without_a_finding(tmp_path: Path) -> None:
    (example,) = fenced("yaml")
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    path = tmp_path / "config.yaml"
    path.write_text(example)
    loaded = load_config(path, environ={"HOME": "/home/you", "TRACKER_TOKEN": "t0ken"}, config_dir=tmp_path)
    assert loaded.problems == ()
    assert set(loaded.config.backends) == set(yaml.safe_load(example)["backends"])


def test_the_client_entries_of_the_readme_are_those_that_install_writes() -> None:
    (entry,), (codex,) = fenced("json"), fenced("toml")
    server = json.loads(entry)["mcpServers"]["gatemini"]
    assert tomllib.loads(codex)["mcp_servers"]["gatemini"] == server
    assert stdio_entry(INSTALLS["cursor"], [server["command"]], None) == server
    assert "--direct" not in "".join((*fenced("json"), *fenced("toml"), *fenced("sh")))
    (named,) = re.findall(r"The clients are\n(.+?); `--all`", README, re.DOTALL)
    assert set(re.findall(r"`(.+?)`", named)) == set(INSTALLS)
