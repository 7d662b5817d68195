"""The profile `locked` is a whole: its defaults hold, what weakens it stops the start, exceptions have reasons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemini.config.load import Loaded, load_config
from gatemini.config.model.policy import PINS_FILE
from gatemini.config.profile import TABLE, Locked
from gatemini.errors import ConfigError

Load = Callable[..., Loaded]

WEAKER: dict[str, Any] = {
    "policy.default": "ask",
    "policy.read_only": False,
    "policy.pins": "warn",
    "policy.flow": "ask",
    "audit.path": None,
    "audit.on_failure": "warn",
    "audit.fsync": "second",
    "policy.approvals.via": ["console", "client"],
    "registration.http": "ask",
    "registration.stdio": "ask",
    "registration.cli": "allow",
    "sandbox.isolation": "thread",
    "sandbox.guests_per_process": 2,
    "secrets.strict": False,
    "secrets.commands": {"x": ["true"]},
}


def written(key: str, value: Any, **top: Any) -> str:
    """A locked configuration with one more key."""
    document: dict[str, Any] = {"profile": "locked", **top}
    place = document
    *sections, last = key.split(".")
    for section in sections:
        place = place.setdefault(section, {})
    place[last] = value
    return json.dumps(document, default=str)


def value_of(loaded: Loaded, key: str) -> Any:
    found: Any = loaded.config
    for part in key.split("."):
        found = getattr(found, part)
    return found


def refusal(load: Load, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return caught.value.message


def test_the_table_of_weaker_values_is_complete() -> None:
    assert set(WEAKER) == {row.key for row in TABLE}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_locked_sets_the_default_of_a_key(load: Load, row: Locked) -> None:
    assert value_of(load("profile: locked"), row.key) == row.value
    section = row.path[0]
    assert value_of(load(json.dumps({"profile": "locked", section: {}})), row.key) == row.value
    assert (
        value_of(
            load(written(row.key, str(row.value) if isinstance(row.value, Path) else row.value)), row.key
        )
        == row.value
    )


@pytest.mark.parametrize("key", WEAKER)
def test_a_key_that_weakens_it_stops_the_start(load: Load, key: str) -> None:
    said = refusal(load, written(key, WEAKER[key]))
    assert f"{key}: found" in said
    assert "which weakens profile: locked" in said
    assert f"name {key} under profile_exceptions with a reason" in said


@pytest.mark.parametrize("key", WEAKER)
def test_an_exception_lets_one_key_weaken_it(load: Load, key: str) -> None:
    excepted = {"profile_exceptions": {key: "reviewed on Monday"}}
    loaded = load(written(key, WEAKER[key], **excepted))
    assert value_of(loaded, key) != next(row.value for row in TABLE if row.key == key)
    other = next(name for name in WEAKER if name.partition(".")[0] != key.partition(".")[0])
    assert other in refusal(load, written(other, WEAKER[other], **excepted))
    assert value_of(load(json.dumps({"profile": "locked", **excepted})), key) in [
        row.value for row in TABLE if row.key == key
    ]


def test_an_exception_needs_a_reason(load: Load) -> None:
    assert "profile_exceptions.policy.read_only" in refusal(
        load, written("policy.read_only", False, profile_exceptions={"policy.read_only": ""})
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{profile: locked, profile_exceptions: {"search.k1": "x"}}', "locked does not fix this key"),
        ('{profile_exceptions: {"policy.read_only": "x"}}', "the profile is not locked"),
    ],
)
def test_an_exception_without_effect_is_a_finding(load: Load, text: str, says: str) -> None:
    (problem,) = load(text).problems
    assert says in problem.text()


def test_developer_changes_nothing(load: Load) -> None:
    assert load("profile: developer").config == load("{}").config


def test_no_command_line_runs_through_a_shell(load: Load) -> None:
    tool = {"command": "echo {{x}}", "shell": True}
    backends = {"mine": {"transport": "cli-adapter", "tools": {"run": tool}}}
    key = "backends.mine.tools.run.shell"
    assert f"{key}: found true" in refusal(load, json.dumps({"profile": "locked", "backends": backends}))
    excepted = {"profile": "locked", "backends": backends, "profile_exceptions": {key: "fixed words"}}
    assert load(json.dumps(excepted)).config.backends["mine"].cli_tools["run"].shell
    assert not load(json.dumps(excepted)).problems


@pytest.mark.parametrize("reference", ["command:op:op://a/b", "op://a/b", "vault:secret/x", "pass:mail"])
def test_no_program_is_run_for_a_secret(load: Load, tmp_path: Path, reference: str) -> None:
    ran = tmp_path / "ran"
    for name in ("op", "vault", "pass"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {ran}\necho secret\n")
        program.chmod(0o755)
    text = reference if reference.startswith("command") else reference.replace("op://", "op:")
    backends = {"mine": {"command": "srv", "env": {"T": f"secretref:{text}"}}}
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    with pytest.raises(ConfigError) as caught:
        load(json.dumps({"profile": "locked", "backends": backends}), environ)
    assert "runs a program, which weakens profile: locked" in caught.value.message
    assert not ran.exists()


@pytest.mark.parametrize("name", ["config.yaml", "more.yaml", PINS_FILE])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, name: str) -> None:
    for profile, refused in (("locked", True), ("developer", False)):
        for file, text in (
            ("config.yaml", f"{{profile: {profile}, include: [more.yaml]}}"),
            ("more.yaml", "backends: {}"),
            (PINS_FILE, "{}"),
        ):
            (tmp_path / file).write_text(text)
            (tmp_path / file).chmod(0o600)
        assert not load_config(tmp_path / "config.yaml", environ={}).problems
        (tmp_path / name).chmod(0o660)
        if refused:
            with pytest.raises(ConfigError, match="others than its owner may write"):
                load_config(tmp_path / "config.yaml", environ={})
        else:
            (problem,) = load_config(tmp_path / "config.yaml", environ={}).problems
            assert problem.severity == "warning"
            assert name in problem.text()


def test_a_folder_of_the_audit_log_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    for profile, refused in (("locked", True), ("developer", False)):
        (tmp_path / "config.yaml").write_text(f"{{profile: {profile}, audit: {{path: log}}, backends: {{}}}}")
        (tmp_path / "config.yaml").chmod(0o600)
        folder.chmod(0o700)
        assert not load_config(tmp_path / "config.yaml", environ={}).problems
        folder.chmod(0o777)
        if refused:
            with pytest.raises(ConfigError, match="and so the audit log"):
                load_config(tmp_path / "config.yaml", environ={})
        else:
            (problem,) = load_config(tmp_path / "config.yaml", environ={}).problems
            assert problem.severity == "warning"
            assert "and so the audit log" in problem.text()
