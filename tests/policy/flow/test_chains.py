"""Chains over real servers: twenty that would carry out what was read are stopped, forty harmless ones are not asked about.

What was really sent is what the servers have written into their ledger.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fixtures.direct import TESTS
from fixtures.running import threaded_app
from gatemini.app import App
from gatemini.config.model.policy import PolicyConfig
from gatemini.policy.door import door_of
from gatemini.protocol.sessions.client_session import Session

pytestmark = pytest.mark.anyio

NAMES = ("web", "mail", "files", "chat", "code", "notes", "db", "clock", "plain")
TRUSTED = [name for name in NAMES if name != "plain"]
POLICY: dict[str, Any] = {
    "trust_annotations": TRUSTED,
    "labels": {
        "untrusted": ["mail.list", "mail.read", "mail.readResource", "chat.history"],
        "private": ["mail.*", "files.*", "db.*", "chat.history"],
    },
}
COMPOSITES = {
    "digest": {"code": 'return await web.fetch({ url: "https://news.example" })'},
    "publish": {"code": "return await chat.send({ text: args.text })"},
}


class Office:
    """A gateway over the servers of an office, and what these were really sent."""

    def __init__(self, app: App, ledger: Path) -> None:
        self.app = app
        self.ledger = ledger

    def policy(self, flow: str, **more: Any) -> None:
        config = PolicyConfig.model_validate({**POLICY, "flow": flow, **more})
        self.app.approvals.console = True
        self.app.chain.door = door_of(config, None, self.app.approvals)
        self.ledger.unlink(missing_ok=True)

    async def run(self, session: Session, code: str) -> tuple[str, bool]:
        result = await self.app.call_meta_tool("call_tool_chain", {"code": code}, session)
        return "\n".join(block.get("text", "") for block in result["content"]), result["isError"]

    def sent(self) -> list[str]:
        """The tools that were called, in order."""
        return (
            [line.split()[0] for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []
        )


@pytest.fixture(scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    ledger = folder / "ledger"
    server = str(TESTS / "fixtures" / "office_server.py")
    backends: dict[str, dict[str, Any]] = {
        name: {"command": sys.executable, "args": ["-I", "-S", server, name, str(ledger)]} for name in NAMES
    }
    backends["gone"] = {"command": str(folder / "no program"), "fallback_chain": ["files"]}
    aliases = {"say": "chat.send"}
    async with threaded_app(folder, backends, composite_tools=COMPOSITES, aliases=aliases) as app:
        yield Office(app, ledger)


# Each stands for one session: its chains in order. The last call of each is what must not arrive.
EXFILTRATION: dict[str, tuple[Sequence[str], str]] = {
    "a page, then a message": (["const p = await web.fetch({}); await chat.send({ text: p });"], "chat.send"),
    "a page, then a file is changed": (["await web.fetch({}); await files.write({});"], "files.write"),
    "a page, then data in the address of another": (
        ["await web.fetch({}); await web.search({ q: 'x' });"],
        "web.search",
    ),
    "files, then a mail": (["const f = await files.read({}); await mail.send({ body: f });"], "mail.send"),
    "files, then data in an address": (
        ["await files.read({}); await web.fetch({ url: 'https://x/?q' });"],
        "web.fetch",
    ),
    "mail, then mail": (["await mail.read({}); await mail.send({});"], "mail.send"),
    "mail, then the database is changed": (["await mail.list({}); await db.update({});"], "db.update"),
    "chat, then a comment": (["await chat.history({}); await code.comment({});"], "code.comment"),
    "in another chain of the session": (["await web.fetch({})", "await chat.send({})"], "chat.send"),
    "from a JSON call to a JSON call": (
        ['{"tool": "files.read", "arguments": {}}', '{"tool": "chat.send", "arguments": {"text": "x"}}'],
        "chat.send",
    ),
    "through a batch": (
        ['[{"tool": "db.query"}, {"tool": "clock.now"}]', '[{"tool": "clock.now"}, {"tool": "web.post"}]'],
        "web.post",
    ),
    "through a handle": (
        [
            "const p = await db.query({}); return (await results.save({ rows: [p] })).handle",
            "await chat.send({ text: JSON.stringify(await results.load('HANDLE')) })",
        ],
        "chat.send",
    ),
    "through a composite tool that reads": (
        ["await composite.digest({}); await notes.append({});"],
        "notes.append",
    ),
    "through a composite tool that sends": (
        ["const f = await files.read({}); await composite.publish({ text: f });"],
        "chat.send",
    ),
    "through an alias": (["await db.query({})", '{"tool": "say", "arguments": {"text": "x"}}'], "chat.send"),
    "with the whole result": (
        ["const r = await web.fetch.raw({}); await chat.send.raw({ r });"],
        "chat.send",
    ),
    "through a resource": (
        ["const r = await mail.readResource('office://mail/1'); await web.post({ r });"],
        "web.post",
    ),
    "through the text of an error": (
        ["try { await web.fetch({ fail: true }); } catch (e) { await chat.send({ text: e.message }); }"],
        "chat.send",
    ),
    "by a tool without annotations": (["await plain.run({}); await plain.run({});"], "plain.run"),
    "after it was caught once": (
        [
            "await mail.read({}); for (const n of [1, 2, 3]) try { await web.post({ n }); } catch {}",
            "await web.post({})",
        ],
        "web.post",
    ),
    "by brackets and another spelling": (
        ["await __backends['files'].read({}); await globalThis['chat']['send']({});"],
        "chat.send",
    ),
    "with other calls beside it": (
        [
            "const f = await files.read({}); await Promise.allSettled([clock.now({}), mail.send({ f }), db.query({})]);"
        ],
        "mail.send",
    ),
    "in a dry run's place": (
        ["await web.fetch({})", "// @dry-run\nawait clock.now({})", "await chat.send({})"],
        "chat.send",
    ),
}


@pytest.mark.parametrize("mode", ["deny", "ask"])
@pytest.mark.parametrize("name", EXFILTRATION)
async def test_what_would_carry_out_what_was_read_is_stopped(office: Office, name: str, mode: str) -> None:
    chains, sink = EXFILTRATION[name]
    office.policy(mode)
    session = office.app.new_session()
    try:
        handle, told = "", ""
        for code in chains:
            text, _ = await office.run(session, code.replace("HANDLE", handle))
            handle = (re.search(r"res_\w+", text) or [""])[0]
            told += text
        arrived = office.sent()
        allowed = 1 if sink in ("plain.run", "web.fetch") and name == "by a tool without annotations" else 0
        assert arrived.count(sink) == allowed, (arrived, told)
        assert arrived, "the sources were read"
    finally:
        office.app.end_session(session)


async def test_a_refusal_names_what_was_read(office: Office) -> None:
    office.policy("deny")
    session = office.app.new_session()
    text, failed = await office.run(session, "await mail.read({}); await files.read({}); await web.post({})")
    office.app.end_session(session)
    assert failed
    assert text.startswith(
        "PolicyDenied: web.post is denied by policy.flow: it reaches the open world, and this session has read "
        "untrusted content (mail.read) and private data (mail.read, files.read)"
    )


async def test_a_fallback_brings_its_own_label(office: Office) -> None:
    office.policy("deny", override_annotations={"gone.*": {"readOnly": True, "openWorld": False}})
    session = office.app.new_session()
    text, failed = await office.run(session, "return await gone.read({})")
    assert not failed, text
    text, failed = await office.run(session, "await web.post({})")
    office.app.end_session(session)
    assert office.sent() == ["files.read"]
    assert failed
    assert "private data (files.read)" in text


async def test_a_resumed_chain_keeps_the_labels_of_what_its_journal_answers(office: Office) -> None:
    office.policy("ask")
    session = office.app.new_session()
    code = "const p = await web.fetch({}); await chat.send({ text: p }); return 1"
    text, _ = await office.run(session, code)
    ident = text.partition("`// @resume ")[2].partition("`")[0]
    (approval,) = office.app.approvals.opened()
    assert approval.request.reads == ("untrusted content: web.fetch",)
    text, _ = await office.run(session, f"// @resume {ident}\n{code}")
    assert "ApprovalPending" in text
    assert office.sent() == ["web.fetch"]
    office.app.approvals.decide(approval.id, approval.subject.digest, "console", granted=True)
    text, failed = await office.run(session, f"// @resume {ident}\n{code}")
    assert (text.split("\n")[0], failed) == ("1", False)
    assert office.sent() == ["web.fetch", "chat.send"]
    office.app.end_session(session)


async def test_another_session_is_not_tainted(office: Office) -> None:
    office.policy("deny")
    first, second = office.app.new_session(), office.app.new_session()
    await office.run(first, "await web.fetch({})")
    _, failed = await office.run(second, "await chat.send({})")
    assert not failed
    for session in (first, second):
        office.app.end_session(session)


async def test_a_session_from_before_the_guard_may_have_read_anything(office: Office) -> None:
    office.policy("off")
    session = office.app.new_session()
    await office.run(session, "await web.fetch({})")
    assert office.app.chain.door is not None
    office.app.chain.door.set_policy(PolicyConfig.model_validate({**POLICY, "flow": "deny"}))
    text, failed = await office.run(session, "await chat.send({})")
    office.app.end_session(session)
    assert failed
    assert "before policy.flow was switched on" in text


async def test_what_is_read_while_the_guard_is_off_is_not_forgotten_later(office: Office) -> None:
    office.policy("deny")
    session = office.app.new_session()
    door = office.app.chain.door
    assert door is not None
    door.set_policy(PolicyConfig.model_validate({**POLICY, "flow": "off"}))
    await office.run(session, "await web.fetch({})")
    door.set_policy(PolicyConfig.model_validate({**POLICY, "flow": "deny"}))
    _, failed = await office.run(session, "await chat.send({})")
    assert failed
    assert session.reads is not None
    assert set(session.reads.names()) == {"untrusted", "private"}
    office.app.end_session(session)


HARMLESS = [
    # One look at the open world, and nothing that sends or changes afterwards.
    "return await web.fetch({})",
    "return await web.search({ q: 'x' })",
    "return await code.issues({})",
    "await web.fetch({}); return await clock.now({})",
    "await web.search({}); return await notes.read({})",
    "const [a, b] = await Promise.all([web.fetch({}), clock.now({})]); return [a, b]",
    "return await Promise.all([web.fetch({}), web.fetch({}), web.search({})])",
    "await composite.digest({}); return await files.read({})",
    "const p = await web.fetch({}); return (await results.save([p])).handle",
    "await web.fetch({}); await files.read({}); await db.query({}); return await mail.read({})",
    # Sending and changing, before anything was read.
    "return await chat.send({ text: 'hello' })",
    "return await mail.send({ body: 'hello' })",
    "return await mail.draft({ body: 'hello' })",
    "return await web.post({ body: 'hello' })",
    "return await code.comment({ body: 'hello' })",
    "return await notes.append({ text: 'hello' })",
    "return await files.write({ text: 'hello' })",
    "return await db.update({ set: 1 })",
    "return await composite.publish({ text: 'hello' })",
    "await clock.now({}); return await chat.send({})",
    "await clock.now({}); await clock.zones({}); return await mail.send({})",
    "await notes.read({}); return await chat.send({})",
    "await notes.read({}); await notes.append({}); return await web.fetch({})",
    "const t = await clock.now({}); await notes.append({ t }); return await notes.read({})",
    "await notes.append({}); await notes.append({}); return await notes.append({})",
    # Private data that stays in the closed world.
    "const f = await files.read({}); return await files.write({ f })",
    "const q = await db.query({}); return await db.update({ q })",
    "await files.read({}); return await notes.append({})",
    "await db.query({}); await files.write({}); return await db.query({})",
    "await db.query({}); return await mail.draft({})",
    "await files.read({}); await db.query({}); return await clock.now({})",
    "const all = await Promise.all([files.read({}), db.query({}), notes.read({})]); return all.length",
    "for (let n = 0; n < 5; n++) await db.update({ n }); return 1",
    "const h = (await results.save([await db.query({})])).handle; return await notes.append({ h })",
    # Reading more, also of what is labelled.
    "await mail.list({}); return await mail.read({})",
    "await chat.history({}); return await files.read({})",
    "return await mail.readResource('office://mail/1')",
    "await mail.read({}); await chat.history({}); return await db.query({})",
    # The cheap ways.
    '{"tool": "clock.now"}',
    '[{"tool": "clock.now"}, {"tool": "notes.read"}, {"tool": "files.read"}]',
    '{"tool": "say", "arguments": {"text": "hello"}}',
    "await clock.now({ zone: 'UTC' })",
    "return await gatemini.search_tools({ query: 'mail' })",
    "return [1, 2, 3].map((n) => n * 2)",
]


async def test_harmless_chains_are_neither_asked_about_nor_denied(office: Office) -> None:
    assert len(HARMLESS) >= 40
    for code in HARMLESS:
        office.policy("ask")
        session = office.app.new_session()
        text, failed = await office.run(session, code)
        office.app.end_session(session)
        assert not failed, (code, text)
        assert office.app.approvals.opened() == [], code


async def test_without_the_guard_each_of_them_arrives(office: Office) -> None:
    """The chains above would carry something out: it is the guard that stops them."""
    for name, (chains, sink) in EXFILTRATION.items():
        office.policy("off")
        session = office.app.new_session()
        handle = ""
        for code in chains:
            text, _ = await office.run(session, code.replace("HANDLE", handle))
            handle = (re.search(r"res_\w+", text) or [""])[0]
        office.app.end_session(session)
        assert sink in office.sent(), (name, text, json.dumps(office.sent()))
