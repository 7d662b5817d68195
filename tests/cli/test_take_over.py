"""`install --take-over` and `uninstall --restore`: servers move behind the gateway and come back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keyring
import pytest
import yaml
from keyring.backends import fail
from keyrings.alt.file import PlaintextKeyring

from fixtures.client_files import parsed, servers, written
from fixtures.command_line import Run
from gatemini.config.clients.client_file import BACKUP
from gatemini.config.clients.table import INSTALLS
from gatemini.config.load import load_config

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
SERVERS = {
    "github": {
        "url": f"https://me:{TOKEN}x@h.example/s/YzQ2ZmY5NzItZjM4Ny00/mcp?k={TOKEN}y",
        "headers": {"Authorization": f"Bearer {TOKEN}z"},
    },
    "time": {"command": "mcp-server-time", "env": {"SMTP": "p4ssw0rd-in-env"}},
    "bad": {"type": "websocket", "url": "x"},
}


@pytest.mark.parametrize("keychain", [True, False], ids=["keychain", "no keychain"])
@pytest.mark.parametrize("client", ["claude-code", "cursor", "codex", "zed"])
def test_servers_move_behind_the_gateway_and_come_back(
    client: str, keychain: bool, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", PlaintextKeyring() if keychain else fail.Keyring())
    section = INSTALLS[client].section[0]
    original = (
        "".join(
            f"[mcp_servers.{name}]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in one.items())
            for name, one in SERVERS.items()
        )
        if client == "codex"
        else "{\n  // mine\n" + json.dumps({section: SERVERS}, indent=4)[2:]
    )
    path = written(client, home, original)
    shown = run("install", client, "--take-over", "--dry-run")
    assert path.read_text() == original
    moved = run("install", client, "--take-over")
    assert moved.code == 0, moved
    for text in (shown.out, shown.err, moved.out, moved.err):
        assert TOKEN not in text
        assert "p4ssw0rd" not in text
        assert "YzQ2ZmY5" not in text
    assert "bad stays" in moved.out
    assert set(servers(client, path)) == {"gatemini", "bad"}
    config = (home / ".config" / "gatemini" / "config.yaml").read_text()
    assert ("secretref:keyring:github.Authorization" in config) == keychain
    assert ("${input:github.Authorization}" in config) != keychain
    assert set(yaml.safe_load(config)["backends"]) == {"github", "time"}
    assert TOKEN not in config
    loaded = load_config(home / ".config" / "gatemini" / "config.yaml", environ=os.environ)
    assert loaded.errors == ()
    taken = loaded.config.backends["github"]
    assert (taken.url, dict(taken.headers)) == (SERVERS["github"]["url"], SERVERS["github"]["headers"])
    left = run("uninstall", client)
    assert "--restore" in left.out
    assert set(servers(client, path)) == {"bad"}
    assert run("uninstall", client, "--restore").code == 0
    assert path.read_text() == original


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", ""),
        ('{\n  "mcpServers": {}\n}\n', ""),
        ("\ufeff", ""),
        ('{"x": 1, "x": 2}', ""),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "a is written twice"),
        (
            '{"projects": {"/p": {"mcpServers": {"mine": {"command": "y"}}}}}',
            "mine stays: is of the project /p only",
        ),
    ],
)
def test_a_take_over_of_a_file_without_servers_to_take_is_an_install(
    content: str, said: str, run: Run, home: Path
) -> None:
    path = written("claude-code", home, content)
    done = run("install", "claude-code", "--take-over")
    assert done.code == 0, done
    assert said in done.out
    assert "gatemini" in path.read_text()
    assert not (home / ".config" / "gatemini" / "config.yaml").exists()
    assert run("uninstall", "claude-code", "--restore").code == 0
    assert path.read_text() == content


@pytest.mark.parametrize("content", ["[]", "// mine\n", '{"mcpServers": []}', '{"mcpServers": {}} x'])
def test_a_take_over_of_a_file_that_cannot_be_edited_prints_the_entry(
    content: str, run: Run, home: Path
) -> None:
    path = written("cursor", home, content)
    refused = run("install", "cursor", "--take-over")
    assert refused.code == 1
    assert "untouched; add this by hand" in refused.err
    assert "backends" not in refused.err
    assert "no configuration yet" not in refused.err
    assert path.read_text() == content


@pytest.mark.parametrize("fault", ["read-only", "a foreign backup", "a folder for a backup", "two names"])
def test_a_take_over_that_the_client_s_file_refuses_leaves_ours_as_it_is(
    fault: str, run: Run, home: Path
) -> None:
    content = json.dumps({"mcpServers": {"a": {"command": "x", "env": {"API_KEY": TOKEN}}}})
    path = written("cursor", home, content)
    backup = path.with_name(path.name + BACKUP)
    if fault == "read-only":
        path.chmod(0o444)
    elif fault == "a foreign backup":
        backup.write_text("[broken")
    elif fault == "a folder for a backup":
        backup.mkdir()
    else:
        path.write_text(content := content.replace("{", '{"mcpServers": {}, ', 1))
    refused = run("install", "cursor", "--take-over")
    assert refused.code == 1
    assert ("backup that is not ours, mcp.json.gatemini-backup" in refused.err) == ("backup" in fault)
    assert path.read_text() == content
    assert not (home / ".config" / "gatemini").exists()


def test_what_a_moved_server_lacks_is_said_at_once(run: Run, home: Path) -> None:
    server = {"command": "sh", "env": {"K": "${input:my-key}"}}
    written(
        "vscode", home, json.dumps({"inputs": [{"id": "my-key", "password": True}], "servers": {"a": server}})
    )
    moved = run("install", "vscode", "--take-over")
    assert "a does not start yet: the input my-key needs `gatemini secret set my-key`" in moved.out
    assert moved.code == 0


def test_servers_of_single_projects_stay_in_theirs(run: Run, home: Path) -> None:
    one = {"mcpServers": {"mine": {"command": "y"}}}
    path = written(
        "claude-code", home, json.dumps({"mcpServers": {"a": {"command": "x"}}, "projects": {"/p": one}})
    )
    moved = run("install", "claude-code", "--take-over")
    assert "mine stays: is of the project /p only" in moved.out
    assert parsed(path)["projects"] == {"/p": one}
    assert "mine" not in (home / ".config" / "gatemini" / "config.yaml").read_text()


def test_servers_come_back_into_a_file_that_was_changed_meanwhile(run: Run, home: Path) -> None:
    path = written("cursor", home, '{\n  "mcpServers": {\n    "a": {"command": "x"} // mine\n  }\n}\n')
    assert run("install", "cursor", "--take-over").code == 0
    path.write_text(path.read_text().replace("{\n", '{\n  "new": 1,\n', 1))
    assert run("uninstall", "cursor", "--restore").code == 0
    assert parsed(path) == {"new": 1, "mcpServers": {"a": {"command": "x"}}}


def test_a_server_that_came_after_the_install_is_kept_when_it_is_taken_over(run: Run, home: Path) -> None:
    path = written("cursor", home, '{\n  "mcpServers": {}\n}\n')
    assert run("install", "cursor").code == 0
    later = path.read_text().replace('"mcpServers": {', '"mcpServers": {"late": {"command": "y"},')
    path.write_text(later)
    assert run("install", "cursor", "--take-over").code == 0
    assert set(servers("cursor", path)) == {"gatemini"}
    assert run("uninstall", "cursor", "--restore").code == 0
    assert servers("cursor", path) == {"late": {"command": "y"}}


def test_a_take_over_that_our_file_cannot_hold_leaves_both_as_they_are(run: Run, home: Path) -> None:
    path = written("cursor", home, '{"mcpServers": {"a": {"command": "x"}}}')
    config = home / "mine.yaml"
    config.write_text("backends: {b: {command: y}}\n")
    before = (path.read_bytes(), config.read_bytes())
    refused = run("-c", str(config), "install", "cursor", "--take-over")
    assert refused.code == 1
    assert "--to" in refused.err
    assert (path.read_bytes(), config.read_bytes()) == before
    assert not path.with_name(path.name + BACKUP).exists()
