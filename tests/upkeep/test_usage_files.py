"""What a gateway counted is on disk for the terminal: private, small, and telling whether it still runs."""

import os
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from gatemini.tracker import ANSWERS_KEPT, RECENT_CALLS, Tracker
from gatemini.upkeep.process_records import FILES_KEPT, MAX_BYTES
from gatemini.upkeep.usage_files import AccountBook, read_accounts


def counted(answers: int = 1, calls: int = 1, tool: str = "demo.echo") -> Tracker:
    tracker = Tracker()
    for n in range(answers):
        tracker.record_answer("call_tool_chain", 1000 + n, 100, "s")
    for _ in range(calls):
        tracker.record_call(tool, "demo", 1.5, True, 1000)
    return tracker


def written(book: AccountBook, tracker: Tracker, **more: Any) -> bool:
    given: dict[str, Any] = {"config": "/c.yaml", "client": "someone", "ended": False, **more}
    return book.write(
        stats=tracker.stats(),
        recent=tracker.recent(RECENT_CALLS),
        backends=[{"name": "demo", "tools": 1, "catalog_bytes": 10}],
        usage=tracker.own_usage(),
        **given,
    )


def test_an_account_reads_as_it_was_written_and_says_that_its_gateway_runs(tmp_path: Path) -> None:
    tracker = counted(answers=3)
    assert written(AccountBook(tmp_path / "accounts"), tracker)
    (account,) = read_accounts(tmp_path / "accounts")
    assert account.running
    assert account.stats["per_call"] == tracker.stats()["per_call"]
    assert account.recent == tracker.recent()
    assert account.usage == {"demo.echo": 1}


def test_writing_again_replaces_the_account_and_an_ended_gateway_does_not_run(tmp_path: Path) -> None:
    book = AccountBook(tmp_path)
    written(book, counted(answers=1))
    written(book, counted(answers=2), ended=True)
    (account,) = read_accounts(tmp_path)
    assert account.stats["total_calls"] == 2
    assert not account.running


def test_a_gateway_that_was_killed_does_not_run_though_another_process_has_its_number(tmp_path: Path) -> None:
    written(AccountBook(tmp_path), counted())
    (path,) = tmp_path.glob("gateway-*.json")
    body = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**body, "process_started": body["process_started"] - 5000}))
    assert not read_accounts(tmp_path)[0].running


def test_the_file_and_its_folder_are_private(tmp_path: Path) -> None:
    written(AccountBook(tmp_path / "a"), counted())
    (path,) = (tmp_path / "a").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_file_stays_small_however_much_was_counted_and_whatever_tools_are_called(tmp_path: Path) -> None:
    tracker = counted(answers=ANSWERS_KEPT * 3, calls=RECENT_CALLS * 3, tool="demo." + "é" * 5000)
    assert written(AccountBook(tmp_path), tracker)
    (account,) = read_accounts(tmp_path)
    assert len(account.recent) == RECENT_CALLS
    assert next(tmp_path.iterdir()).stat().st_size < MAX_BYTES


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"version":1,"pid":"x"}', b"[" * 5000])
def test_files_that_are_no_accounts_are_ignored_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gateway-1-1.json").write_bytes(content)
    assert read_accounts(tmp_path) == []
    written(AccountBook(tmp_path), counted())
    assert (tmp_path / "gateway-1-1.json").read_bytes() == content


def test_only_the_latest_accounts_of_gateways_that_are_gone_are_kept(tmp_path: Path) -> None:
    written(AccountBook(tmp_path), counted(), ended=True)
    (path,) = tmp_path.iterdir()
    body = orjson.loads(path.read_bytes())
    path.unlink()
    for n in range(1, FILES_KEPT + 5):
        other = {**body, "pid": n, "process_started": 1.0}
        other["stats"] = {**body["stats"], "started": f"2027-01-{n:02}"}
        (tmp_path / f"gateway-{n}-1000.json").write_bytes(orjson.dumps(other))
    written(AccountBook(tmp_path), counted())
    left = {account.pid for account in read_accounts(tmp_path)}
    assert left == {os.getpid(), *range(5, FILES_KEPT + 5)}


def test_the_gateway_goes_on_when_an_account_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not written(AccountBook(tmp_path / "file" / "below"), counted())
    assert read_accounts(tmp_path / "none") == []
