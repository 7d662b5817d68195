"""What a person sees is what will be sent: real arguments, with nothing hidden or made to look like something else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.policy.approvals import client
from gatemini.policy.approvals.grants import Approval, GrantStore
from gatemini.policy.approvals.shown import SHOWN_CHARS, description, question
from gatemini.policy.approvals.subject import Request, Subject, digest
from gatemini.policy.decision import Ask


def approval(arguments: dict[str, Any], **more: Any) -> Approval:
    request = Request("mail.send", arguments, "policy.rules[0]", "sends mail", "claude", "chain_1", **more)
    subject = Subject("mail", "send", digest(arguments), "s1", "uid:1", "rev1")
    return GrantStore().open(subject, request, Ask())


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\u202eb", '"a\\u202eb"'),
        ("a\u200bb", '"a\\u200bb"'),
        ("a\x1b[2Kb", '"a\\u001b[2Kb"'),
        ("a\nrule: allow", '"a\\nrule: allow"'),
        ("a\u2028rule", '"a\\u2028rule"'),
        ("a\rb", '"a\\rb"'),
        ("\\u202e", '"\\\\u202e"'),
        ("\ud800", '"\\ud800"'),
        ("\U000e0041", '"\\u{e0041}"'),
    ],
)
def test_hidden_signs_are_shown_as_escapes(value: str, shown: str) -> None:
    text, complete = description(approval({"body": value}))
    assert f"  body: {shown}\n" in text
    assert complete


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=4))
def test_no_argument_begins_a_line_or_ends_the_fence(arguments: dict[str, str]) -> None:
    text, _ = question([approval(arguments)])
    lines = text.split("\n")
    fence = lines[1]
    assert lines.count(fence) == 2
    assert len(lines) == 4 + 1 + max(1, len(arguments)) + 3
    assert all(sign.isprintable() for line in lines for sign in line)


def test_the_arguments_that_are_shown_are_the_real_ones() -> None:
    arguments = {"to": ["a@example.com"], "big": 2**70, "a b": {"x": None}, "text": 'say "hi"', "é": 1.0}
    shown, _ = description(approval(arguments))
    lines = [line.strip() for line in shown.split("\n")][1:6]
    assert lines == [
        'to: ["a@example.com"]',
        f"big: {2**70}",
        '"a b": {"x": null}',
        r'text: "say \"hi\""',
        '"é": 1.0',
    ]


def test_rule_reason_client_and_what_was_read_are_shown() -> None:
    text, _ = description(approval({}, reads=("untrusted: web.fetch",)))
    assert "rule: policy.rules[0]" in text
    assert "reason: sends mail" in text
    assert "client: claude" in text
    assert "read before: untrusted: web.fetch" in text


def test_long_arguments_are_shown_whole_on_request() -> None:
    long = approval({"body": "x" * (2 * SHOWN_CHARS) + "END"})
    short, complete = description(long)
    assert not complete
    assert "END" not in short
    assert "characters more are not shown" in short
    assert "END" in description(long, whole=True)[0]
    asked = client.request([long])
    assert client.WHOLE in asked["requestedSchema"]["properties"]
    assert client.wants_whole({"action": "accept", "content": {client.WHOLE: True}})
    assert "END" in client.request([long], whole=True)["message"]


def test_several_calls_stand_in_one_question_and_are_decided_one_by_one() -> None:
    calls = [approval({"to": name}) for name in "abc"]
    asked = client.request(calls)
    assert all(f'to: "{name}"' in asked["message"] for name in "abc")
    assert asked["requestedSchema"]["required"] == ["approve_1", "approve_2", "approve_3"]
    content = {"approve_1": True, "approve_2": False, "approve_3": "true"}
    assert client.decisions(calls, {"action": "accept", "content": content}) == [True, False, False]


@pytest.mark.parametrize(
    "answer", [{"action": "decline"}, {"action": "cancel"}, {}, {"action": "ACCEPT"}, {"action": ["accept"]}]
)
def test_only_an_explicit_yes_is_one(answer: dict[str, Any]) -> None:
    assert client.decisions([approval({})], answer) == [False]
    assert client.decisions([approval({})] * 2, answer) == [False, False]
    assert client.decisions([approval({})] * 2, {"action": "accept"}) == [False, False]
