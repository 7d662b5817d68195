"""Keys of `policy`: each changes what a call of the running gateway comes to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fixtures.config_keys import changed_app
from fixtures.running import DEMO, answer, running_app
from gatemini.app import App
from gatemini.config.model.policy import PolicyConfig
from gatemini.model import Tool
from gatemini.policy.door import door_of
from gatemini.policy.principal import local

pytestmark = pytest.mark.anyio

ECHO = "demo.echo"
NEVER_NOW = (
    f"{('mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun')[(datetime.now().weekday() + 3) % 7]} 00:00-24:00"
)


@pytest.fixture(scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    backends = {"demo": {**DEMO["demo"], "tags": ["money"]}}
    async with running_app(tmp_path_factory.mktemp("policy"), backends) as running:
        yield running


@dataclass(frozen=True)
class Pair:
    """Two policies that differ in one key: a call is sent under the first and refused under the second."""

    key: str
    allowed: dict[str, Any]
    refused: dict[str, Any]


def row(key: str, allowed: dict[str, Any], refused: dict[str, Any]) -> Any:
    return pytest.param(Pair(key, allowed, refused), id=key)


def matcher(key: str, holds: Any, fails: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same rule that allows, with a matcher that holds, and with one that does not."""
    first, second = (
        {"default": "deny", "trust_annotations": ["demo"], "rules": [{key: value, "action": "allow"}]}
        for value in (holds, fails)
    )
    return first, second


def argument(kind: str, holds: Any, fails: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return matcher("arguments", {"/a": {kind: holds}}, {"/a": {kind: fails}})


def hint(name: str, of_echo: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    return matcher("annotations", {name: of_echo}, {name: not of_echo})


def override(name: str, wanted: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """A rule allows by a hint, which the override gives and takes."""
    rules = {"default": "deny", "rules": [{"annotations": {name: wanted}, "action": "allow"}]}
    first, second = ({**rules, "override_annotations": {ECHO: {name: v}}} for v in (wanted, not wanted))
    return first, second


PAIRS = [
    row("policy.default", {}, {"default": "deny"}),
    row("policy.rules[].action", {"rules": [{"action": "allow"}]}, {"rules": [{"action": "deny"}]}),
    row("policy.rules[].tools", *matcher("tools", [ECHO], ["demo.add"])),
    row("policy.rules[].tags", *matcher("tags", ["money"], ["code"])),
    row("policy.rules[].annotations.readOnly", *hint("readOnly", True)),
    row("policy.rules[].annotations.destructive", *hint("destructive", False)),
    row("policy.rules[].annotations.openWorld", *hint("openWorld", True)),
    row("policy.rules[].annotations.idempotent", *hint("idempotent", True)),
    row("policy.rules[].arguments.*.pattern", *argument("pattern", "^x+$", "^y")),
    row("policy.rules[].arguments.*.equals", *argument("equals", "xx", "x")),
    row("policy.rules[].arguments.*.in", *argument("in", ["xx", "y"], ["y"])),
    row(
        "policy.rules[].arguments.*.max",
        *matcher("arguments", {"/n": {"max": 5}}, {"/n": {"max": 4}}),
    ),
    row("policy.rules[].clients", *matcher("clients", ["uid:*", "user:*"], ["ci-*"])),
    row("policy.rules[].scopes", {}, {"default": "deny", "rules": [{"scopes": ["x"], "action": "allow"}]}),
    row("policy.rules[].transport", *matcher("transport", ["stdio"], ["http"])),
    row("policy.rules[].hours", *matcher("hours", ["00:00-24:00"], [NEVER_NOW])),
    row("policy.rules[].when", *matcher("when", "args.n == 5", "args.n == 4")),
    row("policy.read_only", {"read_only": False}, {"read_only": True}),
    row("policy.trust_annotations", {"read_only": True, "trust_annotations": ["demo"]}, {"read_only": True}),
    row("policy.override_annotations.*.readOnly", *override("readOnly", True)),
    row("policy.override_annotations.*.destructive", *override("destructive", False)),
    row("policy.override_annotations.*.openWorld", *override("openWorld", False)),
    row("policy.override_annotations.*.idempotent", *override("idempotent", True)),
    row("policy.budgets.calls_per_session", {}, {"budgets": {"calls_per_session": 0}}),
    row("policy.budgets.writes_per_session", {}, {"budgets": {"writes_per_session": 0}}),
]


@pytest.mark.parametrize("pair", PAIRS)
async def test_the_key_decides_whether_a_call_is_sent(app: App, pair: Pair) -> None:
    code = 'return await demo.echo({ a: "xx", n: 5 });'
    app.chain.door = door_of(PolicyConfig.model_validate(pair.allowed), None)
    text, failed, _ = await answer(app, code)
    assert not failed, text
    assert json.loads(text) == {"a": "xx", "n": 5}
    app.chain.door = door_of(PolicyConfig.model_validate(pair.refused), None)
    text, failed, _ = await answer(app, code)
    assert failed
    assert "PolicyDenied: demo.echo is denied by policy." in text


@pytest.mark.proves("policy.budgets.calls_per_minute")
async def test_calls_within_a_minute_are_limited(app: App) -> None:
    app.chain.door = door_of(PolicyConfig.model_validate({"budgets": {"calls_per_minute": 2}}), None)
    text, failed, _ = await answer(app, "for (let i = 0; i < 3; i++) await demo.echo({ i });")
    assert failed
    assert (
        "policy.budgets.calls_per_minute: 2 calls were made within a minute; the next may be made in" in text
    )


@pytest.mark.proves("policy.rules[].reason", "policy.rules[].ask.via")
async def test_a_refusal_tells_the_reason_and_who_could_approve(app: App) -> None:
    ask = {"action": "ask", "reason": "money moves", "ask": {"via": ["webhook"]}}
    app.chain.door = door_of(PolicyConfig.model_validate({"rules": [ask]}), None)
    text, _, _ = await answer(app, "await demo.echo({})")
    assert "money moves" in text
    assert "webhook" in text
    assert "console" not in text


@pytest.mark.proves("policy.rules[].ask.remember")
async def test_a_decision_to_ask_says_for_how_long_an_approval_holds(app: App) -> None:
    door = door_of(
        PolicyConfig.model_validate({"rules": [{"action": "ask", "ask": {"remember": "15m"}}]}), None
    )
    assert door is not None
    facts = door.facts(Tool("demo", "echo"), {}, local("stdio"), "", "")
    assert door.judge(facts).ask.remember == 900


async def test_a_policy_in_the_file_holds_from_the_start(tmp_path: Path) -> None:
    async with changed_app(tmp_path, "policy", {"default": "deny"}) as app:
        text, failed, _ = await answer(app, "await demo.echo({})")
    assert failed
    assert "PolicyDenied: demo.echo is denied by policy.default" in text
