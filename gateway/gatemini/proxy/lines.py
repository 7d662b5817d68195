"""Read the few facts of a JSON-RPC line that the proxy needs, without the `json` package, and write short lines."""

TYPE_CHECKING = False  # `typing` itself is not imported
if TYPE_CHECKING:
    from collections.abc import Callable

WHOLE_BYTES = 128 * 1024
"""Longer lines are read at their two ends only."""
EDGE_BYTES = 4096

NEEDS_PARAMS = frozenset(
    {
        *("initialize", "server/discover", "tools/list", "resources/subscribe", "resources/unsubscribe"),
        *("subscriptions/listen", "notifications/cancelled", "notifications/subscriptions/acknowledged"),
    }
)
"""Methods of whose parameters the proxy reads something."""

Message = dict[str, object]


class _Rules:
    strict = False
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012 - what the scanner expects to find


try:
    import _json

    _scan: "Callable[[str, int], tuple[object, int]]" = _json.make_scanner(_Rules)  # type: ignore[arg-type]
    _ascii, _none = _json.encode_basestring_ascii, None
    _chunks = _json.make_encoder(_none, _none, _ascii, _none, ":", ",", False, False, True)  # type: ignore[arg-type]
except ImportError:  # an interpreter without the C parts
    import json

    _scan = json.JSONDecoder().raw_decode

    def _chunks(value: object, _: int) -> "list[str]":  # type: ignore[misc]
        return [json.dumps(value, separators=(",", ":"))]


# SystemError is what the scanner raises for a cut text while `json.decoder` is not imported.
_FAULTS = (StopIteration, ValueError, IndexError, RecursionError, TypeError, SystemError)


def written(value: object) -> bytes:
    """A JSON value as one line, without its end."""
    return "".join(_chunks(value, 0)).encode()


def read(line: bytes | bytearray) -> object:
    """The whole value of a line, None where it is no JSON."""
    text = line.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    try:
        return _scan(text, 0)[0]
    except _FAULTS:
        return None


def as_key(value: object) -> object:
    """An id or URI as the key of a dictionary; None for a value of another kind, which may not be hashable."""
    return value if isinstance(value, str | int | float) else None


def look(line: bytes | bytearray) -> list[Message]:
    """The messages of a line: `id`, `method`, and `params` for NEEDS_PARAMS; several in an array of messages."""
    if not line:
        return []
    if len(line) > WHOLE_BYTES:
        found = _outline(line[:EDGE_BYTES].decode("utf-8", "replace"))
        return [found if "id" in found else {**found, **_end(line[-EDGE_BYTES:].decode("utf-8", "replace"))}]
    text = line.decode("utf-8", "replace")
    if text.lstrip("\ufeff \t\r").startswith("["):
        several = read(line)
        return [m for m in several if isinstance(m, dict)] if isinstance(several, list) else []
    found = _outline(text)
    if found.get("method") in NEEDS_PARAMS:
        whole = read(line)
        return [whole] if isinstance(whole, dict) else [found]
    return [found]


def _outline(text: str) -> Message:
    """The keys of an object up to the one whose value need not be read; those before the fault of a cut text."""
    found: Message = {}
    try:
        at = text.index("{") + 1
        while True:
            key, at = _scan(text, _skip(text, at))
            at = _skip(text, at)
            if text[at] != ":" or not isinstance(key, str):
                break
            if "id" in found and (key in ("result", "error") or (key == "params" and "method" in found)):
                break
            found[key], at = _scan(text, _skip(text, at + 1))
            at = _skip(text, at)
            if text[at] != ",":
                break
            at += 1
    except _FAULTS:
        pass
    return found


def _end(text: str) -> Message:
    """The last keys of a long object, from `"id"` on: `…,"id":7}`."""
    at = text.rfind('"id"')
    try:
        value, end = _scan("{" + text[at:], 0)
        rest = text[at + end - 1 :].strip()
        return value if at >= 0 and not rest and isinstance(value, dict) else {}
    except _FAULTS:
        return {}


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


class LineEnds:
    """A line that arrives in parts: whole while it is short, else its two ends."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def add(self, part: bytes | bytearray) -> None:
        self._kept += part
        if len(self._kept) > 2 * WHOLE_BYTES:
            del self._kept[WHOLE_BYTES:-EDGE_BYTES]

    def end(self) -> tuple[list[Message], bytes]:
        """The messages of the complete line and its bytes (where it is short); the next line begins."""
        line = bytes(self._kept)
        self._kept.clear()
        return look(line), line

    def __bool__(self) -> bool:
        return bool(self._kept)
