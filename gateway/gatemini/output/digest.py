"""Summarize many rows in few bytes: uniformity, types, counts, ranges.

A `Summary` is fed rows batch by batch, so a document of any size is described without being held. Column
work runs in C (map, Counter, min, max).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from msgspec import Raw

from gatemini.output.describe_value import IDENTITY_KEYS, short
from gatemini.output.json import lazy_json as lazy
from gatemini.output.json.json_text import size

MISSING_SHARE = 0.1
"""A key may be missing from this share of the rows and the array still counts as uniform."""
SCHEMA_BYTES = 4096
"""Largest schema: for an object with a million keys it would be larger than the data it replaces."""
DIGEST_BYTES = 600
_MAX_SHAPES = 500
"""Most different key orders; an array with more is not treated as a table."""
_MAX_KEYS = 400
_LOW_CARDINALITY = 12
"""Most distinct values of a field that is summarized by counts."""
_COUNTED_CHARS = 40
"""Longer strings are prose, not categories."""
_NESTED_LEVELS = 2
"""Levels of objects inside rows that are described too: `status.phase`, `fields.status.name`."""
_NESTED_KEYS = 60
"""An object inside rows with more keys than this is data, not structure."""
_RESERVED_BYTES = 120
"""Reserved in a digest so that ranges and null counts are not crowded out by categories."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:$|[T ]\d\d:\d\d)")
_NAMES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
    type(None): "null",
}
_CATEGORIES = {str, bool, type(None), int}


_CONTAINERS = {dict, list}


class Column:
    """One field over all rows so far; `inner` describes its objects, while all its values are objects."""

    def __init__(self, levels: int, *, plain: bool = False) -> None:
        self.inner: Summary | None = Summary(levels - 1) if levels else None
        self.plain = plain
        self.present = 0
        self.types: set[type] = set()
        self.nulls = 0
        self.counts: Counter[Any] | None = Counter()
        self.low: Any = None
        self.high: Any = None
        self._ranged = True

    def add(self, values: Sequence[Any], types: set[type] | None = None) -> None:
        """Add values; `types` are their types, if the caller knows them already."""
        self.present += len(values)
        types = set(map(type, values)) if types is None else types
        self.types |= types
        if type(None) in types:
            self.nulls += sum(value is None for value in values)
        if self.inner is not None:
            self._look_inside(self.inner, values, types)
        if self.counts is not None:
            self.counts = self._counted(self.counts, values, types)
        known = types - {type(None)}
        if self._ranged and known and (known <= {int, float} or known == {str}):
            self._range(values if known == types else [v for v in values if v is not None])

    def _look_inside(self, inner: Summary, values: Sequence[Any], types: set[type]) -> None:
        objects = [value for value in values if value is not None] if type(None) in types else values
        if objects and types <= {dict, type(None)}:
            inner.add(objects)
        if not types <= {dict, type(None)} or not inner.all_objects or len(inner.columns) > _NESTED_KEYS:
            self.inner = None

    def _counted(self, counts: Counter[Any], values: Sequence[Any], types: set[type]) -> Counter[Any] | None:
        """Return the counts with `values` added; None if the field is not a category."""
        # True and 1 are one key to a Counter: a field that mixes them is not counted.
        if not types <= _CATEGORIES or {bool, int} <= self.types:
            return None
        counts.update(values)
        return counts if len(counts) <= _LOW_CARDINALITY else None

    def _range(self, values: Sequence[Any]) -> None:
        """Update the lowest and highest value, never of numbers and strings mixed; `span` checks that they are meaningful."""
        low, high = min(values), max(values)
        if self.low is not None and isinstance(self.low, str) != isinstance(low, str):
            return
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)
        if isinstance(low, str) and not (self.plain or (_DATE.match(low) and _DATE.match(high))):
            self._ranged = False  # no dates

    @property
    def type_name(self) -> str:
        """The types as text, such as `string` or `integer|null`: sorted, null last."""
        names = {_NAMES[kind] for kind in self.types}
        if "number" in names:
            names.discard("integer")
        ordered = sorted(names - {"null"}) + (["null"] if "null" in names else [])
        return "|".join(ordered) or "null"

    @property
    def span(self) -> list[Any] | None:
        """`[min, max]` of numbers or of dates; None for anything else."""
        known = self.types - {type(None)}
        if not known or self.low is None or self.low == self.high or not self._ranged:
            return None
        if known <= {int, float}:
            return [self.low, self.high]
        if known == {str} and _DATE.match(self.low) and _DATE.match(self.high):
            return [self.low, self.high]
        return None

    @property
    def ends(self) -> list[Any] | None:
        """The lowest and the highest of numbers, or of strings in their order."""
        if self.low is None or self.low == self.high:
            return None
        known = self.types - {type(None)}
        if not (known <= {int, float} or known == {str}):
            return None
        return [short(self.low), short(self.high)]

    @property
    def categories(self) -> list[tuple[str, int]] | None:
        """Values with their counts, most frequent first; None if there are many or they rarely repeat."""
        counts = self.counts
        if not counts or self.types <= {type(None)} or len(counts) * 2 > self.present:
            return None
        if any(isinstance(value, str) and len(value) > _COUNTED_CHARS for value in counts):
            return None
        words = [(_word(value), n) for value, n in counts.most_common()]
        return words if len(dict(words)) == len(words) else None  # "1" and 1 would read the same


def _by_key(rows: Sequence[Any], keys: tuple[str, ...]) -> dict[str, Sequence[Any]] | None:
    """Return key → the values of all rows; None unless all rows have exactly these keys."""
    if not keys or set(map(len, rows)) != {len(keys)}:
        return None
    try:
        if len(keys) == 1:
            return {keys[0]: list(map(itemgetter(*keys), rows))}
        return dict(zip(keys, zip(*map(itemgetter(*keys), rows), strict=True), strict=True))
    except KeyError:
        return None


def _word(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


class Summary:
    """Statistics of one array, updated with each batch of rows; objects inside rows are included `levels` deep.

    `plain` describes the rows themselves; it is None once a row is an object or array.
    """

    def __init__(self, levels: int = _NESTED_LEVELS) -> None:
        self._levels = levels
        self.total = 0
        self.shapes: set[tuple[str, ...]] = set()
        self.columns: dict[str, Column] = {}
        self.all_objects = True
        self.plain: Column | None = Column(0, plain=True)
        self.types: set[type] = set()

    def add(self, rows: Sequence[Any]) -> None:
        if not rows:
            return
        self.total += len(rows)
        kinds = set(map(type, rows))
        self.types |= kinds
        if self.plain is not None:
            if kinds & _CONTAINERS:
                self.plain = None
            else:
                self.plain.add(rows, kinds)
        if kinds != {dict}:
            self.all_objects = False
        if not self.all_objects:
            return
        first = tuple(rows[0])
        columns = _by_key(rows, first)
        if columns is None:
            columns = self._by_shape(rows)
        else:
            self.shapes.add(first)
        if len(self.shapes) > _MAX_SHAPES or max(len(columns), len(self.columns)) > _MAX_KEYS:
            self.all_objects = False
            return
        for key, values in columns.items():
            self._column(key).add(values)

    def _by_shape(self, rows: Sequence[Any]) -> dict[str, Sequence[Any]]:
        """Return key → its values. Rows are grouped by their keys, since looking up every key in every row is slow."""
        groups: defaultdict[tuple[str, ...], list[Any]] = defaultdict(list)
        for shape, row in zip(map(tuple, rows), rows, strict=True):
            groups[shape].append(row)
        self.shapes.update(groups)
        columns: defaultdict[str, list[Any]] = defaultdict(list)
        for shape, group in groups.items():
            for key, values in zip(shape, zip(*map(dict.values, group), strict=True), strict=True):
                columns[key].extend(values)
        return dict(columns)

    def _column(self, key: str) -> Column:
        found = self.columns.get(key)
        if found is None:
            found = self.columns[key] = Column(self._levels)
        return found

    @property
    def collapsible(self) -> bool:
        """Whether count, types and the first rows are enough to describe these rows."""
        return self.uniform or (self.plain is not None and self.total > 0)

    @property
    def uniform(self) -> bool:
        """Whether all rows are objects and each key is in at least nine tenths of them."""
        if not self.all_objects or not self.columns:
            return False
        return all(self.total - c.present <= self.total * MISSING_SHARE for c in self.columns.values())

    @property
    def missing(self) -> dict[str, int]:
        """Key → number of rows without it, for keys that some rows lack."""
        return {k: self.total - c.present for k, c in self.columns.items() if c.present < self.total}

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The path of the key that identifies a row: its own, else one of an object in every row (`metadata`, `name`)."""
        own = next((key for key in IDENTITY_KEYS if key in self.columns), None)
        if own is not None:
            return (own,)
        for name, column in self.columns.items():
            if column.inner is not None and column.present == self.total:
                inner = next((key for key in IDENTITY_KEYS if key in column.inner.columns), None)
                if inner is not None:
                    return (name, inner)
        return None

    def leaves(self) -> list[tuple[str, Column]]:
        """Every described field with its dotted name, those nearer to the row first."""
        found = list(self.columns.items())
        for name, column in found:  # the loop appends to the list it reads
            if column.inner is not None:
                found += ((f"{name}.{key}", inner) for key, inner in column.inner.columns.items())
        return found

    def schema(self, limit: int = SCHEMA_BYTES) -> dict[str, str] | str:
        """Field → type, of the first fields in about `limit` bytes; for rows that are no objects one type name."""
        if self.all_objects:
            made: dict[str, str] = {}
            for key, column in self.columns.items():
                limit -= len(key) + len(column.type_name) + 6
                if limit < 0:
                    made["…"] = f"{len(self.columns) - len(made)} more fields"
                    break
                made[key] = column.type_name
            return made
        return "|".join(sorted({_NAMES.get(kind, "string") for kind in self.types})) or "empty"

    def digest(self, limit: int = DIGEST_BYTES) -> dict[str, Any]:
        """`{"counts": {field: {value: n}}, "range": {field: [min, max]}, "nulls": {field: n}}` in `limit` bytes.

        Categories first, fields in their order; what does not fit is left out, whole fields at a time.
        """
        if self.plain is not None and self.total:
            return _plain_digest(self.plain, limit)
        made: dict[str, Any] = {}
        if not self.all_objects:
            return made
        facts: list[tuple[str, str, Any]] = []
        leaves = self.leaves()
        for key, column in leaves:
            categories = column.categories
            if categories is not None:
                facts.append(("counts", key, dict(categories)))
        ranges = [("range", key, column.span) for key, column in leaves if column.span]
        nulls = [("nulls", key, column.nulls) for key, column in leaves if column.nulls]
        for group, room in ((facts, limit - _RESERVED_BYTES), (ranges, limit - 40), (nulls, limit)):
            for part, key, fact in group:
                had = part in made
                made.setdefault(part, {})[key] = fact
                if size(made) > room:
                    del made[part][key]
                    if not had:
                        del made[part]
        return made


def _plain_digest(rows: Column, limit: int) -> dict[str, Any]:
    """Of plain values: how often each occurs, where these are few, else the lowest and the highest; how many nulls."""
    made: dict[str, Any] = {}
    categories = rows.categories
    if categories is not None and size(counts := dict(categories)) <= limit - _RESERVED_BYTES:
        made["counts"] = counts
    elif (ends := rows.ends) and size(ends) <= limit - _RESERVED_BYTES:
        made["range"] = ends
    if rows.nulls:
        made["nulls"] = rows.nulls
    return made


def summarise(rows: Sequence[Raw]) -> Summary:
    """Rows described, some of them parsed at a time."""
    summary = Summary()
    size = sum(map(len, rows))
    exact = size <= lazy.EXACT_BYTES
    for batch in lazy.batches(rows, size):
        summary.add(lazy.values(batch, exact=exact))
    return summary


def one_row(raw: Raw, levels: int = _NESTED_LEVELS, most: int = _MAX_KEYS) -> Any:
    """The value as far as its summary as the only row needs it: fields with their types, and which inner ones are null.

    Other containers are emptied, since parsed whole a document takes fifteen times its size. None for more than `most` keys.
    """
    if not lazy.is_container(raw):
        return raw
    if lazy.is_array(raw):
        return []
    if levels < 0 or (levels < _NESTED_LEVELS and b"null" not in bytes(raw)):
        return {}
    fields = lazy.fields(raw)
    if len(fields) > most:
        return None
    found = {key: one_row(item, levels - 1, _NESTED_KEYS) for key, item in fields.items()}
    return {key: {} if item is None else item for key, item in found.items()}
