"""A configuration from file to `Loaded`: variables, findings, and one bad backend that stops no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.cli.config import masked
from gatemini.config.build import SWITCHED_OFF
from gatemini.config.load import Loaded, load_config
from gatemini.config.registered_backend import dynamic_backend
from gatemini.config.session_values import SessionValues, for_session
from gatemini.errors import BackendStopped, ConfigError

Load = Callable[..., Loaded]
KEY = 'a"b: #c\nd'
VARIABLES = """\
backends:
  a: { command: srv, env: { TOKEN: "${MISSING_ONE}" } }
  b: { command: srv, args: ["--url", "${HOST:-localhost}:${PORT:-80}", "$$HOME", "${env:USER}"] }
  c: { url: "https://x/y?k=${KEY}", headers: { Authorization: "Bearer ${KEY}" } }   # note: ${NOT_USED}
  d: { url: "https://x/y?k=${KEY}" }
"""


def refused(load: Load, text: str) -> list[dict[str, Any]]:
    """The findings of a configuration that stops the start."""
    with pytest.raises(ConfigError) as caught:
        load(text)
    found: list[dict[str, Any]] = caught.value.details["problems"]
    return found


def one(loaded: Loaded, key: str) -> str:
    """The text of the only finding at a key."""
    (text,) = [p.text() for p in loaded.problems if p.key == key]
    return text


def test_a_missing_variable_disables_only_the_backend_that_needs_it(load: Load) -> None:
    loaded = load(VARIABLES, {"KEY": KEY, "USER": "me"})
    assert loaded.disabled["a"] == (
        "MISSING_ONE is not set (backends.a.env.TOKEN). Set MISSING_ONE in the environment or a .env file"
    )
    assert loaded.config.backends["b"].args == ("--url", "localhost:80", "$HOME", "me")
    assert set(loaded.config.backends) == {"b", "d"}


def test_a_value_with_quotes_hash_and_newline_stays_a_value(load: Load) -> None:
    loaded = load(VARIABLES, {"KEY": KEY, "USER": "me"})
    assert loaded.config.backends["d"].url == "https://x/y?k=a%22b%3A%20%23c%0Ad"


def test_a_header_refuses_a_newline_naming_the_variable_and_never_the_value(load: Load) -> None:
    loaded = load(VARIABLES, {"KEY": KEY, "USER": "me"})
    assert "the value of KEY holds a newline" in loaded.disabled["c"]
    assert "backends.c.headers.Authorization" in loaded.disabled["c"]
    everything = repr(loaded) + "".join(p.text() for p in loaded.problems) + str(loaded.disabled)
    assert "#c" not in everything.replace("%23c", "")
    assert "%23c" not in everything


def test_the_bound_of_a_duration_is_shown_with_its_unit(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"found '20m' \(allowed: at most 600 s\)"):
        load("sandbox: {timeout: 20m}\n")


def test_a_variable_without_a_value_is_one_finding_for_all_its_places(load: Load) -> None:
    written = (
        "{command: sh, env: {T: '${NOPE}', U: '${NOPE}'}, args: ['${NOPE}', '${OTHER}'], disabled: '${NOPE}'}"
    )
    loaded = load(f"backends:\n  a: {written}\n")
    assert [problem.found for problem in loaded.problems] == [
        "NOPE is not set (also used in env.T, env.U, args[0])",
        "OTHER is not set",
    ]


def test_texts_that_the_model_takes_for_true_disable(load: Load) -> None:
    for word in ("'yes'", "yes", "' On '", "y", "'1'", "true"):
        assert load(f"backends: {{a: {{command: sh, disabled: {word}}}}}").disabled == {"a": SWITCHED_OFF}
    assert set(load("backends: {a: {command: sh, disabled: 'no'}}").config.backends) == {"a"}


def test_every_finding_names_file_line_key_and_the_closest_key(load: Load) -> None:
    loaded = load("backends:\n  a:\n    command: x\n    timout: 3s\n  b: {command: y}\n")
    text = one(loaded, "backends.a.timout")
    assert text.endswith(
        "config.yaml:4: backends.a.timout: unknown key timout, did you mean timeout? Write timeout"
    )
    assert set(loaded.config.backends) == {"b"}


@pytest.mark.parametrize(
    ("backend", "key", "says"),
    [
        ("{}", "", "has neither command nor url"),
        ("", "", "found nothing"),
        ("[x]", "", "is not a mapping"),
        ("{command: x, url: 'https://h/'}", "", "has command and url together"),
        ("{command: x, args: --flag}", ".args", "a list"),
        ("{command: [npx, -y, x]}", ".command", "Write its first word as command"),
        ("{command: x, environment: {A: b}}", ".environment", "the key is env"),
        ("{command: x, enviroment: {A: b}}", ".enviroment", "did you mean env?"),
        ("{command: x, tags: web}", ".tags", "a list"),
        ("{command: x, timeout: soon}", ".timeout", "500ms, 30s, 5m or 1h"),
        ("{command: x, timeout: 0}", ".timeout", "above 0 and at most 168h"),
        ("{command: x, timeout: .inf}", ".timeout", "500ms"),
        ("{command: x, max_concurrent_calls: 0}", ".max_concurrent_calls", "at least 1"),
        ("{command: x, disabled: perhaps}", ".disabled", "allowed: true, false"),
        ("{command: x, transport: websocket}", ".transport", "stdio, streamable-http, sse"),
        ("{command: x, transport: sse}", "", "transport sse needs url"),
        ("{command: x, retry: {max_retires: 1}}", ".retry.max_retires", "did you mean max_retries?"),
        ("{command: x, rate_limit: {window: 1s}}", ".rate_limit.max_calls", "is missing"),
        ("{command: x, tools: {alow: [a]}}", ".tools.alow", "did you mean allow?"),
        ("{command: x, env: [A]}", ".env", "a mapping"),
        ("{command: x, env: {A: }}", ".env.A", "found nothing"),
        ("{command: x, name: y}", ".name", "unknown key name"),
        ("{command: x, oauth: {}}", "", "oauth is for backends with a url"),
        ("{url: 'ftp://h/'}", ".url", "http://"),
        ("{url: 'https:///x'}", ".url", "no usable host"),
        ("{url: 'https://h:99999/x'}", ".url", "no usable host and port"),
        ("{url: 'https://h/a b'}", ".url", "a blank"),
        ("{url: 'https://h/', headers: {'A B': x}}", ".headers.A B", "not a header name"),
        ('{url: "https://h/", headers: {A: "x\\r\\nB: y"}}', ".headers.A", "a newline"),
        ('{command: x, args: ["a\\0b"]}', ".args[0]", "NUL"),
        ("{command: x, env: {A: '${'}}", ".env.A", "never closed"),
        ("{command: x, env: {A: '${A:?no}'}}", ".env.A", "not understood"),
        ("{command: x, env: {A: '${input:token}'}}", ".env.A", "gatemini secret set token"),
        ("{command: x, command: y}", ".command", "written twice"),
        ("{tools: {ls: {command: ls, output: jsn}}}", ".tools.ls.output", "json, text or lines"),
        ("{tools: {ls: {command: []}}}", ".tools.ls", "must name a program"),
        ("{command: x, namespace: 'a.b'}", ".namespace", "letters, digits"),
        ("{command: gatemini, args: [--direct]}", "", "is this gateway itself"),
        ("{command: uvx, args: [--from, ./x, gatemini]}", "", "is this gateway itself"),
    ],
)
def test_one_bad_backend_is_disabled_with_its_reason_and_the_other_runs(
    load: Load, backend: str, key: str, says: str
) -> None:
    loaded = load(f"backends:\n  good: {{command: y}}\n  bad: {backend}\n")
    assert set(loaded.config.backends) == {"good"}
    (finding, *_) = [p for p in loaded.problems if p.key == f"backends.bad{key}"]
    assert finding.line == 3
    assert says in finding.text()
    assert finding.reason() in loaded.disabled["bad"]


def test_all_findings_come_at_once(load: Load) -> None:
    text = "backends:\n  a: {command: x, timout: 1, retry: {maxx: 1}, env: {A: '${NO}'}}\nlog_levl: info\n"
    assert {problem["key"] for problem in refused(load, text)} == {
        "backends.a.timout", "backends.a.retry.maxx", "backends.a.env.A", "log_levl",
    }  # fmt: skip


def test_a_backend_name_must_be_usable_in_a_qualified_name(load: Load) -> None:
    loaded = load("backends:\n  my server: {command: x}\n  __composite: {command: x}\n  ok-1: {command: x}\n")
    assert set(loaded.config.backends) == {"ok-1"}
    assert "letters, digits, _ and -" in one(loaded, "backends.my server")


def test_a_backend_defined_twice_is_an_error(load: Load) -> None:
    loaded = load("backends:\n  a: {command: x}\n  a: {command: y}\n  b: {command: z}\n")
    assert set(loaded.config.backends) == {"b"}
    assert "on lines 2 and 3" in loaded.disabled["a"]


def test_numbers_and_switches_reach_a_process_as_they_were_written(load: Load) -> None:
    loaded = load("backends:\n  a: {command: x, args: [1.10, 0755, true], env: {A: 1.10, B: no, C: 8080}}\n")
    backend = loaded.config.backends["a"]
    assert backend.args == ("1.10", "0755", "true")
    assert backend.env == {"A": "1.10", "B": "no", "C": "8080"}


def test_variables_work_for_numbers_and_switches_too(load: Load) -> None:
    text = "log_level: ${LEVEL:-debug}\nbackends:\n  a: {command: x, timeout: '${T}', disabled: '${OFF:-false}'}\n"
    loaded = load(text, {"T": "5s"})
    assert loaded.config.log_level == "debug"
    assert loaded.config.backends["a"].timeout == 5.0
    loaded = load(text, {"T": "5s", "OFF": "true"})
    assert loaded.disabled["a"] == "disabled: true in the configuration"


def test_a_disabled_backend_needs_no_variables(load: Load) -> None:
    loaded = load("backends:\n  a: {command: x, disabled: true, env: {A: '${NO}'}}\n")
    assert not loaded.problems
    assert loaded.disabled == {"a": "disabled: true in the configuration"}


def test_code_and_schemas_keep_their_dollars(load: Load) -> None:
    text = """\
composite_tools:
  hi: {code: "return `${args.a}$$`", input_schema: {type: object}}
backends:
  cli:
    tools:
      ls: {command: "ls {{p}} $$1", description: "costs $$ and ${x}", input_schema: {properties: {p: {pattern: "^a$$"}}}}
"""
    loaded = load(text)
    assert not loaded.problems
    assert loaded.config.composite_tools["hi"].code == "return `${args.a}$$`"
    tool = loaded.config.backends["cli"].cli_tools["ls"]
    assert (tool.command, tool.description) == ("ls {{p}} $1", "costs $$ and ${x}")
    assert tool.input_schema["properties"]["p"]["pattern"] == "^a$$"


def test_wrong_sections_fall_back_to_defaults_and_say_so(load: Load) -> None:
    text = "search: {ranking: bst}\nhealth: {interval: never}\nresults: 3\nmax_dynamic_backends: many\nbackends: {a: {command: x}}\n"
    loaded = load(text)
    assert {p.key for p in loaded.problems} == {
        "search.ranking",
        "health.interval",
        "results",
        "max_dynamic_backends",
    }
    assert loaded.config.search.ranking == "best"
    assert set(loaded.config.backends) == {"a"}


@pytest.mark.parametrize(
    "text",
    [
        "registration: {stdo: deny}\n",
        "registraton: {stdio: deny}\n",
        "sandbox: {isolation: proces}\n",
        "sandbox:\n  memory_mb: 64\n  memory_mb: 640\n",
        "policy: {default: denied}\n",
        "policy: {rules: [{tool: [a.b], action: deny}]}\n",
        "polcy: {default: deny}\n",
        "profile: lokced\n",
        "secrets: {strickt: true}\n",
        "strict: true\n",
        "registration: {stdio: '${NO}'}\n",
        "log_levl: info\n",
        "zzz: 1\n",
        "search: {rankin: best}\n",
        "health: {intervall: 5s}\n",
    ],
)
def test_a_wrong_part_that_protects_and_an_unknown_key_stop_the_start(load: Load, text: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml:\d"):
        load("backends: {a: {command: x}}\n" + text)


def test_strict_makes_an_unresolved_reference_fatal(load: Load) -> None:
    text = "secrets: {strict: true}\nbackends: {a: {command: x, env: {A: '%s'}}}\n"
    for value in ("${NO}", "secretref:env:NO", "${input:no}"):
        with pytest.raises(ConfigError, match=r"backends\.a\.env\.A"):
            load(text % value)
    assert set(load(text % "${YES}", {"YES": "1"}).config.backends) == {"a"}


def test_later_env_files_win_and_the_process_wins_over_all(tmp_path: Path) -> None:
    home, conf, place = tmp_path / "home", tmp_path / "conf", tmp_path / "place"
    for folder, content in (
        (home, "A=home\nB=home\nC=home\nD=home\n"),
        (conf, "B=conf\nC=conf\nD=conf\n"),
        (place, "export C='place'\nD=place\nE=${A}-${D}\n"),
    ):
        folder.mkdir()
        (folder / ".env").write_text(content)
    path = place / "config.yaml"
    path.write_text("backends: {x: {command: x, args: ['${A}', '${B}', '${C}', '${D}', '${E}']}}\n")
    loaded = load_config(path, environ={"D": "process"}, home=home, config_dir=conf)
    assert loaded.config.backends["x"].args == ("home", "conf", "place", "process", "home-process")


def test_a_line_of_an_env_file_with_a_missing_variable_sets_nothing(load: Load, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=${NOWHERE}\n")
    loaded = load("backends: {a: {command: x, env: {T: '${TOKEN}'}}}\n")
    assert "TOKEN is not set" in loaded.disabled["a"]
    assert any("NOWHERE is not set" in p.text() for p in loaded.problems)


def test_inherited_names_reach_what_only_an_env_file_sets(load: Load, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PROXY_USER=me\n")
    loaded = load("backends: {a: {command: x, inherit_env: [PROXY_USER, HOME]}}\n", {"HOME": "/h"})
    assert loaded.config.backends["a"].env == {"PROXY_USER": "me"}


def test_a_default_file_may_be_missing_but_a_named_one_must_exist(tmp_path: Path) -> None:
    loaded = load_config(None, environ={}, home=tmp_path, config_dir=tmp_path)
    assert (loaded.source, loaded.config.backends, loaded.problems) == (None, {}, ())
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "x.yaml", environ={})
    with pytest.raises(ConfigError, match="no such file"):
        load_config(None, environ={"GATEMINI_CONFIG": str(tmp_path / "y.yaml")}, config_dir=tmp_path)


def test_the_file_comes_from_the_option_then_the_variable_then_the_default(tmp_path: Path) -> None:
    for name in ("config", "variable", "option"):
        (tmp_path / f"{name}.yaml").write_text(f"backends: {{{name}: {{command: x}}}}\n")
    variable = {"GATEMINI_CONFIG": str(tmp_path / "variable.yaml")}
    for path, environ, expected in (
        (None, {}, "config"),
        (None, variable, "variable"),
        (tmp_path / "option.yaml", variable, "option"),
    ):
        loaded = load_config(path, environ=environ, home=tmp_path, config_dir=tmp_path)
        assert set(loaded.config.backends) == {expected}


def test_included_files_add_backends_and_never_merge_two_of_one_name(load: Load, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(
        "backends: {a: {command: other}, b: {command: y}}\nlog_level: debug\n"
    )
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"c": {"command": "z"}, "b": {"command": "y"}}}')
    loaded = load("backends: {a: {command: x}}\ninclude: [more.yaml, mcp.json, gone.yaml, more.yaml]\n")
    assert {n: b.command for n, b in loaded.config.backends.items()} == {"a": "x", "b": "y", "c": "z"}
    texts = "\n".join(p.text() for p in loaded.problems)
    assert "a is already defined" in texts
    assert "log_level has no effect in an included file" in texts
    assert "gone.yaml: there is no such file" in texts
    assert "b is already defined" not in texts


def test_an_adapter_file_adds_tools_and_inline_ones_win(load: Load, tmp_path: Path) -> None:
    (tmp_path / "jq.yaml").write_text(
        "tools: {a: {command: one}, b: {command: two}}\nhealth_check: [jq, --version]\n"
    )
    loaded = load("backends: {jq: {adapter_file: jq.yaml, tools: {b: {command: inline}, deny: [c*]}}}\n")
    backend = loaded.config.backends["jq"]
    assert backend.transport == "cli-adapter"
    assert {n: t.command for n, t in backend.cli_tools.items()} == {"a": "one", "b": "inline"}
    assert backend.health_check == ("jq", "--version")
    assert backend.tools.deny == ("c*",)


def test_a_fallback_that_does_not_exist_is_a_warning(load: Load) -> None:
    loaded = load("backends: {exa: {command: x, fallback_chain: [exb2]}, exb: {command: y}}\n")
    assert "there is no other backend exb2, did you mean exb?" in one(
        loaded, "backends.exa.fallback_chain[0]"
    )
    assert set(loaded.config.backends) == {"exa", "exb"}


def test_each_backend_knows_which_variables_it_needs_and_lacks(load: Load) -> None:
    loaded = load(
        "backends: {a: {command: x, env: {T: '${TOKEN}'}, args: ['${MODE:-x}', '${NO}'], required_keys: [ALSO]}}\n",
        {"TOKEN": "secret-1"},
    )
    assert set(loaded.keys["a"].keys) == {"T", "TOKEN", "NO", "ALSO"}
    assert loaded.keys["a"].missing == ("NO", "ALSO")
    loaded = load("backends: {a: {command: x, required_keys: [ALSO]}}\n")
    assert loaded.keys["a"].missing == ("ALSO",)


def test_a_registered_backend_gets_no_variables_and_runs_no_code_in_process() -> None:
    assert dynamic_backend({"name": "x", "url": "https://h/", "timeout": "5s"}).timeout == 5.0
    for template, says in (
        ({"name": "x", "command": "a", "env": {"K": "${AWS_SECRET}"}}, "not put into registered"),
        ({"name": "x", "command": "a", "args": ["secretref:env:K"]}, "not put into registered"),
        ({"name": "x", "module": "os:system"}, "only taken from the configuration"),
        ({"name": "x", "url": "https://h/", "prerequisite": {"command": "rm"}}, "starts a command"),
        ({"name": "x", "comand": "a"}, "did you mean command?"),
        ({"name": "x y", "command": "a"}, "letters, digits"),
        ({"command": "a"}, "name is missing"),
    ):
        with pytest.raises(ConfigError) as caught:
            dynamic_backend(template)
        assert says in caught.value.message


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["name", "command", "url", "tools", "env", "args", "retry", "x"]), VALUES)
)
def test_any_template_is_a_backend_or_one_named_error(template: dict[str, object]) -> None:
    try:
        config = dynamic_backend(template)
    except ConfigError as error:
        message = error.message
    else:
        message = config.name
    assert message


def test_a_wrong_value_that_a_variable_gave_is_not_shown(load: Load) -> None:
    text = "log_level: ${HUSH}\nhealth: {interval: '${HUSH}'}\nbackends: {a: {command: x, timeout: '${HUSH}', transport: '${HUSH}'}}\n"
    loaded = load(text, {"HUSH": "hush-hush-1"})
    texts = "\n".join(problem.text() for problem in loaded.problems)
    assert len(loaded.errors) == 4
    assert "found '${HUSH}'" in texts
    assert "hush-hush" not in texts + str(loaded.disabled)


def test_keys_of_other_clients_are_errors_that_name_the_right_key(load: Load) -> None:
    loaded = load("backends: {a: {type: stdio, command: x}, b: {httpUrl: 'https://h/'}}\n")
    assert "unknown key type, the key is transport" in one(loaded, "backends.a.type")
    assert "the key is url" in one(loaded, "backends.b.httpUrl")
    (problem,) = refused(load, "mcpServers: {}\nbackends: {}\n")
    assert "the key is backends" in problem["found"]


def test_findings_are_listed_in_the_order_of_the_file(load: Load) -> None:
    text = "backends:\n  a: {command: x, zz: 1}\n  b: {command: x, yy: 1}\nlog_levl: info\nsearch: {x: 1}\n"
    assert [problem["line"] for problem in refused(load, text)] == [2, 3, 4, 5]


def test_a_command_with_its_arguments_in_one_text_is_noticed(load: Load) -> None:
    loaded = load(
        "backends: {a: {command: npx -y server}, b: {command: '/opt/my tools/x'}, c: {command: x, args: [y]}}\n"
    )
    assert [p.key for p in loaded.problems] == ["backends.a.command"]
    assert "Write command: npx and put the rest into args" in one(loaded, "backends.a.command")
    assert set(loaded.config.backends) == {"a", "b", "c"}


@pytest.mark.parametrize("written", ["0", "-1", "1.0e+30", "8d", "-3s", "true"])
def test_a_duration_out_of_range_names_the_range(load: Load, written: str) -> None:
    loaded = load(f"backends: {{a: {{command: x, timeout: {written}}}}}")
    assert "allowed: a duration above 0 and at most 168h" in loaded.disabled["a"]


def test_a_part_that_stops_the_start_does_not_hide_what_is_wrong_elsewhere(load: Load) -> None:
    text = (
        "registration: {http: maybe}\n"
        "composite_tools: {c: {code: 'return ((1;'}}\n"
        "backends:\n  a: {comand: x}\n  b: {command: x, env: {T: '${NOT_THERE}', S: 'secretref:command:gone'}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(text)
    keys = [problem["key"] for problem in caught.value.details["problems"]]
    assert keys == [
        "registration.http",
        "composite_tools.c.code",
        "backends.a.comand",
        "backends.b.env.T",
    ]


def test_a_composite_tool_with_a_syntax_error_is_left_out_and_its_line_is_named(load: Load) -> None:
    loaded = load(
        "composite_tools:\n  bad: {code: \"const a = 1;\\nif (\"}\n  good: {code: 'return args.x as number;'}\n"
    )
    assert list(loaded.config.composite_tools) == ["good"]
    (finding,) = loaded.errors
    assert finding.key == "composite_tools.bad.code"
    assert "of the code" in finding.found


def test_a_composite_tool_with_thousands_of_open_brackets_is_refused_before_it_is_parsed(load: Load) -> None:
    code = json.dumps("return 1;\n" + "[" * 50_000)
    loaded = load(f"composite_tools:\n  deep: {{code: {code}}}\n  good: {{code: 'return 1;'}}\n")
    assert list(loaded.config.composite_tools) == ["good"]
    (finding,) = loaded.errors
    assert finding.found == "more than 3,000 brackets are open at line 2"


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("{command: ['{{p}}', x]}", "the program of a command cannot be a parameter"),
        ('{command: "echo \'x"}', "cannot be split into words"),
        ('{command: "cat <<E\\n{{x}}\\nE", shell: true}', "a parameter cannot stand after `<<`"),
    ],
)
def test_a_command_line_that_can_never_run_is_found_before_the_start(
    load: Load, tool: str, says: str
) -> None:
    loaded = load(f"backends: {{a: {{tools: {{t: {tool}}}}}}}")
    assert says in loaded.disabled["a"]
    assert "backends.a.tools.t.command" in loaded.disabled["a"]


def test_a_pool_that_keeps_more_ready_than_it_may_have_is_refused(load: Load) -> None:
    loaded = load("backends: {a: {command: x, pool: {min_idle: 5, max_instances: 2}}}")
    assert "backends.a.pool.min_idle" in loaded.disabled["a"]


@pytest.mark.parametrize(
    ("keys", "key", "says"),
    [
        ("command: ' '", "command", "command is blank"),
        ("url: 'http://h', headers: {X: 'é'}", "headers.X", "beyond ASCII, which a header cannot carry"),
        ('tools: {t: {command: echo}}, health_check: "it\'s"', "health_check", "cannot be split into words"),
        ("tools: {t: {command: echo}}, health_check: ' '", "health_check", "names no program"),
        ("tools: {t: {command: echo}}, health_check: ['']", "health_check", "names no program"),
    ],
)
def test_values_that_could_only_fail_later_are_errors_of_the_file(
    load: Load, keys: str, key: str, says: str
) -> None:
    loaded = load(f"backends: {{a: {{{keys}}}, b: {{command: x}}}}")
    assert set(loaded.config.backends) == {"b"}
    assert [(p.key, p.severity) for p in loaded.problems] == [(f"backends.a.{key}", "error")]
    assert says in loaded.disabled["a"]


@pytest.mark.parametrize(("mode", "found"), [(0o644, 0), (0o600, 0), (0o664, 1), (0o666, 1), (0o602, 1)])
def test_a_file_that_others_may_write_is_a_finding(tmp_path: Path, mode: int, found: int) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("backends: {}\n")
    path.chmod(mode)
    loaded = load_config(path, environ={})
    told = [problem for problem in loaded.problems if "others than its owner may write" in problem.text()]
    assert len(told) == found
    assert not loaded.errors


@pytest.mark.parametrize("name", ["adapter.yaml", ".env", "vars.env"])
def test_a_file_that_the_configuration_takes_values_from_is_a_finding_too(tmp_path: Path, name: str) -> None:
    (tmp_path / "adapter.yaml").write_text("tools: {hi: {command: [echo, hi]}}")
    (tmp_path / ".env").write_text("A=1")
    (tmp_path / "vars.env").write_text("B=2")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"m": {"command": "echo", "envFile": "vars.env"}}}')
    path = tmp_path / "config.yaml"
    path.write_text(
        "include: [mcp.json]\nbackends: {a: {transport: cli-adapter, adapter_file: adapter.yaml}}\n"
    )
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    assert not load_config(path, environ={}).problems
    (tmp_path / name).chmod(0o666)
    (problem,) = load_config(path, environ={}).problems
    assert name in problem.text()


@pytest.mark.parametrize(("mode", "found"), [(0o755, 0), (0o775, 0), (0o777, 1), (0o1777, 0)])
def test_a_folder_in_which_everybody_may_replace_the_file_is_a_finding(
    tmp_path: Path, mode: int, found: int
) -> None:
    path = tmp_path / "open" / "config.yaml"
    path.parent.mkdir()
    path.write_text("backends: {}\n")
    path.chmod(0o600)
    path.parent.chmod(mode)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    for source in (path, link):
        problems = load_config(source, environ={}).problems
        assert len([p for p in problems if "everybody may replace" in p.text()]) == found


def test_a_finding_shows_hidden_characters_of_a_key_as_escapes(load: Load) -> None:
    (problem,) = load("backends:\n  a\u202eb: {command: x}\n").problems
    assert "\u202e" not in problem.text()
    assert "backends.a\\u202eb" in problem.text()


SESSION = """\
daemon: { session_env: [TOKEN] }
backends:
  a: { command: srv, cwd: "${session.cwd}", args: ["--root=${session.cwd}/src", "${TOKEN:-none}"], inherit_env: [TOKEN, OTHER] }
  b: { url: "https://x/${session.cwd}" }
  c: { command: srv, args: ["${TOKEN}"], instance_mode: shared }
  d: { command: srv, env: { KEY: "${TOKEN}", DOLLAR: "$${session.cwd}" } }
"""


def test_a_value_of_the_session_makes_a_backend_dedicated_and_is_put_in_for_each_session(load: Load) -> None:
    loaded = load(SESSION, {"TOKEN": "of-the-gateway"})
    config = loaded.config.backends["a"]
    assert config.instance_mode == "dedicated"
    made = for_session(config, SessionValues("/one", {"TOKEN": "t"}))
    assert (made.cwd, made.args, made.env) == ("/one", ("--root=/one/src", "t"), {"TOKEN": "t"})
    without = for_session(config, SessionValues("/two"))
    assert (without.args, without.env) == (("--root=/two/src", "none"), {})
    assert made.inherit_env == ("OTHER",)
    shown = masked(loaded, all_keys=False)["backends"]["a"]
    assert shown["args"] == ["--root=${session.cwd}/src", "${TOKEN}"]


def test_a_value_of_the_session_elsewhere_or_in_a_shared_backend_is_an_error(load: Load) -> None:
    loaded = load(SESSION, {"TOKEN": "of-the-gateway"})
    assert "${session.cwd} belongs to a session and is not put in here" in loaded.disabled["b"]
    assert "found shared, but args has ${TOKEN}, which differs between sessions" in loaded.disabled["c"]
    with pytest.raises(BackendStopped, match="d needs the variable TOKEN of its client"):
        for_session(loaded.config.backends["d"], SessionValues("/one"))
    made = for_session(loaded.config.backends["d"], SessionValues("/one", {"TOKEN": "t"}))
    assert made.env == {"KEY": "t", "DOLLAR": "${session.cwd}"}


SINGLETON = """\
daemon: { session_env: [TOKEN] }
backends:
  a: { command: srv, instance_mode: singleton }
  b: { command: srv, instance_mode: singleton, pool: { min_idle: 2 } }
  c: { url: "https://x/mcp", instance_mode: singleton }
  d: { command: srv, args: ["${TOKEN}"], instance_mode: singleton }
"""


def test_keys_that_do_not_go_with_a_singleton_are_named(load: Load) -> None:
    loaded = load(SINGLETON, {"TOKEN": "t"})
    assert loaded.config.backends.keys() == {"a", "b", "c"}
    found = {problem.text().partition("backends.")[2] for problem in loaded.problems}
    assert {each for each in found if "singleton" in each} == {
        "b.pool: has no effect with instance_mode singleton: it is for dedicated",
        "c.instance_mode: singleton has no effect on streamable-http: no process is kept",
        "d.instance_mode: found singleton, but args has ${TOKEN}, which differs between sessions (allowed: dedicated)",
    }
