"""The rule sets in the documentation of ToolHive and of agentgateway, in the form that docs/security.md shows for ours.

Both identify a client by the claims of its token: `sub` is the subject, and a principal has the claims too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatemini.config.model.policy import PolicyConfig
from gatemini.model import Json, Tool, member
from gatemini.policy.door import Door
from gatemini.policy.principal import Principal

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")


def rules(name: str) -> list[dict[str, Any]]:
    """The rules of one row of the page's table."""
    (cell,) = re.findall(rf"^\| {re.escape(name)} \|.*\| `(\[?\{{.*\}}\]?)` \|$", PAGE, re.MULTILINE)
    found = yaml.safe_load(cell.replace("\\|", "|"))
    return found if isinstance(found, list) else [found]


def decided(name: str, call: str, arguments: Json, claims: Json) -> str:
    door = Door(PolicyConfig.model_validate({"default": "deny", "rules": rules(name)}))
    backend, _, bare = call.partition(".")
    tool = member(backend, bare) if bare in ("readResource", "getPrompt") else Tool(backend, bare)
    who = Principal(
        f"https://issuer.example|{claims.get('sub', '')}|inspector",
        "inspector",
        claims=claims,
        transport="http",
    )
    return door.judge(door.facts(tool, arguments, who, "s", "c")).action


CASES: list[tuple[str, str, Json, Json, str]] = [
    ("one tool", "s.weather", {}, {}, "allow"),
    ("one tool", "s.other", {}, {}, "deny"),
    ("one prompt", "s.getPrompt", {"name": "greeting"}, {}, "allow"),
    ("one prompt", "s.getPrompt", {"name": "other"}, {}, "deny"),
    ("one resource", "s.readResource", {"uri": "data"}, {}, "allow"),
    ("one resource", "s.readResource", {"uri": "data2"}, {}, "deny"),
    ("one client", "s.any", {}, {"sub": "user123"}, "allow"),
    ("one client", "s.any", {}, {"sub": "user1234"}, "deny"),
    ("a role", "s.any", {}, {"roles": ["admin"]}, "allow"),
    ("a role", "s.any", {}, {"roles": ["reader"]}, "deny"),
    ("a role", "s.any", {}, {}, "deny"),
    ("some arguments", "s.calculator", {"operation": "subtract"}, {}, "allow"),
    ("some arguments", "s.calculator", {"operation": "divide"}, {}, "deny"),
    ("some arguments", "s.calculator", {"operation": ["add", "divide"]}, {}, "deny"),
    ("a claim", "s.weather", {}, {"name": "John Doe"}, "allow"),
    ("a claim", "s.weather", {}, {"name": "Jane Doe"}, "deny"),
    (
        "a claim and an argument",
        "s.sensitive_data",
        {"data_level": 2},
        {"roles": ["data_analyst"], "clearance_level": 3},
        "allow",
    ),
    (
        "a claim and an argument",
        "s.sensitive_data",
        {"data_level": 4},
        {"roles": ["data_analyst"], "clearance_level": 3},
        "deny",
    ),
    ("a claim and an argument", "s.sensitive_data", {"data_level": 1}, {"roles": []}, "deny"),
    ("an owner of a tool", "s.weather", {}, {"sub": "user123"}, "allow"),
    ("an owner of a tool", "s.weather", {}, {"sub": "user4"}, "deny"),
    ("forbid before permit", "s.delete_all", {}, {}, "deny"),
    ("forbid before permit", "s.list", {}, {}, "allow"),
    ("anyone calls `echo`", "s.echo", {}, {}, "allow"),
    ("anyone calls `echo`", "s.get-sum", {}, {}, "deny"),
    ("a subject calls `get-sum`", "s.get-sum", {}, {"sub": "test-user"}, "allow"),
    ("a subject calls `get-sum`", "s.get-sum", {}, {"sub": "other"}, "deny"),
    ("a nested claim", "s.get-env", {}, {"nested": {"key": "value"}}, "allow"),
    ("a nested claim", "s.get-env", {}, {"nested": {"key": "x"}}, "deny"),
    ("a nested claim", "s.get-env", {}, {"nested": {}}, "deny"),
    ("a target", "github.get_me", {}, {}, "allow"),
    ("a target", "other.get_me", {}, {}, "deny"),
    ("a guardrail that rejects", "s.echo", {"message": "please DO_NOT_SEND this"}, {}, "deny"),
    ("a guardrail that rejects", "s.echo", {"message": "hello"}, {}, "allow"),
]


@pytest.mark.parametrize(("name", "call", "arguments", "claims", "action"), CASES)
def test_a_documented_rule_decides_as_it_does_there(
    name: str, call: str, arguments: Json, claims: Json, action: str
) -> None:
    assert decided(name, call, arguments, claims) == action
