"""A session that has read something registers a backend only as the data-flow guard lets it call one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.backend_bench import ODD
from fixtures.running import DEMO, threaded_app
from gatemini.app import App
from gatemini.backends.calls.callers import Caller
from gatemini.chain.client import ChainClient
from gatemini.model import Json
from gatemini.protocol.sessions.client_session import Session

pytestmark = pytest.mark.anyio

TEMPLATE = {"name": "extra", "command": sys.executable, "args": ["-I", "-S", str(ODD), "{}"]}
OPEN = {"http": "allow", "stdio": "allow", "cli": "allow", "allow_commands": ["*"], "allow_hosts": ["*"]}


def policy(flow: str) -> dict[str, Any]:
    closed = {"demo.*": {"openWorld": False, "readOnly": True}}
    return {"flow": flow, "override_annotations": closed, "labels": {"private": ["demo.echo"]}}


class Person:
    """The person at a client: notes what is asked, and answers always the same."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.asked: list[str] = []

    async def ask(self, method: str, params: Json) -> Json:
        self.asked.append(params["message"])
        return {"action": self.action, "content": {}}

    async def register(self, app: App, session: Session, template: Any = TEMPLATE) -> tuple[str, bool]:
        client = ChainClient(Caller(ask=self.ask, can={"elicitation": {}}, session=session.id))
        result = await app.tools.call("register_manual", {"manual_call_template": template}, session, client)
        return result["content"][0]["text"], result["isError"]


async def read(app: App, session: Session) -> None:
    result = await app.call_meta_tool(
        "call_tool_chain", {"code": "return await demo.echo({ a: 1 })"}, session
    )
    assert not result["isError"], result


async def test_after_it_has_read_private_data_a_session_registers_nothing_under_deny(tmp_path: Path) -> None:
    async with threaded_app(tmp_path, DEMO, registration=OPEN, policy=policy("deny")) as app:
        session, person = app.new_session(), Person("accept")
        assert not (await person.register(app, session))[1]
        await read(app, session)
        text, failed = await person.register(app, session, {**TEMPLATE, "name": "other"})
        assert failed
        assert text.startswith("PolicyDenied: register_manual is denied by policy.flow: ")
        assert "private data (demo.echo)" in text
        assert app.manager.names() == ["demo", "extra"]
        assert not (await person.register(app, app.new_session(), {**TEMPLATE, "name": "another"}))[1]
        assert person.asked == []


@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_under_ask_a_person_is_asked_and_sees_what_was_read(tmp_path: Path, action: str) -> None:
    async with threaded_app(tmp_path, DEMO, registration=OPEN, policy=policy("ask")) as app:
        session, person = app.new_session(), Person(action)
        await read(app, session)
        text, failed = await person.register(app, session)
        assert failed is (action == "decline"), text
        (question,) = person.asked
        assert "Before this it has read private data: demo.echo" in question
        assert ("extra" in app.manager.names()) is (action == "accept")


async def test_a_client_that_asks_nobody_is_told_what_wants_the_consent_and_no_key_that_is_set(
    tmp_path: Path,
) -> None:
    async with threaded_app(tmp_path, DEMO, registration=OPEN, policy=policy("ask")) as app:
        session = app.new_session()
        await read(app, session)
        result = await app.tools.call("register_manual", {"manual_call_template": TEMPLATE}, session)
        text = result["content"][0]["text"]
        assert "policy.flow is `ask`" in text
        assert "register before such a read" in text
        assert "registration.stdio" not in text
