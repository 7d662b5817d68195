"""What the audit log says of approvals and of labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.running import DEMO, answer, threaded_app

pytestmark = pytest.mark.anyio

POLICY: dict[str, Any] = {
    "rules": [{"tools": ["demo.write"], "action": "ask", "reason": "it writes"}],
    "flow": "warn",
    "trust_annotations": ["demo"],
    "override_annotations": {"demo.*": {"openWorld": False}},
    "labels": {"private": ["demo.echo"]},
}


def records(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()
    ]


async def test_each_step_of_an_approval_and_each_label_is_recorded(tmp_path: Path) -> None:
    audit = {"path": str(tmp_path / "audit")}
    async with threaded_app(tmp_path, DEMO, policy=POLICY, audit=audit) as app:
        app.approvals.console = True
        session = app.new_session()

        async def run(code: str) -> None:
            await app.call_meta_tool("call_tool_chain", {"code": code}, session)

        write = '{"tool": "demo.write", "arguments": {"key": "a", "value": 1}}'
        await run('{"tool": "demo.echo", "arguments": {}}')
        await run(write)
        (approval,) = app.approvals.opened()
        app.approvals.decide(approval.id, approval.subject.digest, "console", granted=True)
        await run(write)
        await run(write)
        (denied,) = app.approvals.opened()
        app.approvals.decide(denied.id, denied.subject.digest, "console", granted=False)
        app.approvals.console = False
        await answer(app, "await demo.write({ key: 'b', value: 1 })")
        app.end_session(session)
    found = records(tmp_path / "audit")
    steps = [(each["step"], each.get("channel")) for each in found if each["kind"] == "approval"]
    assert steps == [
        ("asked", None),
        ("granted", "console"),
        ("used", "console"),
        ("asked", None),
        ("denied", "console"),
        ("impossible", None),
    ]
    granted = next(each for each in found if each.get("step") == "granted")
    assert (granted["approval"], granted["tool"], granted["rule"]) == (
        approval.id,
        "demo.write",
        "policy.rules[0]",
    )
    asked = [each for each in found if each["kind"] == "decision" and each["action"] == "ask"]
    assert len(asked) == 4
    labels = {
        (each["kind"], each["tool"]): each["labels"]
        for each in found
        if each["kind"] in ("intent", "outcome")
    }
    assert labels == {
        ("intent", "demo.echo"): [],
        ("outcome", "demo.echo"): ["private"],
        ("intent", "demo.write"): ["private"],
        ("outcome", "demo.write"): [],
    }
