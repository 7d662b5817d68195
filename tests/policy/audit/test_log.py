"""Records are numbered without a gap, hold no secret, and are never lost in silence."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import anyio
import pytest

from fixtures.audit import ALLOWED, all_records, call_facts, one_call, open_audit
from fixtures.disk import limited_files
from gatemini.config.model.audit import AnchorConfig
from gatemini.errors import AuditFailed
from gatemini.policy.audit import anchors
from gatemini.policy.audit.anchors import read_anchors, send_anchor
from gatemini.policy.audit.arguments import KEY_BYTES, read_key
from gatemini.policy.audit.files import audit_files
from gatemini.policy.audit.log import AuditLog
from gatemini.policy.audit.record import GENESIS, Head, line_of
from gatemini.policy.audit.verify import verify
from gatemini.policy.canonical import canonical
from gatemini.policy.decision import Decision
from gatemini.policy.facts import CallEnd
from gatemini.processes.own_files import replace_own

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

pytestmark = pytest.mark.anyio


def sound(folder: Path) -> bool:
    return verify(audit_files(folder / "audit")).findings == []


async def test_a_call_leaves_an_intent_and_an_outcome_with_all_that_is_known(tmp_path: Path) -> None:
    log = open_audit(tmp_path)
    log.start()
    seq = await one_call(log, outcome="error: it said no")
    await log.close()
    start, intent, outcome, stop, seal = all_records(tmp_path)
    assert [r["kind"] for r in (start, intent, outcome, stop, seal)] == [
        "start",
        "intent",
        "outcome",
        "stop",
        "seal",
    ]
    assert [r["seq"] for r in (start, intent, outcome, stop, seal)] == [1, 2, 3, 4, 5]
    assert intent["seq"] == outcome["intent"] == seq
    assert re.fullmatch(r"hmac-sha256:[0-9a-f]{64}", intent.pop("arguments"))
    known = {
        "instance": log.instance, "session": "s1", "principal": call_facts().who.id, "client": "tester",
        "transport": "stdio", "chain": "c1", "tool": "demo.echo", "labels": [],
    }  # fmt: skip
    for key in ("prev", "time"):
        intent.pop(key)
        outcome.pop(key)
    assert intent == known | {
        "seq": 2,
        "kind": "intent",
        "policy": "r1",
        "action": "allow",
        "rule": "default",
    }
    assert outcome == known | {
        "seq": 3, "kind": "outcome", "intent": 2, "outcome": "error", "sent": True, "ms": 1.5, "bytes": 20,
    }  # fmt: skip


async def test_a_refusal_and_any_other_event_are_recorded(tmp_path: Path) -> None:
    log = open_audit(tmp_path)
    log.decision(call_facts(), Decision("deny", "rules[0]", "not here"), revision="r1")
    log.event("pin", backend="demo", state="changed")
    await log.close()
    _, decision, pin, *_ = all_records(tmp_path)
    assert (decision["action"], decision["rule"], decision["reason"]) == ("deny", "rules[0]", "not here")
    assert (pin["kind"], pin["backend"], pin["state"]) == ("pin", "demo", "changed")


async def test_nothing_is_written_before_the_first_record(tmp_path: Path) -> None:
    log = open_audit(tmp_path)
    await log.close()
    assert not (tmp_path / "audit").exists()


async def test_equal_arguments_have_one_hmac_and_the_key_decides_it(tmp_path: Path) -> None:
    log = open_audit(tmp_path)
    for arguments in (
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
        {"a": 1, "b": 3},
        {"big": 2**70},
        {"cut": "\ud800"},
    ):
        await one_call(log, call_facts(arguments))
    await log.close()
    one, same, other, *_ = [r["arguments"] for r in all_records(tmp_path) if r["kind"] == "intent"]
    assert one == same != other
    assert stat.S_IMODE((tmp_path / "audit.key").stat().st_mode) == 0o600
    (tmp_path / "audit.key").unlink()
    await one_call(again := open_audit(tmp_path), call_facts({"a": 1, "b": 2}))
    await again.close()
    assert [r["arguments"] for r in all_records(tmp_path) if r["kind"] == "intent"][-1] != one
    assert sound(tmp_path)


async def test_a_key_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    await one_call(log := open_audit(tmp_path))
    await log.close()
    os.chmod(tmp_path / "audit.key", 0o644)
    log = open_audit(tmp_path, on_failure="block")
    with pytest.raises(AuditFailed, match="chmod 600"):
        await log.intent(call_facts(), ALLOWED)


def test_of_two_gateways_that_make_a_key_at_once_both_use_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the values of one of them could never be compared with anything."""
    first = b"k" * KEY_BYTES

    def made_by_the_other(_: int) -> bytes:
        replace_own(tmp_path / "audit.key", first.hex().encode())
        return b"x" * KEY_BYTES

    monkeypatch.setattr(secrets, "token_bytes", made_by_the_other)
    assert read_key(tmp_path / "audit.key") == first
    assert os.listdir(tmp_path) == ["audit.key"]


async def test_secrets_are_gone_before_a_line_is_hashed(tmp_path: Path) -> None:
    secret = "tok-12345678"
    log = open_audit(tmp_path, {"TOKEN": secret}, arguments="full")
    await one_call(log, call_facts({"key": secret, "list": [f"Bearer {secret}"]}, tool=f"use_{secret}"))
    log.decision(call_facts(), Decision("deny", "r", f"because of {secret}"))
    log.event("registration", url=f"https://host/?key={secret}")
    await log.close()
    (path,) = audit_files(tmp_path / "audit")
    text = path.read_text()
    assert secret not in text
    assert text.count("«secret TOKEN»") == 6
    assert sound(tmp_path)


async def test_a_secret_of_digits_is_gone_where_it_is_passed_as_a_number(tmp_path: Path) -> None:
    log = open_audit(tmp_path, {"PIN": "004711081", "RATE": "3.14159265"}, arguments="full")
    given = {"a": 4711081, "list": [4711081.0, {"b": -3.14159265}], "c": 94004711081, "n": 1, "t": True}
    await one_call(log, call_facts(given))
    await log.close()
    _, intent, *_ = all_records(tmp_path)
    pin, rate = "«secret PIN»", "«secret RATE»"
    assert intent["arguments"] == {
        "a": pin,
        "list": [pin, {"b": f"-{rate}"}],
        "c": f"94{pin}",
        "n": 1,
        "t": True,
    }


async def test_arguments_are_kept_as_configured(tmp_path: Path) -> None:
    for how, kept in (("full", {"a": 1}), ("none", None)):
        folder = tmp_path / how
        await one_call(log := open_audit(folder, arguments=how), call_facts({"a": 1}))
        await log.close()
        assert all_records(folder)[1]["arguments"] == kept
    await one_call(log := open_audit(tmp_path, arguments="full"), call_facts({"a": "x" * 100_000}))
    await log.close()
    assert all_records(tmp_path)[1]["arguments"].startswith("hmac-sha256:")


async def test_text_that_is_no_unicode_and_huge_numbers_leave_lines_that_programs_can_read(
    tmp_path: Path,
) -> None:
    log = open_audit(tmp_path, arguments="full")
    log._about = {"config": "/home/caf\udce9/config.yaml"}  # a file name in Latin-1
    log.start()
    await one_call(
        log, call_facts({"half": "\ud800", "n": 10**400, "list": [1, None, True, 0.5]}, session="s\udfff")
    )
    await log.close()
    (path,) = audit_files(tmp_path / "audit")
    start, intent, *rest = all_records(tmp_path)
    assert start["config"] == "/home/caf\\udce9/config.yaml"
    assert intent["session"] == r"s\udfff"
    assert intent["arguments"] == {"half": r"\ud800", "n": str(10**400), "list": [1, None, True, 0.5]}
    assert len(path.read_bytes().splitlines()) == 2 + len(rest)
    assert sound(tmp_path)


def nested(levels: int) -> list[object]:
    deep: list[object] = []
    for _ in range(levels - 1):
        deep = [deep]
    return deep


@pytest.mark.parametrize("half", ["", "\ud800"])
@pytest.mark.parametrize("secrets", [{}, {"TOKEN": "tok-12345678"}])
@pytest.mark.parametrize("levels", [253, 254, 900, 5000])
async def test_arguments_of_any_depth_are_recorded_in_lines_that_can_be_read(
    tmp_path: Path, levels: int, secrets: dict[str, str], half: str
) -> None:
    log = open_audit(tmp_path, secrets, arguments="full")
    await one_call(log, call_facts(given := {"deep": nested(levels), "half": half}))
    await log.close()
    kept = all_records(tmp_path)[1]["arguments"]
    assert kept["deep"] == given["deep"] if levels == 253 else kept.startswith("hmac-sha256:")
    assert sound(tmp_path)


def test_a_foreign_line_that_nests_too_deeply_stops_neither_a_start_nor_a_reader(tmp_path: Path) -> None:
    (folder := tmp_path / "audit").mkdir()
    for levels in (255, 900, 100_000):
        deep = b'"kind":"start","instance":"x","deep":' + b"[" * levels + b"]" * levels
        (folder / f"{levels}.jsonl").write_bytes(line_of(1, deep, GENESIS))
    open_audit(tmp_path).start()
    report = verify(audit_files(folder))
    assert [finding.what for finding in report.findings] == ["not a record"] * 3
    assert [record["kind"] for record in all_records(tmp_path)] == ["start"]


def test_a_value_that_orjson_refuses_has_the_text_that_others_of_its_kind_have() -> None:
    for value in (
        {"b": [], "a": {}, "\ud800": [2**70, "\ud800", None, 0.5]},
        [[{}], "\ud800"],
        "\udfff",
        2**64,
    ):
        assert canonical(value) == json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


async def test_the_head_of_a_gateway_that_was_killed_after_a_long_record_is_known_to_the_next_one(
    tmp_path: Path,
) -> None:
    log = open_audit(tmp_path)
    await one_call(log)
    log.event("registration", command="x" * 2_000_000)
    killed = log.instance
    later = open_audit(tmp_path)
    later.start()
    start = next(record for record in all_records(tmp_path) if record["instance"] == later.instance)
    assert [(join["instance"], join["seq"]) for join in start["joins"]] == [(killed, 4)]


async def test_on_a_full_disk_no_call_leaves_under_block(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    log = open_audit(tmp_path, on_failure="block")
    under_way = await log.intent(call_facts(tool="write"), ALLOWED)
    with full_disk():
        with pytest.raises(AuditFailed, match="File too large"):
            await log.intent(call_facts(), ALLOWED)
        log.outcome(under_way, call_facts(tool="write"), CallEnd("ok"))
        assert "no call leaves" in (log.problem or "")
    await one_call(log)
    assert log.problem is None
    await log.close()
    report = verify(audit_files(tmp_path / "audit"))
    assert report.findings == report.unfinished == []
    kinds = [record["kind"] for record in all_records(tmp_path)]
    assert kinds == ["start", "intent", "outcome", "intent", "outcome", "stop", "seal"]


async def test_a_gateway_that_ends_on_a_full_disk_leaves_no_empty_file(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    """`verify` would take it for a file that was cut, for ever."""
    killed = open_audit(tmp_path)
    killed.prepare()
    with full_disk():
        killed.start()
        assert killed.problem is not None
    assert audit_files(tmp_path / "audit") == []
    await one_call(killed)
    (path,) = audit_files(tmp_path / "audit")
    assert path.name.endswith("-0001.jsonl")
    await killed.close()
    assert sound(tmp_path)


async def test_under_warn_what_was_not_written_is_counted_in_the_log(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    log = open_audit(tmp_path, on_failure="warn")
    await one_call(log)
    with full_disk():
        await one_call(log)
        assert "unrecorded" in (log.problem or "")
    await one_call(log)
    await log.close()
    (lost,) = [record for record in all_records(tmp_path) if record["kind"] == "lost"]
    assert lost["records"] == 2
    assert sound(tmp_path)


async def test_a_file_whose_name_is_taken_blocks_one_call_only(tmp_path: Path) -> None:
    log = open_audit(tmp_path, on_failure="block", rotate_mb=0.001)
    await one_call(log)
    (first,) = audit_files(tmp_path / "audit")
    taken = first.with_name(first.name.replace("-0001", "-0002"))
    taken.mkdir()
    for _ in range(100):  # many more calls than fit into the file
        with suppress(AuditFailed):
            await one_call(log)
        if log.problem:
            break
    assert taken.name in (log.problem or "")
    await one_call(log)
    assert log.problem is None
    await log.close()
    assert sound(tmp_path)


@pytest.mark.skipif(fcntl is None, reason="there are no such locks")
async def test_where_files_cannot_be_locked_the_log_says_so_until_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    log = open_audit(tmp_path, on_failure="block")
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        for _ in range(2):
            with pytest.raises(AuditFailed, match="No locks available"):
                await one_call(log)
    await one_call(log)
    await log.close()
    assert sound(tmp_path)


async def test_a_folder_that_cannot_be_made_blocks_until_it_can(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("a file in its place")
    log = open_audit(tmp_path, on_failure="block")
    log.start()
    with pytest.raises(AuditFailed):
        await log.intent(call_facts(), ALLOWED)
    (tmp_path / "audit").unlink()
    await one_call(log)
    await log.close()
    assert sound(tmp_path)


async def with_tasks(log: AuditLog, calls: int) -> None:
    """Make calls at the same time while the log's tasks run."""
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        async with anyio.create_task_group() as group:
            for _ in range(calls):
                group.start_soon(one_call, log)
        tasks.cancel_scope.cancel()
    await log.close()


async def test_with_fsync_each_a_call_leaves_once_its_intent_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_audit(tmp_path, fsync="each")
    synced: list[int] = []
    sync = log._disk.sync
    monkeypatch.setattr(log._disk, "sync", lambda: (synced.append(log._disk.seq), sync()))
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        seq = await log.intent(call_facts(), ALLOWED)
        assert synced[-1] >= seq
        tasks.cancel_scope.cancel()
    log.outcome(seq, call_facts(), CallEnd("ok"))
    await log.close()


async def test_intents_that_come_together_share_one_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_audit(tmp_path, fsync="each")
    syncs = 0
    sync = log._disk.sync

    def counted() -> None:
        nonlocal syncs
        syncs += 1
        sync()

    monkeypatch.setattr(log._disk, "sync", counted)
    await with_tasks(log, 50)
    assert syncs < 10
    assert sound(tmp_path)


async def test_where_the_disk_refuses_to_sync_no_call_leaves_under_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_audit(tmp_path, fsync="each", on_failure="block")

    def broken() -> None:
        raise OSError(5, "Input/output error")

    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        with monkeypatch.context() as patch:
            patch.setattr(log._disk, "sync", broken)
            with pytest.raises(AuditFailed, match="Input/output error"):
                await log.intent(call_facts(), ALLOWED)
        tasks.cancel_scope.cancel()
    await log.close()
    intent, outcome = all_records(tmp_path)[1:3]
    assert (outcome["intent"], outcome["outcome"], outcome["sent"]) == (intent["seq"], "refused", False)


def replaced_by_a_link(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.symlink_to(path.with_name("away"))


def replaced_by_a_copy(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


LOSING: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "moved": lambda path: path.rename(path.with_name("away")),
    "a link": replaced_by_a_link,
    "a copy": replaced_by_a_copy,
}


@pytest.mark.parametrize("losing", LOSING)
async def test_a_file_that_is_lost_while_it_is_written_is_noticed_and_begun_anew(
    tmp_path: Path, losing: str
) -> None:
    log = open_audit(tmp_path, fsync="each", on_failure="block")
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        await one_call(log)
        (path,) = audit_files(tmp_path / "audit")
        LOSING[losing](path)
        with pytest.raises(AuditFailed, match="was deleted or moved"):
            await log.intent(call_facts(), ALLOWED)
        with anyio.fail_after(60):
            while log.problem is not None:  # noqa: ASYNC110 - nothing says so
                await anyio.sleep(0.005)
        await one_call(log)
        tasks.cancel_scope.cancel()
    await log.close()
    assert verify(audit_files(tmp_path / "audit")).findings


async def test_the_head_is_anchored_at_the_start_every_so_often_and_at_the_end(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    copied = tmp_path / "by command"
    anchor = {"every": 20, "file": str(elsewhere), "command": ["sh", "-c", f"cat >> '{copied}'"]}
    log = open_audit(tmp_path, anchor=anchor)
    log.start()
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        for _ in range(3):
            for _ in range(20):
                await one_call(log)
            with anyio.fail_after(60):
                while log._anchored < log._disk.seq - 20:  # noqa: ASYNC110 - nothing says so
                    await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
    await log.close()
    lines = [json.loads(line) for line in elsewhere.read_text().splitlines()]
    assert lines[0]["seq"] == 1
    assert lines[-1]["seq"] == all_records(tmp_path)[-1]["seq"]
    assert len(lines) >= 4
    assert copied.read_text().splitlines()[-1:] == elsewhere.read_text().splitlines()[-1:]


async def test_an_anchor_that_cannot_be_sent_is_recorded(tmp_path: Path) -> None:
    log = open_audit(tmp_path, anchor={"command": ["false"], "url": "http://127.0.0.1:9/"})
    log.start()
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        with anyio.fail_after(60):
            while len(all_records(tmp_path)) < 3:  # noqa: ASYNC110 - nothing says so
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
    await log.close()
    failed = [record["failed"] for record in all_records(tmp_path) if record["kind"] == "anchor"]
    assert failed[0] == "false exited with code 1"
    assert failed[1].startswith("127.0.0.1: ")


@pytest.mark.parametrize("said", [b"not HTTP at all\r\n\r\n", b"HTTP/1.1 200\r\n" + b"x: y\r\n" * 200, b""])
async def test_a_server_for_anchors_that_answers_nonsense_does_not_end_the_gateway(
    tmp_path: Path, said: bytes
) -> None:
    async def nonsense(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(said)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, nonsense)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        log = open_audit(tmp_path, anchor={"url": f"http://127.0.0.1:{port}/"})
        await tasks.start(log.run, True)
        with anyio.fail_after(60):
            while len(all_records(tmp_path)) < 2:  # noqa: ASYNC110 - nothing says so
                await anyio.sleep(0.005)
        await one_call(log)
        tasks.cancel_scope.cancel()
    assert all_records(tmp_path)[1]["kind"] == "anchor"


async def test_an_address_that_redirects_has_not_taken_the_anchor() -> None:
    """The request after a redirect would be a GET without the line, and might be answered with 200."""
    requests: list[bytes] = []

    async def redirecting(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            requests.append(await stream.receive())
            status = b"302 Found" if len(requests) == 1 else b"200 OK"
            await stream.send(b"HTTP/1.1 %b\r\nLocation: /\r\nContent-Length: 0\r\n\r\n" % status)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, redirecting)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with anyio.fail_after(60):
            failed = await send_anchor(AnchorConfig(url=f"http://127.0.0.1:{port}/"), Head("i", 1, "h"))
        tasks.cancel_scope.cancel()
    assert failed == ["127.0.0.1: HTTP Error 302: Found"]
    assert len(requests) == 1


async def test_a_server_for_anchors_that_never_ends_its_answer_does_not_hold_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "ANCHOR_SECONDS", 0.3)

    async def endless(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    await stream.send(b"x")
                    await anyio.sleep(0.1)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, endless)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        config = AnchorConfig(url=f"http://127.0.0.1:{port}/")
        with anyio.fail_after(60):
            assert await send_anchor(config, Head("i", 1, "h")) == ["127.0.0.1 took more than 0.3 s"]
        tasks.cancel_scope.cancel()


async def test_one_gateway_at_a_time_writes_to_a_file_of_anchors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one that a full disk stops within a line would cut off what another has written meanwhile."""
    monkeypatch.setattr(anchors, "ANCHOR_SECONDS", 0.3)
    config, head = AnchorConfig(file=tmp_path / "anchors"), Head("i", 1, "h" * 64)
    with (tmp_path / "anchors").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        (failed,) = await send_anchor(config, head)
    assert failed == f"{config.file}: another process has had its lock for 0.3 s"
    assert await send_anchor(config, head) == []
    assert read_anchors(tmp_path / "anchors") == ([head], [])


async def test_an_anchor_that_a_full_disk_cuts_leaves_the_earlier_ones_readable(tmp_path: Path) -> None:
    config, head = AnchorConfig(file=tmp_path / "anchors"), Head("i", 1, "h" * 64)
    assert await send_anchor(config, head) == []
    with limited_files((tmp_path / "anchors").stat().st_size + 20):
        (failed,) = await send_anchor(config, head)
    assert "anchors: " in failed
    assert read_anchors(tmp_path / "anchors") == ([head], [])
    assert await send_anchor(config, head) == []
    assert read_anchors(tmp_path / "anchors") == ([head, head], [])


async def test_an_anchor_after_one_that_a_crash_has_cut_has_a_line_of_its_own(tmp_path: Path) -> None:
    place, head = tmp_path / "anchors", Head("i", 7, "ab" * 32)
    place.write_bytes(b'{"instance":"i","se')
    assert await send_anchor(AnchorConfig(file=place), head) == []
    assert read_anchors(place) == ([head], [1])
