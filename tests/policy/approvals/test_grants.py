"""A grant admits one call that is equal in every field of its subject, once, in its time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.policy.approvals.grants import (
    KEPT_SECONDS,
    MOST_CHARS,
    MOST_OF_SESSION,
    Approval,
    GrantStore,
    NotDecided,
    State,
)
from gatemini.policy.approvals.subject import Request, Subject, digest
from gatemini.policy.decision import Ask

SUBJECT = Subject("mail", "send", digest({"to": "a@example.com"}), "s1", "uid:1", "rev1")
REQUEST = Request("mail.send", {"to": "a@example.com"}, "policy.rules[0]", "", "claude", "chain_1")
ONCE = Ask()
OTHERS = {
    "backend": "mail2",
    "tool": "sent",
    "digest": digest({"to": "b@example.com"}),
    "session": "s2",
    "principal": "uid:2",
    "revision": "rev2",
}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> GrantStore:
    return GrantStore(clock)


def left_open(store: GrantStore, subject: Subject = SUBJECT, ask: Ask = ONCE) -> Approval:
    """An approval whose chain has ended."""
    approval = store.open(subject, REQUEST, ask)
    store.leave(approval, keep=True)
    return approval


def grant(store: GrantStore, approval: Approval) -> None:
    store.decide(approval.id, approval.subject.digest, "console", granted=True)


def test_a_grant_is_used_once(store: GrantStore) -> None:
    approval = left_open(store)
    grant(store, approval)
    assert store.use(SUBJECT) is approval
    assert store.use(SUBJECT) is None
    assert not store.take(approval)


@pytest.mark.parametrize("remember", ["call", "session", 900.0])
@pytest.mark.parametrize("field", OTHERS)
def test_a_grant_admits_no_call_that_differs(store: GrantStore, field: str, remember: Any) -> None:
    approval = left_open(store, ask=Ask(remember))
    grant(store, approval)
    assert store.use(replace(SUBJECT, **{field: OTHERS[field]})) is None
    assert store.use(SUBJECT) is approval


def test_a_grant_for_a_waiting_call_goes_to_no_other_call(store: GrantStore) -> None:
    waiting = store.open(SUBJECT, REQUEST, Ask())
    grant(store, waiting)
    assert store.use(SUBJECT) is None
    assert store.take(waiting)
    assert not store.take(waiting)


def test_two_equal_calls_need_two_grants(store: GrantStore) -> None:
    first, second = (store.open(SUBJECT, REQUEST, Ask()) for _ in range(2))
    assert first.id != second.id
    grant(store, first)
    assert store.take(first)
    assert not store.take(second)


def test_a_session_grant_admits_equal_calls_until_the_session_ends(store: GrantStore, clock: Clock) -> None:
    approval = left_open(store, ask=Ask("session"))
    waiting = store.open(replace(SUBJECT), REQUEST, Ask("session"))
    grant(store, approval)
    assert waiting.state is State.GRANTED
    clock.now += 10 * KEPT_SECONDS
    assert store.use(SUBJECT)
    assert store.use(SUBJECT)
    store.end_session("s1")
    assert store.use(SUBJECT) is None


def test_a_grant_for_minutes_expires(store: GrantStore, clock: Clock) -> None:
    approval = left_open(store, ask=Ask(900.0))
    grant(store, approval)
    clock.now += 899
    assert store.use(SUBJECT)
    clock.now += 2
    # The grant of the call itself is still there, once.
    assert store.use(SUBJECT) is approval
    assert store.use(SUBJECT) is None


def test_an_approval_is_decided_once(store: GrantStore) -> None:
    approval = left_open(store)
    grant(store, approval)
    with pytest.raises(NotDecided, match="granted already"):
        grant(store, approval)
    denied = left_open(store)
    store.decide(denied.id, denied.subject.digest, "console", granted=False)
    with pytest.raises(NotDecided, match="no open approval"):
        grant(store, denied)
    assert store.use(SUBJECT) is approval
    assert store.use(SUBJECT) is None


def test_a_late_decision_has_no_effect(store: GrantStore, clock: Clock) -> None:
    approval = left_open(store)
    clock.now += KEPT_SECONDS + 1
    with pytest.raises(NotDecided):
        grant(store, approval)
    assert store.use(SUBJECT) is None


def test_an_unused_grant_expires_with_its_approval(store: GrantStore, clock: Clock) -> None:
    approval = left_open(store)
    grant(store, approval)
    clock.now += KEPT_SECONDS + 1
    assert store.use(SUBJECT) is None


def test_a_decision_is_about_the_arguments_that_were_shown(store: GrantStore) -> None:
    approval = left_open(store)
    with pytest.raises(NotDecided, match="other arguments"):
        store.decide(approval.id, OTHERS["digest"], "console", granted=True)
    with pytest.raises(NotDecided, match="no open approval"):
        store.decide("apr_0000000000000000", SUBJECT.digest, "console", granted=True)
    assert store.use(SUBJECT) is None


def test_a_channel_that_the_rule_leaves_out_decides_nothing(store: GrantStore) -> None:
    approval = left_open(store, ask=Ask(via=("console",)))
    with pytest.raises(NotDecided, match="takes console"):
        store.decide(approval.id, SUBJECT.digest, "client", granted=True)


def test_a_resumed_chain_takes_up_the_approval_that_it_left_open(store: GrantStore) -> None:
    approval = left_open(store)
    assert store.open(SUBJECT, REQUEST, Ask()) is approval
    assert store.open(replace(SUBJECT, revision="rev2"), REQUEST, Ask()) is not approval


@pytest.mark.parametrize("remember", ["call", "session"])
def test_a_changed_policy_drops_what_was_open_and_granted(store: GrantStore, remember: Any) -> None:
    opened, granted = left_open(store), left_open(store, replace(SUBJECT, tool="other"), Ask(remember))
    grant(store, granted)
    waiting = store.open(replace(SUBJECT, tool="third"), REQUEST, ONCE)
    store.keep_revision("rev1")
    assert store.opened() == [opened, waiting]
    store.keep_revision("rev2")
    assert store.opened() == [waiting]
    assert store.use(granted.subject) is None


def test_what_cannot_be_granted_later_is_dropped(store: GrantStore) -> None:
    approval = store.open(SUBJECT, REQUEST, Ask(via=("client",)))
    store.leave(approval, keep=False)
    assert store.opened() == []


def test_the_open_approvals_of_a_session_are_bounded(store: GrantStore) -> None:
    for number in range(MOST_OF_SESSION + 20):
        left_open(store, replace(SUBJECT, digest=str(number)))
    assert len(store.opened()) == MOST_OF_SESSION


def test_the_arguments_that_wait_are_bounded_in_size(store: GrantStore) -> None:
    large = Request(
        "mail.send", {"body": "x" * (MOST_CHARS // 3)}, "policy.rules[0]", "", "claude", "chain_1"
    )
    for number in range(5):
        approval = store.open(replace(SUBJECT, digest=str(number)), large, ONCE)
        store.leave(approval, keep=True)
    assert [approval.subject.digest for approval in store.opened()] == ["3", "4"]


NAMES = st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_the_order_of_keys_does_not_matter(arguments: dict[str, Any]) -> None:
    assert digest(arguments) == digest(dict(reversed(arguments.items())))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": 1}, {"n": 1.0}),
        ({"n": 1}, {"n": True}),
        ({"n": 1}, {"n": "1"}),
        ({"n": None}, {}),
        ({"n": [1, 2]}, {"n": [2, 1]}),
        ({"n": 2**53}, {"n": 2**53 + 1}),
        ({"n": 10**400}, {"n": 10**400 + 1}),
        ({"n": "é"}, {"n": "e\u0301"}),
        ({"n": "a"}, {"n": "\u0430"}),
        ({"a": {"b": 1}}, {"a": {}, "b": 1}),
        ({"n": "\ud800"}, {"n": "\\ud800"}),
    ],
)
def test_arguments_that_a_backend_could_tell_apart_differ(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert digest(one) != digest(other)
