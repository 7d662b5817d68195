"""Other clients' files, read as their own clients would read them, with nothing dropped in silence."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemini.config.clients.table import Source, find_sources
from gatemini.config.command_words import program
from gatemini.config.load import Loaded
from gatemini.errors import ConfigError

Load = Callable[..., Loaded]


def servers(
    load: Load, entries: dict[str, Any], *, name: str = "mcp.json", key: str = "mcpServers", **env: str
) -> Loaded:
    return load(json.dumps({key: entries}), env, name=name)


@pytest.mark.parametrize("key", ["mcpServers", "servers", "context_servers", "mcp", "amp.mcpServers"])
def test_each_clients_section_is_found(load: Load, key: str) -> None:
    loaded = servers(load, {"a": {"command": "x", "args": ["1"], "env": {"B": "c"}}}, key=key)
    backend = loaded.config.backends["a"]
    assert (backend.command, backend.args, backend.env) == ("x", ("1",), {"B": "c"})


def test_servers_as_opencode_writes_them_are_understood(load: Load) -> None:
    local = {"type": "local", "command": ["npx", "-y", "srv"], "environment": {"A": "{env:T}", "B": "b"}}
    remote = {"type": "remote", "url": "https://h/", "headers": {"A": "Bearer {env:T}"}, "enabled": False}
    loaded = servers(load, {"a": {**local, "enabled": True}, "b": remote, "c": local}, key="mcp", T="t")
    backend = loaded.config.backends["a"]
    assert (backend.command, backend.args, backend.env) == ("npx", ("-y", "srv"), {"A": "t", "B": "b"})
    assert set(loaded.disabled) == {"b"}
    assert not loaded.problems


def test_opencode_variables_are_read_anywhere_in_its_own_file_only(load: Load) -> None:
    local = {"command": ["{env:T}/bin", "--at={env:T}"], "environment": {"A": "a-{env:T}"}}
    remote = {"url": "https://{env:T}/mcp?v={env:T}", "headers": {"B": "{env:T}"}}
    backends = servers(load, {"a": local, "b": remote}, key="mcp", T="t").config.backends
    assert (backends["a"].command, backends["a"].args) == ("t/bin", ("--at=t",))
    assert (backends["a"].env, backends["b"].headers) == ({"A": "a-t"}, {"B": "t"})
    assert backends["b"].url == "https://t/mcp?v=t"
    other = servers(load, {"a": {"command": "x", "args": ["{env:T}"], "env": {"A": "{env:T}"}}}, T="t")
    backend = other.config.backends["a"]
    assert (backend.args, backend.env) == (("{env:T}",), {"A": "{env:T}"})


@pytest.mark.parametrize("name", ["crush.json", ".crush.json"])
def test_crushs_variables_are_read_and_a_command_in_a_value_is_refused(load: Load, name: str) -> None:
    entries = {
        "a": {"command": "x", "args": ["$T/$T", "${T}", "$5"], "env": {"A": "${NO:-$$}"}},
        "b": {"url": "https://h/", "headers": {"A": "Bearer $T"}},
        "c": {"url": "https://h/", "headers": {"A": "$(echo Bearer $T)"}},
    }
    loaded = servers(load, entries, name=name, key="mcp", T="t")
    assert loaded.config.backends["a"].args == ("t/t", "t", "$5")
    assert loaded.config.backends["b"].headers == {"A": "Bearer t"}
    assert "c" not in loaded.config.backends
    assert "holds $(…), a command that Crush runs" in loaded.disabled["c"]
    elsewhere = servers(load, {"a": {"command": "x", "args": ["$T"]}}, name="opencode.json", key="mcp", T="t")
    assert elsewhere.config.backends["a"].args == ("$T",)


def test_a_server_that_is_only_switched_off_does_not_hide_the_others(load: Load) -> None:
    loaded = servers(load, {"a": {"command": ["x"]}, "b": {"enabled": False}}, key="mcp")
    assert set(loaded.config.backends) == {"a"}
    assert set(loaded.disabled) == {"b"}
    assert not loaded.problems


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"port": 1},
        {"a": {"command": "x"}, "theme": "dark"},
        {"a": {"command": "x"}, "b": {}},
        {"a": {"enabled": False}},
        ["a"],
    ],
)
def test_a_section_named_mcp_counts_only_if_it_holds_servers(load: Load, value: Any) -> None:
    with pytest.raises(ConfigError, match="unknown key mcp"):
        load(json.dumps({"mcp": value}), name="settings.json")


def test_a_variable_that_is_null_is_not_set(load: Load) -> None:
    loaded = servers(load, {"a": {"command": "x", "env": {"A": None, "B": 1}}})
    assert loaded.config.backends["a"].env == {"B": "1"}


def test_a_section_that_is_written_twice_is_an_error(load: Load) -> None:
    loaded = load(
        '{"mcpServers": {"a": {"command": "x"}},\n"mcpServers": {"b": {"command": "y"}}, "x": 1, "x": 2}',
        name="mcp.json",
    )
    assert [str(p).partition(":")[2] for p in loaded.problems] == [
        "2: mcpServers: mcpServers is written twice, on lines 1 and 2. Remove one of the two"
    ]


def test_sections_deeper_in_settings_files_are_found_and_the_rest_is_ignored(load: Load) -> None:
    loaded = load(
        '{"editor.fontSize": 12, "mcp": {"servers": {"a": {"command": "x"}}}}', name="settings.json"
    )
    assert set(loaded.config.backends) == {"a"}
    loaded = load(
        '{"projects": {"/p": {"mcpServers": {"b": {"command": "y"}}}}, "numStartups": 3}', name=".claude.json"
    )
    assert set(loaded.config.backends) == {"b"}
    assert not loaded.problems


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"type": "stdio", "command": "x"}, "stdio"),
        ({"command": "x"}, "stdio"),
        ({"type": "streamable-http", "url": "https://h/"}, "streamable-http"),
        ({"type": "streamableHttp", "url": "https://h/"}, "streamable-http"),
        ({"transport": "HTTP", "url": "https://h/"}, "streamable-http"),
        ({"type": "sse", "url": "https://h/mcp"}, "sse"),
        ({"transportType": "sse", "url": "https://h/mcp"}, "sse"),
        ({"type": "SSE", "serverUrl": "https://h/mcp"}, "sse"),
        ({"url": "https://h/"}, "streamable-http"),
        ({"url": "https://h/sse"}, "sse"),
        ({"httpUrl": "https://h/sse"}, "sse"),
        ({"httpUrl": "https://h/"}, "streamable-http"),
        ({"serverUrl": "https://h/"}, "streamable-http"),
    ],
)
def test_every_spelling_of_a_transport_is_understood(
    load: Load, entry: dict[str, Any], transport: str
) -> None:
    loaded = servers(load, {"a": entry})
    assert loaded.config.backends["a"].transport == transport
    assert loaded.config.backends["a"].url in (None, *entry.values())


def test_a_plain_url_of_gemini_is_sse_and_its_http_url_is_not(load: Load) -> None:
    loaded = servers(
        load, {"a": {"url": "https://h/"}, "b": {"httpUrl": "https://h/"}, "c": {"command": "x", "env": {"T": "$TOK"}}},
        name=".gemini/settings.json", TOK="tok-123",
    )  # fmt: skip
    assert loaded.config.backends["a"].transport == "sse"
    assert loaded.config.backends["b"].transport == "streamable-http"
    assert loaded.config.backends["c"].env == {"T": "tok-123"}


def test_an_unknown_type_names_the_allowed_ones(load: Load) -> None:
    loaded = servers(load, {"a": {"type": "websocket", "url": "wss://h/"}, "b": {"command": "x"}})
    assert set(loaded.config.backends) == {"b"}
    assert "stdio, http, streamable-http, sse" in "".join(p.text() for p in loaded.problems)


@pytest.mark.parametrize(
    "words",
    [
        ["gatemini"],
        ["/home/me/.venv/bin/gatemini", "--direct"],
        ["C:\\Tools\\gatemini.exe"],
        ["uvx", "gatemini@latest", "--direct"],
        ["uvx", "--from", "git+https://h/x", "gatemini"],
        ["uv", "--directory", "/x", "run", "gatemini"],
        ["pipx", "run", "--spec", ".", "gatemini"],
        ["/usr/bin/python3.12", "-P", "-X", "utf8", "-m", "gatemini"],
        ["sh", "-c", "exec gatemini --direct"],
        ["env", "A=b", "gatemini"],
        ["cmd", "/c", "gatemini.cmd"],
    ],
)
def test_the_gateways_own_entry_is_skipped_however_it_is_started(load: Load, words: list[str]) -> None:
    loaded = servers(load, {"me": {"command": words[0], "args": words[1:]}, "b": {"command": "y"}})
    assert set(loaded.config.backends) == {"b"}
    assert "is this gateway itself" in loaded.disabled["me"]
    assert not loaded.errors


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["npx", "-y", "@x/server-filesystem", "/home/me/gatemini"], "server-filesystem"),
        (["uvx", "mcp-server-git", "--repository", "gatemini"], "mcp-server-git"),
        (["python", "server.py", "gatemini"], "server"),
        (["python", "-c", "print('gatemini')"], "python"),
        (["sh", "-c", "'unclosed"], "sh"),
        (["node", "gatemini.js"], "node"),
        ([], ""),
        (["uvx"], ""),
    ],
)
def test_a_server_that_only_mentions_the_gateway_is_not_taken_for_it(words: list[str], name: str) -> None:
    assert program(words) == name


def test_unknown_fields_and_approvals_are_reported_not_dropped_in_silence(load: Load) -> None:
    loaded = servers(
        load, {"a": {"command": "x", "fancy": 1, "comand": "y", "autoApprove": ["z"], "alwaysAllow": []}}
    )
    texts = "\n".join(p.text() for p in loaded.problems)
    assert "unknown field fancy" in texts
    assert "unknown field comand" in texts
    assert "autoApprove has no effect" in texts
    assert "alwaysAllow" not in texts
    assert not loaded.errors


def test_an_entry_with_neither_command_nor_url_says_so(load: Load) -> None:
    loaded = servers(load, {"a": {"env": {}}, "b": "x", "c": {"command": None}, "d": {"command": "y"}})
    assert set(loaded.config.backends) == {"d"}
    for name in "abc":
        assert "neither command nor url" in loaded.disabled[name]


def test_names_that_cannot_be_qualified_are_changed_with_a_warning(load: Load) -> None:
    loaded = servers(
        load, {"My Server!": {"command": "x"}, "My-Server": {"command": "y"}, "日本": {"command": "z"}}
    )
    assert {n: b.command for n, b in loaded.config.backends.items()} == {
        "My-Server": "x", "My-Server-2": "y", "server": "z",
    }  # fmt: skip
    assert "the name 'My Server!' becomes My-Server" in "\n".join(p.text() for p in loaded.problems)


def test_an_env_file_gives_its_variables_and_env_wins(load: Load, tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text("A=file\nB=file\n")
    entry = {"command": "x", "envFile": "${workspaceFolder}/x.env", "env": {"B": "entry"}}
    loaded = servers(load, {"a": entry}, key="servers", name=".vscode/mcp.json")
    assert loaded.config.backends["a"].env == {"A": "file", "B": "entry"}
    assert loaded.secrets == (("A", "file"),)  # redacted wherever text leaves; what `env` itself says is not
    loaded = servers(load, {"a": {"command": "x", "envFile": "gone.env"}})
    assert "envFile" in loaded.disabled["a"]


def test_inputs_come_from_the_store_or_their_default_and_missing_ones_are_named(
    load: Load, tmp_path: Path
) -> None:
    store = tmp_path / "conf" / "secrets"
    store.mkdir(parents=True)
    (store / "token").write_text("stored-1\n")
    (store / "token").chmod(0o600)
    inputs = [
        {"id": "region", "type": "promptString", "default": "eu"},
        {"id": "pw", "type": "promptString", "password": True, "default": "x"},
    ]
    entries = {
        "a": {"command": "x", "env": {"T": "${input:token}", "R": "${input:region}"}},
        "b": {"url": "https://h/", "headers": {"X": "${input:pw}"}},
    }
    loaded = load(json.dumps({"inputs": inputs, "servers": entries}), name="mcp.json")
    assert loaded.config.backends["a"].env == {"T": "stored-1", "R": "eu"}
    assert ("token", "stored-1") in loaded.secrets
    assert "gatemini secret set pw" in "".join(p.text() for p in loaded.problems)
    assert set(loaded.disabled) == {"b"}


def test_editor_variables_are_resolved_and_unknown_ones_reported(load: Load, tmp_path: Path) -> None:
    entries = {
        "a": {"command": "x", "args": ["${workspaceFolder}", "${userHome}/y", "${workspaceFolderBasename}"]},
        "b": {"command": "x", "args": ["${config:foo}"]},
    }
    loaded = servers(load, entries, key="servers", name=".vscode/mcp.json")
    assert loaded.config.backends["a"].args == (str(tmp_path), f"{tmp_path}/home/y", tmp_path.name)
    assert "is not understood" in loaded.disabled["b"]


def test_dollars_in_a_clients_file_mean_what_they_mean_there(load: Load) -> None:
    loaded = servers(
        load, {"a": {"command": "x", "env": {"P": "pa$$word", "Q": "${env:U}", "R": "${NO:-d}"}}}, U="me-123"
    )
    assert loaded.config.backends["a"].env == {"P": "pa$$word", "Q": "me-123", "R": "d"}


def test_tool_filters_are_kept(load: Load) -> None:
    loaded = servers(
        load,
        {
            "a": {"command": "x", "includeTools": ["r"], "excludeTools": ["w"]},
            "b": {"command": "x", "disabledTools": ["d"]},
            "c": {"command": "x", "tools": ["*"]},
            "d": {"command": "x", "excludeTools": "w"},
        },
    )
    tools = {name: backend.tools for name, backend in loaded.config.backends.items()}
    assert (tools["a"].allow, tools["a"].deny) == (("r",), ("w",))
    assert (tools["b"].deny, tools["c"].allow) == (("d",), ())
    assert "a tool filter that is not a list" in loaded.disabled["d"]


def test_codex_and_zed_write_the_same_things_differently(load: Load) -> None:
    text = """\
model = "x"
[mcp_servers.a]
command = "npx"
args = ["-y", "s"]
env_vars = ["TOKEN"]
startup_timeout_sec = 20
enabled_tools = ["r"]
[mcp_servers.b]
url = "https://h/"
bearer_token_env_var = "TOK"
http_headers = { X = "y" }
env_http_headers = { Z = "ZED" }
[mcp_servers.c]
command = "x"
enabled = false
"""
    loaded = load(text, {"TOK": "tok-123", "ZED": "zed-123"}, name="config.toml")
    a, b = loaded.config.backends["a"], loaded.config.backends["b"]
    assert (a.command, a.inherit_env, a.connect_timeout, a.tools.allow) == ("npx", ("TOKEN",), 20.0, ("r",))
    assert b.headers == {"X": "y", "Z": "zed-123", "Authorization": "Bearer tok-123"}
    assert set(loaded.disabled) == {"c"}
    entry = {"source": "custom", "command": {"path": "x", "args": ["1"], "env": {"A": "b"}}}
    loaded = servers(
        load, {"z": entry, "o": {"type": "local", "command": ["npx", "-y"]}}, key="context_servers"
    )
    assert (loaded.config.backends["z"].command, loaded.config.backends["z"].args) == ("x", ("1",))
    assert (loaded.config.backends["o"].command, loaded.config.backends["o"].args) == ("npx", ("-y",))


def test_findings_in_a_clients_file_use_its_own_words_and_lines(load: Load) -> None:
    text = '{\n "mcpServers": {\n  "a": {\n   "httpUrl": "ftp://h/"\n  }\n }\n}'
    (finding,) = load(text, name="mcp.json").errors
    assert finding.text().partition("mcp.json:")[2].startswith("4: mcpServers.a.httpUrl: ")


@pytest.mark.parametrize(
    ("value", "off"),
    [
        (True, True),
        ("true", True),
        (1, True),
        ("yes", True),
        (False, False),
        ("false", False),
        (0, False),
        (None, False),
    ],
)
def test_disabled_is_understood_however_it_is_written(load: Load, value: object, off: bool) -> None:
    loaded = load(json.dumps({"mcpServers": {"a": {"command": "x", "disabled": value}}}), name="mcp.json")
    assert ("a" in loaded.disabled) is off
    assert ("a" in loaded.config.backends) is not off
    for key in ("enabled", "isActive") if value is not None else ():
        assert ("a" in servers(load, {"a": {"command": "x", key: value}}).disabled) is not off


def test_an_invalid_switch_disables_the_server_with_a_warning(load: Load) -> None:
    loaded = load('{"mcpServers": {"a": {"command": "x", "disabled": "perhaps"}}}', name="mcp.json")
    assert loaded.disabled["a"] == "found 'perhaps', allowed: true, false (mcpServers.a.disabled)"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(60, 60.0), (60_000, 60.0)],
)
def test_the_unit_that_a_timeout_is_read_in_is_named(load: Load, written: object, seconds: float) -> None:
    loaded = servers(load, {"a": {"command": "x", "timeout": written}})
    assert loaded.config.backends["a"].timeout == seconds
    assert [p.found for p in loaded.problems] == [f"timeout {written} is read as {seconds:g} s"]


@pytest.mark.parametrize("written", [0, -1, "soon", True, [], "0"])
def test_an_invalid_timeout_is_a_warning_with_the_one_in_force(load: Load, written: object) -> None:
    loaded = load(json.dumps({"mcpServers": {"a": {"command": "x", "timeout": written}}}), name="mcp.json")
    (problem,) = loaded.problems
    assert loaded.config.backends["a"].timeout == 30.0
    assert (problem.severity, problem.key) == ("warning", "mcpServers.a.timeout")
    assert "30 s is in force" in problem.found


def test_editor_variables_get_a_warning_with_their_value(load: Load, tmp_path: Path) -> None:
    server = {"command": "${workspaceFolder}/bin/x", "args": ["${userHome}", "${file}"]}
    loaded = load(json.dumps({"mcpServers": {"a": server}}), name=".cursor/mcp.json")
    told = {problem.key: problem for problem in loaded.problems}
    assert f"is read as {tmp_path}:" in told["mcpServers.a.command"].found
    assert told["mcpServers.a.command"].severity == "warning"
    assert told["mcpServers.a.args[1]"].found == "${file} has no meaning outside an editor"
    assert "mcpServers.a.args[0]" not in told


def test_servers_of_single_projects_are_not_left_out_in_silence(load: Load) -> None:
    projects = {"/p": {"mcpServers": {"b": {"command": "y"}}}, "/q": {"mcpServers": {}}}
    document = {"mcpServers": {"a": {"command": "x"}}, "projects": projects}
    loaded = load(json.dumps(document), name=".claude.json")
    assert list(loaded.config.backends) == ["a"]
    (problem,) = loaded.problems
    assert (problem.severity, problem.key) == ("warning", "projects./p.mcpServers")
    alone = load(json.dumps({"projects": projects}), name=".claude.json")
    assert (list(alone.config.backends), alone.problems) == (["b"], ())


@pytest.mark.parametrize("value", [[], [{"name": "a", "command": "x"}], "a", 5])
def test_servers_that_are_no_mapping_are_named_as_such(load: Load, value: object) -> None:
    (problem,) = load(json.dumps({"mcpServers": value}), name="mcp.json").problems
    assert (problem.key, problem.allowed) == ("mcpServers", "a mapping by name")


def test_a_misspelt_key_of_the_servers_is_corrected(load: Load) -> None:
    with pytest.raises(ConfigError, match="Write mcpServers"):
        load('{"mcpservers": {"a": {"command": "x"}}}', name="mcp.json")


def test_a_url_with_a_missing_variable_has_one_finding(load: Load) -> None:
    loaded = load('{"mcpServers": {"a": {"url": "${NO}/mcp"}}}', name="mcp.json")
    assert loaded.disabled["a"] == (
        "NO is not set (mcpServers.a.url). Set NO in the environment or a .env file"
    )


def test_a_line_of_an_env_file_that_says_nothing_is_named_with_its_number(load: Load, tmp_path: Path) -> None:
    (tmp_path / "own.env").write_text("A=1\nexport B='two'\n# note\nBAD LINE\n")
    text = '{"mcpServers": {"a": {"command": "x", "envFile": "own.env"}}}'
    loaded = load(text, name="mcp.json")
    assert loaded.config.backends["a"].env == {"A": "1", "B": "two"}
    (problem,) = loaded.problems
    assert problem.found == f"{tmp_path / 'own.env'}:4 is not NAME=value and was ignored"


def test_an_env_file_that_is_not_a_path_is_an_error(load: Load) -> None:
    loaded = load('{"mcpServers": {"a": {"command": "x", "envFile": ["x"]}}}', name="mcp.json")
    assert loaded.disabled["a"] == "envFile is not a path (mcpServers.a.envFile). Write one path"


def of_file(load: Load, name: str, text: str, environ: dict[str, str] | None = None) -> Loaded:
    return load(text, environ or {}, name=name)


def test_codex_settings_of_single_tools_and_both_forms_of_variables_are_read(load: Load) -> None:
    loaded = of_file(
        load,
        "config.toml",
        '[mcp_servers.x]\ncommand = "x"\nenv_vars = [{name = "TOKEN", source = "local"}, "PLAIN"]\n'
        '[mcp_servers.x.tools.search]\napproval_mode = "approve"\n'
        "[mcp_servers.x.tools.drop]\nenabled = false\n",
    )
    server = loaded.config.backends["x"]
    assert server.inherit_env == ("TOKEN", "PLAIN")
    assert server.tools.deny == ("drop",)
    assert not loaded.errors


@pytest.mark.parametrize(
    "lists",
    ['"mcp": {"excluded": ["off"]}', '"mcp": {"allowed": ["on"]}', '"excludeMCPServers": ["off"]'],
)
def test_a_server_that_gemini_switched_off_by_name_stays_off(load: Load, lists: str) -> None:
    loaded = of_file(
        load,
        "settings.json",
        f'{{{lists}, "mcpServers": {{"on": {{"command": "x"}}, "off": {{"command": "y"}}}}}}',
    )
    assert list(loaded.disabled) == ["off"]
    assert "on" in loaded.config.backends


def test_opencodes_switches_of_tools_are_kept(load: Load) -> None:
    servers = {name: {"type": "local", "command": ["x"]} for name in ("all", "some", "every", "none")}
    tools = {
        "all_*": False,
        "some_a": False,
        "some_b*": False,
        "every*": False,
        "none_*": True,
        "bash": False,
    }
    config = load(json.dumps({"mcp": servers, "tools": tools}), name="opencode.json").config
    assert {name: one.tools.deny for name, one in config.backends.items()} == {
        "all": ("*",),
        "some": ("a", "b*"),
        "every": ("*",),
        "none": (),
    }


def test_what_only_the_client_itself_can_read_is_not_sent_as_it_is(load: Load) -> None:
    servers = {"a": {"type": "local", "command": ["x"], "environment": {"KEY": "{file:~/.key}"}}}
    assert "{file:…}" in load(json.dumps({"mcp": servers}), name="opencode.json").disabled["a"]


@pytest.mark.parametrize("folder", [".gemini", ".qwen"])
def test_geminis_variables_are_read_within_texts_where_they_are_set(load: Load, folder: str) -> None:
    server = {
        "command": "x",
        "args": ["Bearer $KEY", "a$UNSET", "price: $5", "${KEY}"],
        "env": {"P": "pa$word", "K": "$KEY"},
    }
    text = json.dumps({"mcpServers": {"a": server, "b": {**server, "args": ["$UNSET"]}}})
    loaded = load(text, {"KEY": "value"}, name=f"{folder}/settings.json")
    assert loaded.config.backends["a"].args == ("Bearer value", "a$UNSET", "price: $5", "value")
    assert loaded.config.backends["a"].env == {"P": "pa$word", "K": "value"}
    assert "UNSET is not set" in loaded.disabled["b"]


@pytest.mark.parametrize(
    ("name", "written", "seconds"),
    [
        (".roo/mcp.json", 3600, 3600),
        ("cline_mcp_settings.json", 1800, 1800),
        (".gemini/settings.json", 500, 0.5),
        (".kiro/settings/mcp.json", 900, 0.9),
        (".aws/amazonq/mcp.json", 120_000, 120),
        ("mcp.json", 60, 60),
    ],
)
def test_a_timeout_has_the_unit_of_its_client(load: Load, name: str, written: int, seconds: float) -> None:
    loaded = load(json.dumps({"mcpServers": {"a": {"command": "x", "timeout": written}}}), name=name)
    assert loaded.config.backends["a"].timeout == seconds


def test_filters_of_tools_are_never_wider_than_written(load: Load) -> None:
    servers = {
        "none": {"command": "x", "tools": []},
        "no_include": {"command": "x", "includeTools": []},
        "all": {"command": "x", "tools": ["*"]},
        "parts": {"command": "x", "tools": {"include": ["a", "b"], "exclude": ["b"]}},
    }
    found = load(json.dumps({"mcpServers": servers}), name="mcp.json").config.backends
    assert {name: (one.tools.allow, one.tools.deny) for name, one in found.items()} == {
        "none": ((), ("*",)),
        "no_include": ((), ("*",)),
        "all": ((), ()),
        "parts": (("a", "b"), ("b",)),
    }


def test_a_block_of_continues_hub_does_not_hide_the_servers_beside_it(load: Load) -> None:
    text = "mcpServers:\n  - uses: anthropic/memory-mcp\n  - {name: a, command: x}\n"
    loaded = load(text, name="config.yaml")
    assert list(loaded.config.backends) == ["a"]
    assert list(loaded.disabled) == ["anthropic-memory-mcp"]


def test_servers_without_a_key_around_them_are_read(load: Load) -> None:
    servers = {"a": {"command": "x", "working_directory": "/tmp"}, "b": {"url": "https://x.example/mcp"}}
    loaded = load(json.dumps(servers), name=".mcp.json")
    assert list(loaded.config.backends) == ["a", "b"]
    assert loaded.problems == ()


def test_a_finding_names_the_key_that_the_file_has(load: Load) -> None:
    codex = """
        [mcp_servers.a]
        url = "https://x.example/mcp"
        bearer_token_env_var = "ONE"
        http_headers = { "X-Two" = "${TWO}" }
        [mcp_servers.a.env_http_headers]
        X-Three = "THREE"
    """
    opencode = {"mcp": {"a": {"type": "local", "command": ["x", "-k", "{env:FOUR}"]}}}
    continues = "mcpServers:\n  - name: a\n    url: https://x.example\n    requestOptions: {headers: {K: '${{ secrets.FIVE }}'}}\n"
    for text, name, keys in (
        (textwrap.dedent(codex), "config.toml", ["a.bearer_token_env_var", "a.env_http_headers.X-Three"]),
        (json.dumps(opencode), "opencode.json", ["mcp.a.command[2]"]),
        (continues, "config.yaml", ["mcpServers[0].requestOptions.headers.K"]),
    ):
        problems = [problem.key for problem in load(text, name=name).problems]
        assert all(any(found.endswith(key) for found in problems) for key in keys), problems


def test_opencode_times_are_milliseconds_of_the_start_and_of_a_request(load: Load) -> None:
    old = of_file(
        load, "opencode.json", '{"mcp": {"a": {"type": "local", "command": ["x"], "timeout": 5000}}}'
    ).config.backends["a"]
    assert (old.connect_timeout, old.timeout) == (5.0, 30.0)
    new = of_file(
        load,
        "opencode.jsonc",
        '{"mcp": {"servers": {"a": {"type": "local", "command": ["x"], "timeout": {"startup": 7000, "request": 900}}}}}',
    ).config.backends["a"]
    assert (new.connect_timeout, new.timeout) == (7.0, 0.9)


GOOSE = """\
GOOSE_MODEL: m
extensions:
  developer: {type: builtin, name: developer, enabled: true, bundled: true}
  files:
    {type: stdio, name: files, cmd: npx, args: [-y, files], envs: {A: b}, env_keys: [KEY], timeout: 2000, enabled: true}
  web: {type: streamable_http, name: web, uri: "https://web.test/mcp", headers: {X: y}, enabled: false}
"""


def test_gooses_extensions_that_are_servers_are_read(load: Load) -> None:
    loaded = of_file(load, "config.yaml", GOOSE)
    assert not loaded.errors
    files = loaded.config.backends["files"]
    assert (files.command, files.args, files.env, files.inherit_env) == (
        "npx",
        ("-y", "files"),
        {"A": "b"},
        ("KEY",),
    )
    assert files.timeout == 2000
    assert list(loaded.disabled) == ["web"]
    assert set(loaded.origins) == {"files", "web"}


def test_continues_list_of_servers_is_read_with_its_lines_and_secrets(load: Load) -> None:
    loaded = of_file(
        load,
        "config.yaml",
        "name: mine\nversion: 1.0.0\nschema: v1\nmcpServers:\n"
        "  - name: My Files\n    command: npx\n    env: {A: '${{ secrets.NAME_1 }}'}\n    connectionTimeout: 4000\n"
        "  - name: web\n    type: streamable-http\n    url: https://web.test/\n"
        "    requestOptions: {headers: {X: y}}\n",
        environ={"NAME_1": "value-of-it"},
    )
    assert not loaded.errors
    files, web = loaded.config.backends["My-Files"], loaded.config.backends["web"]
    assert (files.env, files.connect_timeout) == ({"A": "value-of-it"}, 4.0)
    assert web.headers == {"X": "y"}
    assert loaded.origins["web"].endswith(":9")


def test_warps_working_directory_is_the_cwd(load: Load) -> None:
    text = '{"mcpServers": {"a": {"command": "x", "working_directory": "/srv"}}}'
    assert of_file(load, ".mcp.json", text).config.backends["a"].cwd == "/srv"


@pytest.mark.parametrize(
    ("client", "place"),
    [
        ("amazonq", ".aws/amazonq/cli-agents/mine.json"),
        ("goose", ".config/goose/config.yaml"),
        ("continue", ".continue/mcpServers/mine.yaml"),
        ("cline", ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        ("roo", ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"),
        ("junie", ".junie/mcp/mcp.json"),
        ("warp", ".warp/.mcp.json"),
        ("copilot", ".copilot/mcp-config.json"),
    ],
)
def test_the_files_of_further_clients_are_found(tmp_path: Path, client: str, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert find_sources(tmp_path, tmp_path / "elsewhere", {}) == [Source(client, path)]
