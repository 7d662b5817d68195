"""The example agents run unchanged through the proxy: the same answers for a fifth of the input tokens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.agent_model import ShopModel
from fixtures.llm_proxy import environment, running_proxy
from fixtures.llm_upstream import running_provider

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
BASE_URLS = {
    "agent_openai.py": ("OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY"),
    "agent_anthropic.py": ("ANTHROPIC_BASE_URL", "", "ANTHROPIC_API_KEY"),
    "agent_gemini.py": ("GOOGLE_GEMINI_BASE_URL", "", "GEMINI_API_KEY"),
}
SAVINGS = {"context": {"fold": {"keep_turns": 0}, "tools": {}, "history": {}, "cache": {}}}
KEY = "sk-example-5c1f"


def run(program: str, address: str, folder: Path) -> str:
    """What a program prints whose model is at an address."""
    variable, suffix, key = BASE_URLS[program]
    environ = {**environment(folder), variable: address + suffix, key: KEY}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / program)], env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "program",
    [
        "agent_openai.py",  # this library is imported in a fifth of the others' time
        *(pytest.param(each, marks=pytest.mark.long) for each in BASE_URLS if "openai" not in each),
    ],
)
def test_an_agent_gets_the_same_answers_for_a_fifth_of_the_input_tokens(program: str, tmp_path: Path) -> None:
    model = ShopModel()
    with running_provider(model) as provider:
        direct = run(program, provider.url, tmp_path)
        before = sum(len(got.body) for got in provider.got)
        assert len(direct.splitlines()) == 10
        assert model.fetched == 0
        provider.got.clear()
        with running_proxy(provider.url, tmp_path, config=SAVINGS) as proxy:
            assert run(program, proxy.address, tmp_path) == direct
            after = sum(len(got.body) for got in provider.got)
            assert before >= 5 * after
            assert model.fetched >= 2  # details of both results that were folded
            stats = proxy.stats()
            printed = proxy.command("stats").stdout
        assert abs(stats["input_tokens_before"] - before / 4) < 100
        assert abs(stats["input_tokens"] - after / 4) < 100
        times = stats["input_tokens_before"] / stats["input_tokens"]
        assert times >= 5
        assert f"{times:.1f} times fewer" in printed
        assert KEY not in "".join(path.read_text() for path in proxy.state.rglob("*.json"))
