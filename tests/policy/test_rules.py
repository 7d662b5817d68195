"""The first rule that applies decides, by what it says about tool, client, time and arguments."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from gatemini.config.model.policy import PolicyConfig
from gatemini.model import Json, Tool
from gatemini.policy.decision import Decision
from gatemini.policy.door import Door
from gatemini.policy.limits.budgets import Counts
from gatemini.policy.principal import Principal
from gatemini.policy.rules.when import When

WHO = Principal("uid:1000", "claude-code", transport="stdio")
NOON = datetime(2026, 3, 4, 12, 0).astimezone()  # a Wednesday
READS = {"readOnlyHint": True, "openWorldHint": False}


def decide(
    policy: dict[str, Any],
    name: str = "shop.list",
    arguments: Json | None = None,
    *,
    who: Principal = WHO,
    at: datetime = NOON,
    counts: Counts | None = None,
    **tool: Any,
) -> Decision:
    door = Door(PolicyConfig.model_validate(policy))
    backend, _, bare = name.partition(".")
    facts = door.facts(Tool(backend, bare, **tool), arguments or {}, who, "s", "c")
    return door.rules.decide(replace(facts, at=at.timestamp()), counts or Counts())


def rule(action: str = "allow", **matchers: Any) -> dict[str, Any]:
    """A policy that denies all but what one rule says."""
    return {"default": "deny", "rules": [{"action": action, **matchers}]}


def test_without_a_rule_that_applies_the_default_decides() -> None:
    assert decide({}).action == "allow"
    assert decide({"default": "deny"}) == Decision("deny", "policy.default")
    assert decide({"default": "ask"}).action == "ask"


def test_the_first_rule_that_applies_decides_and_names_itself() -> None:
    rules = [
        {"tools": ["shop.delete_*"], "action": "deny", "reason": "deletions go through the portal"},
        {"tools": ["shop.*"], "action": "allow"},
        {"tools": ["*"], "action": "deny"},
    ]
    denied = decide({"rules": rules}, "shop.delete_order")
    assert denied == Decision("deny", "policy.rules[0]", "deletions go through the portal")
    assert decide({"rules": rules}, "shop.list").rule == "policy.rules[1]"
    assert decide({"rules": rules}, "mail.send").rule == "policy.rules[2]"


@pytest.mark.parametrize(
    ("matchers", "applies"),
    [
        ({"tools": ["shop.list"]}, True),
        ({"tools": ["shop.List"]}, False),
        ({"tools": ["shop.lis"]}, False),
        ({"tools": ["mail.*", "shop.l?st"]}, True),
        ({"tools": ["*.list"]}, True),
        ({"tags": ["code", "money"]}, True),
        ({"tags": ["code"]}, False),
        ({"annotations": {"readOnly": False}}, True),
        ({"annotations": {"readOnly": True}}, False),
        ({"annotations": {"destructive": True, "openWorld": True}}, True),
        ({"annotations": {"destructive": True, "openWorld": False}}, False),
        ({"clients": ["claude-*"]}, True),
        ({"clients": ["ci-*"]}, False),
        ({"clients": ["uid:1000"]}, True),
        ({"scopes": ["shop:read"]}, False),
        ({"transport": ["stdio", "http"]}, True),
        ({"transport": ["http"]}, False),
        ({"hours": ["08:00-18:00"]}, True),
        ({"hours": ["mon-fri 08:00-18:00"]}, True),
        ({"hours": ["thu-tue 08:00-18:00"]}, False),
        ({"hours": ["wed 12:00-12:01"]}, True),
        ({"hours": ["wed 12:01-24:00"]}, False),
        ({"tools": ["shop.*"], "tags": ["code"]}, False),
    ],
    ids=str,
)
def test_a_rule_applies_where_all_its_matchers_hold(matchers: dict[str, Any], applies: bool) -> None:
    decision = decide(rule(**matchers), tags=("money",))
    assert (decision.action == "allow") is applies


def test_hours_past_midnight_belong_to_the_day_on_which_they_began() -> None:
    policy = rule(hours=["wed 22:00-06:00"])
    for hour, day, action in ((23, 4, "allow"), (5, 5, "allow"), (6, 5, "deny"), (5, 4, "deny")):
        at = datetime(2026, 3, day, hour, 30).astimezone()
        assert decide(policy, at=at).action == action, (day, hour)


def test_scopes_must_all_be_held() -> None:
    reader = replace(WHO, scopes=frozenset({"shop:read", "openid"}))
    assert decide(rule(scopes=["shop:read"]), who=reader).action == "allow"
    assert decide(rule(scopes=["shop:read", "shop:write"]), who=reader).action == "deny"


def test_a_rule_means_a_tool_by_its_backend_and_by_its_namespace() -> None:
    for glob in ("shop.*", "store.*"):
        assert decide(rule(tools=[glob]), namespace="store").action == "allow"


def test_a_composite_tool_is_named_as_agents_name_it() -> None:
    door = Door(PolicyConfig.model_validate(rule(tools=["composite.*"])))
    facts = door.facts(Tool("__composite", "weekly"), {}, WHO, "s", "c")
    assert door.judge(facts).action == "allow"


# -- hints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "annotations", "allowed"),
    [
        ({}, {}, False),
        ({}, READS, False),
        ({"trust_annotations": ["shop"]}, READS, True),
        ({"trust_annotations": ["mail"]}, READS, False),
        ({"trust_annotations": ["shop"]}, {}, False),
        ({"trust_annotations": ["shop"]}, {"readOnlyHint": "true"}, False),
        ({"override_annotations": {"shop.l*": {"readOnly": True}}}, {}, True),
        ({"override_annotations": {"mail.*": {"readOnly": True}}}, {}, False),
        (
            {"trust_annotations": ["shop"], "override_annotations": {"shop.list": {"readOnly": False}}},
            READS,
            False,
        ),
    ],
    ids=str,
)
def test_read_only_allows_tools_by_a_trusted_or_overridden_hint(
    policy: dict[str, Any], annotations: Json, allowed: bool
) -> None:
    decision = decide({"read_only": True, **policy}, annotations=annotations)
    assert (decision.action == "allow") is allowed
    assert allowed or decision.rule == "policy.read_only"


def test_hints_that_are_not_trusted_never_make_anything_less_strict() -> None:
    harmless = {
        "readOnlyHint": True,
        "destructiveHint": False,
        "openWorldHint": False,
        "idempotentHint": True,
    }
    for hint, strict in (
        ("readOnly", False),
        ("destructive", True),
        ("openWorld", True),
        ("idempotent", False),
    ):
        policy = rule("allow", annotations={hint: strict})
        assert decide(policy, annotations=harmless).action == "allow", hint
        assert decide({**policy, "trust_annotations": ["*"]}, annotations=harmless).action == "deny", hint


def test_a_hint_that_only_equals_one_that_was_seen_before_does_not_count() -> None:
    door = Door(PolicyConfig.model_validate({"read_only": True, "trust_annotations": ["shop"]}))
    seen = [(True, "allow"), (1, "deny"), (True, "allow"), (1.0, "deny"), (1, "deny"), (True, "allow")]
    for hint, action in seen:
        tool = Tool("shop", "list", annotations={"readOnlyHint": hint})
        assert door.judge(door.facts(tool, {}, WHO, "s", "c")).action == action


def test_a_composite_tool_by_itself_is_harmless_since_its_calls_are_decided_about() -> None:
    door = Door(PolicyConfig(read_only=True))
    assert door.judge(door.facts(Tool("__composite", "x"), {}, WHO, "s", "c")).action == "allow"


# -- arguments ------------------------------------------------------------------------------------------

TO = {"/to": {"pattern": r"@example\.com$"}}


@pytest.mark.parametrize(
    ("value", "allowed", "denied"),
    [
        ("a@example.com", True, True),
        ("a@example.com\n", False, False),
        ("a@example.org", False, False),
        (["a@example.com", "b@example.com"], True, True),
        (["a@example.com", "b@example.org"], False, True),
        ([], False, False),
        ([["a@example.com"], ["b@example.org"]], False, True),
        ({"address": "a@example.org"}, False, True),
        (7, False, True),
        (None, False, True),
        ("\ud800@example.org", False, True),
    ],
    ids=repr,
)
def test_a_value_in_doubt_is_never_allowed_and_always_denied(value: Any, allowed: bool, denied: bool) -> None:
    assert (decide(rule(arguments=TO), arguments={"to": value}).action == "allow") is allowed
    deny = {"rules": [{"arguments": TO, "action": "deny"}]}
    assert (decide(deny, arguments={"to": value}).action == "deny") is denied


def test_in_doubt_a_rule_that_asks_gives_way_to_a_stricter_decision_and_beats_a_looser_one() -> None:
    mixed = {"to": ["a@example.com", "b@example.org"]}
    asks = [{"arguments": TO, "action": "ask"}]
    assert decide({"default": "deny", "rules": asks}, arguments=mixed).action == "deny"
    assert decide({"default": "allow", "rules": asks}, arguments=mixed).action == "ask"
    assert decide({"default": "deny", "rules": asks}, arguments={"to": "a@example.com"}).action == "ask"


@pytest.mark.parametrize(
    ("matcher", "value", "holds"),
    [
        ({"equals": 1}, 1, True),
        ({"equals": 1}, 1.0, True),
        ({"equals": 1}, True, False),
        ({"equals": True}, 1, False),
        ({"equals": "1"}, 1, False),
        ({"equals": None}, None, True),
        ({"equals": {"a": [1]}}, {"a": [1]}, True),
        ({"equals": {"a": [1]}}, {"a": [True]}, False),
        ({"equals": ["x", "y"]}, ["x", "y"], True),
        ({"equals": ["x", "y"]}, ["x"], False),
        ({"equals": "x"}, ["x", "x"], True),
        ({"in": ["x", "y"]}, "y", True),
        ({"in": ["x", "y"]}, ["x", "y"], True),
        ({"in": ["x", "y"]}, ["x", "z"], False),
        ({"in": [0, 1]}, False, False),
        ({"max": 100}, 100, True),
        ({"max": 100}, 100.5, False),
        ({"max": 100}, "5", False),
        ({"max": 100}, True, False),
        ({"max": 100}, 10**400, False),
        ({"max": 100}, -(10**400), True),
        ({"max": 2**53}, 2**53 + 1, False),
        ({"pattern": "^a", "in": ["ab", "b"]}, "ab", True),
        ({"pattern": "^a", "in": ["ab", "b"]}, "b", False),
        ({"pattern": "(a+)+$"}, "a" * 200_000 + "b", False),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_a_matcher_says_of_a_value(matcher: dict[str, Any], value: Any, holds: bool) -> None:
    decision = decide(rule(arguments={"/v": matcher}), arguments={"v": value})
    assert (decision.action == "allow") is holds


@pytest.mark.parametrize(
    ("pointer", "applies"),
    [
        ("/a/b", True),
        ("/a/c", False),
        ("/l/0/p", True),
        ("/l/1/p", False),
        ("/l/2/p", False),
        ("/all/p", True),
        ("/l/p", False),
        ("/x~1y/~0", True),
        ("/a/b/c", False),
        ("/e", False),
    ],
)
def test_a_pointer_leads_through_objects_and_lists(pointer: str, applies: bool) -> None:
    arguments = {
        "a": {"b": "ok"},
        "l": [{"p": "ok"}, {"p": "no"}],
        "all": [{"p": "ok"}] * 2,
        "x/y": {"~": "ok"},
    }
    decision = decide(rule(arguments={pointer: {"equals": "ok"}}), arguments=arguments)
    assert (decision.action == "allow") is applies


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# -- expressions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("args.limit <= 100 && session.calls < 50", True),
        ("args.limit > 100", False),
        ("client.name == 'claude-code' && client.transport == 'stdio' && client.id == 'uid:1000'", True),
        ("'shop:read' in client.scopes", False),
        ("client.claims.roles.exists(r, r == 'admin') && client.claims.nested.key == 'value'", True),
        ("has(client.claims.level) && args.limit <= client.claims.level", False),
        ("tool.backend == 'shop' && tool.name == 'list' && tool.qualified == 'shop.list'", True),
        ("tool.readOnly || !tool.destructive || !tool.openWorld || tool.idempotent", False),
        ("'money' in tool.tags", True),
        ("now.getHours() >= 0", True),
        ("session.writes == 2", True),
        ("args.rows.all(r, r.id < 3)", True),
    ],
)
def test_an_expression_sees_call_tool_client_session_and_time(expression: str, allowed: bool) -> None:
    arguments = {"limit": 10, "rows": [{"id": 1}, {"id": 2}]}
    who = replace(WHO, claims={"roles": ["admin"], "nested": {"key": "value"}})
    decision = decide(
        rule(when=expression), arguments=arguments, tags=("money",), counts=Counts(7, 2), who=who
    )
    assert (decision.action == "allow") is allowed


@pytest.mark.parametrize(
    ("expression", "arguments", "why"),
    [
        ("args.limit <= 100", {}, "KeyError"),
        ("args.limit <= 100", {"limit": "5"}, "TypeError"),
        ("args.limit", {"limit": 5}, "its value is int"),
        ("args.n / 0 > 1", {"n": 1}, "failed|division|Error"),
        ("args.l.all(x, args.l.all(y, x == y))", {"l": [1] * 200}, "too many values"),
        ("args.l.all(x, x == 1)", {"l": [1] * 1_000}, "too many values"),
        ("args.s == 'x'", {"s": "x" * (1 << 24)}, "too many values"),
        ("args.s.matches('a')", {"s": None}, "Error"),
        ("size(args.a) > 0", {"a": nested(20_000)}, "nested more than 100 deep"),
    ],
)
def test_an_expression_that_fails_denies_and_says_so(expression: str, arguments: Json, why: str) -> None:
    allow = {"default": "allow", "rules": [{"when": expression, "action": "allow"}]}
    decision = decide(allow, arguments=arguments)
    assert (decision.action, decision.rule) == ("deny", "policy.rules[0]")
    assert "its `when` could not be evaluated" in decision.reason
    assert any(part in decision.reason for part in why.split("|"))


def test_an_expression_that_takes_too_long_denies_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatemini.policy.rules.when.CPU_SECONDS", 0.0)
    decision = decide(rule(when="args.s.matches('a+$')"), arguments={"s": "a" * 100_000})
    assert decision.action == "deny"
    assert "took more than" in decision.reason


def test_an_evaluation_that_something_else_held_up_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr("gatemini.policy.rules.when.time.thread_time", lambda: next(clock))
    assert When("args.a == 1")({"a": 1}, {})


def test_an_expression_is_evaluated_only_where_the_other_matchers_hold() -> None:
    policy = {"rules": [{"tools": ["mail.*"], "when": "args.nothing", "action": "allow"}]}
    assert decide(policy).rule == "policy.default"


# -- what is no policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"rules": [{"tools": ["shop.*"]}]}, "action"),
        ({"rules": [{"tools": [], "action": "deny"}]}, "at least 1"),
        ({"rules": [{"tools": ["delete_?"], "action": "deny"}]}, "backend.tool"),
        ({"rules": [{"tool": ["shop.*"], "action": "deny"}]}, "tool"),
        ({"rules": [{"arguments": {"to": {"pattern": "a"}}, "action": "deny"}]}, "JSON pointer"),
        ({"rules": [{"arguments": {"/to": {}}, "action": "deny"}]}, "at least one of pattern"),
        ({"rules": [{"arguments": {"/to": {"pattern": "(?=a)"}}, "action": "deny"}]}, "look-around"),
        ({"rules": [{"arguments": {"/to": {"pattern": r"(a)\1"}}, "action": "deny"}]}, "backreferences"),
        ({"rules": [{"arguments": {"/to": {"pattern": "("}}, "action": "deny"}]}, "unclosed group"),
        ({"rules": [{"annotations": {}, "action": "deny"}]}, "at least one of readOnly"),
        ({"rules": [{"hours": ["9-17"], "action": "deny"}]}, "08:00-18:00"),
        ({"rules": [{"hours": ["08:00-24:30"], "action": "deny"}]}, "08:00-18:00"),
        ({"rules": [{"when": "args.", "action": "deny"}]}, "CEL"),
        ({"rules": [{"transport": ["pigeon"], "action": "deny"}]}, "stdio"),
        ({"rules": [{"action": "deny", "ask": {"remember": "session"}}]}, "action: ask"),
        ({"rules": [{"tools": ["${BACKEND}.*"], "action": "deny"}]}, "no variables"),
        ({"default": "permit"}, "allow"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(policy: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        PolicyConfig.model_validate(policy)


def test_an_expression_without_the_extra_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cel", None)
    with pytest.raises(ValidationError, match=r"needs the extra cel \(pip install 'gatemini\[cel\]'\)"):
        PolicyConfig.model_validate(rule(when="true"))


def test_the_revision_changes_with_the_policy_and_with_nothing_else() -> None:
    one, same, other = ({"default": "deny"}, {"default": "deny", "rules": []}, {"default": "ask"})
    revisions = [Door(PolicyConfig.model_validate(policy)).revision for policy in (one, same, other)]
    assert revisions[0] == revisions[1] != revisions[2]
