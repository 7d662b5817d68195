"""Images and sounds in a chain's value: the blocks that show them, and what is said of those not shown.

Code has only descriptors of them, which it may have written itself: what is shown is what the store knows.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gatemini.chain.values.binary import PICTURES
from gatemini.errors import ResultGone
from gatemini.model import Json
from gatemini.output.store.results import ResultStore
from gatemini.processes.workers.compute_process import LARGE_BYTES

MEDIA_BYTES_IN_ANSWER = 2 * 1024 * 1024
"""Bytes of image and audio data passed on in one answer; more stays behind its handle."""

MEDIA_IN_ANSWER = 64
"""Images and sounds of one answer that are passed on at the most."""

REFS_NAMED = 5
"""Of those not shown, in the note."""

HANDLE = re.compile(r"res_[0-9a-f]{8}")
"""Other people's `ref`s are other people's data."""

MARKED = '"ref":"res_'
MARKER = re.compile(r'"ref":"res_[0-9a-f]{8}"')
"""What the text of a value that holds a descriptor contains: a cheap test before parsing all of it."""


@dataclass(frozen=True, slots=True)
class Media:
    """MCP blocks, notes, and whether the value is nothing but the one that is shown."""

    blocks: Sequence[Json] = ()
    notes: Sequence[str] = ()
    whole_value: bool = False


NO_MEDIA = Media()


def find_media(text: str, store: ResultStore) -> Media:
    """What a value (its JSON) holds of images and sounds: each once, however often the value names it."""
    if len(text) > LARGE_BYTES and not store.has_blobs:
        return NO_MEDIA  # searching 40 MB takes 12 ms
    if MARKED not in text or not MARKER.search(text):
        return NO_MEDIA
    try:
        parsed = orjson.loads(text) if len(text) <= LARGE_BYTES else _flat_descriptors(text)
    except orjson.JSONDecodeError:  # nested deeper than is parsed
        return NO_MEDIA
    shown = _descriptors(parsed)
    blocks: list[Json] = []
    notes: list[str] = []
    unkept: list[str] = []
    unshown: list[str] = []
    left = MEDIA_BYTES_IN_ANSWER
    for ref, item in shown.items():
        # The descriptor went through the code: what it says of itself proves nothing.
        size, mime = store.blob_facts(ref) or (0, "")
        as_told = bool(mime) and item.get("mimeType") == mime  # a backend may have called it anything
        kind = item["type"]
        if kind == "resource":
            if mime not in PICTURES.values():
                continue  # what a client makes of other data is not known: it stays behind its handle
            kind = "image"
        if not mime.lower().startswith(f"{kind}/") and not as_told:
            unkept.append(ref)
        elif size > left or len(blocks) == MEDIA_IN_ANSWER:
            unshown.append(f"{ref} ({kind}, {size:,} bytes)")
        else:
            try:
                data = store.blob(ref)[0]
            except ResultGone as exc:
                notes.append(exc.message)
                continue
            left -= size
            blocks.append({"type": kind, "data": data, "mimeType": mime})
    if unkept:
        notes.append(
            f"no image or sound is kept under this ref in this session: {_named(unkept)}; call the tool again"
        )
    if unshown:
        notes.append(f"not shown, over the limit of an answer: {_named(unshown)}")
    return Media(blocks, notes, bool(blocks) and _is_descriptor(parsed))


def _named(refs: Sequence[str]) -> str:
    more = f" and {len(refs) - REFS_NAMED} more" if len(refs) > REFS_NAMED else ""
    return ", ".join(refs[:REFS_NAMED]) + more


def _flat_descriptors(text: str) -> list[Any]:
    """The descriptors in a large value: what looks like one is parsed, and not the whole."""
    found: list[Any] = []
    for marker in MARKER.finditer(text):
        start, end = text.rfind("{", 0, marker.start()), text.find("}", marker.end())
        with contextlib.suppress(orjson.JSONDecodeError):
            found.append(orjson.loads(text[start : end + 1]))
    return found


def _descriptors(value: Any) -> dict[str, Json]:
    """Ref → descriptor, in the order of the value."""
    found: dict[str, Json] = {}
    stack = [value]
    while stack:
        current = stack.pop()
        if _is_descriptor(current):
            found.setdefault(current["ref"], current)
        elif isinstance(current, dict):
            stack.extend(reversed(list(current.values())))
        elif isinstance(current, list):
            stack.extend(reversed(current))
    return found


def _is_descriptor(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("type") not in ("image", "audio", "resource"):
        return False
    ref = value.get("ref")
    return isinstance(ref, str) and HANDLE.fullmatch(ref) is not None
