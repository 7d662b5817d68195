"""`import`: a plan first, both of two differing servers kept, client files untouched, our file kept whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gatemini.cli.import_servers import kept_in_store
from gatemini.config.clients.importing import ImportPlan, inline_values, move_secrets, plan_import, plan_text
from gatemini.config.clients.read import ClientContext
from gatemini.config.clients.table import Source, find_sources
from gatemini.config.documents.yaml_edit import add_backends
from gatemini.config.load import load_config
from gatemini.config.variables.store import STORE, SecretStore
from gatemini.errors import ConfigError

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def client_file(path: Path, servers: dict[str, Any]) -> Source:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}, indent=1))
    return Source(path.stem, path)


def planned(folder: Path, *sources: Source) -> ImportPlan:
    return plan_import(sources, folder / "config.yaml", ClientContext({}, folder))


def states(plan: ImportPlan) -> dict[str, str]:
    return {item.name: item.status for item in plan.items}


def test_two_files_that_define_one_name_differently_are_both_kept(tmp_path: Path) -> None:
    first = client_file(tmp_path / "cursor.json", {"github": {"command": "a"}, "same": {"command": "s"}})
    second = client_file(tmp_path / "vscode.json", {"github": {"command": "b"}, "same": {"command": "s"}})
    plan = planned(tmp_path, first, second)
    assert [(i.name, i.status) for i in plan.items] == [
        ("github", "new"), ("same", "new"), ("github-vscode", "renamed"), ("same", "same"),
    ]  # fmt: skip
    assert "defined differently" in plan.items[2].detail


def test_servers_of_single_projects_are_taken_over_beside_those_for_all(tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    both = {"docs": {"command": "d"}, "gh": {"command": "b"}}
    projects = {"/one": {"mcpServers": both}, "/two": {"mcpServers": {"docs": {"command": "d"}}}}
    path.write_text(json.dumps({"mcpServers": {"gh": {"command": "a"}}, "projects": projects}))
    plan = planned(tmp_path, Source("claude-code", path))
    assert [(i.name, i.status, i.notes) for i in plan.items] == [
        ("gh", "new", []),
        ("docs", "new", ["there only in the project /one"]),
        ("gh-claude-code", "renamed", ["there only in the project /one"]),
        ("docs", "same", ["there only in the project /two"]),
    ]


def test_a_server_that_was_taken_over_under_another_name_is_not_taken_over_again(tmp_path: Path) -> None:
    first = client_file(tmp_path / "cursor.json", {"github": {"command": "a"}})
    second = client_file(tmp_path / "vscode.json", {"github": {"command": "b"}})
    plan_text(planned(tmp_path, first, second), tmp_path / "config.yaml").write()
    by_name = planned(tmp_path, Source("file", second.path)).items[0]
    assert (by_name.name, by_name.status) == ("github-vscode", "same")


def test_an_import_lists_the_own_entry_broken_and_disabled_servers(tmp_path: Path) -> None:
    source = client_file(
        tmp_path / "c.json",
        {"me": {"command": "gatemini"}, "bad": {"env": {}}, "ws": {"type": "ws", "url": "x"}, "off": {"command": "x", "disabled": True}},
    )  # fmt: skip
    plan = planned(tmp_path, source)
    assert states(plan) == {"me": "self", "bad": "unusable", "ws": "unusable", "off": "new"}
    edited = plan_text(plan, tmp_path / "config.yaml")
    assert yaml.safe_load(edited.after) == {"backends": {"off": {"command": "x", "disabled": True}}}


def test_planning_writes_nothing_and_no_client_file_is_ever_changed(tmp_path: Path) -> None:
    source = client_file(tmp_path / "c.json", {"a": {"command": "x", "env": {"API_KEY": TOKEN}}})
    before = source.path.read_bytes()
    plan = planned(tmp_path, source)
    moved = move_secrets(plan)
    plan_text(plan, tmp_path / "config.yaml")
    assert moved == ["a.API_KEY"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.json"]
    plan_text(plan, tmp_path / "config.yaml").write()
    assert source.path.read_bytes() == before


def test_secrets_written_in_clear_are_named_and_move_to_private_files(tmp_path: Path) -> None:
    servers = {
        "a": {
            "command": "x",
            "env": {"API_KEY": "pa$$w0rd", "MODE": "fast", "OTHER": TOKEN, "REF": "${TOKEN}"},
        },
        "b": {"url": "https://h/", "headers": {"Authorization": f"Bearer {TOKEN}"}},
    }
    plan = planned(tmp_path, client_file(tmp_path / "c.json", servers))
    assert [[(s.place, s.name) for s in item.secrets] for item in plan.items] == [
        [("env", "API_KEY"), ("env", "OTHER")], [("headers", "Authorization")],
    ]  # fmt: skip
    assert TOKEN not in json.dumps([item.to_json() for item in plan.items])
    assert TOKEN in dict(inline_values(plan)).values()
    move_secrets(plan, kept_in_store(SecretStore(tmp_path / STORE)))
    target = tmp_path / "config.yaml"
    plan_text(plan, target).write()
    assert TOKEN not in target.read_text()
    assert (tmp_path / STORE / "a.API_KEY").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / STORE).stat().st_mode & 0o777 == 0o700
    loaded = load_config(target, environ={"TOKEN": "t-123456"}, home=tmp_path, config_dir=tmp_path)
    assert loaded.config.backends["a"].env == {
        "API_KEY": "pa$$w0rd", "MODE": "fast", "OTHER": TOKEN, "REF": "t-123456",
    }  # fmt: skip
    assert loaded.config.backends["b"].headers == {"Authorization": f"Bearer {TOKEN}"}
    again = planned(tmp_path, client_file(tmp_path / "c.json", servers))
    assert states(again) == {"a": "same", "b": "same"}


@pytest.mark.parametrize(
    ("server", "written"),
    [
        ({"command": "x", "args": ["--api-key", TOKEN, "y"]}, ["--api-key", "${input:a.api-key}", "y"]),
        ({"command": "docker", "args": ["-e", "MY_TOKEN=s$3"]}, ["-e", "MY_TOKEN=${input:a.MY_TOKEN}"]),
        ({"command": "x", "args": [TOKEN]}, ["${input:a.arg0}"]),
        ({"url": "https://u:api@api.example.com/api"}, "https://u:${input:a.password}@api.example.com/api"),
        (
            {"url": "https://h/mcp?key=abc&token=abcdef"},
            "https://h/mcp?key=${input:a.key}&token=${input:a.token}",
        ),
        ({"url": "https://h/?api_key=abc123&v=abc1234"}, "https://h/?api_key=${input:a.api_key}&v=abc1234"),
        ({"url": "https://u:p$w@p$w/?q=p$w&key=p$w"}, "https://u:${input:a.password}@p$$w/?q=p$$w&key=${input:a.key}"),
        ({"url": "https://u:a%2Bb@h/?password=a+b"}, "https://u:${input:a.password}@h/?password=${input:a.password-2}"),
        ({"url": "https://${env:H}/?v=${NO:-{a&key=b}&key=b"}, "https://${H}/?v=${NO:-{a&key=b}&key=${input:a.key}"),
        (
            {"command": "x", "args": ["mcp-remote", "https://h/mcp?api_key=a%26b&v=a%26b"]},
            ["mcp-remote", "https://h/mcp?api_key=${input:a.api_key}&v=a%26b"],
        ),
        (
            {"command": "x", "args": ["server-postgres", "postgresql://u:db@db/db"]},
            ["server-postgres", "postgresql://u:${input:a.password}@db/db"],
        ),
        (
            {"command": "x", "args": [f"--url=https://u:{TOKEN}@h/{TOKEN}?to={TOKEN}"]},
            ["--url=https://u:${input:a.password}@h/${input:a.arg0}?to=${input:a.to}"],
        ),
        (
            {"command": "x", "args": ["--header=Authorization: Bearer abcdef", "-e=MY_TOKEN=e"]},
            ["--header=Authorization: Bearer ${input:a.Authorization}", "-e=MY_TOKEN=${input:a.MY_TOKEN}"],
        ),
        (
            {"command": "x", "args": ["https://${env:H}/?key=abc"]},
            ["https://${H}/?key=${input:a.key}"],
        ),
        (
            {"command": "x", "env": {"DATABASE": "pg://u:db@db/db", "PASSWORD_FILE": "/run/x"}},
            {"DATABASE": "pg://u:${input:a.password}@db/db", "PASSWORD_FILE": "/run/x"},
        ),
    ],
)  # fmt: skip
def test_a_secret_is_replaced_only_where_it_was_found(
    tmp_path: Path, server: dict[str, Any], written: Any
) -> None:
    source = client_file(tmp_path / "c.json", {"a": server})
    direct = load_config(source.path, environ={"H": "h"}, home=tmp_path, config_dir=tmp_path)
    plan = planned(tmp_path, source)
    move_secrets(plan, kept_in_store(SecretStore(tmp_path / STORE)))
    place = "url" if "url" in server else "env" if "env" in server else "args"
    assert plan.items[0].raw[place] == written
    target = tmp_path / "config.yaml"
    plan_text(plan, target).write()
    loaded = load_config(target, environ={"H": "h"}, home=tmp_path, config_dir=tmp_path)
    meant, before = (getattr(one.config.backends["a"], place) for one in (loaded, direct))
    assert (unquote_plus(meant) if place == "url" else meant) == (
        unquote_plus(before) if place == "url" else before
    )


@pytest.mark.parametrize(
    "args",
    [
        ["--token-limit", "100"],
        ["--password-file", "/run/x", "--tokenPath=/run/y"],
        ["--key-column", "id"],
        ["--mode", "fast", "https://h/?key=${T}", "--token", "${T}", "--token"],
        ["--auth", "none", "--auth=oauth2"],
        ["-e", "TOKEN_URL=https://h/token"],
        [
            "https://h/?token_type=jwt&user=u",
            "mongodb://h/?authSource=admin",
            "https://u@h/",
            "https://h/a:b@c",
        ],
    ],
)
def test_values_about_secrets_are_not_taken_for_secrets(tmp_path: Path, args: list[str]) -> None:
    plan = planned(tmp_path, client_file(tmp_path / "c.json", {"a": {"command": "x", "args": args}}))
    assert plan.items[0].secrets == []


def test_a_listed_secret_with_a_dollar_is_hidden_as_the_diff_writes_it(tmp_path: Path) -> None:
    source = client_file(tmp_path / "c.json", {"a": {"command": "x", "args": ["--token", "pa$$w0rd"]}})
    assert inline_values(planned(tmp_path, source)) == [("token", "pa$$$$w0rd")]


def test_secrets_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    args = ["--token", "first-secret", "--token", "second-secret", "--token", "first-secret"]
    plan = planned(tmp_path, client_file(tmp_path / "c.json", {"a": {"command": "x", "args": args}}))
    assert move_secrets(plan) == ["a.token", "a.token-2"]
    assert plan.items[0].raw["args"][1::2] == ["${input:a.token}", "${input:a.token-2}", "${input:a.token}"]


def test_an_imported_server_behaves_as_at_its_client(tmp_path: Path) -> None:
    servers = {
        "a": {
            "command": "x",
            "args": [
                "pa$$x",
                "$HOME",
                "$",
                "${NO:-d$$}",
                "${workspaceFolder}/y",
                "${env:U}",
                "${weird form}",
                "$$${U}",
            ],
        }
    }
    source = client_file(tmp_path / ".cursor" / "mcp.json", servers)
    target = tmp_path / "config.yaml"
    direct = load_config(source.path, environ={"U": "me"}, home=tmp_path, config_dir=tmp_path)
    assert "is not understood" in direct.disabled["a"]
    servers["a"]["args"].remove("${weird form}")
    source = client_file(source.path, servers)
    direct = load_config(source.path, environ={"U": "me"}, home=tmp_path, config_dir=tmp_path)
    plan_text(planned(tmp_path, source), target).write()
    imported = load_config(target, environ={"U": "me"}, home=tmp_path, config_dir=tmp_path)
    assert imported.config.backends["a"].args == direct.config.backends["a"].args
    assert imported.config.backends["a"].args[:5] == ("pa$$x", "$HOME", "$", "d$$", f"{tmp_path}/y")


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# only a comment\n",
        "log_level: info\n",
        "log_level: info",
        "backends:\n",
        "backends: # none yet\nlog_level: info\n",
        "backends: ~\n",
        "backends:\n  a: {command: x} # keep\n\n# tail\nlog_level: info\n",
        "backends:\n    a:\n        command: x\n        args:\n        - one\n        - two   # last\n# end\n",
        "backends:\n  a:\n    command: x\n    env:\n      K: |\n        line one\n        line two\n\nlog_level: info\n",
        "backends:\n  a: {command: x}",
        "backends: &b\n  a: {command: x}\n",
    ],
)
def test_our_file_keeps_its_comments_order_and_meaning(tmp_path: Path, before: str) -> None:
    path = tmp_path / "config.yaml"
    if before:
        path.write_text(before)
    raw = {"command": "npx", "args": ["-y", "no", "1.10", "a: b"], "env": {"T": "x\ny"}}
    edited = add_backends(path, {"new": raw})
    for line in before.splitlines():
        assert line.partition("#")[2] in edited.after
        assert line.rstrip(" ~") in edited.after
    old = yaml.safe_load(before) or {}
    assert yaml.safe_load(edited.after) == {**old, "backends": {**(old.get("backends") or {}), "new": raw}}


def test_a_file_that_cannot_be_extended_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("backends: {a: {command: x}}\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:1: backends is written on one line"):
        add_backends(path, {"new": {"command": "y"}})
    path.write_text("backends: [a]\n")
    with pytest.raises(ConfigError):
        add_backends(path, {"new": {"command": "y"}})


def test_writing_keeps_a_backup_and_the_files_mode(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("backends:\n  a: {command: x}\n")
    path.chmod(0o640)
    backup = add_backends(path, {"b": {"command": "y"}}).write()
    assert backup is not None
    assert backup.read_text() == "backends:\n  a: {command: x}\n"
    assert path.stat().st_mode & 0o777 == 0o640
    fresh = tmp_path / "deep" / "config.yaml"
    assert add_backends(fresh, {"b": {"command": "y"}}).write() is None
    assert fresh.stat().st_mode & 0o777 == 0o600


def test_a_clients_file_is_never_the_target(tmp_path: Path) -> None:
    source = client_file(tmp_path / "c.json", {"a": {"command": "x"}})
    with pytest.raises(ConfigError, match="never written to"):
        plan_import([source], source.path, ClientContext({}, tmp_path))


def test_an_unreadable_file_is_listed_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"mcpServers": {')
    good = client_file(tmp_path / "good.json", {"a": {"command": "x"}})
    plan = planned(tmp_path, Source("x", tmp_path / "bad.json"), good)
    assert states(plan) == {"a": "new"}
    assert "bad.json:1" in plan.unreadable[0]


@pytest.mark.parametrize(
    ("client", "place"),
    [
        ("opencode", "home/.config/opencode/opencode.json"),
        ("opencode", "home/.config/opencode/opencode.jsonc"),
        ("opencode", "work/opencode.json"),
        ("opencode", "work/opencode.jsonc"),
        ("crush", "home/.config/crush/crush.json"),
        ("crush", "work/crush.json"),
        ("crush", "work/.crush.json"),
    ],
)
def test_the_files_of_opencode_and_crush_are_found_and_read(tmp_path: Path, client: str, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text('{"mcp": {"a": {"command": "x"}, /* as in the other file */ "b": {"enabled": false}}}')
    sources = find_sources(tmp_path / "home", tmp_path / "work", {})
    assert sources == [Source(client, path)]
    assert states(planned(tmp_path, *sources)) == {"a": "new", "b": "unusable"}


def test_the_usual_client_files_are_found(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    for path in (
        home / ".claude.json",
        home / ".codex/config.toml",
        folder / ".vscode/mcp.json",
        folder / ".mcp.json",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    found = [(s.client, s.path.relative_to(tmp_path).as_posix()) for s in find_sources(home, folder, {})]
    assert found == [
        ("claude-code", "home/.claude.json"), ("claude-code", "work/.mcp.json"),
        ("vscode", "work/.vscode/mcp.json"), ("codex", "home/.codex/config.toml"),
    ]  # fmt: skip
    assert [s.client for s in find_sources(home, folder, {}, ["codex"])] == ["codex"]


def test_the_file_of_cline_is_found_where_its_variables_or_its_own_folder_say(tmp_path: Path) -> None:
    files = {
        "data": tmp_path / "data/settings/cline_mcp_settings.json",
        "own": tmp_path / "home/.cline/data/settings/cline_mcp_settings.json",
        "named": tmp_path / "named.json",
    }
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    environ = {"CLINE_MCP_SETTINGS_PATH": str(files["named"]), "CLINE_DATA_DIR": str(tmp_path / "data")}
    found = find_sources(tmp_path / "home", tmp_path, environ, ["cline"])
    assert [source.path for source in found] == [files["named"], files["data"], files["own"]]


SCALARS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}", fullmatch=True), SCALARS, min_size=1, max_size=3
    )
)
def test_any_text_survives_being_written_to_yaml(values: dict[str, str]) -> None:
    backends = {name: {"command": text, "args": [text], "env": {"K": text}} for name, text in values.items()}
    assert yaml.safe_load(add_backends(Path("/nowhere/config.yaml"), backends).after) == {
        "backends": backends
    }


def test_a_file_that_is_both_of_the_home_and_of_the_folder_is_read_once(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text("{}")
    assert [source.client for source in find_sources(tmp_path, tmp_path, {})] == ["gemini"]
