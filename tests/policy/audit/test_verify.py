"""Whatever is changed in a log is found, and named by file and line; what only an anchor can know is found with one."""

from __future__ import annotations

import functools
import random
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from fixtures.audit import ALLOWED, call_facts, one_call, open_audit, written_log
from gatemini.policy.audit.anchors import anchor_line, read_anchors
from gatemini.policy.audit.files import audit_files, unjoined_heads
from gatemini.policy.audit.record import MOST_LINE_BYTES, Head, digest
from gatemini.policy.audit.show import Filter, records
from gatemini.policy.audit.verify import Report, verify, verify_live

pytestmark = pytest.mark.anyio

CALLS = 5000
"""Two records each, 10,000 in all, in four files."""
ROTATE_MB = 1.1

Lines = list[bytes]
Change = Callable[[Lines, int, random.Random], None]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    write = functools.partial(written_log, tmp_path_factory.mktemp("log"), CALLS, rotate_mb=ROTATE_MB)
    files = anyio.run(write)
    report = verify(files)
    assert report.findings == report.unfinished == report.unsealed == []
    assert report.records > 2 * CALLS
    assert len(files) == 4
    return files


@pytest.fixture
def copy(log: list[Path], tmp_path: Path) -> list[Path]:
    shutil.copytree(log[0].parent, tmp_path / "copy")
    return audit_files(tmp_path / "copy")


def head_of(files: list[Path]) -> str:
    return digest(files[-1].read_bytes().splitlines(keepends=True)[-1])


def one_byte(lines: Lines, at: int, rng: random.Random) -> None:
    line = bytearray(lines[at])
    line[rng.randrange(len(line))] ^= rng.randrange(1, 256)
    lines[at] = bytes(line)


def deletion(lines: Lines, at: int, rng: random.Random) -> None:
    del lines[at]


def swap(lines: Lines, at: int, rng: random.Random) -> None:
    other = rng.choice([number for number in (at - 1, at + 1) if 0 <= number < len(lines)])
    lines[at], lines[other] = lines[other], lines[at]


def cut_in_a_line(lines: Lines, at: int, rng: random.Random) -> None:
    lines[at] = lines[at][: rng.randrange(1, len(lines[at]))]
    del lines[at + 1 :]


def insertion(lines: Lines, at: int, rng: random.Random) -> None:
    lines.insert(at, rng.choice(lines))


def added_byte(lines: Lines, at: int, rng: random.Random) -> None:
    place = rng.randrange(len(lines[at]) + 1)
    lines[at] = lines[at][:place] + rng.choice(b' \n{"a0').to_bytes() + lines[at][place:]


CHANGES: list[Change] = [
    one_byte,
    deletion,
    swap,
    cut_in_a_line,
    insertion,
    added_byte,
]


def changed(files: list[Path], change: Change, head: str, rng: random.Random) -> Report:
    """Change one line, verify, and put the file back."""
    path = rng.choice(files)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    change(lines, rng.randrange(len(lines)), rng)
    path.write_bytes(b"".join(lines))
    try:
        return verify(files, heads=[head])
    finally:
        path.write_bytes(whole)


def test_a_log_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    files = anyio.run(functools.partial(written_log, tmp_path, 200, rotate_mb=0.02))
    deleted = tmp_path / "deleted.jsonl"
    for before in (files[:1] + files[2:], [*files, deleted], []):
        listings = iter([before, before])
        report = verify_live(lambda found=listings: next(found, files), anchors=list)  # type: ignore[misc]
        assert report.findings == []


def test_what_is_wrong_with_a_log_is_found_however_it_changes_meanwhile(tmp_path: Path) -> None:
    files = anyio.run(functools.partial(written_log, tmp_path, 200, rotate_mb=0.02))
    del files[1]
    assert verify_live(lambda: files, anchors=list).findings

    def growing() -> list[Path]:
        with files[0].open("ab") as file:
            file.write(b"x")
        return files

    assert verify_live(growing, anchors=list).findings
    files[0].unlink()
    with pytest.raises(FileNotFoundError):
        verify_live(lambda: files, anchors=list)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_anywhere_in_ten_thousand_records_is_found(copy: list[Path], change: Change) -> None:
    head = head_of(copy)
    for seed in range(5):
        report = changed(copy, change, head, random.Random(seed))
        assert report.findings, seed


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_each_kind_at_any_of_ten_thousand_records_is_found(
    copy: list[Path], change: Change
) -> None:
    head = head_of(copy)
    for seed in range(150):
        assert changed(copy, change, head, random.Random(seed)).findings, seed


def each_byte_is_protected(log: list[Path], numbers: slice, window: Path) -> None:
    """Change some records at each of their bytes, with the two records after each in its file as a file."""
    files = [path.read_bytes().splitlines(keepends=True) for path in log]
    windows = [lines[at : at + 3] for lines in files for at in range(len(lines) - 2)]
    rng = random.Random(numbers.start)
    for at, (first, *more) in list(enumerate(windows))[numbers]:
        rest = b"".join(more)
        window.write_bytes(first + rest)
        sound = verify([window]).findings
        for place in range(len(first)):
            line = bytearray(first)
            line[place] ^= rng.randrange(1, 256)
            window.write_bytes(bytes(line) + rest)
            assert verify([window]).findings != sound, (at, place)


def test_each_byte_of_a_few_records_is_protected(log: list[Path], tmp_path: Path) -> None:
    """The first of the log, which begins it, and some of the others."""
    each_byte_is_protected(log, slice(0, None, 2500), tmp_path / "window.jsonl")


@pytest.mark.long
def test_each_byte_of_a_sample_of_ten_thousand_records_is_protected(log: list[Path], tmp_path: Path) -> None:
    each_byte_is_protected(log, slice(7, None, 100), tmp_path / "window.jsonl")


@pytest.mark.load
@pytest.mark.parametrize("part", range(20))
def test_each_byte_of_ten_thousand_records_is_protected(log: list[Path], part: int, tmp_path: Path) -> None:
    each_byte_is_protected(log, slice(part, None, 20), tmp_path / "window.jsonl")


def test_a_log_of_which_no_file_is_left_is_not_sound(tmp_path: Path) -> None:
    assert [finding.what for finding in verify([]).findings] == [
        "there is no file: all were deleted, or nothing was ever written"
    ]


@pytest.mark.parametrize("at", [0, 1, 700, -3])
def test_the_line_that_was_changed_is_named(copy: list[Path], at: int) -> None:
    lines = copy[1].read_bytes().splitlines(keepends=True)
    lines[at] = lines[at].replace(b'"kind":"', b'"kind":"x', 1)
    copy[1].write_bytes(b"".join(lines))
    first = verify(copy).findings[0]
    assert (first.file, first.line) == (copy[1].name, at % len(lines) + 1)
    assert "changed" in first.text()


def test_the_line_whose_own_hash_was_changed_is_named(copy: list[Path]) -> None:
    lines = copy[0].read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b'"prev":"', b'"prev":"0', 1)
    copy[0].write_bytes(b"".join(lines))
    first = verify(copy).findings[0]
    assert (first.line, first.what) == (6, "does not carry the hash of the line before it")


def test_a_file_that_is_missing_in_the_middle_or_at_the_beginning_is_a_gap(copy: list[Path]) -> None:
    middle = verify([copy[0], *copy[2:]]).findings
    assert len(middle) == 1
    assert "are missing after" in middle[0].what
    beginning = verify(copy[1:]).findings
    assert "the files before it are missing" in beginning[0].what


def test_a_file_that_is_there_twice_is_a_fork(copy: list[Path]) -> None:
    twin = copy[1].with_name("20990101T000000Z-copy-0001.jsonl")
    shutil.copy(copy[1], twin)
    assert any("a fork" in finding.what for finding in verify([*copy, twin]).findings)


def test_a_file_without_its_seal_is_cut_when_another_follows(copy: list[Path]) -> None:
    lines = copy[0].read_bytes().splitlines(keepends=True)
    copy[0].write_bytes(b"".join(lines[:-1]))
    assert verify(copy).findings != []


def test_a_cut_end_is_found_with_the_hash_of_the_last_line(copy: list[Path]) -> None:
    head = head_of(copy)
    assert verify(copy, heads=[head.upper()]).findings == []
    lines = copy[-1].read_bytes().splitlines(keepends=True)
    copy[-1].write_bytes(b"".join(lines[:-3]))
    assert verify(copy).findings == []  # what the chain alone cannot show
    assert verify(copy).unsealed == [copy[-1].name]
    assert "was cut or replaced" in verify(copy, heads=[head]).findings[0].what


def test_a_cut_end_and_a_changed_last_line_are_found_with_an_anchor(copy: list[Path]) -> None:
    (head,) = verify(copy).heads
    assert verify(copy, anchors=[head]).findings == []
    lines = copy[-1].read_bytes().splitlines(keepends=True)
    copy[-1].write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"seal", b"sEAL")]))
    assert "replaced" in verify(copy, anchors=[head]).findings[0].what
    copy[-1].write_bytes(b"".join(lines[:-1]))
    assert "cut" in verify(copy, anchors=[head]).findings[0].what
    for path in copy:
        path.unlink()
    found = verify([], anchors=[head]).findings
    assert any("are missing" in finding.what for finding in found), found


async def test_the_end_of_an_instance_is_known_to_the_next_one(tmp_path: Path) -> None:
    (first,) = await written_log(tmp_path, 3)
    files = await written_log(tmp_path, 3)
    assert verify(files).findings == []
    whole = first.read_bytes()
    for cut in (1, 2, 5):
        first.write_bytes(b"".join(whole.splitlines(keepends=True)[:-cut]))
        assert any("cut" in finding.what for finding in verify(files).findings), cut
    first.unlink()
    assert any("they are missing" in finding.what for finding in verify(audit_files(first.parent)).findings)


async def test_instances_that_ran_at_the_same_time_are_joined_by_the_next_one(tmp_path: Path) -> None:
    logs = [open_audit(tmp_path) for _ in range(3)]
    for log in logs:
        log.start()
    for _ in range(5):
        for log in logs:
            await one_call(log)
    for log in logs:
        await log.close()
    files = await written_log(tmp_path, 1)
    assert verify(files).findings == []
    for path in files[:3]:
        whole = path.read_bytes()
        path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-2]))
        assert verify(files).findings != []
        path.write_bytes(whole)


async def test_an_intent_without_an_outcome_is_listed_and_is_no_fault(tmp_path: Path) -> None:
    log = open_audit(tmp_path)
    await one_call(log)
    lost = await log.intent(call_facts(tool="write"), ALLOWED)
    report = verify(audit_files(tmp_path / "audit"))
    assert report.findings == []
    assert [(each.seq, each.tool) for each in report.unfinished] == [(lost, "demo.write")]
    await log.close()


async def test_files_that_keep_deleted_are_no_gap_and_others_are(tmp_path: Path) -> None:
    await written_log(tmp_path, 5)
    files = await written_log(tmp_path, 400, rotate_mb=0.05, keep=3)
    assert len(files) <= 4
    report = verify(files)
    assert report.findings == []
    assert verify(files[1:]).findings != []


async def test_a_forged_file_that_claims_to_have_deleted_others_does_not_excuse_what_anchors_know(
    tmp_path: Path,
) -> None:
    anchors = [head for _ in range(2) for head in verify(await written_log(tmp_path, 3)).heads]
    files = audit_files(tmp_path / "audit")
    assert verify(files, anchors=anchors).findings == []
    for path in files[:1]:
        path.unlink()
    forged = open_audit(tmp_path)
    forged.start()
    forged._put(forged._disk.stamped("pruned", file="99", of=anchors[0].instance, last=99, hash="0" * 64))
    await forged.close()
    assert verify(audit_files(tmp_path / "audit")).findings == []  # the chain alone cannot tell
    findings = verify(audit_files(tmp_path / "audit"), anchors=anchors).findings
    assert "they are missing" in findings[0].what


def test_a_log_that_was_replaced_and_anchored_again_contradicts_its_first_anchor(copy: list[Path]) -> None:
    (head,) = verify(copy).heads
    other = Head(head.instance, head.seq, "ab" * 32, head.file)
    assert "two hashes" in verify(copy, anchors=[other, head]).findings[0].what
    assert "two hashes" in verify(copy, anchors=[head, other]).findings[0].what


async def test_files_that_keep_deleted_are_no_gap_for_anchors_that_are_sent_as_it_deletes(
    tmp_path: Path,
) -> None:
    place = tmp_path / "anchors"
    log = open_audit(tmp_path, rotate_mb=0.01, keep=2, anchor={"file": str(place)})
    log.start()
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        for _ in range(60):
            await one_call(log)
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    await log.close()
    files = audit_files(tmp_path / "audit")
    assert len(files) == 2
    known, _ = read_anchors(place)
    assert known[0].seq == 1  # in a file that is deleted
    assert verify(files, anchors=known).findings == []


def test_an_anchor_is_read_as_it_is_written(tmp_path: Path) -> None:
    head = Head("i", 7, "ab" * 32, "f.jsonl")
    path = tmp_path / "anchors"
    path.write_bytes(anchor_line(head) * 2)
    assert read_anchors(path) == ([head, head], [])
    path.write_bytes(anchor_line(head) + b"no anchor\n" + anchor_line(head))
    assert read_anchors(path) == ([head, head], [2])


@pytest.mark.long
def test_a_line_that_never_ends_is_not_read_whole(copy: list[Path]) -> None:
    path = copy[-1]
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + 10 * MOST_LINE_BYTES)  # without blocks on the disk
    tracemalloc.start()
    report = verify(copy)
    list(records(copy, Filter(kind="stop")))
    assert [head.file for head in unjoined_heads(path.parent)] == [copy[-2].name]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [finding.what for finding in report.findings] == ["cut in the middle"]
    assert peak < 5 * MOST_LINE_BYTES
