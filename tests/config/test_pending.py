"""No key looks as if it worked: every one is read by some code, or named as not built yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

import gatemini
from gatemini.config.load import Loaded
from gatemini.config.pending import PENDING, Pending
from gatemini.config.problems import model_at
from gatemini.config.schema import Config
from gatemini.errors import ConfigError

Load = Callable[..., Loaded]
SOURCE = Path(gatemini.__file__).parent
ELSEWHERE = ("config", "cli")
READ_BY_THE_LOADER = frozenset(
    ("backends", "include", "secrets", "redact", "exec_allow", "exec_timeout", "strict", "name", "disabled",
     "keyring", "vault", "bws", "service", "address", "token", "mount", "ca_file", "enabled", "access_token", "server_url")
)  # fmt: skip
"""Keys whose reader is the loader itself, or that it hands on as a whole."""


def keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    """(pattern as in PENDING, attribute) of every key of the model."""
    for name in model.model_fields:
        yield f"{prefix}{name}", name
        inner = model_at(model, (name,))
        if inner is not None and inner is not model:
            star = "*." if name in ("backends", "composite_tools", "cli_tools") else ""
            yield from keys(inner, f"{prefix}{name}.{star}")


def is_pending(pattern: str) -> bool:
    """Named itself, or below something that is."""
    return any(pattern == known or pattern.startswith(known + ".") for known in PENDING)


def code_elsewhere() -> str:
    files = (f for f in SOURCE.rglob("*.py") if f.relative_to(SOURCE).parts[0] not in ELSEWHERE)
    return "\n".join(f.read_text() for f in files)


def test_every_key_is_read_by_some_code_or_named_as_not_built() -> None:
    code = code_elsewhere()
    unread = [
        pattern
        for pattern, name in keys(Config, "")
        if name not in READ_BY_THE_LOADER and not is_pending(pattern) and not re.search(rf"\.{name}\b", code)
    ]
    assert not unread, "nothing reads these: build them, or name them in config/pending.py"


def test_a_key_that_is_read_is_no_longer_named_as_not_built() -> None:
    code = code_elsewhere()
    built = [pattern for pattern in PENDING if re.search(rf"config\.{pattern.rpartition('.')[2]}\b", code)]
    assert not built, "these are read now: remove them from config/pending.py"


def test_what_is_pending_is_a_key_of_the_model() -> None:
    known = {pattern for pattern, _ in keys(Config, "")}
    assert set(PENDING) <= known


def test_using_what_is_not_built_is_said_and_stops_what_relies_on_it(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PENDING, "health.interval", Pending("the loop is", "warning"))
    monkeypatch.setitem(PENDING, "backends.*.lazy", Pending("waiting is", "error"))
    monkeypatch.setitem(PENDING, "registration.http", Pending("asking is", "error"))
    loaded = load("health: {interval: 5s}\nbackends: {a: {command: x, lazy: true}, b: {command: x}}")
    assert [p.key for p in loaded.problems] == ["health.interval", "backends.a.lazy"]
    assert all("not built yet" in problem.text() for problem in loaded.problems)
    assert list(loaded.disabled) == ["a"]
    with pytest.raises(ConfigError, match="not built yet"):
        load("registration: {http: ask}")


def test_a_default_written_out_is_not_complained_about(load: Load) -> None:
    text = "log_level: info\nregistration: {allow_hosts: []}\nbackends: {a: {command: x, instance_mode: shared, fallback_chain: []}}"
    loaded = load(text)
    assert [p for p in loaded.problems if "not built" in p.text()] == []
