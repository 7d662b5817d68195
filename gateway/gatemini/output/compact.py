"""Fit rows into a token budget: fields are cut before rows, and the result names what was cut.

Cutting rows first would bias the sample; leaving out a field does not. Fields that the caller named stay. Serves `results.compact` in chains
and the token-budget mode of the pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gatemini.errors import InvalidRequest
from gatemini.output.describe_value import IDENTITY_KEYS
from gatemini.output.json.json_text import size
from gatemini.output.store.request_checks import given, natural

BYTES_PER_TOKEN = 4
"""The estimate used everywhere in the product."""
MOST_TOKENS = 10**12
"""A larger budget counts as this many tokens."""
ROW_STEP = 0.8
"""While rows do not fit, this share of them is kept."""


def compact(
    rows: Any, *, fields: Sequence[str] | None = None, budget_tokens: float | None = None
) -> dict[str, Any]:
    """Return `{rows, total_rows, returned_rows, truncated, dropped_fields, note}`. Raises InvalidRequest.

    `fields` picks and orders columns; `budget_tokens` bounds the rows' JSON at 4 bytes a token. Fields
    in `fields` are never dropped for the budget, only rows are.
    """
    if not isinstance(rows, list):
        raise InvalidRequest(f"results.compact takes an array of rows first, not {given(rows)}")
    if budget_tokens is not None and budget_tokens != math.inf:
        natural(budget_tokens, "budget_tokens", least=1)
    if fields is not None and (
        isinstance(fields, str)
        or not isinstance(fields, Sequence)
        or not all(isinstance(f, str) for f in fields)
    ):
        raise InvalidRequest(f"fields must be an array of field names, not {given(fields)}")
    kept = rows
    dropped: list[str] = []
    unknown: list[str] = []
    if fields is not None:
        known = _fields(rows)
        dropped = [key for key in known if key not in set(fields)]
        unknown = [key for key in fields if key not in set(known)] if known else []
        kept = [{f: row[f] for f in fields if f in row} if isinstance(row, dict) else row for row in rows]
    if budget_tokens is not None:
        budget = int(min(budget_tokens, MOST_TOKENS) * BYTES_PER_TOKEN)
        kept, more = _within(kept, budget, droppable=fields is None)
        dropped += more
    return {
        "rows": kept,
        "total_rows": len(rows),
        "returned_rows": len(kept),
        "truncated": len(kept) < len(rows),
        "dropped_fields": dropped,
        "note": _note(len(rows), len(kept), dropped, unknown),
    }


def _fields(rows: list[Any]) -> list[str]:
    return list(dict.fromkeys(key for row in rows if isinstance(row, dict) for key in row))


def _within(rows: list[Any], budget: int, *, droppable: bool) -> tuple[list[Any], list[str]]:
    """Drop the largest fields (if `droppable`) except one identity key, then rows from the end except the first."""
    weight = size(rows)
    if weight <= budget:
        return rows, []
    dropped: list[str] = []
    if droppable and all(isinstance(row, dict) for row in rows):
        names = _fields(rows)
        keep = next((key for key in IDENTITY_KEYS if key in names), next(iter(names), None))
        heaviest = sorted(
            ((size([row[n] for row in rows if n in row]), n) for n in names if n != keep), reverse=True
        )
        for _, name in heaviest:
            dropped.append(name)
            gone = set(dropped)
            rows = [{key: item for key, item in row.items() if key not in gone} for row in rows]
            if size(rows) <= budget:
                return rows, dropped
    while len(rows) > 1 and size(rows) > budget:
        rows = rows[: max(1, int(len(rows) * ROW_STEP))]
    return rows, dropped


def _note(total: int, returned: int, dropped: list[str], unknown: list[str]) -> str:
    parts = [f"no row has: {', '.join(map(given, unknown))}"] if unknown else []
    if dropped:
        parts.append(f"fields left out: {', '.join(dropped)}")
    if returned < total:
        parts.append(f"first {returned} of {total} rows")
    return "; ".join(parts) or f"all {total} rows and fields"
