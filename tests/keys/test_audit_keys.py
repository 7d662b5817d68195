"""Keys of `audit`: where the log is, what it holds, and what happens where it cannot be written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.config_keys import changed_app
from fixtures.running import answer
from gatemini.policy.audit.files import audit_files
from gatemini.policy.audit.show import records

pytestmark = [pytest.mark.anyio, pytest.mark.long]

CALL = '{"tool": "demo.add", "arguments": {"a": 1, "b": 2}}'


@asynccontextmanager
async def audited(folder: Path, key: str, value: Any, calls: int = 1) -> AsyncIterator[None]:
    """A gateway with an audit log below `folder`, with this key changed, once it has made calls and ended."""
    base = {"audit": {"path": str(folder / "log"), "key_file": str(folder / "the key"), "fsync": "none"}}
    async with changed_app(folder, key, value, base) as app:
        for _ in range(calls):
            text, failed, _ = await answer(app, CALL)
            assert not failed, text
    yield


def written(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [r for r in records(audit_files(folder)) if r["kind"] == kind]


@pytest.mark.proves("audit.path")
async def test_the_log_is_in_the_configured_folder(tmp_path: Path) -> None:
    async with audited(tmp_path, "audit.path", "below/here"):
        assert len(written(tmp_path / "below/here", "intent")) == 1
        assert not (tmp_path / "log").exists()


@pytest.mark.proves("audit.on_failure")
@pytest.mark.parametrize("on_failure", ["warn", "block"])
async def test_without_a_log_calls_leave_or_stay(tmp_path: Path, on_failure: str) -> None:
    (tmp_path / "log").write_text("a file in the place of the folder")
    base = {"audit": {"path": str(tmp_path / "log")}}
    async with changed_app(tmp_path / "app", "audit.on_failure", on_failure, base) as app:
        text, failed, _ = await answer(app, CALL)
        assert failed is (on_failure == "block")
        assert ("AuditFailed" in text) is failed
        assert any("audit records cannot be written" in problem for problem in app.problems())


@pytest.mark.proves("audit.arguments", "audit.key_file")
async def test_arguments_are_kept_as_configured_with_the_configured_key(tmp_path: Path) -> None:
    kept = {}
    for how in ("hash", "full", "none"):
        async with audited(tmp_path / how, "audit.arguments", how):
            (intent,) = written(tmp_path / how / "log", "intent")
            kept[how] = intent["arguments"]
    assert kept["hash"].startswith("hmac-sha256:")
    assert (kept["full"], kept["none"]) == ({"a": 1, "b": 2}, None)
    own = tmp_path / "own" / "key"
    async with audited(tmp_path / "own", "audit.key_file", str(own)):
        assert own.exists()
        assert not (tmp_path / "own" / "the key").exists()


@pytest.mark.proves("audit.fsync")
@pytest.mark.parametrize(("fsync", "waits"), [("each", 1), ("none", 0)])
async def test_records_are_forced_to_the_disk_as_configured(tmp_path: Path, fsync: str, waits: int) -> None:
    base = {"audit": {"path": str(tmp_path / "log")}}
    async with changed_app(tmp_path / "app", "audit.fsync", fsync, base) as app:
        await answer(app, CALL)
        assert app.audit is not None
        assert (app.audit.synced > 0) is bool(waits)


@pytest.mark.proves("audit.rotate_mb", "audit.keep")
async def test_files_are_rotated_by_size_and_so_many_are_kept(tmp_path: Path) -> None:
    async with audited(tmp_path / "one", "audit.keep", 0, calls=20):
        assert len(audit_files(tmp_path / "one" / "log")) == 1
    async with audited(tmp_path / "many", "audit.rotate_mb", 0.003, calls=20):
        assert len(audit_files(tmp_path / "many" / "log")) > 4
    few = {"audit": {"rotate_mb": 0.003, "path": str(tmp_path / "few"), "fsync": "none"}}
    async with changed_app(tmp_path / "app", "audit.keep", 2, few) as app:
        for _ in range(20):
            await answer(app, CALL)
    assert len(audit_files(tmp_path / "few")) == 2


@pytest.mark.proves("audit.anchor.file", "audit.anchor.command", "audit.anchor.every", "audit.anchor.url")
async def test_the_head_is_anchored_where_and_as_often_as_configured(tmp_path: Path) -> None:
    file, copy = tmp_path / "anchors", tmp_path / "copy"
    async with audited(tmp_path / "file", "audit.anchor.file", str(file)):
        assert [json.loads(line)["seq"] for line in file.read_text().splitlines()] == [5]  # the end
    async with audited(tmp_path / "command", "audit.anchor.command", ["sh", "-c", f"cat >> '{copy}'"]):
        assert json.loads(copy.read_text().splitlines()[-1])["seq"] == 5
    file.unlink()
    often = {"audit": {"path": str(tmp_path / "log"), "anchor": {"file": str(file)}}}
    async with changed_app(tmp_path / "app", "audit.anchor.every", 1, often) as app:
        for _ in range(10):
            await answer(app, CALL)
    # More than the one at the end; a head that comes while the one before is being sent waits for the newest.
    assert len(file.read_text().splitlines()) > 1
    often["audit"] |= {"path": str(tmp_path / "url"), "anchor": {"every": 1}}
    async with changed_app(tmp_path / "app", "audit.anchor.url", "http://127.0.0.1:9/", often) as app:
        for _ in range(10):
            await answer(app, CALL)
    assert written(tmp_path / "url", "anchor")[0]["failed"].startswith("127.0.0.1: ")
