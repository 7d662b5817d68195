"""`secretref:` values from variables, private files and commands, with real programs on PATH."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from gatemini.config.load import Loaded
from gatemini.config.model.schema import SecretsConfig
from gatemini.config.variables.errors import SecretUnavailable
from gatemini.config.variables.redaction import Redactor
from gatemini.config.variables.references import SecretResolver
from gatemini.errors import ConfigError

Load = Callable[..., Loaded]
PYTHON = sys.executable
ID = "11111111-2222-3333-4444-555555555555"
posix = pytest.mark.skipif(os.name != "posix", reason="process groups and scripts")


def resolver(
    base: Path, commands: dict[str, Any] | None = None, seconds: float = 10.0, **environ: str
) -> SecretResolver:
    settings = SecretsConfig(commands=commands or {}, command_timeout=seconds)
    return SecretResolver(environ, settings, base, base)


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def program(folder: Path, name: str, code: str) -> str:
    """A program of this name in a folder of its own; the PATH with that folder."""
    (folder / "bin").mkdir(exist_ok=True)
    private(folder / "bin" / name, f"#!{PYTHON} -IS\nimport json, os, sys\n{code}\n", 0o700)
    return f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def prints(text: str) -> list[str]:
    return [PYTHON, "-IS", "-c", f"print({text!r})"]


def test_a_variable_is_read_and_a_missing_or_empty_one_is_named(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, KEY="value-1", NONE="")
    assert secrets.resolve("secretref:env:KEY") == ("value-1", [("KEY", "value-1")])
    assert secrets.resolve("Bearer secretref:env:KEY")[0] == "Bearer value-1"
    with pytest.raises(SecretUnavailable, match="OTHER is not set"):
        secrets.resolve("secretref:env:OTHER")
    with pytest.raises(SecretUnavailable, match="NONE is empty"):
        secrets.resolve("secretref:env:NONE")


def test_a_secret_file_must_be_private(tmp_path: Path) -> None:
    secrets = resolver(tmp_path)
    private(tmp_path / "good", "value-1\n")
    private(tmp_path / "open", "value-1", 0o644)
    private(tmp_path / "none", "\n")
    for path in ("good", "~/good", f"{tmp_path}/good"):
        assert secrets.resolve(f"secretref:file:{path}")[0] == "value-1"
    for name, says in (
        ("open", "may be read by others"),
        ("none", "gave nothing"),
        ("gone", "there is no file"),
        (".", "not a regular file"),
    ):
        with pytest.raises(SecretUnavailable, match=says):
            secrets.resolve(f"secretref:file:{name}")


def test_a_command_gets_its_argument_at_its_place_and_no_shell(tmp_path: Path) -> None:
    shows = [PYTHON, "-IS", "-c", "import sys; print('|'.join(sys.argv[1:]))"]
    secrets = resolver(tmp_path, {"last": shows, "placed": [*shows, "a={arg}", "{path}", "{field}"]})
    marker = tmp_path / "touched"
    for reference, value in (
        ("command:last", ""),
        (f"command:last:x; touch {marker} $HOME", f"x; touch {marker} $HOME"),
        ("command:last:a:b", "a:b"),
        ("command:placed:team/gh#token", "a=team/gh#token|team/gh|token"),
        ("command:placed:gh", "a=gh|gh|value"),
    ):
        if value:
            assert secrets.resolve(f"secretref:{reference}")[0] == value
    assert not marker.exists()
    with pytest.raises(SecretUnavailable, match="begins with -"):
        secrets.resolve("secretref:command:last:--help")
    assert secrets.resolve("Bearer secretref:command:last:x")[0] == "Bearer x"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("exec:gh auth token", "exec: is not a provider"),
        ("command:gti", r"there is no secrets\.commands\.gti, did you mean git\?"),
        ("envv:X", "unknown secret provider envv, did you mean env?"),
        ("", "without a provider and a path"),
    ],
)
def test_an_unknown_reference_names_the_known_providers(tmp_path: Path, reference: str, says: str) -> None:
    secrets = resolver(tmp_path, {"git": prints("x")})
    secrets.later = True  # an error in the file is found at once, not in the background
    with pytest.raises(SecretUnavailable, match=says) as caught:
        secrets.resolve(f"secretref:{reference}")
    assert "command:" in caught.value.remedy or "commands:" in caught.value.remedy


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; print('why', file=sys.stderr); sys.exit(3)", "exit code 3: why"),
        ("pass", "gave nothing"),
        ("import time; time.sleep(60)", r"gave no answer within 0\.5 s"),
        (r"import sys; sys.stdout.buffer.write(b'\xff\xfe')", "not UTF-8"),
        ("import itertools; [print('x' * 9999) for _ in itertools.count()]", "printed more than 4 MiB"),
    ],
)
def test_a_command_that_fails_says_how_and_for_which_reference(tmp_path: Path, code: str, says: str) -> None:
    words = [PYTHON, "-IS", "-c", code]
    secrets = resolver(tmp_path, {"own": words}, seconds=0.5 if "sleep" in code else 30)
    with pytest.raises(SecretUnavailable, match=says) as caught:
        secrets.resolve("secretref:command:own:x")
    assert caught.value.message.startswith("secretref:command:own:x: ")


@pytest.mark.parametrize("end", ["a\0b", "\ud800"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("reference", ["command:echo:", "file:", "file:~/", "env:"])
def test_a_reference_that_the_system_cannot_take_is_unavailable(
    tmp_path: Path, reference: str, end: str
) -> None:
    with pytest.raises(SecretUnavailable):
        resolver(tmp_path, {"echo": ["echo"]}).resolve(f"secretref:{reference}{end}")


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretUnavailable, match="no-such-command-here was not found"):
        resolver(tmp_path, {"gone": ["no-such-command-here"]}).resolve("secretref:command:gone")


@posix
def test_a_command_that_times_out_ends_with_all_its_children(tmp_path: Path) -> None:
    """A wrapper's child holds the wrapper's output open: waiting for its end would take as long as it likes."""
    pid = tmp_path / "pid"
    script = private(tmp_path / "wrapper", f"#!/bin/sh\nsleep 600 & echo $! > {pid}\nwait\n", 0o700)
    secrets = resolver(tmp_path, {"own": [str(script)]}, seconds=0.5)
    for _ in range(2):  # the second is not tried: the same program would take as long
        with pytest.raises(SecretUnavailable, match=r"no answer within 0\.5 s"):
            secrets.resolve(f"secretref:command:own:{_}")
    left = [each for each in psutil.process_iter() if each.pid == int(pid.read_text())]
    assert psutil.wait_procs(left, timeout=20)[1] == []


@posix
def test_a_process_that_a_command_leaves_behind_does_not_hold_back_its_answer(tmp_path: Path) -> None:
    script = private(tmp_path / "daemon", "#!/bin/sh\nsleep 600 &\necho value-1\n", 0o700)
    assert resolver(tmp_path, {"own": [str(script)]}).resolve("secretref:command:own")[0] == "value-1"


def test_one_reference_runs_its_command_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = f"open('{log}', 'a').write('x'); print('value-1')"
    secrets = resolver(tmp_path, {"own": [PYTHON, "-IS", "-c", code]})
    for _ in range(3):
        secrets.resolve("secretref:command:own")
    assert log.read_text() == "x"


# -- presets -------------------------------------------------------------------------------------------

ECHO = "print(' '.join(sys.argv[1:]))"
BWS = f"""
secrets = [
    {{"id": "{ID}", "key": "GH", "value": "of-ops", "projectId": "1"}},
    {{"id": "2", "key": "GH", "value": "of-dev", "projectId": "2"}},
    {{"id": "3", "key": "ONE", "value": os.environ["BWS_ACCESS_TOKEN"], "projectId": "2"}},
]
open(os.environ["LOG"], "a").write(" ".join(sys.argv[1:3]) + ";")
assert sys.argv[-2:] == ["--output", "json"]
kind, verb, *rest = sys.argv[1:-2]
if (kind, verb) == ("secret", "get"):
    print(json.dumps(next(s for s in secrets if s["id"] == rest[0])))
elif kind == "secret":
    print(json.dumps(secrets))
else:
    print(json.dumps([{{"id": "1", "name": "ops"}}, {{"id": "2", "name": "dev"}}]))
"""


@posix
@pytest.mark.parametrize(
    ("reference", "runs"),
    [
        ("op:Private/My Item/password", "read --no-newline op://Private/My Item/password"),
        ("op://Private/gh/token", "read --no-newline op://Private/gh/token"),
        ("vault:team/gh#token", "kv get -mount=secret -field=token team/gh"),
        ("vault:/team/gh", "kv get -mount=secret -field=value team/gh"),
        ("command:vault:team/gh#token", "kv get -mount=secret -field=token team/gh"),
        ("pass:web/gh", "show web/gh"),
    ],
)
def test_a_preset_runs_its_program_with_the_arguments_it_takes(
    tmp_path: Path, reference: str, runs: str
) -> None:
    path = ""
    for name in ("op", "vault", "pass"):
        path = program(tmp_path, name, ECHO + ("\nprint('login: me')" if name == "pass" else ""))
    assert resolver(tmp_path, PATH=path).resolve(f"secretref:{reference}")[0] == runs


@posix
def test_bitwarden_secrets_are_found_by_id_key_or_project_with_one_list(tmp_path: Path) -> None:
    environ = {
        "PATH": program(tmp_path, "bws", BWS),
        "LOG": str(tmp_path / "log"),
        "BWS_ACCESS_TOKEN": "token-1",
    }
    secrets = resolver(tmp_path, **environ)
    for path, value in ((ID, "of-ops"), ("ops/GH", "of-ops"), ("dev/GH", "of-dev"), ("ONE", "token-1")):
        assert secrets.resolve(f"secretref:bws:{path}")[0] == value
    assert (tmp_path / "log").read_text() == "secret get;secret list;project list;"
    for path, says in (
        ("GH", "lists 2 secrets"),
        ("ops/ONE", "lists no secrets"),
        ("gone/GH", "lists no secrets"),
    ):
        with pytest.raises(SecretUnavailable, match=says):
            secrets.resolve(f"secretref:bws:{path}")


@posix
def test_bws_that_prints_no_json_is_an_error(tmp_path: Path) -> None:
    for code, says in (("print('hello')", "not JSON"), ("print('{}')", "printed no value")):
        secrets = resolver(tmp_path, PATH=program(tmp_path, "bws", code))
        with pytest.raises(SecretUnavailable, match=says):
            secrets.resolve(f"secretref:bws:{ID}")


def test_without_bws_the_last_part_of_its_path_is_a_variable(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, PATH=str(tmp_path), GH="value-1")
    assert secrets.resolve("secretref:bws:project/GH")[0] == "value-1"
    assert secrets.slow == []


def test_a_command_of_a_presets_name_replaces_it(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, {"bws": prints("own-1"), "vault": prints("own-2")}, PATH=str(tmp_path))
    assert secrets.resolve("secretref:bws:x")[0] == "own-1"
    assert secrets.resolve("secretref:vault:x")[0] == "own-2"


# -- in a configuration --------------------------------------------------------------------------------


def test_values_of_commands_and_the_tokens_of_programs_are_hidden(load: Load) -> None:
    loaded = load(
        f"secrets: {{commands: {{own: {json.dumps(prints('value-one'))}}}}}\n"
        "backends: {a: {command: x, env: {T: 'secretref:command:own:x'}}}",
        {"VAULT_TOKEN": "root-token-1"},
    )
    assert loaded.problems == ()
    assert loaded.config.backends["a"].env["T"] == "value-one"
    hidden = Redactor(loaded.secrets).redact("value-one and root-token-1")
    assert hidden == "«secret command:own:x» and «secret VAULT_TOKEN»"


def test_a_command_that_fails_disables_only_the_backend_that_needs_it(load: Load) -> None:
    loaded = load(
        "secrets: {commands: {gone: [no-such-command-here]}}\n"
        "backends: {a: {command: x, env: {T: 'secretref:command:gone'}}, b: {command: x}}"
    )
    assert list(loaded.config.backends) == ["b"]
    assert "no-such-command-here was not found (backends.a.env.T)" in loaded.disabled["a"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("secrets: {commands: {own: gh auth token}}", "secrets.commands.own"),
        ("secrets: {commands: {own: []}}", "secrets.commands.own"),
        ("secrets: {commands: {'a b': [x]}}", "letters, digits"),
        ("secrets: {commands: {own: [x, 'secretref:env:A']}}", "a secretref: is not resolved here"),
        ("secrets: {keyring: {service: 'secretref:env:A'}}", "a secretref: is not resolved here"),
        ("cache_path: 'secretref:env:A'", "a secretref: is not resolved here"),
    ],
)
def test_wrong_commands_and_references_outside_of_backends_are_errors_of_the_file(
    load: Load, text: str, says: str
) -> None:
    try:
        said = "\n".join(map(str, load(text, {"A": "x"}).errors))
    except ConfigError as error:
        said = error.text()
    assert says in said


def test_references_work_in_every_place_the_documentation_names(load: Load, tmp_path: Path) -> None:
    private(tmp_path / "token", "from-file-1\n")
    text = """\
backends:
  a: {command: "secretref:env:PROG", args: ["--key=secretref:env:KEY"], env: {T: "secretref:file:token"}, prerequisite: {command: p, env: {K: "secretref:env:KEY"}}}
  b: {url: "https://h/?k=secretref:env:KEY&z=1", headers: {Authorization: "Bearer secretref:env:KEY"}}
  c: {url: "secretref:env:URL"}
"""
    loaded = load(text, {"PROG": "prog", "KEY": "k e/y&1", "URL": "https://h/x?y=1"})
    assert not loaded.problems
    a, b, c = (loaded.config.backends[name] for name in "abc")
    assert (a.command, a.args, a.env) == ("prog", ("--key=k e/y&1",), {"T": "from-file-1"})
    assert a.prerequisite is not None
    assert a.prerequisite.env == {"K": "k e/y&1"}
    assert b.url == "https://h/?k=k%20e%2Fy%261&z=1"
    assert b.headers == {"Authorization": "Bearer k e/y&1"}
    assert c.url == "https://h/x?y=1"
    assert ("KEY", "k e/y&1") in loaded.secrets
    assert ("file:token", "from-file-1") in loaded.secrets


def test_a_reference_elsewhere_is_an_error_not_a_value(load: Load) -> None:
    loaded = load("backends: {a: {command: x, cwd: 'secretref:env:KEY'}}\n", {"KEY": "/x"})
    assert "a secretref: is not resolved here" in loaded.disabled["a"]


def test_a_variables_value_is_never_read_as_a_reference(load: Load) -> None:
    loaded = load(
        "backends: {a: {command: x, env: {A: '${SLY}'}}}\n", {"SLY": "secretref:env:OTHER", "OTHER": "o"}
    )
    assert loaded.config.backends["a"].env == {"A": "secretref:env:OTHER"}
