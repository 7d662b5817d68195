"""`install` and `uninstall`: clients' files keep every byte outside our entry, and get back what was taken."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from fixtures.client_files import parsed, place, servers, written
from fixtures.command_line import Run
from fixtures.daemons import home as daemon_home
from gatemini.config.clients.client_file import BACKUP
from gatemini.config.clients.own_entry import launch_command
from gatemini.config.clients.table import CLIENT_FILES, INSTALLS

JSON_FILES = {
    "comments": '{\n  // mine\n  "SECTION": { // servers\n    // the first\n    "a": {"command": "x"}, /* b */\n    "c": {"url": "https://h//p"},\n  },\n  "z": [1, "{"],\n}\n',
    "tabs": '{\n\t"theme": "dark",\n\t"SECTION": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}',
    "crlf": '{\r\n    "SECTION": {\r\n        "a": {"command": "x"} // c\r\n    }\r\n}\r\n',
    "bom": '\ufeff{\n  "SECTION": {"a": {"command": "x"}}\n}\n',
    "empty": "",
    "nothing in it": "{}",
    "read-only": '{\n  "x": 1\n}\n',
    "link": '{\n  "x": {"SECTION": 1},\n  "SECTION": {}\n}\n',
    "no section": '{\n  // mine\n  "y": "x"\n}\n',
    "2 MB": '{\n  "history": [\n' + ",\n".join(f'    "{"h" * 70} {n}"' for n in range(28_000)) + "\n  ]\n}\n",
    "other order": '{"z": 1, "SECTION": {"b": {"args": [], "command": "y"}, "a": {"env": {}, "command": "x"}}, "a": 2}',
}
TOML_FILES = {
    "comments": '# mine\nmodel = "o" # c\n\n[mcp_servers.a] # first\ncommand = "x"\nargs = [\n  ["q"], # d\n]\n\n# about tui\n[tui]\nx = 1\n',
    "tabs": '\tmodel = "o"\n[mcp_servers.a]\n\tcommand = "x"\n[mcp_servers.a.env]\n\tK = """\n[mcp_servers.b]\n"""',
    "crlf": 'model = "o"\r\n\r\n[mcp_servers.a]\r\ncommand = "x"\r\n',
    "bom": '\ufeffmodel = "o"\n',
    "empty": "",
    "nothing in it": "\n",
    "read-only": "x = 1\n",
    "link": "[mcp_servers]\n",
    "no section": '# mine\ny = "x"\n',
    "2 MB": "".join(f'k{n} = "{"h" * 70}"\n' for n in range(26_000)),
    "other order": '[tui]\nx = 1\n[mcp_servers.b]\nargs = []\ncommand = "y"\n[other]\n[mcp_servers.a]\ncommand = "x"\n',
}


def content(client: str, kind: str) -> bytes:
    section = INSTALLS[client].section[0]
    if client == "codex":
        return TOML_FILES[kind].encode()
    return JSON_FILES[kind].replace("SECTION", section).encode()


@pytest.mark.parametrize("client", INSTALLS)
def test_a_file_has_its_bytes_again_after_install_twice_and_uninstall(
    client: str, run: Run, home: Path, subtests: pytest.Subtests
) -> None:
    for kind in (kind for kind in JSON_FILES if kind != "2 MB"):
        with subtests.test(kind):
            installed_and_removed(client, kind, run, home)


@pytest.mark.parametrize("client", INSTALLS)
@pytest.mark.long
def test_a_file_of_2_mb_has_its_bytes_again(client: str, run: Run, home: Path) -> None:
    installed_and_removed(client, "2 MB", run, home)


def installed_and_removed(client: str, kind: str, run: Run, home: Path) -> None:
    original = content(client, kind)
    path = written(client, home, original)
    before = parsed(path)
    backup = path.with_name(path.name + BACKUP)
    if kind == "link":
        behind = path.rename(home / "elsewhere")
        path.symlink_to(behind)
    path.chmod(0o444 if kind == "read-only" else 0o640)
    first = run("install", client)
    if kind == "read-only":
        assert first.code == 1
        assert "read-only" in first.err
        assert launch_command()[0] in first.err
        assert path.read_bytes() == original
    else:
        assert first.code == 0, first
        section = INSTALLS[client].section[0]
        ours = {"gatemini": servers(client, path)["gatemini"]}
        assert ours["gatemini"]["command"] == launch_command()[0]
        assert parsed(path) == {**before, section: {**before.get(section, {}), **ours}}
        assert path.stat().st_mode & 0o777 == 0o640
        assert backup.read_bytes() == original
        after = path.read_bytes()
        assert run("install", client, "--json").json["clients"][0]["status"] == "unchanged"
        assert path.read_bytes() == after
        assert run("uninstall", client).code == 0
        assert path.read_bytes() == original
        assert path.is_symlink() == (kind == "link")
    assert not backup.exists()
    path.unlink()


@pytest.mark.parametrize("client", INSTALLS)
def test_bytes_outside_our_entry_stay_when_the_file_was_changed_meanwhile(
    client: str, run: Run, home: Path, subtests: pytest.Subtests
) -> None:
    for kind in ("comments", "tabs", "crlf", "other order", "no section"):
        with subtests.test(kind):
            path = written(client, home, content(client, kind))
            assert run("install", client).code == 0
            edited = path.read_bytes().replace(b'"x"', b'"changed"')
            path.write_bytes(edited)
            assert run("uninstall", client).code == 0
            # A last line without an end gets one, so that a table can follow it.
            assert path.read_bytes().rstrip() == content(client, kind).replace(b'"x"', b'"changed"').rstrip()


@pytest.mark.parametrize("client", INSTALLS)
def test_a_broken_file_and_a_foreign_entry_stay_untouched(client: str, run: Run, home: Path) -> None:
    section = INSTALLS[client].section[0]
    broken = written(client, home, "[mcp_servers\n" if client == "codex" else '{"x": {')
    result = run("install", client)
    assert result.code == 1
    assert "untouched; add this by hand" in result.err
    assert launch_command()[0] in result.err
    assert not broken.with_name(broken.name + BACKUP).exists()
    foreign = (
        '[mcp_servers.gatemini]\ncommand = "other"\n'
        if client == "codex"
        else json.dumps({section: {"gatemini": {"command": "other"}}})
    )
    path = written(client, home, foreign)
    assert "--force" in run("install", client).err
    assert run("uninstall", client).code == 1
    assert path.read_text() == foreign
    assert run("install", client, "--force").code == 0
    assert servers(client, path)["gatemini"]["command"] == launch_command()[0]
    assert run("uninstall", client).code == 0
    assert path.read_text() == foreign


def test_a_file_that_an_install_made_is_gone_after_it(run: Run, home: Path) -> None:
    assert run("install", "cursor", "codex").code == 0
    assert run("uninstall", "--all").code == 0
    assert not place("cursor", home).exists()
    assert not place("codex", home).exists()


def test_a_link_that_leads_nowhere_is_followed_and_stays(run: Run, home: Path) -> None:
    path = place("cursor", home)
    path.parent.mkdir()
    path.symlink_to(home / "dotfiles" / "mcp.json")
    assert run("install", "cursor").code == 0
    assert "gatemini" in servers("cursor", home / "dotfiles" / "mcp.json")
    assert run("uninstall", "cursor").code == 0
    assert path.is_symlink()
    assert not path.exists()


def test_the_table_of_installs_is_that_of_imports() -> None:
    for install in INSTALLS.values():
        there = CLIENT_FILES[install.client]
        assert {*install.user, *([install.project] if install.project else [])} <= set(there)


def test_an_update_keeps_what_the_user_wrote_into_our_entry(run: Run, home: Path) -> None:
    old = {"command": "/old/gatemini", "args": ["--direct"], "env": {"A": "1"}, "disabled": True}
    path = written("cursor", home, json.dumps({"mcpServers": {"gatemini": old}}))
    assert run("install", "cursor").code == 0
    entry = servers("cursor", path)["gatemini"]
    assert entry == {"command": launch_command()[0], "args": [], "env": {"A": "1"}, "disabled": True}


def test_a_configuration_elsewhere_is_named_and_no_secret_is(run: Run, home: Path) -> None:
    config = home / "mine.yaml"
    config.write_text("backends: {a: {command: x, env: {T: '${NOPE}'}}}\n")
    assert run("-c", str(config), "install", "vscode").code == 0
    entry = servers("vscode", place("vscode", home))["gatemini"]
    assert entry == {
        "type": "stdio",
        "command": launch_command()[0],
        "args": [],
        "env": {"GATEMINI_CONFIG": str(config)},
    }
    assert Path(entry["command"]).is_absolute()


def test_a_url_is_written_with_the_name_of_the_variable_of_its_token(run: Run, home: Path) -> None:
    words = ("--url", "https://gw.example/mcp", "--token-env", "GW_TOKEN")
    expected = {
        "claude-code": {"type": "http", "url": words[1], "headers": {"Authorization": "Bearer ${GW_TOKEN}"}},
        "cursor": {"url": words[1], "headers": {"Authorization": "Bearer ${env:GW_TOKEN}"}},
        "vscode": {"type": "http", "url": words[1], "headers": {"Authorization": "Bearer ${env:GW_TOKEN}"}},
        "windsurf": {"serverUrl": words[1], "headers": {"Authorization": "Bearer ${env:GW_TOKEN}"}},
        "codex": {"url": words[1], "bearer_token_env_var": "GW_TOKEN"},
        "gemini-cli": {"httpUrl": words[1], "headers": {"Authorization": "Bearer ${GW_TOKEN}"}},
    }
    assert run("install", *expected, *words).code == 0
    found = {client: servers(client, place(client, home))["gatemini"] for client in expected}
    assert found == expected
    assert run("install", *expected, "--url", "https://other.example/mcp").code == 0
    assert run("uninstall", *expected).code == 0
    for client in ("claude-desktop", "zed"):
        refused = run("install", client, *words)
        assert refused.code == 1
        assert client in refused.err
    assert run("install", "cursor", "--token-env", "X").code == 2


def test_print_and_dry_run_write_nothing(run: Run, home: Path) -> None:
    printed = run("install", "codex", "--print")
    assert tomllib.loads(printed.out)["mcp_servers"]["gatemini"]["args"] == []
    path = written("cursor", home, '{\n  "mcpServers": {}\n}\n')
    before = path.read_bytes()
    assert '+    "gatemini": {' in run("install", "cursor", "--dry-run").out
    assert path.read_bytes() == before
    assert {p.name for p in path.parent.iterdir()} == {"mcp.json"}


def test_all_finds_the_clients_that_are_here_and_the_scope_is_a_project(run: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    written("claude-code", home, "{}")
    found = run("install", "--all", "--json").json["clients"]
    assert [row["client"] for row in found] == ["claude-code", "cursor"]
    assert run("install", "vscode", "--scope", "project").code == 0
    assert "gatemini" in servers("vscode", Path.cwd() / ".vscode" / "mcp.json")
    assert "no file of its own in a project" in run("install", "zed", "--scope", "project").err
    assert run("install").code == 2
    assert run("uninstall").code == 2
    assert "there is no client emacs" in run("install", "emacs").err


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
@pytest.mark.long
def test_each_written_entry_starts_as_its_client_would_start_it() -> None:
    with daemon_home() as home:
        done = home.run("-c", str(home.config), "install", *INSTALLS)
        assert done.returncode == 0, done
        checked = home.run("install", "--check", "--json")
        answer = json.loads(checked.stdout)
        assert [row["client"] for row in answer["clients"]] == list(INSTALLS)
        assert answer["ok"], checked
        assert all("call_tool_chain" in row["tools"] for row in answer["clients"])
        assert len(home.daemons()) <= 1
        home.run("install", "cursor", "--force", "--url", "http://127.0.0.1:9/mcp")
        assert "did not answer" in home.run("install", "--check", "cursor").stderr


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may give files away")
def test_the_owner_of_a_file_stays(run: Run, home: Path) -> None:
    path = written("cursor", home, "{}")
    os.chown(path, 12345, 23456)
    assert run("install", "cursor").code == 0
    for kept in (path, path.with_name(path.name + BACKUP)):
        assert (kept.stat().st_uid, kept.stat().st_gid) == (12345, 23456)
    assert run("uninstall", "cursor").code == 0
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)
