"""The webhook: only an answer that is signed, fresh, and to this very request decides."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fixtures.webhook import KEY, Answer, Received, Reply, webhook
from gatemini.policy.approvals.grants import Approval, GrantStore
from gatemini.policy.approvals.subject import Request, Subject, digest
from gatemini.policy.approvals.webhook import (
    ASKED,
    DECIDED,
    MOST_ANSWER_BYTES,
    TOLERANCE_SECONDS,
    Webhook,
    WebhookFailed,
    key_bytes,
    signature,
)
from gatemini.policy.decision import Ask

pytestmark = pytest.mark.anyio


def approval() -> Approval:
    arguments = {"to": "a@example.com", "token": "s3cret"}
    request = Request(
        "mail.send", arguments, "policy.rules[0]", "why", "claude", "chain_1", ("untrusted: web",)
    )
    subject = Subject("mail", "send", digest(arguments), "s1", "uid:1", "rev1")
    return GrantStore().open(subject, request, Ask())


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_signed_answer_decides(decision: str) -> None:
    with webhook(lambda r: r.signed(r.decided(decision, by="alice"))) as (url, received):
        asked = approval()
        (verdict,) = await Webhook(url, KEY).ask([asked])
    assert (verdict.id, verdict.digest) == (asked.id, asked.subject.digest)
    assert (verdict.granted, verdict.by) == (decision == "allow", "alice")
    (request,) = received
    assert request.signature == signature(key_bytes(KEY), request.ident, request.stamp, request.body)
    assert abs(request.stamp - time.time()) < 60
    shown = request.asked[0]
    assert json.loads(request.body)["type"] == ASKED
    assert (shown["tool"], shown["rule"], shown["read_before"]) == (
        "mail.send",
        "policy.rules[0]",
        ["untrusted: web"],
    )


def redacting(value: Any) -> Any:
    return json.loads(json.dumps(value).replace("s3cret", "«secret»"))


async def test_secrets_of_the_configuration_are_not_posted() -> None:
    with webhook(lambda r: r.signed(r.decided())) as (url, received):
        await Webhook(url, KEY, redacting).ask([approval()])
    assert b"s3cret" not in received[0].body


LATE = TOLERANCE_SECONDS + 5
WRONG: dict[str, Answer] = {
    "no signature": lambda r: (200, {}, json.dumps(r.decided()).encode()),
    "another key": lambda r: r.signed(r.decided(), key="another key of sixteen bytes"),
    "another request's id": lambda r: r.signed(r.decided(), ident="msg_other"),
    "an old answer": lambda r: r.signed(r.decided(), stamp=time.time() - LATE),
    "an answer from the future": lambda r: r.signed(r.decided(), stamp=time.time() + LATE),
    "its own request": lambda r: (
        200,
        {"webhook-id": r.ident, "webhook-timestamp": str(r.stamp), "webhook-signature": r.signature},
        r.body,
    ),
    "a body changed after signing": lambda r: (
        *r.signed(r.decided("deny"))[:2],
        json.dumps(r.decided()).encode(),
    ),
    "a stamp changed after signing": lambda r: (
        200,
        {**r.signed(r.decided(), stamp=1)[1], "webhook-timestamp": str(int(time.time()))},
        json.dumps(r.decided()).encode(),
    ),
    "another version of signature": lambda r: (
        200,
        {**r.signed(r.decided())[1], "webhook-signature": r.signed(r.decided())[1]["webhook-signature"][3:]},
        json.dumps(r.decided()).encode(),
    ),
    "no JSON": lambda r: r.signed(b"allow"),
    "no decisions": lambda r: r.signed({"type": DECIDED}),
    "an unknown decision": lambda r: r.signed(r.decided("yes")),
    "a nested body": lambda r: r.signed(b"[" * 60_000),
    "a body without end": lambda r: r.signed(b" " * (MOST_ANSWER_BYTES + 1) + b"{}"),
    "a redirect": lambda r: (307, {"location": "/other"}, b""),
    "an error": lambda r: (500, {}, b""),
}


@pytest.mark.parametrize("kind", WRONG)
async def test_any_other_answer_decides_nothing(kind: str) -> None:
    with webhook(WRONG[kind]) as (url, received), pytest.raises(WebhookFailed):
        await Webhook(url, KEY).ask([approval()])
    assert len(received) == 1


async def test_an_answer_that_is_replayed_decides_nothing() -> None:
    kept: list[Reply] = []

    def first(request: Received) -> Reply:
        kept.append(request.signed(request.decided()))
        return kept[0]

    with webhook(first, lambda _: kept[0]) as (url, _):
        asked = approval()
        assert await Webhook(url, KEY).ask([asked])
        with pytest.raises(WebhookFailed, match="not to this request"):
            await Webhook(url, KEY).ask([asked])


async def test_it_is_asked_again_with_a_new_id_until_it_has_decided() -> None:
    wait: Answer = lambda _: (202, {"retry-after": "0"}, b"")  # noqa: E731
    with webhook(wait, lambda r: r.signed(r.decided())) as (url, received):
        assert await Webhook(url, KEY).ask([approval()])
    assert len({request.ident for request in received}) == len(received) == 2


@pytest.mark.parametrize("key", ["short", "whsec_!!", "whsec_c2hvcnQ="])
async def test_a_weak_key_signs_nothing(key: str) -> None:
    with webhook(lambda r: r.signed(r.decided())) as (url, received), pytest.raises(WebhookFailed):
        await Webhook(url, key).ask([approval()])
    assert received == []
