"""Write the array that has most of a document in fewer bytes: as a table, or with fewer fields and rows."""

from __future__ import annotations

from msgspec import Raw

from gatemini.output import table
from gatemini.output.compact import BYTES_PER_TOKEN, compact
from gatemini.output.json import lazy_json
from gatemini.output.json.json_text import dump
from gatemini.output.json.lazy_json import at_keys, bulk_path, placed
from gatemini.output.options import OutputOptions
from gatemini.output.stages.draft import Draft
from gatemini.text.size_limit import weight
from gatemini.text.utf8 import encode

TABLE_REACH = 20
"""An object larger than this many tables is not searched for an array: writing keys once does not save that much."""
DISCLOSURE_CHARS = 400
"""Reserved for counts and dropped fields in token-budget mode; if they take more, half of the room is reserved."""


def write_table(draft: Draft, options: OutputOptions) -> bool:
    """Write the array with the bulk as a table, where that saves enough; whether it is written, which ends the stages."""
    limit = min(options.chunk_threshold, options.limit.plain)
    if not options.table or not draft.faithful or draft.raw is None:
        return False
    if not options.table_threshold < draft.bytes <= limit * TABLE_REACH:
        return False
    document = draft.raw
    keys = bulk_path(document)
    if keys is None:
        return False
    rows = lazy_json.value(at_keys(document, keys))
    made = table.as_table(rows, limit=limit)
    if made is None:
        return False
    line = table.note(len(rows), made, keys)
    if keys:
        made = table.within(lazy_json.written(placed(document, keys, table.PLACE)).decode(), made)
    count = weight(made)
    if count > options.chunk_threshold or count > draft.bytes * (1 - table.MIN_SAVING):
        return False
    if not options.limit.holds(made, *draft.notes, line):
        return False
    draft.write(made, lossy=False)
    draft.notes.append(line)
    draft.raw = None
    return True


def fit_tokens(draft: Draft, options: OutputOptions) -> None:
    """Drop fields, then rows, of the array with the bulk, to fit the token budget; leave it whole if no row would remain."""
    keys = None if draft.raw is None else bulk_path(draft.raw)
    if draft.raw is None or keys is None:
        return
    document = draft.raw
    array = at_keys(document, keys)
    rows = lazy_json.value(array)
    room = options.limit.beside(*draft.notes).less(len(document) - len(array)).plain
    for left in (room - DISCLOSURE_CHARS, room // 2):
        if left < BYTES_PER_TOKEN:
            return
        made = compact(rows, budget_tokens=left // BYTES_PER_TOKEN)
        del made["note"]  # repeats the counts
        if not made["rows"]:
            return
        data = lazy_json.written(placed(document, keys, Raw(encode(dump(made)))))
        if options.limit.holds(data.decode(), *draft.notes):
            draft.write_json(data, lossy=True)
            return
