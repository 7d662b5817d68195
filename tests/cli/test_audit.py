"""`gatemini audit`: exit codes and what is named, filters, and files for other programs."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import anyio
import pytest

from fixtures.audit import ALLOWED, call_facts, one_call, open_audit, written_log
from fixtures.command_line import Run
from fixtures.direct import write_config
from gatemini.policy.audit.anchors import anchor_line
from gatemini.policy.audit.export import csv_lines
from gatemini.policy.audit.files import audit_files
from gatemini.policy.audit.record import GENESIS, Head, digest, line_of, members


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a log of three calls, one of which is under way."""

    async def write() -> None:
        log = open_audit(tmp_path, anchor={"file": str(tmp_path / "anchors")})
        await one_call(log, call_facts({"a": 1}))
        await one_call(log, call_facts({"a": 2}, tool="=fail", session="s2"), outcome="error: no")
        await log.intent(call_facts(tool="write"), ALLOWED)
        await log.close()

    anyio.run(write)
    return tmp_path / "audit"


def test_a_sound_log_lists_what_was_under_way_and_is_no_failure(run: Run, folder: Path) -> None:
    told = run("audit", "verify", str(folder))
    assert told.code == 0
    assert "intent without outcome" in told.out
    assert "demo.write" in told.out
    assert told.out.splitlines()[-1] == "8 records in 1 file, 0 anchors: sound"
    report = run("audit", "verify", str(folder), "--json").json
    assert report["ok"] is True
    assert [each["tool"] for each in report["intents_without_outcome"]] == ["demo.write"]


def test_a_changed_line_is_named_first_and_fails(run: Run, folder: Path) -> None:
    (path,) = audit_files(folder)
    path.write_bytes(path.read_bytes().replace(b'"ms":1.5', b'"ms":9.5', 1))
    told = run("audit", "verify", str(folder))
    assert told.code == 1
    assert told.out.splitlines()[0].startswith(f"{path.name}:3: was changed")
    assert run("audit", "verify", str(folder), "--json").json["findings"][0]["line"] == 3


def test_the_log_and_the_anchors_of_the_configuration_are_verified(run: Run, folder: Path) -> None:
    anchors = folder.parent / "anchors"
    config = write_config(folder.parent, {}, audit={"path": "audit", "anchor": {"file": str(anchors)}})
    told = run("audit", "verify", "-c", str(config))
    assert told.code == 0
    assert "1 anchor: sound" in told.out
    (path,) = audit_files(folder)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    told = run("audit", "verify", "-c", str(config))
    assert told.code == 1
    assert "cut" in told.out.splitlines()[0]
    assert run("audit", "verify", str(folder)).code == 0  # no anchor, nothing that could know
    assert run("audit", "verify", str(folder), "--head", "ab" * 32).code == 1
    assert run("audit", "verify", str(folder), "--anchors", str(anchors)).code == 1


def test_records_are_shown_by_tool_session_kind_and_time(run: Run, folder: Path) -> None:
    def shown(*words: str) -> list[str]:
        return [row["kind"] for row in run("audit", "show", str(folder), "--json", *words).json["records"]]

    assert shown() == ["start", "intent", "outcome", "intent", "outcome", "intent", "stop", "seal"]
    assert shown("--tool", "demo.w*") == ["intent"]
    assert shown("--session", "s2") == ["intent", "outcome"]
    assert shown("--kind", "start") == ["start"]
    assert shown("--since", "1h") == shown()
    assert shown("--since", "2099-01-01") == []
    assert shown("--limit", "2") == ["stop", "seal"]
    assert run("audit", "show", str(folder), "--since", "yesterday").code == 2
    assert "demo.write" in run("audit", "show", str(folder)).out


def test_calls_are_exported_as_ocsf_api_activity(run: Run, folder: Path) -> None:
    events = [json.loads(line) for line in run("audit", "export", str(folder)).out.splitlines()]
    assert len(events) == 8
    ok, failed = (e for e in events if e["activity_name"] == "outcome")
    assert (ok["class_uid"], ok["type_uid"], ok["status_id"], failed["status_id"]) == (6003, 600399, 1, 2)
    for key in (
        "activity_id",
        "actor",
        "api",
        "category_uid",
        "metadata",
        "severity_id",
        "src_endpoint",
        "time",
    ):
        assert key in ok
    assert ok["api"]["operation"] == "demo.echo"
    assert events[0]["type_uid"] == 600203
    assert ok["unmapped"]["seq"] == ok["metadata"]["sequence"]


def test_records_are_exported_as_csv(run: Run, folder: Path) -> None:
    rows = list(csv.DictReader(StringIO(run("audit", "export", str(folder), "--format", "csv").out)))
    assert [row["kind"] for row in rows][:3] == ["start", "intent", "outcome"]
    assert rows[1]["tool"] == "demo.echo"


@pytest.mark.parametrize("sign", "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
def test_no_cell_of_the_csv_begins_a_formula(sign: str) -> None:
    """A client names itself, and may be called `=cmd|…`."""
    (row,) = csv.DictReader(csv_lines([{"client": f"{sign}1+1"}]))
    assert row["client"] in (f"'{sign}1+1", f"\\u{ord(sign):04x}1+1")


def test_without_a_log_the_command_says_what_to_set(run: Run, tmp_path: Path) -> None:
    config = write_config(tmp_path, {})
    told = run("audit", "verify", "-c", str(config))
    assert told.code == 1
    assert "audit.path" in told.err
    assert run("audit", "show", str(tmp_path / "nothing")).code == 1


def test_a_log_in_several_files_is_one_log(run: Run, tmp_path: Path) -> None:
    files = anyio.run(lambda: written_log(tmp_path, 200, rotate_mb=0.05))
    assert len(files) > 2
    assert run("audit", "verify", str(tmp_path / "audit")).code == 0
    files[1].unlink()
    assert "are missing after" in run("audit", "verify", str(tmp_path / "audit")).out


HOSTILE = "\x1b]0;x\x07\x9b31m\u202e\u200b"


def hostile_log(folder: Path) -> Path:
    """A log that another program wrote: names with terminal sequences, and numbers that are none."""
    records = [
        {"kind": "start", "time": HOSTILE, "instance": HOSTILE},
        *(
            {"kind": "outcome", "tool": HOSTILE, "client": HOSTILE, "ms": ms}
            for ms in ("x", [1], None, 1e300, True)
        ),
        {"kind": "intent", "time": HOSTILE, "tool": HOSTILE, "session": {"a": 1}, "chain": [1]},
    ]
    folder.mkdir()
    with (folder / f"2026{HOSTILE}.jsonl").open("wb") as file:
        prev = GENESIS
        for number, record in enumerate(records, 1):
            line = line_of(number, members({"instance": HOSTILE, **record}), prev)
            prev = digest(line)
            file.write(line)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["verify", "--json"],
        ["show"],
        ["show", "--json"],
        ["export"],
        ["export", "--format", "csv"],
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_escaped(run: Run, tmp_path: Path, command: list[str]) -> None:
    folder = hostile_log(tmp_path / "audit")
    told = run("audit", command[0], str(folder), *command[1:])
    assert told.code == 0
    assert not set(HOSTILE) - set("]0;x31m") & set(told.out)
    assert "202e" in told.out


def test_json_that_is_escaped_for_a_terminal_is_the_same_json(run: Run, tmp_path: Path) -> None:
    records = run("audit", "show", str(hostile_log(tmp_path / "audit")), "--json").json["records"]
    assert records[1]["tool"] == HOSTILE


def test_anchors_of_another_log_name_files_that_are_missing(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(anchor_line(Head("another", 7, "h" * 64)))
    told = run("audit", "verify", str(folder), "--anchors", str(tmp_path / "other"))
    assert told.code == 1
    assert "record 7 of instance another is known from outside its files, they are missing" in told.out


def test_a_line_that_is_no_anchor_is_a_finding_and_the_others_still_count(run: Run, folder: Path) -> None:
    anchors = folder.parent / "anchors"
    with anchors.open("ab") as file:
        file.write(b"torn\n" + b'{"deep":' + b"[" * 100_000 + b"\n")
    (path,) = audit_files(folder)
    told = run("audit", "verify", str(folder), "--anchors", str(anchors))
    assert told.code == 1
    assert told.out.splitlines()[:2] == [f"{anchors}:{number}: is not an anchor" for number in (2, 3)]
    path.unlink()
    told = run("audit", "verify", str(folder), "--anchors", str(anchors))
    assert told.code == 1
    assert "known from outside its files" in told.out
    anchors.unlink()
    told = run("audit", "verify", str(folder), "--anchors", str(anchors))
    assert told.code == 1
    assert f"there is no file of anchors: {anchors}" in told.err
