"""A uniform array of objects, bare or inside an object, as a table: the keys once, then one row each. Nothing is lost.

How types are recovered: a bare cell is a number, `true`, `false`, `null` or a plain string; strings that
would read as one of these, or that hold a comma, quote or line break, are quoted as in CSV; a bare empty
cell is a missing key, `""` an empty string; a column headed `name:json` holds JSON, quoted. What is around
the array is the first line, JSON with `"$table"` in the array's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gatemini.output.json.json_text import dump

MIN_ROWS = 3
MIN_SAVING = 0.25
"""A table is written only when it is at least this share smaller than the JSON."""
JSON_COLUMNS_SHARE = 0.25
"""With more columns than this holding containers an array is not flat enough to be read as a table."""
JSON_CELL_CHARS = 200
NOTE = (
    "Table of {rows} rows: header, then CSV; bare cells are numbers, true, false, null or text, quoted cells are "
    "strings, an empty cell is a missing key{json}."
)
JSON_NOTE = ", columns headed name:json hold JSON"
PLACE = "$table"
"""Stands for the array in the JSON around it."""
AROUND_NOTE = " The first line is the JSON around it: the table is the array at {path}."

_PLAIN = re.compile(r"[^\s\",\[{\x00-\x1f\x7f-\x9f](?:[^\",\x00-\x1f\x7f-\x9f]*[^\s\",\x00-\x1f\x7f-\x9f])?")
_NUMBER_LIKE = re.compile(r"[-+.]?\d.*|true|false|null|NaN|-?Infinity")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_HEADER = re.compile(r"[^\s\",:][^\",:\n]*[^\s\",:]|[^\s\",:]")


class _NotATable(Exception):
    """The rows hold something a table cannot say; only `as_table` sees this."""


def as_table(rows: Any, *, limit: int) -> str | None:
    """The table, or None: not uniform or flat enough, or longer than `limit` characters."""
    if not isinstance(rows, list) or len(rows) < MIN_ROWS or not all(isinstance(row, dict) for row in rows):
        return None
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if not columns or len(rows) * len(columns) > limit + len(rows):
        return None  # a cell costs at least its separator
    missing = len(rows) * len(columns) - sum(map(len, rows))
    if missing * 10 > len(rows) * len(columns):
        return None
    try:
        as_json = {key for key in columns if _is_json_column(rows, key)}
        if len(as_json) > len(columns) * JSON_COLUMNS_SHARE:
            return None
        lines = [",".join(_header(key, as_json) for key in columns)]
        length = len(lines[0])
        for row in rows:
            line = ",".join(_cell(row, key, key in as_json) for key in columns)
            length += len(line) + 1
            if length > limit:
                return None
            lines.append(line)
    except _NotATable:
        return None
    return "\n".join(lines)


def within(around: str, table: str) -> str:
    """The whole answer: the JSON around the array, `PLACE` in its place, in one line; then the table."""
    return f"{around}\n{table}"


def note(rows: int, table: str, path: Sequence[str] = ()) -> str:
    """The line of the notes block that says how to read the table; `path` leads to the array."""
    header = table.partition("\n")[0]
    said = NOTE.format(rows=rows, json=JSON_NOTE if ":json" in header else "")
    return said + AROUND_NOTE.format(path=" > ".join(path)) if path else said


def _is_json_column(rows: Iterable[dict[str, Any]], key: str) -> bool:
    return any(isinstance(row.get(key), dict | list) for row in rows)


def _header(key: str, as_json: set[str]) -> str:
    if _CONTROL.search(key):
        raise _NotATable
    name = key if _HEADER.fullmatch(key) else _quoted(key)
    return f"{name}:json" if key in as_json else name


def _cell(row: dict[str, Any], key: str, as_json: bool) -> str:
    if key not in row:
        return ""
    value = row[key]
    if as_json:
        text = dump(value)
        if len(text) > JSON_CELL_CHARS:
            raise _NotATable
        return _quoted(text)
    if not isinstance(value, str):
        return dump(value)
    if _CONTROL.search(value):
        raise _NotATable
    if _PLAIN.fullmatch(value) and not _NUMBER_LIKE.fullmatch(value):
        return value
    return _quoted(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
