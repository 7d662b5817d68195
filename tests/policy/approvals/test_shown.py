"""What a person sees is what will be sent: real arguments, with nothing hidden or made to look like something else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.policy.approvals import client
from gatemini.policy.approvals.grants import Approval, GrantStore
from gatemini.policy.approvals.shown import (
    CONTINUED,
    RIGHT_TO_LEFT,
    SHOWN_CHARS,
    WIDTH,
    description,
    question,
)
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
        ("12\ufe0f/\ufe0eetc", '"12\\ufe0f/\\ufe0eetc"'),
    ],
)
def test_hidden_signs_are_shown_as_escapes(value: str, shown: str) -> None:
    text, complete = description(approval({"body": value}))
    assert f"  body: {shown}\n" in text
    assert complete


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=4))
def test_no_argument_begins_a_line_or_ends_the_fence(arguments: dict[str, str]) -> None:
    text, _ = question([approval(arguments)])
    assert all(sign.isprintable() for line in text.split("\n") for sign in line)
    lines = [line for line in text.split("\n") if not line.startswith(CONTINUED[1:])]
    fence = lines[1]
    assert lines.count(fence) == 2
    lines = [line for line in lines if not line.startswith("  beware: ")]
    assert len(lines) == 4 + 1 + max(1, len(arguments)) + 3


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


@pytest.mark.parametrize("long", ["x" * 100_000, ["x" * 90] * 1000, {f"k{n}": n for n in range(9999)}])
def test_a_long_argument_pushes_no_other_out_of_sight(long: Any) -> None:
    text, complete = description(approval({"body": long, "to": "a@example.org", "bcc": "b@example.org"}))
    assert not complete
    assert '  to: "a@example.org"\n' in text
    assert '  bcc: "b@example.org"\n' in text
    assert len(text) < 2 * SHOWN_CHARS


def test_several_long_arguments_share_the_room() -> None:
    arguments = {name: f"{name}-begins {'x' * 100_000}" for name in ("body", "subject", "signature")}
    text, complete = description(approval(arguments))
    assert not complete
    assert all(f"{name}-begins" in text for name in arguments)
    assert len(text) < 1.5 * SHOWN_CHARS


def test_questions_that_differ_only_in_what_is_not_shown_differ() -> None:
    """The answer to one of them may be given again for the same question, where a replica goes on with a chain."""
    one, other = (description(approval({"body": "x" * 100_000 + end}))[0] for end in "ab")
    assert one != other


def test_thousands_of_arguments_are_counted() -> None:
    text, complete = description(approval({f"name{n}": "x" * 50 for n in range(5000)}))
    assert not complete
    assert "and 4,950 arguments more" in text
    assert len(text) < 2 * SHOWN_CHARS


@pytest.mark.parametrize("fill", ["x", " ", "\u00a0", "\u3000", "宽", "é", "\u202e", "\t", "`"])
def test_no_value_makes_a_terminal_begin_a_line_that_looks_like_ours(fill: str) -> None:
    """Terminals break long lines by themselves: a value of the right length would begin a line with what it likes."""
    for count in range(60, 100):
        text, _ = description(approval({"body": f"{fill * count}  rule: policy.rules[9]  client: you"}))
        lines = text.split("\n")
        assert all(sum(2 if sign in "宽" else 1 for sign in line) <= WIDTH for line in lines)
        assert [line for line in lines if line.startswith("  rule:")] == ["  rule: policy.rules[0]"]


def test_many_spaces_are_counted() -> None:
    text, _ = description(approval({"body": "a" + " " * 300 + "b", "code": "if x:\n    y()"}))
    assert 'body: "a«300 spaces»b"' in text
    assert r'code: "if x:\n    y()"' in text


@pytest.mark.parametrize(
    "word",
    [
        "p\u0430ypal",
        "ex\u03bfmple",
        "\uff47ithub",
        "\U0001d41aw",
        "paypa\u217c",
        "\ua4d0ank",
        "\u2c9erder",
        "\u210aithub",
        "\u212aey",
        "pay\u0585al",
        "\u0440\u0301aypal",
    ],
)
def test_words_that_mix_alphabets_are_pointed_out(word: str) -> None:
    assert f"  beware: {word} mixes letters" in description(approval({"to": f"a@{word}.com"}))[0]
    assert (
        "beware"
        not in description(
            approval(
                {"to": "Gruß an Jürgen, привет, Τσάι, T\u30b7\u30e3\u30c4, 3 \xb5m\xb2, 2\xaa, \u02bbokina"}
            )
        )[0]
    )


@pytest.mark.parametrize("letter", ["\u05d0", "\u0639", "\u0661", "\u07ca", "\U0001e900"])
def test_letters_that_reorder_a_line_are_pointed_out(letter: str) -> None:
    for arguments in ({"pay": f"1 {letter} 2"}, {letter: 1}, {"to": ["x", {"y": letter}]}):
        assert (
            f"  beware: {RIGHT_TO_LEFT}\n"
            in description(approval(arguments))[0].replace(CONTINUED, "") + "\n"
        )
    assert RIGHT_TO_LEFT not in description(approval({"pay": "1 é 2 привет 日本"}))[0]


def test_names_of_tools_are_escaped_wherever_they_are_shown() -> None:
    calls = [approval({"to": name}) for name in "ab"]
    for call in calls:
        object.__setattr__(call.request, "qualified", "mail.se\u202end\nx")
    asked = client.request(calls)
    titles = [asked["requestedSchema"]["properties"][f"approve_{n}"]["title"] for n in (1, 2)]
    assert titles == [f"Approve {n}. mail.se\\u202end\\u000ax" for n in (1, 2)]
    assert "mail.se\\u202end\\u000ax with" in asked["message"]


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
