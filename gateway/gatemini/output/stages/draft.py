"""The answer while the stages of a reduction change it."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from gatemini.output.collapsed_arrays import Node, Opened, Rows
from gatemini.output.json import lazy_json
from gatemini.output.store.row_index import Found
from gatemini.text.size_limit import SizeLimit
from gatemini.text.utf8 import encode

HANDLE = "res_00000000"
"""A placeholder, as long as every handle, for comparing lengths."""
LOAD = f'await results.load("{HANDLE}")'
"""How a note names the whole; the handle is put in once there is one."""
BRIEF_BELOW = 300
"""A budget below this many characters or bytes gets one line about the document: it holds only a dozen words of a cut text."""


class Draft:
    """The answer that the stages change. `lossy`: a stage left something out."""

    def __init__(self, text: str, size_in_bytes: int) -> None:
        self.text = text
        self.bytes = size_in_bytes
        self.raw: Raw | None = None
        """The document after the last stage, as compact JSON; None for plain text."""
        self.node: Node | None = None
        """`raw` with its arrays described."""
        self.faithful = False
        """Whether `raw` holds all of the original text's data."""
        self.notes: list[str] = []
        self.remarks: list[str] = []
        """Notes that hold for the whole input too."""
        self.lossy = False

    def write(self, text: str, *, lossy: bool) -> None:
        self.text = text
        self.bytes = len(encode(text))
        self.lossy = self.lossy or lossy

    def write_json(self, data: bytes, *, lossy: bool) -> None:
        self.raw = Raw(data)
        self.write(data.decode(), lossy=lossy)

    def fits(self, room: SizeLimit) -> bool:
        """Whether the text and the notes so far fit into `room` together."""
        return room.holds(self.text, *self.notes)

    def known(self, keys: tuple[str, ...]) -> Found | None:
        """Return the array at these keys, if it was described."""
        node: Any = self.node
        for key in keys:
            inner = node.inner if isinstance(node, Opened) else None
            node = inner.get(key) if isinstance(inner, dict) else None
        if isinstance(node, Rows):
            return node.raw, node.items, node.summary
        if isinstance(node, Opened) and node.summary is not None:
            items = node.inner if isinstance(node.inner, list) else []
            if set(map(type, items)) != {Raw}:
                items = lazy_json.items(node.raw)
            return node.raw, items, node.summary
        return None
