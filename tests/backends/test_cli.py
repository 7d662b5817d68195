"""Command lines as tools: values stay values, failures say why, processes end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.backend_bench import Bench, running_bench
from gatemini.backends.status import State
from gatemini.config.model.command_template import TemplateError, command_line, stdin_text, words_of
from gatemini.config.model.schema import BackendConfig, CliTool, HealthConfig
from gatemini.errors import BackendStopped, BackendTimeout, ResultTooLarge
from gatemini.processes.workers.compute_process import LARGE_BYTES

pytestmark = pytest.mark.anyio

SHOW = [sys.executable, "-I", "-S", "-c", "import sys, json; print(json.dumps(sys.argv[1:]))"]
text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)


def cli(**tools: Any) -> BackendConfig:
    return BackendConfig.model_validate({"name": "odd", "tools": tools, "shutdown_grace_period": 0.3})


@given(text)
def test_a_value_is_never_more_or_less_than_its_place_in_one_argument(value: str) -> None:
    tool = CliTool(command="prog --name={{v}} 'a b' x{{ v }}y")
    assert command_line(tool, {"v": value}) == ["prog", f"--name={value}", "a b", f"x{value}y"]


@given(text)
def test_a_value_with_a_leading_dash_is_refused_where_it_begins_an_argument(value: str) -> None:
    tool = CliTool(command=("prog", "{{v}}"))
    if value.startswith("-"):
        with pytest.raises(TemplateError, match="allow_leading_dash"):
            command_line(tool, {"v": value})
        allowed = tool.model_copy(update={"allow_leading_dash": True})
        assert command_line(allowed, {"v": value}) == ["prog", value]
    else:
        assert command_line(tool, {"v": value}) == ["prog", value]


def test_values_of_other_types_are_json_and_defaults_come_from_the_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"default": 5}, "m": {}}}
    tool = CliTool(command=["p", "{{n}}", "{{m}}"], input_schema=schema, stdin="<{{m}}>")
    assert command_line(tool, {"m": {"a": [True]}}) == ["p", "5", '{"a":[true]}']
    assert stdin_text(tool, {"m": "x"}) == b"<x>"
    with pytest.raises(TemplateError, match="m is not given"):
        command_line(tool, {"n": 1, "m": None})
    with pytest.raises(TemplateError, match="NUL"):
        command_line(tool, {"m": "a\x00b"})


def test_the_program_cannot_be_a_parameter() -> None:
    for command in ("{{p}} x", ["{{p}}"], ["/bin/{{p}}"]):
        with pytest.raises(TemplateError, match="program"):
            words_of(CliTool(command=command))


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "' ; touch pwned '",
    '" ; touch pwned "',
    "*",
    "a  b",
    "$HOME",
    "\n",
]


@pytest.mark.parametrize("template", ["{{v}}", '"{{v}}"', "'{{v}}'", 'x\\"{{v}}', '"it\'s {{v}}"'])
async def test_a_shell_never_interprets_a_value(bench: Bench, tmp_path: Path, template: str) -> None:
    script = f"{sys.executable} -I -S -c 'import sys, json; print(json.dumps(sys.argv[1:]))' {template}"
    bench.manager.add(cli(show={"command": script, "shell": True, "output": "json", "cwd": str(tmp_path)}))
    for value in HOSTILE:
        (shown,) = (await bench.call("show", {"v": value})).result["structuredContent"]
        assert shown.endswith(value.strip("\n"))
    assert not (tmp_path / "pwned").exists()


async def test_output_is_text_lines_or_json(bench: Bench) -> None:
    line = [*SHOW, "{{a}}"]
    bench.manager.add(
        cli(
            t={"command": line},
            l={"command": ["printf", "a\nb\n"], "output": "lines"},
            j={"command": line, "output": "json"},
            bad={"command": ["echo", "no json"], "output": "json"},
            bom={"command": ["printf", "\\357\\273\\277[1]"], "output": "json"},
            cat={"command": ["cat"], "stdin": "{{a}}"},
        )
    )
    assert (await bench.call("t", {"a": "ü"})).result["content"][0]["text"] == '["\\u00fc"]'
    assert (await bench.call("l")).result["structuredContent"] == ["a", "b"]
    assert (await bench.call("j", {"a": "x"})).result["structuredContent"] == ["x"]
    assert (await bench.call("bom")).result["structuredContent"] == [1]
    assert "not JSON" in (await bench.call("bad")).result["content"][0]["text"]
    assert (await bench.call("cat", {"a": "q" * 200_000})).result["content"][0]["text"] == "q" * 200_000


async def test_a_failing_command_is_an_error_result_with_code_stderr_and_stdout(bench: Bench) -> None:
    failing = {"command": "echo out; echo why >&2; exit 3", "shell": True}
    bench.manager.add(cli(f=failing, e={"command": ["echo", "{{v}}"]}))
    result = (await bench.call("f")).result
    assert result["isError"] is True
    for part in ("exited with code 3", "why", "out"):
        assert part in result["content"][0]["text"]
    assert result["structuredContent"]["exit_code"] == 3
    refused = (await bench.call("e", {"v": "-rf"})).result
    assert refused["isError"] is True
    assert "allow_leading_dash" in refused["content"][0]["text"]


async def test_a_command_over_its_time_is_ended_with_all_it_started(bench: Bench) -> None:
    slow = {"command": "sleep 600 & sleep 600", "shell": True}
    bench.manager.add(cli(own={**slow, "timeout": "200ms"}, callers=slow))
    with pytest.raises(BackendTimeout, match="its timeout"):
        await bench.call("own")
    with pytest.raises(BackendTimeout):
        await bench.call("callers", timeout=0.2)


async def test_background_processes_of_a_command_end_and_do_not_delay_the_answer(
    bench: Bench,
) -> None:
    bench.manager.add(cli(f={"command": "sleep 600 & echo done", "shell": True}))
    assert (await bench.call("f")).result["content"][0]["text"] == "done"


async def test_output_beyond_the_limit_ends_the_command_by_name(bench: Bench) -> None:
    config = cli(f={"command": ["yes"]}).model_copy(update={"max_message_mb": 1})
    bench.manager.add(config)
    with pytest.raises(ResultTooLarge, match="max_message_mb"):
        await bench.call("f", timeout=10)


async def test_no_more_than_five_commands_run_at_once_by_default(bench: Bench, tmp_path: Path) -> None:
    count = "touch $$.run; ls *.run | wc -l; sleep 0.1; rm $$.run"
    bench.manager.add(cli(f={"command": count, "shell": True, "cwd": str(tmp_path)}))
    seen: list[int] = []

    async def one() -> None:
        seen.append(int((await bench.call("f", timeout=15)).result["content"][0]["text"]))

    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(one)
    assert len(seen) == 12
    assert max(seen) <= 5


async def test_a_missing_program_is_named_at_start_or_at_the_call(bench: Bench) -> None:
    bench.manager.add(cli(gone={"command": ["no-such-program"]}, there={"command": ["echo", "yes"]}))
    assert (await bench.call("there")).result["content"][0]["text"] == "yes"
    with pytest.raises(BackendStopped, match="no-such-program"):
        await bench.call("gone")
    bench.manager.add(cli(gone={"command": ["no-such-program"]}).model_copy(update={"name": "all"}))
    with pytest.raises(BackendStopped, match="no-such-program"):
        await bench.call("gone", name="all")


async def test_the_health_check_is_the_probe(tmp_path: Path, quick_health: HealthConfig) -> None:
    flag = tmp_path / "well"
    flag.touch()
    config = BackendConfig.model_validate(
        {"name": "odd", "tools": {"t": {"command": ["echo", "x"]}}, "health_check": ["test", "-e", str(flag)]}
    )
    async with running_bench(tmp_path, health=quick_health) as bench:
        bench.manager.add(config)
        await bench.until(lambda: bench.manager.state("odd") is State.HEALTHY)
        flag.unlink()
        await bench.until(lambda: bench.manager.state("odd") is State.UNHEALTHY)
        assert "run its health_check by hand" in (bench.manager.status("odd").remedy or "")
        flag.touch()
        await bench.until(lambda: bench.manager.state("odd") is State.HEALTHY)


async def test_a_large_output_arrives_whole(bench: Bench) -> None:
    code = "import sys; print('[' + '1,' * int(sys.argv[1]) + '1]')"
    command = [sys.executable, "-I", "-S", "-c", code, "{{n}}"]
    bench.manager.add(cli(t={"command": command, "output": "json"}))
    found = (await bench.call("t", {"n": LARGE_BYTES})).result["structuredContent"]
    assert len(found) == LARGE_BYTES + 1


async def test_a_command_sees_a_clean_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "secret")
    config = cli(env={"command": ["env"]}).model_copy(update={"env": {"MINE": "1"}})
    bench.manager.add(config)
    shown = (await bench.call("env")).result["content"][0]["text"]
    assert "MINE=1" in shown
    assert "secret" not in shown
    assert json.dumps(sorted(t.name for t in bench.tools["odd"] or [])) == '["env"]'
