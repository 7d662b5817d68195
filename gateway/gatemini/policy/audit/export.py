"""Audit records for other programs: OCSF events for a SIEM, or CSV for a spreadsheet."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from io import StringIO
from typing import Any

from gatemini import __version__
from gatemini.text.escape import visible

OCSF_VERSION = "1.3.0"
COLUMNS = (
    "time", "kind", "instance", "seq", "session", "principal", "client", "transport", "chain", "trace", "tool", "action",
    "rule", "outcome", "sent", "ms", "bytes", "intent", "policy", "labels", "arguments", "prev",
)  # fmt: skip
"""Columns of the CSV; what a record has beside them is in `more` as JSON."""

_API, _LIFECYCLE, _ENTITY = (
    (6, 6003, "API Activity"),
    (6, 6002, "Application Lifecycle"),
    (3, 3004, "Entity Management"),
)
_ACTIVITY = {"start": 3, "stop": 4}
_OTHER, _UPDATE = 99, 3
_SUCCESS, _FAILURE, _UNKNOWN = 1, 2, 0
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Signs that begin a formula; spreadsheets in some languages take the wide ones too."""
_CALLS = frozenset(("intent", "outcome", "decision", "approval"))


def ocsf(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield one OCSF event a line: API Activity for calls, Application Lifecycle for start and stop, else Entity
    Management. The whole record is under `unmapped`.
    """
    for record in records:
        kind = str(record.get("kind", ""))
        category, uid, name = _API if kind in _CALLS else _LIFECYCLE if kind in _ACTIVITY else _ENTITY
        activity = _ACTIVITY.get(kind, _OTHER if kind in _CALLS else _UPDATE)
        status = _status(record)
        event: dict[str, Any] = {
            "category_uid": category,
            "class_uid": uid,
            "class_name": name,
            "activity_id": activity,
            "activity_name": kind,
            "type_uid": uid * 100 + activity,
            "time": _milliseconds(str(record.get("time", ""))),
            "severity_id": 1 if status != _FAILURE else 2,
            "status_id": status,
            "metadata": {
                "version": OCSF_VERSION,
                "product": {"name": "gatemini", "vendor_name": "gatemini", "version": __version__},
                "uid": f"{record.get('instance', '')}:{record.get('seq', 0)}",
                "sequence": record.get("seq", 0),
                "log_name": "audit",
            },
            "actor": {
                "user": {"uid": record.get("principal") or "gatemini"},
                "session": {"uid": record.get("session", "")},
                "app_name": record.get("client", ""),
            },
            "unmapped": record,
        }
        if "trace" in record:
            event["metadata"]["correlation_uid"] = record["trace"]
        if uid == _API[1]:
            event["api"] = {
                "operation": record.get("tool", ""),
                "service": {"name": str(record.get("tool", "")).partition(".")[0]},
                "request": {"uid": str(record.get("chain", ""))},
            }
            event["src_endpoint"] = {"name": record.get("client") or "unknown"}
            if isinstance(ms := record.get("ms"), int | float):
                event["duration"] = round(ms)
        elif uid == _LIFECYCLE[1]:
            event["app"] = event["metadata"]["product"]
        else:
            event["entity"] = {"name": kind, "type": "configuration"}
        yield json.dumps(event)


def _status(record: dict[str, Any]) -> int:
    if record.get("kind") == "decision":
        return _FAILURE if record.get("action") == "deny" else _UNKNOWN
    outcome = record.get("outcome")
    return _UNKNOWN if outcome is None else _SUCCESS if outcome == "ok" else _FAILURE


def _milliseconds(time: str) -> int:
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1000)
    except ValueError:
        return 0


def csv_lines(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a header and one line a record, without line ends.

    A cell never begins a formula of a spreadsheet, and control and invisible characters are escaped.
    """
    yield _line((*COLUMNS, "more"))
    for record in records:
        more = {key: value for key, value in record.items() if key not in COLUMNS}
        yield _line([*(_cell(record.get(key, "")) for key in COLUMNS), _cell(more) if more else ""])


def _cell(value: Any) -> str:
    text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return "'" + text if text.startswith(_FORMULA) and isinstance(value, str) else text


def _line(cells: Iterable[str]) -> str:
    buffer = StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()
