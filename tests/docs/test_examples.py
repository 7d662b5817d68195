"""Examples of the pages that are no chains of the getting-started: they do what the page says."""

import json
import re
from pathlib import Path

import pytest

from gatemini.app import App
from gatemini.cli.main import dispatch
from gatemini.config.load import load_config

RERUNS = (Path(__file__).resolve().parents[2] / "docs" / "concepts" / "reruns.md").read_text()
DEMO = "backends:\n  shop: {module: 'gatemini.demo.shop:server'}\n  clock: {module: 'gatemini.demo.clock:server'}\n"


@pytest.mark.anyio
async def test_the_composite_tool_of_the_page_answers_under_both_of_its_names(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(composite_tools:\n.*?)^```$", RERUNS, re.MULTILINE | re.DOTALL)
    config = tmp_path / "config.yaml"
    config.write_text(f"semantic: {{model: none}}\n{DEMO}{example}")
    async with App.open(config, environ={}) as app:
        assert app.loaded.problems == ()
        assert await app.settled(60)
        for name in ("composite.ring_now", "__composite.ring_now"):
            call = {"tool": name, "arguments": {"customer_id": 27}}
            answer = await app.call_meta_tool("call_tool_chain", {"code": json.dumps(call)})
            assert answer["isError"] is False, answer["content"]
            value = json.loads(answer["content"][0]["text"])
            assert re.fullmatch(r"\d\d:\d\d", value["local_time"])
            info = await app.call_meta_tool("tool_info", {"tool_name": name})
            assert json.loads(info["content"][0]["text"])["name"] == "__composite.ring_now"


def test_the_example_of_a_policy_has_no_findings_and_its_cases_come_out_as_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    examples = Path(__file__).resolve().parents[2] / "docs" / "examples"
    config, cases = examples / "policy.yaml", examples / "policy-cases.yaml"
    assert load_config(config, environ={}).problems == ()
    assert dispatch(["policy", "test", str(cases), "-c", str(config)]) == 0, capsys.readouterr().out
