"""Ask by a webhook: a signed POST of the open approvals, and its signed answer.

Both are signed as Standard Webhooks describes it: HMAC-SHA256 over `id.timestamp.body`. The answer carries the id of the
request, which is new for each, so that no other answer fits it; and it names each call by the hash of its arguments.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import httpx2

from gatemini.model import Json
from gatemini.outgoing.bounded_body import bounded_body
from gatemini.policy.approvals.grants import Approval

ASKED, DECIDED = "approval.requested", "approval.decided"
TOLERANCE_SECONDS = 300.0
"""How far the time of an answer may be from ours."""
LEAST_KEY_BYTES = 16
MOST_ANSWER_BYTES = 1 << 16
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 300.0
"""How long one request may stay open while a person decides."""
AGAIN_SECONDS, MOST_AGAIN_SECONDS = 5.0, 60.0
"""When it is sent again after `202 Accepted`, unless Retry-After says when; and the most of that."""
ATTEMPTS = 3
"""Requests in a row that may fail before the webhook counts as out of reach."""


class WebhookFailed(Exception):
    """The webhook gave no valid answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One decision of an answer."""

    id: str
    digest: str
    granted: bool
    by: str = ""
    """The person, as the webhook names them."""


def key_bytes(key: str) -> bytes:
    """Return the signing key; one that begins with `whsec_` is base64. Raises WebhookFailed for a short or broken one."""
    data = key.encode()
    if key.startswith("whsec_"):
        try:
            data = base64.b64decode(key.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise WebhookFailed("the key of the webhook begins with whsec_ and is no base64") from None
    if len(data) < LEAST_KEY_BYTES:
        raise WebhookFailed(
            f"the key of the webhook has {len(data)} bytes, at least {LEAST_KEY_BYTES} are needed"
        )
    return data


def signature(key: bytes, ident: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`."""
    signed = b".".join((ident.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def request_body(approvals: Sequence[Approval], redact: Callable[[Any], Any]) -> bytes:
    """Return what is posted: everything that a person must see of each call."""
    calls = [
        {
            "id": approval.id,
            "tool": approval.request.qualified,
            "arguments": approval.request.arguments,
            "arguments_sha256": approval.subject.digest,
            "rule": approval.request.rule,
            "reason": approval.request.reason,
            "read_before": list(approval.request.reads),
            "client": approval.request.client,
            "session": approval.subject.session,
            "chain": approval.request.chain,
            "policy_revision": approval.subject.revision,
            "remember": approval.ask.remember,
        }
        for approval in approvals
    ]
    return json.dumps({"type": ASKED, "approvals": redact(calls)}).encode()


def verdicts(key: bytes, ident: str, now: float, headers: Mapping[str, str], body: bytes) -> list[Verdict]:
    """Return the decisions of an answer to the request `ident`. Raises WebhookFailed unless it is valid in every part."""
    if not hmac.compare_digest(headers.get("webhook-id", "").encode(), ident.encode()):
        raise WebhookFailed("the answer is not to this request (webhook-id)")
    stamp = headers.get("webhook-timestamp", "")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) < 16):
        raise WebhookFailed("the answer has no webhook-timestamp")
    expected = signature(key, ident, int(stamp), body).encode()
    given = headers.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(each.encode(), expected) for each in given):
        raise WebhookFailed("the signature of the answer is not valid (webhook-signature)")
    if abs(now - int(stamp)) > TOLERANCE_SECONDS:
        raise WebhookFailed("the time of the answer is too far from ours (webhook-timestamp)")
    try:
        answer = json.loads(body)
        if answer["type"] != DECIDED:
            raise WebhookFailed(f"the type of the answer is not {DECIDED}")
        return [_verdict(each) for each in answer["decisions"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WebhookFailed("the answer is not of the documented form") from error


def _verdict(given: Json) -> Verdict:
    if given["decision"] not in ("allow", "deny"):
        raise ValueError("decision")
    by = given.get("by", "")
    return Verdict(
        str(given["id"]), str(given["arguments_sha256"]), given["decision"] == "allow", str(by)[:200]
    )


@dataclass(slots=True)
class Webhook:
    """One configured webhook. `redact` takes the secrets of the configuration out of what is posted."""

    url: str
    key: str = field(repr=False)
    redact: Callable[[Any], Any] = lambda value: value

    async def ask(self, approvals: Sequence[Approval]) -> list[Verdict]:
        """Post the approvals until they are decided. Raises WebhookFailed."""
        key = key_bytes(self.key)
        body = await anyio.to_thread.run_sync(request_body, approvals, self.redact)
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=ANSWER_SECONDS)
        failures = 0
        async with httpx2.AsyncClient(timeout=timeout, follow_redirects=False) as client:
            while True:
                try:
                    found, pause = await self._post(client, key, body)
                    failures = 0
                except httpx2.HTTPError as error:
                    failures += 1
                    if failures == ATTEMPTS:
                        raise WebhookFailed(
                            f"the webhook cannot be reached: {type(error).__name__}"
                        ) from error
                    found, pause = None, AGAIN_SECONDS
                if found is not None:
                    return found
                await anyio.sleep(pause)

    async def _post(
        self, client: httpx2.AsyncClient, key: bytes, body: bytes
    ) -> tuple[list[Verdict] | None, float]:
        """Post once; return the decisions, or None and when to ask again."""
        ident, stamp = f"msg_{secrets.token_urlsafe(16)}", int(time.time())
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            "webhook-id": ident,
            "webhook-timestamp": str(stamp),
            "webhook-signature": signature(key, ident, stamp, body),
        }
        async with client.stream("POST", self.url, content=body, headers=headers) as answer:
            if answer.status_code == httpx2.codes.ACCEPTED:
                return None, _pause(answer.headers.get("retry-after", ""))
            if answer.status_code != httpx2.codes.OK:
                raise WebhookFailed(f"the webhook answered with HTTP {answer.status_code}")
            data = await bounded_body(answer, MOST_ANSWER_BYTES)
            if data is None:
                raise WebhookFailed(f"the answer has more than {MOST_ANSWER_BYTES} bytes")
            return verdicts(key, ident, time.time(), answer.headers, data), 0.0


def _pause(retry_after: str) -> float:
    known = retry_after.isascii() and retry_after.isdecimal()
    return min(MOST_AGAIN_SECONDS, max(1.0, float(retry_after[:6]))) if known else AGAIN_SECONDS
