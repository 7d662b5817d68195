"""The JSON Schema for editors: committed, current, and of one mind with the loader."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fixtures.reference_tables import BEGIN, END, PAGE, SCHEMA, key_tables
from gatemini.config.load import Loaded
from gatemini.config.model.json_schema import config_json_schema
from gatemini.config.model.schema import Config

Load = Callable[..., Loaded]


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(config_json_schema())


def test_the_committed_schema_is_the_generated_one() -> None:
    assert json.loads(SCHEMA.read_text()) == config_json_schema(), (
        "run: PYTHONPATH=tests python -m fixtures.reference_tables"
    )


def test_the_schema_is_itself_valid_and_names_every_key() -> None:
    schema = config_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["properties"]) == set(Config.model_fields)
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    "text",
    [
        "backends: {a: {command: x, args: [1, true, a], env: {A: 1}, timeout: 5s, max_memory_mb: '${M:-5}'}}",
        "backends: {a: {url: 'https://h/', transport: sse, headers: {A: b}, retry: {max_retries: 0}}}",
        "backends: {a: {tools: {ls: {command: [ls, '{{p}}'], output: lines}, deny: [x]}}}",
        "backends: {a: {module: 'a.b:c', lazy: true, instance_mode: dedicated, pool: {min_idle: 0}}}",
        "log_level: debug\nsandbox: {timeout: 1m, output: {table: false}}\nsemantic: {model: none}\nbackends: {b: {command: x}}\naliases: {a: b.c}",
    ],
)
def test_what_the_loader_takes_the_schema_takes(load: Load, text: str) -> None:
    assert not load(text).problems
    validator().validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    "document",
    [
        {"backend": {}},
        {"backends": {"a": {"comand": "x"}}},
        {"backends": {"a b": {"command": "x"}}},
        {"backends": {"a": {"command": "x", "timeout": "soon"}}},
        {"backends": {"a": {"command": "x", "max_concurrent_calls": 0}}},
        {"backends": {"a": {"command": "x", "name": "a"}}},
        {"log_level": "loud"},
        {"registration": {"stdio": "perhaps"}},
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(document: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(document)


def test_the_reference_lists_every_key_as_generated() -> None:
    tables = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert tables.strip() == key_tables().strip(), "run: PYTHONPATH=tests python -m fixtures.reference_tables"


def test_the_example_of_the_reference_is_valid(load: Load, tmp_path: Path) -> None:
    team = tmp_path / "home" / ".secrets" / "team"
    team.parent.mkdir(parents=True)
    team.write_text("red-team")
    team.chmod(0o600)
    example = PAGE.read_text().partition("```yaml\n")[2].partition("```")[0]
    loaded = load(
        example, {"GITHUB_TOKEN": "tok-123456", "SEARCH_KEY": "key-123456", "DEPLOY_KEY": "dep-123456"}
    )
    assert not loaded.problems
    assert set(loaded.config.backends) == {"github", "search"}
    assert {name for name, _ in loaded.secrets} == {
        "GITHUB_TOKEN",
        "SEARCH_KEY",
        "DEPLOY_KEY",
        "file:~/.secrets/team",
    }
