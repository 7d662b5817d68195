"""Commands that need a running gateway, against the real demo backends and a real broken one."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path

import pytest

from fixtures.command_line import Run
from fixtures.direct import write_config
from gatemini.backends.status import BackendStatus, State
from gatemini.cli.doctor_checks import backend_finding, walls_finding
from gatemini.discovery.history import SearchHistory, history_path

CHAIN = """\
const zones: string[] = ["UTC", "Europe/Berlin"];
console.log("looking");
const times = await Promise.all(zones.map((timezone) => clock.now({ timezone })));
return times.map((t) => t.timezone);
"""


def test_a_chain_gives_its_value_on_stdout_and_the_rest_on_stderr(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "chain.ts"
    file.write_text(CHAIN)
    result = run("run", str(file))
    assert (result.code, result.out) == (0, '["UTC","Europe/Berlin"]\n')
    assert result.err.count("✓ clock.now") == 2
    assert "looking" in result.err
    assert "demo backends" in result.err


def test_a_chain_as_json_has_value_and_calls(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "chain.ts"
    file.write_text(CHAIN)
    answer = run("run", str(file), "--json").json
    assert answer["ok"] is True
    assert answer["value"] == ["UTC", "Europe/Berlin"]
    assert [call["tool"] for call in answer["chain"]["calls"]] == ["clock.now", "clock.now"]


def test_full_prints_a_large_value_whole(run: Run) -> None:
    words = ("call", "shop.list_orders", '{"limit": 3000}')
    assert run(*words, "-q").json["orders"]["total_rows"] == 3000
    assert len(run(*words, "--full").json["orders"]) == 3000
    assert len(run(*words, "--full", "--json").json["value"]["orders"]) == 3000


def test_an_invalid_duration_is_refused_with_the_allowed_ones(run: Run) -> None:
    refused = run("call", "clock.now", "--timeout", "soon")
    assert refused.code == 2
    assert "soon: 500ms to 10m" in refused.err


def test_a_failing_chain_fails_with_its_error_text(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "chain.ts"
    file.write_text("const x = 1;\nthrow new Error('no good');")
    result = run("run", str(file))
    assert result.code == 1
    assert result.out == ""
    assert "no good" in result.err
    near = run("run", str(tmp_path / "chian.ts"))
    assert near.code == 2
    assert near.err == f"there is no file {tmp_path / 'chian.ts'}, did you mean {file}?\n"


def test_one_call_with_arguments_checked_before_it_leaves(run: Run) -> None:
    arguments = '{"value": 1, "source": "km", "target": "m"}'
    assert run("call", "clock.convert_units", arguments, "-q").json == {"value": 1000, "unit": "m"}
    failed = run("call", "clock.convert_units", "{}", "--json")
    assert failed.code == 1
    assert "value" in failed.json["error"]
    assert run("call", "clock.convert_units", "[1]").code == 2
    assert run("call", "clock.convert_units", "{").code == 2


def test_search_finds_by_words_and_explains(run: Run, tmp_path: Path) -> None:
    answer = run("search", "convert units of length", "--json").json
    assert answer["results"][0]["name"] == "clock.convert_units"
    explained = run("search", "convert units of length", "--explain")
    assert "clock.convert_units" in explained.out
    assert "tier: " in explained.err
    assert run("search", "zzzzqqqq", "-c", str(write_config(tmp_path, {}))).code == 1


def test_all_tools_are_listed_and_those_of_one_backend(run: Run, tmp_path: Path) -> None:
    rows = run("tools", "--json").json["tools"]
    assert {row["backend"] for row in rows} == {"clock", "notes", "shop"}
    listed = run("tools", "clock").out.splitlines()
    assert [line.split()[0] for line in listed] == [row["name"] for row in rows if row["backend"] == "clock"]
    assert "`gatemini tools`" in run("search", "zzzzqqqq", "-c", str(write_config(tmp_path, {}))).err
    wrong = run("tools", "clok")
    assert (wrong.code, "Did you mean clock?" in wrong.err) == (1, True)
    gone = run("tools", "gone", "-c", str(write_config(tmp_path, {"gone": {"command": "no-such-program-x"}})))
    assert (gone.code, "gone has no tools (stopped: command not found" in gone.err) == (1, True)


def test_a_search_needs_no_quotes_and_json_may_come_first(run: Run, tmp_path: Path) -> None:
    config = ("-c", str(write_config(tmp_path, {"clock": {"module": "gatemini.demo.clock:server"}})))
    quoted = run(*config, "search", "convert a time", "--json").json
    assert run(*config, "--json", "search", "convert", "a", "time").json == quoted
    assert quoted["results"]


def test_arguments_of_a_call_may_be_written_as_pairs(run: Run) -> None:
    answer = run("call", "clock.convert_units", "value=5", "source=km", "target=m", "--json")
    same = run("call", "clock.convert_units", '{"value": 5, "source": "km", "target": "m"}', "--json")
    assert answer.json["value"] == same.json["value"]
    refused = run("call", "clock.convert_units", "value=5", "km")
    assert refused.code == 2
    assert "key=value" in refused.err


def test_an_unknown_name_without_similar_ones_leads_to_gatemini_search(run: Run) -> None:
    told = run("call", "xyzzy_plugh_42").err
    assert "HINT: Use `gatemini search` with what you want to do; backends: clock, notes, shop." in told


def test_info_and_types_show_a_tool_and_name_the_closest_when_it_is_not_there(run: Run) -> None:
    assert run("info", "clock.now", "--json").json["name"] == "clock.now"
    assert "signature: " in run("info", "clock.now").out
    wrong = run("info", "clock.nov")
    assert wrong.code == 1
    assert "clock.now" in wrong.err
    assert "declare const clock" in run("types", "clock").out
    assert run("types", "clok").code == 1


def test_an_unknown_tool_is_an_error_with_code_and_kind(run: Run) -> None:
    told = run("info", "clock.nov", "--json").json
    assert (told["kind"], told["code"]) == ("ToolNotFound", "tool.not_found")
    assert "clock.now" in told["hint"]


def test_a_tool_is_called_by_its_name_alone(run: Run) -> None:
    assert "T" in run("call", "now", "--json").json["value"]["time"]


def test_control_characters_of_a_backend_are_escaped_on_a_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = tmp_path / "chain.ts"
    chain.write_text("console.log('\\u001b[31mred'); return '\\u001b]0;title\\u0007 done';")
    piped = run("run", str(chain))
    assert piped.out == "\x1b]0;title\x07 done\n"
    assert "\x1b" not in piped.err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = run("run", str(chain))
    assert shown.out == "\\u001b]0;title\\u0007 done\n"


@pytest.mark.parametrize("words", [["search", "anything"], ["call", "a.b"], ["types", "a"], ["run", "-"]])
def test_every_command_reports_a_configuration_without_usable_backends(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("return 1"))
    file = tmp_path / "config.yaml"
    file.write_text("semantic: {model: none}\nbackends: [a, b]\n")
    assert "config.yaml:2: backends: found a list" in run(*words, "-c", str(file)).err


def test_a_backend_that_cannot_start_is_named_where_its_tools_are_looked_for(
    run: Run, tmp_path: Path
) -> None:
    file = write_config(tmp_path, {"gone": {"command": "no-such-program-here"}})
    for words in (["search", "anything"], ["search", "anything", "--json"]):
        searched = run(*words, "-c", str(file))
        assert "not running, tools unknown: gone" in searched.out + searched.err
    told = run("info", "gone.tool", "-c", str(file)).err
    assert "gone is not running: command not found: 'no-such-program-here'" in told


def test_stats_count_tools_and_what_they_would_cost(run: Run) -> None:
    answer = run("stats", "--json").json
    assert answer["tools"] == sum(row["tools"] for row in answer["backends"])
    assert answer["catalog_tokens_estimate"] > 100


def test_doctor_finds_no_problem_in_the_demo(run: Run) -> None:
    answer = run("doctor", "--json")
    assert answer.code == 0
    verdicts = {finding["what"]: finding["verdict"] for finding in answer.json["findings"]}
    assert verdicts["backend clock"] == "ok"
    assert verdicts["sandbox"] == "ok"
    seen = {finding["what"]: finding["seen"] for finding in answer.json["findings"]}
    assert seen["search model"] == "bundled"  # loaded, not on its way


def test_doctor_shows_the_walls_of_sandbox_processes_and_those_the_kernel_lacks(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("sandbox: {isolation: process}\nsemantic: {model: none}\n")
    findings = {f["what"]: f for f in run("doctor", "--json", "-c", str(file)).json["findings"]}
    assert findings["sandbox"]["verdict"] == "ok"
    walls = findings["sandbox walls"]
    assert "rlimit_nofile" in walls["seen"]
    lacking = [wall for wall in ("landlock", "seccomp") if wall not in walls["seen"].partition(";")[0]]
    assert walls["verdict"] == ("warn" if lacking else "ok")
    partly = walls_finding(["rlimit_core", "no_new_privs", "landlock abi 4"])
    assert partly.verdict == "warn"
    assert partly.seen.endswith("landlock abi 4; this kernel does not give seccomp")
    assert walls_finding([]).seen.startswith("sandbox processes behind nothing")


def test_doctor_blames_the_limits_and_not_the_guests_file_where_there_is_no_thread(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == "sandbox-epoch":
            raise RuntimeError("can't start new thread")
        starts(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    file = tmp_path / "config.yaml"
    file.write_text("sandbox: {isolation: thread}\nsemantic: {model: none}\n")
    answer = run("doctor", "--json", "-c", str(file))
    assert answer.code == 1
    finding = next(f for f in answer.json["findings"] if f["what"] == "sandbox")
    assert "can't start new thread" in finding["seen"]
    assert "limits of processes, threads" in finding["mend"]
    assert "reinstall" not in finding["mend"]


@pytest.mark.long
def test_doctor_shows_why_the_compiled_guest_cannot_be_kept(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "open" / "gatemini" / "engine"
    engine.mkdir(parents=True)
    engine.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "open"))
    answer = run("doctor", "--json")
    assert answer.code == 0
    finding = next(f for f in answer.json["findings"] if f["what"] == "compiled guest")
    assert finding["verdict"] == "warn"
    assert f"{engine} can be reached by other users" in finding["seen"]
    assert "delete that folder" in finding["mend"]


def test_doctor_says_where_to_look_by_the_kind_of_backend(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "semantic: {model: none}\nbackends:\n  program: {command: sh, args: [-c, exit 3]}\n"
        "  module: {module: 'no.such.module:server'}\n  address: {url: 'http://127.0.0.1:9/mcp'}\n"
        "  tools: {tools: {t: {command: [no-such-program-x]}}}\n"
    )
    mends = {f["what"]: f["mend"] for f in run("doctor", "--json", "-c", str(file)).json["findings"]}
    assert "command, args and env" in mends["backend program"]
    assert "module" in mends["backend module"]
    assert "`url`" in mends["backend address"]
    assert "install it" in mends["backend tools"]
    broken = BackendStatus("x", State.STOPPED, "cli-adapter", error="health_check failed")
    assert "tools' commands" in backend_finding(broken).mend


def test_stderr_lines_that_an_error_quotes_are_not_repeated() -> None:
    lines = ("first", "  at second", "", "third")
    quoted = BackendStatus(
        "x", State.STOPPED, "stdio", error="x exited:\n  at second\n  third", stderr_tail=lines
    )
    assert backend_finding(quoted).seen == "x exited:\n  at second\n  third"
    silent = BackendStatus("x", State.STOPPED, "stdio", error="x timed out", stderr_tail=lines)
    assert backend_finding(silent).seen == "x timed out\nstderr:   at second\nthird"


def test_doctor_does_not_say_that_all_is_well_beside_a_warning(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "semantic: {model: none}\nbackends:\n  clock: {module: 'gatemini.demo.clock:server', fallback_chain: [x]}\n"
    )
    result = run("doctor", "-c", str(file))
    assert result.code == 0
    assert "all is well" not in result.out
    assert "nothing needs a fix" in result.out


def test_a_user_without_a_home_is_served_and_doctor_says_what_cannot_be_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name)

    def nobody(_: int) -> None:
        raise KeyError("as for a user of a container who is in no list")

    monkeypatch.setattr(pytest.importorskip("pwd"), "getpwuid", nobody)
    answer = run("doctor", "--json")
    assert answer.code == 0
    findings = {f["what"]: f for f in answer.json["findings"]}
    assert findings["sandbox"]["verdict"] == "ok"
    for what in ("cache", "compiled guest"):
        assert findings[what]["verdict"] == "warn"
        assert "HOME" in findings[what]["mend"]
    assert list(Path.cwd().iterdir()) == []
    assert run("import", "--json").json["items"] == []
    for words in (("config", "check"), ("search", "x"), ("init",), ("import", "--to")):
        failed = run(*words, *(() if words[-1] == "--to" else ("-c",)), "~/x.yaml")
        assert failed.code in (0, 1)
        assert "InternalError" not in failed.err


def test_doctor_names_aliases_and_composite_tools_with_unknown_tools(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "semantic: {model: none}\nbackends:\n  clock: {module: 'gatemini.demo.clock:server'}\n"
        "  gone: {command: no-such-program-x}\n"
        "aliases: {t: clock.nope, n: clock.now, g: gone.x}\n"
        "composite_tools:\n  wrong: {code: 'return clock.nov({})'}\n  fine: {code: 'return clock.now({})'}\n"
        "  waits: {code: 'return gone.x({})'}\n"
    )
    findings = {f["what"]: f for f in run("doctor", "--json", "-c", str(file)).json["findings"]}
    assert {what for what in findings if what.startswith(("alias", "composite"))} == {
        "alias t",
        "composite tool wrong",
    }
    assert findings["alias t"]["seen"] == "there is no tool clock.nope"
    wrong = findings["composite tool wrong"]
    assert wrong["verdict"] == "fail"
    assert wrong["seen"] == "line 1 of its code calls clock.nov: backend 'clock' has no tool 'nov'"
    assert "Did you mean clock.now" in wrong["mend"]
    told = run("info", "t", "-c", str(file)).err
    assert "'t' is an alias of 'clock.nope', and there is no such tool" in told


def test_doctor_names_what_is_wrong_and_hides_secrets(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSH", "hush-hush-1")
    code = "import os, sys; sys.exit('no licence for ' + os.environ['T'])"
    file = tmp_path / "config.yaml"
    file.write_text(
        f"semantic: {{model: none}}\nbackends:\n  bad: {{command: {sys.executable}, args: [-c, \"{code}\"], env: {{T: '${{HUSH}}'}}}}\n"
        "  gone: {command: no-such-program-here}\n  off: {command: x, env: {T: '${NOT_SET_HERE}'}}\n"
    )
    result = run("doctor", "-c", str(file))
    assert result.code == 1
    assert "no licence for «secret HUSH»" in result.out
    assert "hush" not in (result.out + result.err).replace("HUSH", "")
    assert "no-such-program-here" in result.out
    assert "NOT_SET_HERE is not set" in result.out
    findings = {f["what"]: f for f in run("doctor", "--json", "-c", str(file)).json["findings"]}
    assert findings["config"]["mend"] == "Set NOT_SET_HERE in the environment or a .env file"
    assert "run the command by hand" in findings["backend bad"]["mend"]
    assert "write its full path" in findings["backend gone"]["mend"]


def test_the_sandbox_shows_its_imports_and_no_host_function(run: Run) -> None:
    facts = run("sandbox", "inspect", "--json").json
    assert facts["ok"] is True
    assert facts["host_functions"] == 0
    assert len(facts["guest"]["sha256"]) == 64
    assert len(facts["imports"]) >= 20
    shown = run("sandbox", "inspect").out
    assert facts["guest"]["sha256"] in shown
    assert "refused" in shown


@pytest.mark.long
def test_eval_measures_search_on_the_configured_catalog(run: Run, tmp_path: Path) -> None:
    queries = tmp_path / "queries.json"
    queries.write_text(
        '[{"query": "clock.now", "tools": ["clock.now"]}, {"query": "zzzz", "tools": ["shop.get_order"]}]'
    )
    report = run("eval", str(queries), "--json").json
    assert report["all"]["queries"] == 2
    assert report["all"]["recall"]["5"] == 0.5
    assert [miss["query"]["text"] for miss in report["misses"]] == ["zzzz"]
    shown = run("eval", str(queries))
    assert shown.code == 0
    assert "shop.get_order" in shown.out
    assert run("eval", str(tmp_path / "none.json")).code == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"[" * 100_000, "no JSON"),
        (None, "cannot be read"),
    ],
)
def test_an_invalid_query_file_is_named(run: Run, tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "queries.json"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    refused = run("eval", str(path))
    assert refused.code == 1
    assert str(path) in refused.err
    assert said in refused.err
    assert "Traceback" not in refused.err


def test_tools_missing_in_the_catalog_are_not_counted_as_misses_only(run: Run, tmp_path: Path) -> None:
    queries = tmp_path / "queries.json"
    queries.write_text(
        '\ufeff[{"query": "clock.now", "tools": ["clock.now", "gone.tool"]}]', encoding="utf-8"
    )
    config = write_config(tmp_path, {"clock": {"module": "gatemini.demo.clock:server"}})
    told = run("eval", str(queries), "-c", str(config)).err
    assert "1 of the tools that queries need are not in this catalog: gone.tool" in told


def test_eval_measures_search_on_the_kept_history(run: Run, tmp_path: Path) -> None:
    config = write_config(
        tmp_path, {"demo": {"transport": "python", "module": "fixtures.demo_server:server"}}
    )
    nothing = run("eval", "-c", str(config))
    assert nothing.code == 1
    assert "gatemini eval QUERIES.json" in nothing.err
    history = SearchHistory(history_path(tmp_path / "cache.json"))
    for query, tool in (("add", "demo.add"), ("zzzz", "demo.echo"), ("gone", "demo.long_gone")):
        history.searched("s", query)
        history.called("s", tool)
    history.write()
    report = run("eval", "-c", str(config), "--json").json
    assert report["all"]["queries"] == 2
    assert report["all"]["recall"]["1"] == 0.5
    assert [miss["query"]["text"] for miss in report["misses"]] == ["zzzz"]
