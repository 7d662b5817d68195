"""Discovery while backends are starting: one bounded wait per backend."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from fixtures.direct import write_config
from fixtures.running import DEMO, answer, running_app
from gatemini.app import App
from gatemini.server import tools

pytestmark = pytest.mark.anyio

SOON_SECONDS = 15
"""Bounds requests that must not wait; far less than a wait takes here."""
HANGS: dict[str, Any] = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"]}
"""A backend that starts and never lists its tools."""


async def ask(app: App, name: str, **arguments: Any) -> dict[str, Any]:
    result = await app.call_meta_tool(name, arguments)
    assert not result["isError"]
    found: dict[str, Any] = json.loads(result["content"][0]["text"])
    return found


async def test_a_backend_that_does_not_list_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App.open(write_config(tmp_path, {"slow": HANGS}), environ={}) as app:
        monkeypatch.setattr(tools, "FIRST_LISTING_SECONDS", 0.01)
        first = await ask(app, "search_tools", task_description="read a file")
        assert first["note"].endswith("still starting, tools not listed yet: slow")
        monkeypatch.setattr(tools, "FIRST_LISTING_SECONDS", 600)
        with anyio.fail_after(SOON_SECONDS):
            assert (await ask(app, "list_tools_meta"))["note"].endswith("not listed yet: slow")


async def test_every_waiting_request_learns_that_a_backend_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "FIRST_LISTING_SECONDS", 600)
    go = tmp_path / "go"
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nraise SystemExit(3)"
    config = write_config(tmp_path, {"gone": {"command": sys.executable, "args": ["-c", wait]}})
    answers: list[dict[str, Any]] = []

    async def asks(app: App) -> None:
        answers.append(await ask(app, "list_tools_meta"))

    async with App.open(config, environ={}) as app:
        with anyio.fail_after(SOON_SECONDS):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(asks, app)
                await anyio.wait_all_tasks_blocked()
                go.touch()
    told = "not running, tools unknown: gone (see gatemini://health or `gatemini doctor`)"
    assert answers == [{"tools": [], "next_cursor": None, "note": told}] * 3


@pytest.mark.parametrize(
    ("name", "why"), [("off", "disabled: true in the configuration"), ("keyless", "NOT_SET_HERE is not set")]
)
async def test_a_call_of_a_disabled_backend_is_answered_with_the_reason(
    tmp_path: Path, name: str, why: str
) -> None:
    backends = {
        **DEMO,
        "off": {**DEMO["demo"], "disabled": True},
        "keyless": {"command": "srv", "env": {"T": "${NOT_SET_HERE}"}},
    }
    async with running_app(tmp_path, backends) as app:
        for code in (
            f"return await {name}.echo({{}})",
            f"const r = await {name}.echo({{}}); return r;",
            f'{{"tool": "{name}.echo", "arguments": {{}}}}',
            f'return await __backends["{name}"].call("echo", {{}});',
        ):
            text, failed, _ = await answer(app, code)
            assert failed
            assert f"{name} is not running: {why}" in text, code
        told = await app.call_meta_tool("tool_info", {"tool": f"{name}.echo"})
        assert f"{name} is not running: {why}" in told["content"][0]["text"]
        listed = await app.call_meta_tool("list_tools_meta", {})
        assert "off" not in listed["content"][0]["text"], "who switched it off knows"
