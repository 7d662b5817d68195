"""Keys of `policy` about pins: whether a server that changed is called, and what belongs to its pin."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.config_keys import changed_app
from fixtures.running import answer
from gatemini.app import App

pytestmark = [pytest.mark.anyio, pytest.mark.long]

CALL = '{"tool": "demo.add", "arguments": {"a": 1, "b": 2}}'
LOCK = "gatemini.lock.yaml"


async def called(app: App) -> str:
    text, _, _ = await answer(app, CALL)
    return text


@pytest.mark.proves("policy.pins")
async def test_pins_decide_whether_a_server_that_was_never_approved_is_called(tmp_path: Path) -> None:
    for pins in ("off", "warn", "enforce"):
        folder = tmp_path / pins
        async with changed_app(folder, "policy.pins", pins) as app:
            text = await called(app)
            assert ("denied by its pin" in text) is (pins == "enforce")
        assert (folder / LOCK).exists() is (pins == "warn")


@pytest.mark.proves("policy.pin_executables")
async def test_the_hash_of_the_program_is_pinned_where_it_is_wanted(tmp_path: Path) -> None:
    command = {"name": "cmd", "command": "cat", "connect_timeout": "1s"}
    base = {
        "policy": {"pins": "warn"},
        "backends": {"cmd": {key: command[key] for key in ("command", "connect_timeout")}},
    }
    for wanted in (False, True):
        async with changed_app(tmp_path / str(wanted), "policy.pin_executables", wanted, base) as app:
            assert (app.pins.executables.of("cmd") != "") is wanted
