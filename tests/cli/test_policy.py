"""`gatemini policy`: a table of cases, the rule behind one call, and a report with a hash to sign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.command_line import Run
from fixtures.running import DEMO

RULES: list[dict[str, Any]] = [
    {"tools": ["demo.sleep"], "action": "deny", "reason": "too slow"},
    {"tools": ["mail.send"], "arguments": {"/to": {"pattern": r"@example\.com$"}}, "action": "allow"},
    {
        "tools": ["mail.*"],
        "clients": ["ci-*"],
        "scopes": ["mail:send"],
        "transport": ["http"],
        "action": "ask",
    },
    {"tools": ["mail.*"], "hours": ["mon-fri 08:00-18:00"], "action": "allow"},
    {"tools": ["mail.*"], "action": "deny"},
    {"tools": ["mail.never"], "action": "allow"},
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return written(tmp_path, RULES)


def written(folder: Path, rules: list[dict[str, Any]], **more: Any) -> Path:
    path = folder / "config.json"
    backends = {**DEMO, "mail": DEMO["demo"]}
    path.write_text(
        json.dumps(
            {
                "cache_path": str(folder / "cache.json"),
                "semantic": {"model": "none"},
                "backends": backends,
                "policy": {"rules": rules, "trust_annotations": ["demo"]},
                **more,
            }
        )
    )
    return path


CASES = """
- {call: demo.sleep, expect: deny, rule: "policy.rules[0]"}
- {call: demo.add, expect: allow, rule: policy.default}
- {call: mail.send, arguments: {to: a@example.com}, expect: allow, rule: "policy.rules[1]"}
- {call: mail.send, arguments: {to: [a@example.com, b@example.org]}, at: 2026-03-07 12:00, expect: deny}
- {call: mail.send, client: {name: ci-1, scopes: ["mail:send"], transport: http}, expect: ask}
- {call: mail.list, client: claude-code, at: 2026-03-04 12:00, expect: allow, rule: "policy.rules[3]"}
- {call: mail.list, client: claude-code, at: 2026-03-04 19:00, expect: deny, rule: "policy.rules[4]"}
"""


def test_a_table_of_cases_that_all_come_out_as_expected_ends_with_0(
    run: Run, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "cases.yaml").write_text(CASES)
    ran = run("policy", "test", str(tmp_path / "cases.yaml"), "-c", str(config))
    assert (ran.code, ran.out, ran.err) == (0, "7 of 7 cases as expected\n", "")


def test_cases_that_come_out_otherwise_are_named_and_end_with_1(
    run: Run, config: Path, tmp_path: Path
) -> None:
    (tmp_path / "cases.yaml").write_text(
        """
- {call: demo.sleep, expect: allow}
- {call: demo.sleep, expect: deny, rule: policy.default}
- {call: demmo.sleep, expect: deny}
- {call: demo.add, session: {calls: 3}, expect: allow}
"""
    )
    ran = run("policy", "test", str(tmp_path / "cases.yaml"), "-c", str(config), "--json")
    assert ran.code == 1
    assert not ran.json["ok"]
    assert [row.get("failure") for row in ran.json["cases"]] == [
        "expected allow, found deny by policy.rules[0]: too slow",
        "expected deny by policy.default, found it by policy.rules[0]",
        "demmo.sleep names no backend of the configuration",
        None,
    ]


def test_budgets_are_part_of_a_case(run: Run, tmp_path: Path) -> None:
    config = written(tmp_path, [])
    plain = json.loads(config.read_text())
    plain["policy"]["budgets"] = {"calls_per_session": 3, "writes_per_session": 1}
    config.write_text(json.dumps(plain))
    (tmp_path / "cases.yaml").write_text(
        """
- {call: demo.x, session: {calls: 2}, expect: allow}
- {call: demo.x, session: {calls: 3}, expect: deny, rule: policy.budgets.calls_per_session}
- {call: demo.x, session: {writes: 1}, expect: deny, rule: policy.budgets.writes_per_session}
- {call: demo.x, session: {writes: 1}, annotations: {readOnly: true}, expect: allow}
- {call: mail.x, session: {writes: 1}, annotations: {readOnly: true}, expect: deny}
"""
    )
    ran = run("policy", "test", str(tmp_path / "cases.yaml"), "-c", str(config))
    assert ran.code == 0, ran.out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- {call: demo.add}", "case 1, expect: Field required"),
        ("- {call: demo.add, expect: allow}\n- {call: demo.add, expect: permit}", "case 2, expect"),
        ("call: demo.add", "the file"),
        ("- [", "is not YAML"),
    ],
)
def test_a_file_of_cases_that_cannot_be_read_is_an_error(
    run: Run, config: Path, tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "cases.yaml").write_text(text)
    ran = run("policy", "test", str(tmp_path / "cases.yaml"), "-c", str(config))
    assert ran.code == 1
    assert why in ran.err


def test_explain_names_the_rule_and_what_the_rules_before_it_found(run: Run, config: Path) -> None:
    arguments = json.dumps({"to": ["a@example.com", 7]})
    options = ("--client", "ci-1", "--scope", "mail:send", "--transport", "http", "-c", str(config))
    ran = run("policy", "explain", "mail.send", arguments, *options)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "ask by policy.rules[2]",
        "mail.send: destructive, open-world (not listed in an earlier run: taken as unannotated)",
        f"client ci-1 ({ran.out.partition('(uid:')[2] and 'uid:' + ran.out.partition('(uid:')[2].partition(')')[0]}), http",
        "  policy.rules[0] does not apply",
        "  policy.rules[1] is in doubt: the stricter side holds",
        "  policy.rules[2] applies",
    ]
    found = run("policy", "explain", "demo.sleep", "-c", str(config), "--json").json
    assert (found["action"], found["rule"], found["reason"]) == ("deny", "policy.rules[0]", "too slow")


def test_explain_says_how_an_approval_is_asked_for(run: Run, tmp_path: Path) -> None:
    ask = {"action": "ask", "ask": {"remember": "15m", "via": ["console"]}}
    found = run("policy", "explain", "demo.x", "-c", str(written(tmp_path, [ask])), "--json").json
    assert found["ask"] == {"remember": 900, "via": ["console"]}


@pytest.mark.parametrize("arguments", ["{", "[1]"])
def test_explain_takes_a_json_object(run: Run, config: Path, arguments: str) -> None:
    ran = run("policy", "explain", "demo.add", arguments, "-c", str(config))
    assert ran.code == 2
    assert "JSON" in ran.err


def test_the_report_says_what_can_be_reached_by_whom_under_which_rule(run: Run, config: Path) -> None:
    ran = run("policy", "report", "-c", str(config), "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    tools = {row["tool"]: row for row in found["tools"]}
    assert tools["demo.sleep"]["decisions"] == [{"action": "deny", "rule": "policy.rules[0]"}]
    assert tools["demo.add"]["decisions"] == [{"action": "allow", "rule": "policy.default"}]
    assert tools["demo.add"]["hints"] == "read-only, open-world"
    assert tools["mail.add"]["hints"] == "destructive, open-world", "its annotations are not trusted"
    assert tools["mail.readResource"]["decisions"] == [
        {
            "action": "ask",
            "rule": "policy.rules[2]",
            "if": ["client ci-*", "scopes mail:send", "transport http"],
        },
        {"action": "allow", "rule": "policy.rules[3]", "if": ["hours mon-fri 08:00-18:00"]},
        {"action": "deny", "rule": "policy.rules[4]"},
    ]
    assert found["rules_without_effect"] == ["policy.rules[1]", "policy.rules[5]"]
    assert found["backends"]["mail"]["module"] == "fixtures.demo_server:server"
    text = run("policy", "report", "-c", str(config)).out
    assert text.endswith(f"\nsha256 {found['hash']}\n")
    assert "\ndeny (policy.rules[0])\n  demo.sleep (read-only, open-world)\n" in text


def test_the_hash_of_the_report_changes_with_what_can_be_reached_and_with_nothing_else(
    run: Run, tmp_path: Path
) -> None:
    hashes = []
    for rules, more in (
        (RULES, {}),
        (RULES, {"log_level": "error"}),
        (RULES[:-1], {}),
        (RULES, {"registration": {"http": "deny"}}),
        (RULES, {"composite_tools": {"x": {"code": "return 1;"}}}),
        (RULES, {"composite_tools": {"x": {"code": "return 2;"}}}),
    ):
        ran = run("policy", "report", "-c", str(written(tmp_path, rules, **more)), "--json")
        hashes.append(ran.json["hash"])
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == len(hashes) - 1


def test_a_report_without_a_backend_that_does_not_run_says_so_and_ends_with_1(
    run: Run, tmp_path: Path
) -> None:
    path = written(tmp_path, RULES)
    plain = json.loads(path.read_text())
    plain["backends"]["mail"] = {"command": "/nonexistent/program"}
    path.write_text(json.dumps(plain))
    ran = run("policy", "report", "-c", str(path))
    assert ran.code == 1
    assert "not complete: not running, tools unknown: mail" in ran.err
