"""`config`, `import` and `secret`: nothing is started, nothing secret is shown."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import keyring
import pytest
from keyrings.alt.file import PlaintextKeyring

from fixtures.command_line import Run
from gatemini.cli.starters import DEVELOPER
from gatemini.config.model.schema import Config

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def configured(home: Path, text: str) -> Path:
    path = home / ".config" / "gatemini" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_check_shows_every_finding_and_fails(run: Run, home: Path) -> None:
    configured(
        home,
        "backends:\n  a: {command: x, tmeout: 3}\n  b: {command: y, env: {T: '${NOT_SET_HERE}'}}\n  c: {command: sh}\n",
    )
    result = run("config", "check")
    assert result.code == 1
    assert "config.yaml:2: backends.a.tmeout: unknown key tmeout, did you mean timeout?" in result.out
    assert "config.yaml:3: backends.b.env.T: NOT_SET_HERE is not set" in result.out
    assert "1 backend ready to start: c" in result.out
    answer = run("config", "check", "--json")
    assert answer.code == 1
    assert answer.json["ok"] is False
    assert {problem["key"] for problem in answer.json["problems"]} == {
        "backends.a.tmeout",
        "backends.b.env.T",
    }
    assert answer.json["disabled"]["b"] == (
        "NOT_SET_HERE is not set (backends.b.env.T). Set NOT_SET_HERE in the environment or a .env file"
    )


def test_warnings_alone_do_not_fail(run: Run, home: Path) -> None:
    configured(home, "backends: {a: {command: x, fallback_chain: [b]}}\n")
    result = run("config", "check")
    assert result.code == 0
    assert "warning: " in result.out


def test_an_unusable_file_is_one_clear_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    for words in (
        ["-c", tmp_path / "empty.yaml", "config", "check"],
        ["config", "check", "-c", tmp_path / "empty.yaml"],
    ):
        result = run(*words)
        assert result.code == 1
        assert "the file is empty" in result.err
        assert "HINT" in result.err
    answer = run("config", "check", "--json", "-c", str(tmp_path))
    assert answer.code == 1
    assert "is a directory" in answer.json["error"]
    assert answer.err == ""


def test_the_error_for_a_missing_file_has_the_command_that_writes_it(run: Run, home: Path) -> None:
    path = home / "my config.yaml"
    for words in (["config", "check"], ["search", "x"], ["doctor"]):
        told = run("-c", str(path), *words)
        assert told.code == 1
        assert f"ConfigError: {path}: there is no such file" in told.err
        assert f"`gatemini init -c '{path}'` writes one" in told.err
    written = run("init", "-c", str(path))
    assert written.code == 0
    assert f"`gatemini -c '{path}' config check`" in written.err
    assert run("-c", str(path), "config", "check").code == 0
    assert "gatemini init" not in run("-c", str(home / "mcp.json"), "config", "check").err


def test_without_a_file_the_demo_is_named(run: Run) -> None:
    result = run("config", "check")
    assert result.code == 0
    assert "demo backends" in result.out


def test_config_show_inserts_variables_and_masks_secrets(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOK", TOKEN)
    monkeypatch.setenv("PLACE", "h.example")
    text = f"""\
backends:
  a: {{command: x, args: ["{TOKEN}", "${{PLACE}}"], env: {{T: "${{TOK}}", PASSWORD: inline-1, MODE: fast}}}}
  b: {{url: "https://${{PLACE}}/?k=${{TOK}}", headers: {{Authorization: "Bearer ${{TOK}}"}}}}
"""
    configured(home, text)
    for words in (["config", "show"], ["config", "show", "--all"], ["config", "show", "--json"]):
        shown = run(*words)
        assert shown.code == 0
        assert TOKEN not in shown.out
        assert "inline-1" not in shown.out
        assert "h.example" in shown.out
    backends = run("config", "show", "--json").json["config"]["backends"]
    assert backends["a"]["env"] == {"T": "«secret TOK»", "PASSWORD": "«secret PASSWORD»", "MODE": "fast"}
    assert backends["b"]["headers"] == {"Authorization": "«secret TOK»"}
    assert "memory_mb: 256" in run("config", "show", "--all").out


def test_schema_is_json(run: Run) -> None:
    assert "backends" in run("config", "schema").json["properties"]


def test_import_only_lists_without_write(run: Run, home: Path) -> None:
    source = home / ".claude.json"
    source.write_text(
        json.dumps(
            {"mcpServers": {"gh": {"command": "npx", "env": {"TOKEN": TOKEN}}, "me": {"command": "gatemini"}}}
        )
    )
    before = source.read_bytes()
    target = home / ".config" / "gatemini" / "config.yaml"
    listed = run("import")
    assert listed.code == 0
    assert "nothing was written" in listed.out
    assert "this gateway itself" in listed.out
    assert "--move-secrets" in listed.out
    assert TOKEN not in listed.out
    assert not target.exists()
    elsewhere = run("import", "--write", "--to", str(home / "other.yaml"))
    assert "demo backends" not in elsewhere.err
    told = run("import", "--write")
    assert "demo backends are served only while there is no configuration" in told.err
    target.unlink()
    written = run("import", "--write", "--move-secrets", "--json")
    assert written.json["written"] is True
    assert written.json["moved_secrets"] == ["gh.TOKEN"]
    assert TOKEN not in written.out + target.read_text()
    assert source.read_bytes() == before
    assert run("config", "check").code == 0
    assert "nothing to add" in run("import").out


def test_import_offers_move_secrets_only_for_servers_not_yet_taken_over(run: Run, home: Path) -> None:
    (home / ".claude.json").write_text(
        json.dumps({"mcpServers": {"gh": {"command": "npx", "env": {"TOKEN": TOKEN}}}})
    )
    target = home / ".config" / "gatemini" / "config.yaml"
    assert run("import", "--write").code == 0
    for words in (["import"], ["import", "--write", "--move-secrets"]):
        again = run(*words)
        assert "--move-secrets" not in again.out
        assert "`gatemini secret set gh.TOKEN` keeps one" in again.out
    (home / ".claude.json").write_text(
        json.dumps({"mcpServers": {"gh": {"command": "npx", "env": {"TOKEN": TOKEN}}, "b": {"command": "y"}}})
    )
    assert TOKEN not in run("import").out
    target.unlink()
    assert run("import", "--write", "--move-secrets").code == 0
    assert "in clear" not in run("import").out


def test_a_diff_shows_no_secret_of_our_own_file(run: Run, home: Path) -> None:
    configured(home, f"backends:\n  mine:\n    command: x\n    env: {{T: {TOKEN}}}\n")
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"b": {"command": "y"}}}))
    listed = run("import")
    assert "+  b:" in listed.out
    assert TOKEN not in listed.out


def test_import_of_an_unreadable_file_prints_only_the_error(run: Run, home: Path) -> None:
    result = run("import", str(home / "none.json"))
    assert (result.code, result.out) == (1, "")
    assert "there is no such file" in result.err


def test_import_refuses_an_unknown_client(run: Run) -> None:
    result = run("import", "--from", "nobody")
    assert result.code == 2
    assert "claude-code" in result.err


def test_secrets_are_kept_listed_by_name_and_forgotten(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(home, "backends: {a: {command: x, env: {T: '${input:token}'}}}\n")
    assert "gatemini secret set token" in run("config", "check").out
    monkeypatch.setattr("sys.stdin", io.StringIO("value-1\n"))
    assert run("secret", "set", "token").code == 0
    assert run("config", "check").code == 0
    listed = run("secret", "list", "--json")
    assert listed.json == {"names": ["token"], "keyring": []}
    assert run("secret", "remove", "token").code == 0
    assert run("secret", "remove", "token").code == 1
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run("secret", "set", "token").code == 1
    assert run("secret", "set", "../token").code == 1


def test_init_writes_a_valid_file_once(run: Run, home: Path) -> None:
    assert run("init", "--json").json["backends"] == ["shop", "notes", "clock"]
    path = home / ".config" / "gatemini" / "config.yaml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert run("config", "check").code == 0
    written = run("config", "show", "--all", "--json").json["config"]["registration"]
    assert written == Config().registration.model_dump(mode="json")  # what the pages call the default
    before = path.read_text()
    again = run("init")
    assert again.code == 1
    assert "is there already" in again.err
    assert path.read_text() == before


def test_the_commented_parts_of_the_starter_are_valid_too(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "tok-123456")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {"c": {"command": "x"}}}')
    code = re.compile(r"^( *)# ((?:  )*(?:[a-z]+:|- ).*)$", re.MULTILINE)
    configured(home, code.sub(r"\1\2", DEVELOPER))
    answer = run("config", "check", "--json").json
    assert answer["problems"] == []
    assert answer["backends"] == ["shop", "notes", "clock", "files", "search", "c"]


def test_a_value_kept_in_the_keychain_reaches_the_configuration(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, backend = keyring.get_keyring(), PlaintextKeyring()
    backend.file_path = str(home / "keyring.cfg")
    keyring.set_keyring(backend)
    try:
        configured(home, "backends: {a: {command: x, args: ['secretref:keyring:gh']}}\n")
        assert "gatemini secret set --keyring gh" in run("config", "check").out
        monkeypatch.setattr("sys.stdin", io.StringIO("value-one\n"))
        assert "secretref:keyring:gh" in run("secret", "set", "--keyring", "gh").out
        assert run("config", "check").code == 0
        shown = run("config", "show").out
        assert "value-one" not in shown
        assert run("secret", "list").out == "gh (keychain)\n"
        assert run("secret", "remove", "--keyring", "gh").code == 0
        assert run("secret", "remove", "--keyring", "gh").code == 1
        assert run("config", "check").code == 1
    finally:
        keyring.set_keyring(before)


def test_a_program_that_is_not_on_this_machine_is_named(run: Run, home: Path) -> None:
    path = home / "config.yaml"
    path.write_text(f"backends:\n  a: {{command: {sys.executable}}}\n  b: {{command: no-such-program}}\n")
    result = run("-c", str(path), "config", "check")
    assert "1 backend ready to start: a\n" in result.out
    assert f"{path}:3: backends.b: " in result.out
    assert "'no-such-program' is not in PATH" in result.out
    assert "no findings" not in result.out


def test_import_names_the_option_for_a_client_and_the_places_where_it_looked(run: Run, home: Path) -> None:
    told = run("import", "cursor")
    assert told.code != 0
    assert "gatemini import --from cursor" in told.err
    looked = run("import", "--from", "warp")
    assert "no servers found" in looked.out
    assert f"{home}/.warp/.mcp.json (warp)" in looked.out
    assert run("import", "--from", "gemini-cli").out == run("import", "--from", "gemini").out


def test_a_module_that_is_not_installed_is_named_without_importing_any(run: Run, home: Path) -> None:
    modules = (
        "gatemini.demo.shop:server",
        "gatemini.demo.nope:server",
        "gatemini.app.x:s",
        "no_such_package:s",
    )
    path = home / "config.yaml"
    path.write_text("backends:\n" + "".join(f"  b{n}: {{module: '{m}'}}\n" for n, m in enumerate(modules)))
    result = run("-c", str(path), "config", "check")
    assert result.code == 0
    assert "1 backend ready to start: b0\n" in result.out
    assert f"{path}:3: backends.b1: there is no module gatemini.demo.nope" in result.out
    assert "gatemini.app is a module and no package" in result.out
    assert "there is no module no_such_package" in result.out


def test_an_import_shows_no_secret_of_urls_and_variables(run: Run, home: Path) -> None:
    secrets = (
        "pw-in-url",
        "YzQ2ZmY5NzItZjM4Ny00MGQ5",
        "value-of-a-query",
        "p4ss-in-env",
        "pw-in-argument",
        "in-header",
    )
    servers = {
        "a": {
            "url": f"https://u:{secrets[0]}@h.example/s/{secrets[1]}/mcp?x={secrets[2]}",
            "headers": {"X": secrets[5]},
        },
        "b": {
            "command": "x",
            "args": [f"pg://u:{secrets[4]}@h/d"],
            "env": {"SMTP": secrets[3], "LEVEL": "${LEVEL}"},
        },
    }
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    listed = run("import")
    for secret in secrets:
        assert secret not in listed.out + listed.err
    assert "h.example" in listed.out
    assert "${LEVEL}" in listed.out
    assert "added 2 backends to" in run("import", "--write").out


def test_a_server_that_is_written_twice_is_named_once_and_not_taken(run: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "x"},\n"a": {"command": "y"},\n"b": {"command": "z"}}}'
    )
    rows = {row["name"]: row for row in run("import", "--json").json["items"]}
    assert rows["a"]["status"] == "unusable"
    assert rows["a"]["detail"] == "a is written twice, on lines 1 and 2. Remove one of the two"
    assert "added 1 backend to" in run("import", "--write").out
    checked = run("-c", str(home / ".cursor" / "mcp.json"), "config", "check")
    assert checked.out.count("written twice") == 1


def test_check_shows_all_findings_of_a_configuration_that_no_gateway_starts_with(
    run: Run, home: Path
) -> None:
    path = home / "config.yaml"
    path.write_text(
        "include: [nope.yaml, broken.yaml]\nsandbox: {tmeout: 3}\nbackends: {a: {command: x, fallback_chain: [b]}}\n"
    )
    (home / "broken.yaml").write_text("backends: {x: [}")
    result = run("-c", str(path), "config", "check")
    assert result.code == 1
    assert [line.partition(": ")[0] for line in result.out.splitlines()[:-1]] == ["error"] * 3 + ["warning"]
    for text in (
        "nope.yaml: there is no such file",
        "broken.yaml:1: is not valid YAML",
        "did you mean timeout?",
    ):
        assert text in result.out
    keys = [problem["key"] for problem in run("-c", str(path), "config", "check", "--json").json["problems"]]
    assert keys == ["include", "include", "sandbox.tmeout", "backends.a.fallback_chain[0]"]
