"""JSON read one level at a time: a value that is not looked into stays the bytes it was written as.

`msgspec.Raw` is such a value. A text is checked once, by `checked`; from then on no reader here meets a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import orjson
from msgspec import Raw

from gatemini.output.json.json_text import parse, parse_carefully

EXACT_BYTES = 256 << 10
"""Rows up to this size together are parsed without losing a digit; of more, digits beyond a double's do not count."""
BATCH_ROWS = 1000
BATCH_BYTES = 96 << 10
"""Rows parsed together: as values they take fifteen to forty times the bytes, so a batch stays in the processor's cache."""
BULK_SHARE = 0.5
"""An array holds the bulk of a document from this share of its bytes on."""
BULK_DEPTH = 4
"""Levels of objects looked into for the array that holds the bulk."""
WHITE = b" \t\r\n"
"""White space of JSON."""
SAMPLE_BYTES = 4096
"""At the beginning and in the middle of a document, looked at for blanks between its values."""

_LONE_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?=\\u[dD][c-fC-F][0-9a-fA-F]{2})(?:\\u.{4})"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_HALF = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_ARRAY = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_TEXT = msgspec.json.Decoder(str)
_BLANK = re.compile(rb"[\[{:,] | [\]}:,]")
_SPACE = re.compile(rb"[ \t\r\n]*")
_COMMA = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")


def checked(data: bytes) -> Raw | None:
    """The JSON document in `data`, without the white space around it; None where there is none that can be read here.

    Halves of surrogate pairs, which are no characters, are replaced by U+FFFD, of the same length. Beyond about 900
    levels nothing is read.
    """
    found = _document(data)
    if found is None and (b"\\u" in data or b"\xed" in data):
        return _document(_HALF.sub(b"\xef\xbf\xbd", _LONE_HALF.sub(_replaced, data)))
    return found


def _document(data: bytes) -> Raw | None:
    try:
        if not data.isascii():
            data.decode()  # msgspec does not look at the bytes of strings that it skips
        return msgspec.json.decode(data, type=Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _replaced(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if found[1] else found[0]


def compacted(raw: Raw, data: bytes) -> Raw:
    """The document that was read from `data`, without white space, every number and string as it is written.

    Blanks may stay where a document has none in its samples; other white space is never left.
    """
    middle = len(data) // 2
    samples = data[:SAMPLE_BYTES], data[middle : middle + SAMPLE_BYTES]
    if any(sign in data for sign in (b"\n", b"\t", b"\r")) or any(map(_BLANK.search, samples)):
        return Raw(msgspec.json.format(bytes(raw), indent=-1))
    return raw


def opening(raw: Raw) -> int:
    """The first byte of a value, which tells its type."""
    return memoryview(raw)[0]


def openings(raws: Iterable[Raw]) -> set[int]:
    """The first bytes of many values; nothing is called from Python for each of them."""
    return set(map(itemgetter(0), map(memoryview, raws)))  # type: ignore[arg-type]


def is_array(raw: Raw) -> bool:
    return memoryview(raw)[0] == 0x5B


def is_object(raw: Raw) -> bool:
    return memoryview(raw)[0] == 0x7B


def is_container(raw: Raw) -> bool:
    return memoryview(raw)[0] in b"[{"


def is_string(raw: Raw) -> bool:
    return memoryview(raw)[0] == 0x22


def items(raw: Raw) -> list[Raw]:
    """What is in an array."""
    return _ARRAY.decode(raw)


def fields(raw: Raw) -> dict[str, Raw]:
    """What is in an object; of a key written twice the last value."""
    return _OBJECT.decode(raw)


def members(raw: Raw) -> dict[str, Raw] | list[Raw]:
    return items(raw) if is_array(raw) else fields(raw)


def string(raw: Raw) -> str:
    return _TEXT.decode(raw)


def value(raw: Raw) -> Any:
    """The value in full, digits beyond a double's included."""
    found = parse(bytes(raw))
    return None if found is None else found.value


def values(rows: Sequence[Raw], *, exact: bool) -> list[Any]:
    """The values of some rows; `exact`: with all their digits."""
    data = b"[%b]" % b",".join(rows)
    if not exact:
        try:
            made: list[Any] = orjson.loads(data)
            return made
        except orjson.JSONDecodeError:  # 1e999
            pass
    found = parse_carefully(data)
    return [] if found is None else list(found.value)


def batches(rows: Sequence[Raw], size: int) -> Iterator[Sequence[Raw]]:
    """Rows, of about `size` bytes together, in groups that are parsed at once."""
    step = max(1, min(BATCH_ROWS, BATCH_BYTES * len(rows) // max(1, size)))
    for at in range(0, len(rows), step):
        yield rows[at : at + step]


def written(node: Any) -> bytes:
    """Compact JSON of values, some of which may be `Raw`."""
    return msgspec.json.encode(node)


def size(node: Any) -> int:
    """Bytes of `written(node)`."""
    return len(node) if isinstance(node, Raw) else len(msgspec.json.encode(node))


def bulk_path(raw: Raw) -> tuple[str, ...] | None:
    """Keys that lead to the array holding at least half of the document; None if there is none."""
    least = len(raw) * BULK_SHARE
    keys: list[str] = []
    while is_object(raw) and len(keys) < BULK_DEPTH:
        large = [(len(child), key, child) for key, child in fields(raw).items() if is_container(child)]
        weight, key, raw = max(large, default=(0, "", raw), key=lambda found: found[0])
        if weight < least:
            return None
        keys.append(key)
    return tuple(keys) if is_array(raw) else None


def at_keys(raw: Raw, keys: Sequence[str]) -> Raw:
    """What these keys lead to."""
    for key in keys:
        raw = fields(raw)[key]
    return raw


def placed(raw: Raw, keys: Sequence[str], item: Any) -> Any:
    """The value with `item` at the place that these keys lead to."""
    if not keys:
        return item
    inner: dict[str, Any] = dict(fields(raw))
    inner[keys[0]] = placed(inner[keys[0]], keys[1:], item)
    return inner


def offset_in(document: Raw, raw: Raw) -> int:
    """Where this value is in the document, or another that is written the same."""
    if len(document) == len(raw):
        return 0
    data, head = bytes(document), bytes(memoryview(raw)[:64])
    at, whole = data.find(head), bytes(raw)
    while at >= 0 and not data.startswith(whole, at):
        at = data.find(head, at + 1)
    return at


def spans(data: bytes, at: int, groups: Iterable[Sequence[Raw]]) -> Iterator[tuple[int, int]]:
    """Where the groups lie that follow each other in an array whose content begins at `at`: (start, end)."""
    for group in groups:
        at = after_space(data, at)
        joined = b",".join(group)
        end = at + len(joined)
        if data[at:end] != joined:  # written with white space
            end = at
            for row in group:
                if end > at and (comma := _COMMA.match(data, end)):
                    end = comma.end()
                end += len(row)
        yield at, end
        at = after_space(data, end) + 1


def after_space(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    return found.end() if found else at
