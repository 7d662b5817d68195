"""Keys of `policy` for approvals and for the data-flow guard: each changes what a call comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.config_keys import changed_app
from fixtures.running import answer
from fixtures.webhook import KEY, webhook

pytestmark = pytest.mark.anyio

ASK: dict[str, Any] = {"rules": [{"tools": ["demo.write"], "action": "ask"}]}
WRITE = 'await demo.write({ key: "a", value: 1 })'


async def outcome(folder: Path, policy: dict[str, Any], code: str = WRITE, *, console: bool = False) -> str:
    """The text of the answer of a gateway with this policy."""
    async with changed_app(folder, "policy", policy) as app:
        app.approvals.console = console
        text, _, _ = await answer(app, code)
    return text


@pytest.mark.proves("policy.approvals.via")
async def test_a_channel_that_the_gateway_leaves_out_is_not_used(tmp_path: Path) -> None:
    assert (await outcome(tmp_path / "with", ASK, console=True)).startswith("ApprovalPending")
    without = {**ASK, "approvals": {"via": ["client"]}}
    text = await outcome(tmp_path / "without", without, console=True)
    assert text.startswith("ApprovalDenied")
    assert "console: policy.approvals.via leaves it out" in text


@pytest.mark.proves("policy.approvals.webhook.url", "policy.approvals.webhook.key")
async def test_a_webhook_decides_that_has_the_key(tmp_path: Path) -> None:
    secret = tmp_path / "approvals.key"
    secret.write_text(KEY)
    secret.chmod(0o600)
    with webhook(lambda r: r.signed(r.decided())) as (url, received):
        hook = {"url": url, "key": f"secretref:file:{secret}"}
        text = await outcome(tmp_path / "right", {**ASK, "approvals": {"webhook": hook}})
        assert "writes" in text, text
        assert len(received) == 1
        secret.write_text("a key that the webhook does not have")
        text = await outcome(tmp_path / "wrong", {**ASK, "approvals": {"webhook": hook}})
        assert text.startswith("ApprovalDenied"), text


TRUSTED = {"trust_annotations": ["demo"], "override_annotations": {"demo.*": {"openWorld": False}}}
READ_AND_WRITE = f"await demo.echo({{}}); {WRITE}; return 1"


async def test_no_label_no_objection(tmp_path: Path) -> None:
    assert await outcome(tmp_path, {**TRUSTED, "flow": "deny"}, READ_AND_WRITE) == "1"


@pytest.mark.proves("policy.flow", "policy.labels.untrusted")
async def test_after_untrusted_content_nothing_is_changed(tmp_path: Path) -> None:
    policy = {**TRUSTED, "labels": {"untrusted": ["demo.echo"]}}
    text = await outcome(tmp_path / "deny", {**policy, "flow": "deny"}, READ_AND_WRITE)
    assert text.startswith(
        "PolicyDenied: demo.write is denied by policy.flow: it can change something, and this"
    )
    assert "untrusted content (demo.echo)" in text
    text = await outcome(tmp_path / "ask", {**policy, "flow": "ask"}, READ_AND_WRITE, console=True)
    assert text.startswith("ApprovalPending")
    for mode in ("off", "warn"):
        assert await outcome(tmp_path / mode, {**policy, "flow": mode}, READ_AND_WRITE) == "1"


@pytest.mark.proves("policy.labels.private")
async def test_private_data_does_not_reach_the_open_world(tmp_path: Path) -> None:
    hints = {"demo.write": {"openWorld": True}, "demo.*": {"openWorld": False}}
    policy = {"flow": "deny", "override_annotations": hints, "labels": {"private": ["demo.echo"]}}
    text = await outcome(tmp_path, policy, READ_AND_WRITE)
    assert "it reaches the open world, and this session has read private data (demo.echo)" in text


@pytest.mark.proves("policy.declassify[].tools", "policy.declassify[].labels")
async def test_a_tool_may_be_called_although_the_session_has_read_something(tmp_path: Path) -> None:
    policy = {**TRUSTED, "flow": "deny", "labels": {"untrusted": ["demo.echo"]}}
    for labels, passes in ((["untrusted"], True), (["private"], False)):
        rule = {"tools": ["demo.write"], "labels": labels}
        text = await outcome(tmp_path / labels[0], {**policy, "declassify": [rule]}, READ_AND_WRITE)
        assert (text == "1") is passes, text
    rule = {"tools": ["demo.other"]}
    text = await outcome(tmp_path / "other", {**policy, "declassify": [rule]}, READ_AND_WRITE)
    assert text.startswith("PolicyDenied")


@pytest.mark.proves("profile", "profile_exceptions")
async def test_a_locked_gateway_denies_what_no_rule_allows(tmp_path: Path) -> None:
    code = "return await demo.echo({ n: 1 })"
    async with changed_app(tmp_path / "locked", "profile", "locked") as app:
        text, failed, _ = await answer(app, code)
        assert failed
        assert "PolicyDenied: demo.echo is denied by its pin" in text
    excepted = {
        "profile": "locked",
        "policy": {"default": "allow", "read_only": False, "flow": "off", "pins": "off"},
    }
    reasons = dict.fromkeys(("policy.default", "policy.read_only", "policy.flow", "policy.pins"), "a test")
    async with changed_app(tmp_path / "excepted", "profile_exceptions", reasons, excepted) as app:
        text, failed, _ = await answer(app, code)
        assert not failed, text
