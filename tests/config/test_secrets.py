"""Secrets: where they come from, that they do not print, and that no text leaves with one."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.config import commands
from gatemini.config.load import Loaded
from gatemini.config.schema import SecretsConfig
from gatemini.config.secrets import (
    RedactingFormatter,
    Redactor,
    SecretResolver,
    SecretText,
    looks_secret,
)
from gatemini.config.store import SecretStore
from gatemini.config.unavailable import SecretUnavailable
from gatemini.processes import watchdog

Load = Callable[..., Loaded]


def resolver(
    base: Path, *, allow: tuple[str, ...] = (), seconds: float = 10.0, **environ: str
) -> SecretResolver:
    settings = SecretsConfig(exec_allow=allow, exec_timeout=seconds)
    return SecretResolver(environ, settings, base, base)


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_variable_is_read_and_a_missing_or_empty_one_is_named(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, KEY="value-1", NONE="")
    assert secrets.resolve("secretref:env:KEY") == ("value-1", [("KEY", "value-1")])
    with pytest.raises(SecretUnavailable, match="OTHER is not set"):
        secrets.resolve("secretref:env:OTHER")
    with pytest.raises(SecretUnavailable, match="NONE is empty"):
        secrets.resolve("secretref:env:NONE")


def test_a_reference_may_stand_inside_a_text(tmp_path: Path) -> None:
    secrets = resolver(tmp_path, KEY="value-1")
    assert secrets.resolve("Bearer secretref:env:KEY")[0] == "Bearer value-1"


def test_a_disabled_bitwarden_path_is_read_as_a_variable(tmp_path: Path) -> None:
    assert resolver(tmp_path, GH="value-1").resolve("secretref:bws:project/GH")[0] == "value-1"


def test_a_secret_file_must_be_private(tmp_path: Path) -> None:
    secrets = resolver(tmp_path)
    private(tmp_path / "good", "value-1\n")
    private(tmp_path / "open", "value-1", 0o644)
    private(tmp_path / "none", "\n")
    assert secrets.resolve("secretref:file:good")[0] == "value-1"
    assert secrets.resolve("secretref:file:~/good")[0] == "value-1"
    assert secrets.resolve(f"secretref:file:{tmp_path}/good")[0] == "value-1"
    for name, says in (
        ("open", "may be read by others"),
        ("none", "gave nothing"),
        ("gone", "there is no file"),
    ):
        with pytest.raises(SecretUnavailable, match=says):
            secrets.resolve(f"secretref:file:{name}")
    with pytest.raises(SecretUnavailable, match="not a regular file"):
        secrets.resolve("secretref:file:.")


def test_only_listed_commands_are_run_and_never_through_a_shell(tmp_path: Path) -> None:
    python = sys.executable
    line = f"{python} -c \"print('value' + '-1')\""
    assert resolver(tmp_path, allow=(python,)).resolve(f"secretref:exec:{line}")[0] == "value-1"
    assert resolver(tmp_path, allow=(f"{python} -c",)).resolve(f"secretref:exec:{line}")[0] == "value-1"
    for allow in ((), ("op",), (f"{python} -m",)):
        with pytest.raises(SecretUnavailable, match=r"secrets\.exec_allow"):
            resolver(tmp_path, allow=allow).resolve(f"secretref:exec:{line}")
    marker = tmp_path / "touched"
    code = "import sys; print(len(sys.argv))"
    value = resolver(tmp_path, allow=(python,)).resolve(
        f"secretref:exec:{python} -c '{code}' ; touch {marker}"
    )[0]
    assert value == "4"
    assert not marker.exists()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; print('why', file=sys.stderr); sys.exit(3)", "exit code 3: why"),
        ("pass", "gave nothing"),
        ("import time; time.sleep(60)", "no answer within 0.5 s"),
        (r"import sys; sys.stdout.buffer.write(b'\xff\xfe')", "no UTF-8"),
    ],
)
def test_a_command_that_fails_says_how(tmp_path: Path, code: str, says: str) -> None:
    secrets = resolver(tmp_path, allow=(sys.executable,), seconds=0.5 if "sleep" in code else 10)
    with pytest.raises(SecretUnavailable, match=says):
        secrets.resolve(f'secretref:exec:{sys.executable} -c "{code}"')


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_a_command_whose_time_is_over_ends_with_all_it_started(tmp_path: Path) -> None:
    """A wrapper's child holds the wrapper's output open: waiting for its end would take as long as it likes."""
    pid = tmp_path / "pid"
    script = private(tmp_path / "wrapper", f"#!/bin/sh\nsleep 600 & echo $! > {pid}\nwait\n", 0o700)
    secrets = resolver(tmp_path, allow=(str(script),), seconds=0.5)
    with pytest.raises(SecretUnavailable, match=r"no answer within 0\.5 s"):
        secrets.resolve(f"secretref:exec:{script}")
    gone, alive = psutil.wait_procs([psutil.Process(int(pid.read_text()))], timeout=20)
    assert (len(gone), alive) == (1, [])


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_what_a_command_leaves_behind_does_not_keep_its_answer(tmp_path: Path) -> None:
    script = private(tmp_path / "daemon", "#!/bin/sh\nsleep 600 &\necho told-by-it\n", 0o700)
    assert resolver(tmp_path, allow=(str(script),)).resolve(f"secretref:exec:{script}")[0] == "told-by-it"


@pytest.mark.parametrize("fails", [1, 2])
def test_a_command_whose_words_no_thread_can_read_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    starts, started = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        if thread.name == "gatemini-secret":
            started.append(thread)
            if len(started) == fails:
                raise RuntimeError("can't start new thread")
        starts(thread)

    before = set(psutil.Process().children())
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(SecretUnavailable, match="could not be read: can't start new thread"):
        resolver(tmp_path, allow=("sleep",), seconds=60).resolve("secretref:exec:sleep 600")
    assert set(psutil.Process().children()) <= before


@pytest.mark.skipif(os.name != "posix", reason="watchdogs")
def test_a_watchdog_that_does_not_end_keeps_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that hangs in the kernel, where even SIGKILL has to wait."""
    ends, unended = subprocess.Popen.kill, list[subprocess.Popen[bytes]]()
    deaf = private(tmp_path / "deaf.py", "import time\ntime.sleep(20)\n")
    monkeypatch.setattr(watchdog, "__file__", str(deaf))
    monkeypatch.setattr(commands, "KILL_SECONDS", 0.2)
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: unended.append(process))
    secrets = resolver(tmp_path, allow=("echo",))
    assert secrets.resolve("secretref:exec:echo told-by-it")[0] == "told-by-it"
    assert [process.poll() for process in unended] == [None]
    for process in unended:
        ends(process)
        process.wait(20)


def test_a_command_that_never_stops_talking_is_ended(tmp_path: Path) -> None:
    code = "import itertools; [print('x' * 9999) for _ in itertools.count()]"
    with pytest.raises(SecretUnavailable, match="said more than 4 MiB"):
        resolver(tmp_path, allow=(sys.executable,), seconds=60).resolve(
            f'secretref:exec:{sys.executable} -c "{code}"'
        )


def test_a_missing_command_and_an_unknown_provider_are_named(tmp_path: Path) -> None:
    with pytest.raises(SecretUnavailable, match="was not found"):
        resolver(tmp_path, allow=("no-such-command-here",)).resolve("secretref:exec:no-such-command-here x")
    with pytest.raises(SecretUnavailable, match="unknown secret provider envv"):
        resolver(tmp_path).resolve("secretref:envv:X")


def test_one_reference_is_asked_for_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = f"open('{log}', 'a').write('x'); print('value-1')"
    secrets = resolver(tmp_path, allow=(sys.executable,))
    for _ in range(3):
        secrets.resolve(f'secretref:exec:{sys.executable} -c "{code}"')
    assert log.read_text() == "x"


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


def test_secrets_are_what_env_headers_and_url_credentials_take(load: Load) -> None:
    text = """\
secrets: {redact: [LISTED, ALONE]}
backends:
  a: {command: "${PROG}", args: ["${ARG}", "${LISTED}"], cwd: "${DIR}", env: {A: "${ENV}", H: "${HOME}", D: "${NO:-default-1}"}}
  b: {url: "https://${HOST}/${PATHPART}?k=${QUERY}", headers: {X: "${HEADER}"}}
"""
    names = ("PROG", "ARG", "LISTED", "DIR", "ENV", "HOME", "HOST", "PATHPART", "QUERY", "HEADER", "ALONE")
    loaded = load(text, {name: f"value{name.lower()}" for name in names})
    assert {name for name, _ in loaded.secrets} == {"ENV", "QUERY", "HEADER", "LISTED", "ALONE"}


def test_what_the_secret_store_keeps_is_a_secret_wherever_it_is_put_in(load: Load, tmp_path: Path) -> None:
    SecretStore(tmp_path / "conf" / "secrets").put("pw", "hush-hush-1")
    for written in (
        "{command: x, args: ['--password=${input:pw}']}",
        "{command: '${input:pw}'}",
        "{command: x, cwd: '/${input:pw}'}",
        "{url: 'https://h/${input:pw}/mcp'}",
        "{command: x, prerequisite: {command: y, args: ['${input:pw}']}}",
    ):
        loaded = load(f"backends: {{a: {written}}}\n")
        assert loaded.secrets == (("pw", "hush-hush-1"),), written
        assert "hush" not in repr(loaded.config.backends["a"].args)


def test_the_default_of_an_input_is_no_secret(load: Load) -> None:
    assert load("backends: {a: {command: x, args: ['${input:region:-eu-west-1}']}}\n").secrets == ()


def test_nothing_that_prints_a_configuration_prints_a_secret(load: Load) -> None:
    text = "backends: {a: {command: x, env: {T: '${K}'}}, b: {url: 'https://h/?k=${K}', headers: {X: 'b ${K}'}}}\n"
    loaded = load(text, {"K": "hush-hush-1"})
    backend = loaded.config.backends["a"]
    for shown in (
        repr(loaded),
        str(loaded.config),
        repr(backend),
        str(backend),
        repr(backend.env),
        f"{loaded!r}",
    ):
        assert "hush" not in shown
    assert repr(loaded.config.backends["b"].url) == "'«secret»'"
    assert backend.env["T"] == "hush-hush-1"
    assert json.loads(json.dumps(dict(backend.env))) == {"T": "hush-hush-1"}
    assert isinstance(backend.env["T"], SecretText)


def test_a_wrong_value_in_a_secret_place_is_not_quoted_in_the_finding(load: Load) -> None:
    loaded = load("backends: {a: {url: 'https://h:bad-hush-1/', headers: {X: [hush-hush-1]}}}\n")
    assert loaded.problems
    assert "hush" not in "".join(p.text() for p in loaded.problems) + str(loaded.disabled)


def test_redaction_replaces_every_spelling_and_the_longest_first() -> None:
    value = 'to/ken "1"'
    redactor = Redactor([("SHORT", "abc"), ("KEY", value), ("LONG", value + "-more"), ("WORD", "secret")])
    assert redactor.redact(f"a {value} b") == "a «secret KEY» b"
    assert redactor.redact(f"{value}-more") == "«secret LONG»"
    assert redactor.redact(quote(value, safe="")) == "«secret KEY»"
    assert redactor.redact(json.dumps({"k": value})) == '{"k": "«secret KEY»"}'
    assert redactor.redact("abc") == "abc"
    assert redactor.redact("my secret") == "my «secret WORD»"


def test_pieces_of_a_secret_that_a_cut_left_are_taken_for_it() -> None:
    redactor = Redactor([("KEY", "tok_ABCDEFGHIJKLMNOP")])
    assert redactor.redact("a tok_ABCDEF…") == "a «secret KEY»…"
    assert redactor.redact(
        "a tok_ABCDEF ... [cut] ... JKLMNOP b"
    ) == "a tok_ABCDEF ... [cut] ... JKLMNOP b".replace("tok_ABCDEF", "«secret KEY»").replace(
        "JKLMNOP", "«secret KEY»"
    )
    assert redactor.redact("tok_AB…LMNOP") == "«secret KEY»…LMNOP", "five characters say nothing"
    assert redactor.redact("tok_ABCDEF is no piece, nor is …xyz tok_ABX…") == (
        "tok_ABCDEF is no piece, nor is …xyz tok_ABX…"
    )


def test_the_lines_of_a_key_file_are_hidden_one_by_one() -> None:
    redactor = Redactor([("PEM", "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----")])
    assert redactor.redact("log: MIIEvQIBADANBg") == "log: «secret PEM»"


def test_values_and_log_lines_are_cleaned_as_a_whole() -> None:
    redactor = Redactor([("KEY", "hush-hush-1")])
    before = {"a": ["x hush-hush-1", 1, None], "hush-hush-1": {"b": True}}
    assert redactor.value(before) == {"a": ["x «secret KEY»", 1, None], "«secret KEY»": {"b": True}}
    assert before["a"] == ["x hush-hush-1", 1, None]
    try:
        raise ValueError("hush-hush-1")
    except ValueError:
        failure = sys.exc_info()
    record = logging.LogRecord("n", logging.ERROR, "p", 1, "%s", ("hush-hush-1",), failure)
    line = RedactingFormatter(redactor, "%(message)s").format(record)
    assert line.startswith("«secret KEY»")
    assert "ValueError" in line
    assert "hush-hush" not in line


def test_a_secret_within_json_within_json_is_found_in_either_escaping() -> None:
    secret = 'a"b\\c: #d\n€'
    redactor = Redactor([("KEY", secret)])
    for ascii_only in (True, False):
        once = json.dumps({"k": secret}, ensure_ascii=ascii_only)
        for text in (once, json.dumps({"text": once}, ensure_ascii=ascii_only)):
            assert "«secret KEY»" in redactor.redact(text)
            assert "#d" not in redactor.redact(text)


def test_a_dataclass_is_cleaned_field_by_field_and_stays_one() -> None:
    @dataclass(frozen=True)
    class Seen:
        name: str
        counts: dict[int, str]

    seen = Seen("hush-hush-1", {1: "hush-hush-1"})
    assert Redactor([("KEY", "hush-hush-1")]).value(seen) == Seen("«secret KEY»", {1: "«secret KEY»"})


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_no_text_leaves_with_a_secret_in_it(secret: str, before: str, after: str) -> None:
    marker = "«secret N»"
    clean = Redactor([("N", secret)]).redact(before + secret + after)
    assert marker in clean
    assert all(secret not in part for part in clean.split(marker)) or secret in marker


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "apiKey", "X-API-Key", "Authorization", "db.password", "OPENAI_KEY", "clientSecret"],
)
def test_names_that_say_secret_are_recognised(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["HOME", "LOG_LEVEL", "KEYBOARD", "TOKENIZER_PATH", "MONKEY", "NODE_ENV", "AUTHOR"]
)
def test_names_that_do_not_are_left_alone(name: str) -> None:
    assert not looks_secret(name)
