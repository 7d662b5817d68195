"""Verify an audit log: every line, the chain of each instance through its files, and what is known from outside.

Reads one line at a time. A finding names file and line; within one file only the first is reported, since all lines after
it may be anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gatemini.policy.audit.record import GENESIS, Head, Line, digest, first_line, lines_of, read_line


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong at one line of a file; line 0 is the file, or the log, as a whole."""

    file: str
    line: int
    what: str

    def text(self) -> str:
        """`file:line: what is wrong`."""
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return place + self.what


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An intent without an outcome: the gateway ended, or is at it now."""

    instance: str
    seq: int
    time: str
    tool: str


@dataclass(slots=True)
class Report:
    """The result of verifying: sound without findings."""

    records: int = 0
    files: int = 0
    instances: int = 0
    findings: list[Finding] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)
    """Last files of instances that run, were killed, or were cut."""
    heads: list[Head] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """One file as it was read: its first and last sound line."""

    path: Path
    lines: int = 0
    first: Line | None = None
    last: Line | None = None
    hash: str = ""
    finding: Finding | None = None

    def bad(self, line: int, what: str) -> None:
        self.finding = Finding(self.path.name, line, what)


@dataclass(slots=True)
class _Known:
    """Lines that other places name: hashes by instance and number, and hashes that must be there somewhere."""

    lines: dict[str, dict[int, str]]
    heads: set[str]
    met: set[tuple[str, int]] = field(default_factory=set)
    heads_met: set[str] = field(default_factory=set)


TRIES = 3
"""How often a log that changes meanwhile is read: a gateway that runs begins files, and deletes old ones."""


def verify_live(
    find: Callable[[], Sequence[Path]], *, heads: Sequence[str] = (), anchors: Callable[[], Sequence[Head]]
) -> Report:
    """Verify a log to which gateways may write. What is found is looked at again if the files have changed meanwhile.

    `find` and `anchors` return the files and the heads sent outside as they are now.
    """
    for _ in range(TRIES - 1):
        sent, before = anchors(), _sizes(find)  # in this order: what is anchored is in the files
        try:
            report = verify(find(), heads=heads, anchors=sent)
        except FileNotFoundError:  # deleted, as `keep` says
            continue
        if not report.findings or (before is not None and before == _sizes(find)):
            return report
    sent = anchors()
    return verify(find(), heads=heads, anchors=sent)


def _sizes(find: Callable[[], Sequence[Path]]) -> dict[Path, int] | None:
    try:
        return {path: path.stat().st_size for path in find()}
    except FileNotFoundError:
        return None


def verify(files: Iterable[Path], *, heads: Iterable[str] = (), anchors: Iterable[Head] = ()) -> Report:
    """Verify all files of a log together. `heads` are hashes of lines that must be there, `anchors` heads sent outside."""
    paths = sorted(files)
    report = Report(files=len(paths))
    if not paths:
        report.findings.append(
            Finding("", 0, "there is no file: all were deleted, or nothing was ever written")
        )
    pruned: dict[str, Line] = {}
    outside = list(anchors)
    joins = [join for path in paths for join in _joins(path)]
    known = _Known(defaultdict(dict), {head.lower() for head in heads})
    for head in (*joins, *outside):
        if known.lines[head.instance].setdefault(head.seq, head.hash) != head.hash:
            what = f"record {head.seq} of instance {head.instance} is known with two hashes: it was replaced"
            report.findings.append(Finding("", 0, what))
    open_intents: dict[str, dict[int, Line]] = defaultdict(dict)
    by_instance: dict[str, list[_Part]] = defaultdict(list)
    for path in paths:
        part = _read(path, known, open_intents, pruned)
        report.records += part.lines
        if part.finding is not None:
            report.findings.append(part.finding)
        if part.first is not None:
            by_instance[part.first.instance].append(part)
    report.instances = len(by_instance)
    for parts in by_instance.values():
        report.findings += _in_order(parts, pruned, report)
    anchored = _anchored(outside, known)
    covered = [line for line in pruned.values() if line.seq <= anchored.get(line.instance, 0)]
    report.findings += _missing(known, joins, by_instance, list(pruned.values()))
    report.findings += _missing(known, outside, by_instance, covered)
    report.findings += [
        Finding("", 0, f"no line has the hash {head}: the log was cut or replaced")
        for head in sorted(known.heads - known.heads_met)
    ]
    report.unfinished = [
        Unfinished(instance, seq, line.time, line.tool)
        for instance, lines in open_intents.items()
        for seq, line in lines.items()
    ]
    return report


def _joins(path: Path) -> list[Head]:
    """The heads that the start record of a file names; none where its first line is not sound."""
    line = first_line(path)
    return [] if line is None else line.joins


def _read(
    path: Path, known: _Known, open_intents: dict[str, dict[int, Line]], pruned: dict[str, Line]
) -> _Part:
    """Read one file up to its first bad line."""
    part = _Part(path)
    with path.open("rb") as file:
        before: Line | None = None
        wanted: Mapping[int, str] = {}
        pending: dict[int, Line] = {}
        lines = lines_of(file)
        for number, text in enumerate(lines, 1):
            line = read_line(text)
            if line is None:
                part.bad(number, "cut in the middle" if not text.endswith(b"\n") else "not a record")
                break
            if before is None:
                part.first = line
                wanted, pending = known.lines.get(line.instance, {}), open_intents[line.instance]
            elif (wrong := _follows(line, before, part.hash)) is not None:
                _blame(part, lines, number, text, wrong)
                break
            if text[-1] != 10:
                part.bad(number, "cut in the middle")
                break
            part.hash = digest(text)
            part.last = before = line
            part.lines = number
            if line.seq in wanted and wanted[line.seq] == part.hash:
                known.met.add((line.instance, line.seq))
            if known.heads and part.hash in known.heads:
                known.heads_met.add(part.hash)
            if line.kind == "intent":
                pending[line.seq] = line
            elif line.intent:
                pending.pop(line.intent, None)
            elif line.kind == "pruned":
                pruned[line.file] = line
    if part.lines == 0 and part.finding is None:
        part.bad(0, "is empty: it was cut, or the gateway ended before its first record")
    return part


def _follows(line: Line, before: Line, before_hash: str) -> str | None:
    """What is wrong with a line after the one before it."""
    if before.kind == "seal":
        return "comes after the seal, which ends a file"
    if line.instance != before.instance:
        return f"belongs to instance {line.instance}, the file to {before.instance}"
    if line.seq != before.seq + 1:
        return f"has number {line.seq} after {before.seq}: lines are missing, twice there, or out of order"
    if line.prev != before_hash:
        return "does not carry the hash of the line before it"
    return None


def _blame(part: _Part, lines: Iterator[bytes], number: int, text: bytes, wrong: str) -> None:
    """Say which of two lines that do not fit was changed: the second one, if the third fits neither."""
    after = read_line(next(lines, b""))
    second_is_sound = after is not None and after.prev == digest(text)
    if wrong.startswith("does not carry") and second_is_sound:
        part.bad(number - 1, "was changed: the line after it carries another hash")
    else:
        part.bad(number, wrong)


def _in_order(parts: list[_Part], pruned: Mapping[str, Line], report: Report) -> Iterator[Finding]:
    """Check that the files of one instance continue each other."""
    parts.sort(key=lambda part: (part.first.seq if part.first else 0, part.path.name))
    before: _Part | None = None
    for part in parts:
        first = part.first
        assert first is not None  # noqa: S101 - only parts with a first line are sorted in
        if before is None:
            yield from _beginning(part, first, pruned)
        elif before.last is not None and part.last is not None and before.finding is None:
            yield from _continues(part, first, before, before.last)
        if before is None or part.finding is None:
            before = part
    if before is not None and before.last is not None and before.finding is None:
        report.heads.append(Head(before.last.instance, before.last.seq, before.hash, before.path.name))
        if before.last.kind != "seal":
            report.unsealed.append(before.path.name)


def _beginning(part: _Part, first: Line, pruned: Mapping[str, Line]) -> Iterator[Finding]:
    """The first file of an instance begins with its start record, unless `keep` deleted the files before it."""
    if first.seq == 1 and first.kind == "start" and first.prev == GENESIS:
        return
    if any((p.of, p.last, p.hash) == (first.instance, first.seq - 1, first.prev) for p in pruned.values()):
        return
    if part.finding is None or part.finding.line > 1:
        what = f"begins with record {first.seq} of instance {first.instance}: the files before it are missing"
        yield Finding(part.path.name, 1, what if first.seq != 1 else "does not begin with a start record")


def _continues(part: _Part, first: Line, before: _Part, last: Line) -> Iterator[Finding]:
    name = before.path.name
    if first.seq <= last.seq:
        what = f"record {first.seq} of instance {first.instance} is also in {name}: a fork"
        yield Finding(part.path.name, 1, what)
    elif first.seq > last.seq + 1:
        what = (
            f"records {last.seq + 1} to {first.seq - 1} of instance {first.instance} are missing after {name}"
        )
        yield Finding(part.path.name, 1, what)
    elif first.prev != before.hash:
        yield Finding(part.path.name, 1, f"does not carry the hash of the last line of {name}")
    elif last.kind != "seal":
        yield Finding(name, before.lines, "ends without a seal although another file follows")


def _anchored(outside: Iterable[Head], known: _Known) -> dict[str, int]:
    """Return the last record of each instance that an anchor vouches for, with all records before it."""
    found: dict[str, int] = {}
    for head in outside:
        if (head.instance, head.seq) in known.met:
            found[head.instance] = max(found.get(head.instance, 0), head.seq)
    return found


def _missing(
    known: _Known, named: Iterable[Head], by_instance: Mapping[str, list[_Part]], pruned: Iterable[Line]
) -> Iterator[Finding]:
    """Check lines that are known from elsewhere; those in files that a record of `pruned` names may be gone.

    `keep` deletes the oldest files first, by name. For what anchors know, only records that an anchor vouches for
    excuse a line: anybody can add a file with a gateway of its own that claims to have deleted others.
    """
    pruned = list(pruned)
    newest = max((line.file for line in pruned), default="")
    deleted: dict[str, int] = defaultdict(int)
    for line in pruned:
        deleted[line.of] = max(deleted[line.of], line.last)
    for head in sorted(set(named), key=lambda head: (head.file, head.instance, head.seq)):
        parts = by_instance.get(head.instance, [])
        last = max((p.last.seq for p in parts if p.last), default=0)
        excused = head.seq <= deleted[head.instance] or (not parts and "" < head.file <= newest)
        if (head.instance, head.seq) in known.met or excused or any(p.finding for p in parts):
            continue
        what = f"record {head.seq} of instance {head.instance} is known from outside its files, "
        name = parts[-1].path.name if parts else ""
        if head.seq <= last:
            yield Finding(name, 0, what + "and is not there as it was: it was replaced or deleted")
        else:
            yield Finding(name, 0, what + (f"they end at {last}" if last else "they are missing") + ": cut")
