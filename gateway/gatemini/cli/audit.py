"""`gatemini audit verify`, `show`, `export`: check the audit log, read it, hand it to other programs."""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.errors import InvalidRequest
from gatemini.text.escape import visible
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from gatemini.config.load import Loaded
    from gatemini.policy.audit.record import Head
    from gatemini.policy.audit.show import Filter
    from gatemini.policy.audit.verify import Report

_SHOWN = 20
"""Intents without an outcome that `verify` lists as text."""


def verify(
    *,
    path: Path | None,
    head: list[str] | None,
    anchors: list[Path] | None,
    config: Path | None,
    as_json: bool,
) -> int:
    """Check every line, the chain, and what anchors know; exit code 1 names the first bad line, gap, cut or fork."""
    from gatemini.policy.audit import verify as checking
    from gatemini.policy.audit.anchors import read_anchors

    loaded = None if path is not None else _loaded(config)
    places = list(anchors or ())
    if loaded is not None and loaded.config.audit.anchor.file is not None and not anchors:
        places = [loaded.config.audit.anchor.file]
    known: list[Head] = []
    torn: list[checking.Finding] = []

    def read() -> list[Head]:
        known.clear()
        torn.clear()
        for place in places:
            if not place.is_file():
                raise InvalidRequest(f"there is no file of anchors: {place}")
            heads, others = read_anchors(place)
            known.extend(heads)
            torn.extend(checking.Finding(str(place), line, "is not an anchor") for line in others)
        return known

    report = checking.verify_live(partial(_files, path, loaded), heads=head or (), anchors=read)
    report.findings += torn
    if as_json:
        shell.emit(_as_json(report, len(known)))
    else:
        _show_report(report, len(known))
    return shell.FAILED if report.findings else shell.OK


def _as_json(report: Report, anchors: int) -> dict[str, Any]:
    return {
        "ok": not report.findings,
        "records": report.records,
        "files": report.files,
        "instances": report.instances,
        "anchors": anchors,
        "findings": [{"file": f.file, "line": f.line, "what": f.what} for f in report.findings],
        "intents_without_outcome": [
            {"instance": u.instance, "seq": u.seq, "time": u.time, "tool": u.tool} for u in report.unfinished
        ],
        "not_sealed": report.unsealed,
        "heads": [{"instance": h.instance, "seq": h.seq, "hash": h.hash} for h in report.heads],
    }


def _show_report(report: Report, anchors: int) -> None:
    for finding in report.findings:
        shell.say(visible(finding.text()))
    for each in report.unfinished[:_SHOWN]:
        what = f"intent without outcome: {each.time} {each.tool} (record {each.seq} of {each.instance})"
        shell.say(visible(what))
    if len(report.unfinished) > _SHOWN:
        shell.say(f"… and {len(report.unfinished) - _SHOWN} more intents without outcome; --json lists all")
    for name in report.unsealed:
        shell.say(visible(f"not sealed: {name}: its gateway is running, was killed, or the end was cut"))
    for head in report.heads:
        shell.say(visible(f"head of {head.instance}: record {head.seq}, {head.hash}"))
    read = f"{counted(report.records, 'record')} in {counted(report.files, 'file')}, {counted(anchors, 'anchor')}"
    verdict = (
        f"{counted(len(report.findings), 'finding')}, the first one above" if report.findings else "sound"
    )
    shell.say(f"{read}: {verdict}")


def show(
    *,
    path: Path | None,
    tool: str | None,
    session: str | None,
    kind: str | None,
    since: str | None,
    limit: int,
    config: Path | None,
    as_json: bool,
) -> None:
    """The last records, by tool, session, kind or time."""
    from gatemini.policy.audit.show import records

    found = deque(
        records(_files(path, None if path else _loaded(config)), _filter(tool, session, kind, since)), limit
    )
    if as_json:
        shell.emit({"records": list(found)})
        return
    if not found:
        shell.note("no record matches")
    shell.rows(
        ("time", "kind", "tool", "", "ms", "client"),
        (
            (
                visible(str(row.get("time", ""))[:23]),
                visible(str(row.get("kind", ""))),
                visible(str(row.get("tool", ""))),
                visible(str(row.get("outcome") or row.get("action") or "")),
                f"{ms:.1f}" if isinstance(ms := row.get("ms"), int | float) else "",
                visible(str(row.get("client", ""))),
            )
            for row in found
        ),
        right=(4,),
    )


def export(
    *,
    path: Path | None,
    format: str,
    tool: str | None,
    session: str | None,
    kind: str | None,
    since: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """All records as OCSF events (one JSON object a line) or CSV, on standard output."""
    from gatemini.policy.audit.export import csv_lines, ocsf
    from gatemini.policy.audit.show import records

    wanted = _filter(tool, session, kind, since)
    write = csv_lines if format == "csv" else ocsf
    for line in write(records(_files(path, None if path else _loaded(config)), wanted)):
        shell.say(line)


def _filter(tool: str | None, session: str | None, kind: str | None, since: str | None) -> Filter:
    from datetime import UTC, datetime

    from gatemini.policy.audit import show as reading

    try:
        after = None if since is None else reading.since(since, datetime.now(UTC))
    except ValueError:
        raise shell.UsageError(
            f"gatemini audit: --since {since}: a duration such as 1h, or an ISO time"
        ) from None
    return reading.Filter(tool, session, kind, after)


def _loaded(config: Path | None) -> Loaded:
    from gatemini.config.load import load_config

    return load_config(config, environ=os.environ)


def _files(path: Path | None, loaded: Loaded | None) -> list[Path]:
    """The files of a log: those of this folder, this one file, or those of the configuration."""
    from gatemini.policy.audit.configured_log import audit_folder
    from gatemini.policy.audit.files import audit_files

    if path is None and loaded is not None:
        path = audit_folder(loaded.config.audit, loaded.source)
    if path is None:
        raise InvalidRequest("no audit log is configured", hint="set audit.path, or name the folder of a log")
    if not path.exists():
        raise InvalidRequest(f"there is no audit log in {path}")
    return audit_files(path) if path.is_dir() else [path]


_PATH = shell.argument("path", nargs="?", type=Path, help="folder or file of a log; else audit.path")
_FILTERS = [
    shell.argument("--tool", metavar="GLOB", help="only these tools, such as github.*"),
    shell.argument("--session", metavar="ID", help="only this session"),
    shell.argument("--kind", help="only this kind: intent, outcome, decision, approval, …"),
    shell.argument("--since", metavar="WHEN", help="only the last 1h, 30m …, or from an ISO time on"),
]
COMMANDS = (
    shell.Command(
        "verify",
        verify,
        [
            _PATH,
            shell.argument("--head", action="append", metavar="HASH", help="a hash that must be there"),
            shell.argument(
                "--anchors",
                action="append",
                type=Path,
                metavar="FILE",
                help="anchors; else audit.anchor.file",
            ),
        ],
    ),
    shell.Command("show", show, [_PATH, *_FILTERS, shell.limit(100_000, 50, "the newest so many")]),
    shell.Command(
        "export",
        export,
        [_PATH, shell.argument("--format", choices=("ocsf", "csv"), default="ocsf"), *_FILTERS],
    ),
)
