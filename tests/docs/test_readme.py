"""README's examples do what they say: the chain runs on the demo backends, the configuration loads."""

import json
import re
from pathlib import Path

import pytest
import yaml

from gatemini.app import App
from gatemini.config.load import load_config

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


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


def test_the_configuration_of_the_readme_loads_without_a_finding(tmp_path: Path) -> None:
    (example,) = fenced("yaml")
    assert len([line for line in example.splitlines() if line.strip()]) <= 15
    path = tmp_path / "config.yaml"
    path.write_text(example)
    loaded = load_config(path, environ={"HOME": "/home/you", "TRACKER_TOKEN": "t0ken"}, config_dir=tmp_path)
    assert loaded.problems == ()
    assert set(loaded.config.backends) == set(yaml.safe_load(example)["backends"])


def test_the_client_entry_of_the_readme_is_json_and_names_direct_mode() -> None:
    (entry,) = fenced("json")
    assert json.loads(entry)["mcpServers"]["gatemini"]["args"][0] == "--direct"
