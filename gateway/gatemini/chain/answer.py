"""From a chain's value to the MCP answer: value block, images, console block, notes block.

Block 1 is the value and nothing else, so that JSON stays parseable; the rest only when there is something
to say. Pure but for the result store. Above: run.py. Below: output/pipeline.py, output/results.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio
import orjson

from gatemini.errors import ResultGone
from gatemini.model import Json
from gatemini.output.pipeline import MAX_CHARS, OutputOptions, Reduced, reduce_output
from gatemini.output.results import ResultStore
from gatemini.types.wording import shorten

CONSOLE_IN_ANSWER = 4096
"""Characters of console output shown when the chain succeeded: its first and last lines."""

CONSOLE_SHARE = 4
"""Where the client takes little, console output has at most this part of it."""

FOOTER_CHARS = 240
"""Kept free of what a client takes for the footer of a reduced value and the ends of blocks."""

IMAGE_BYTES_IN_ANSWER = 2 * 1024 * 1024
"""Bytes of image and audio data passed on in one answer; more stays behind its handle."""

IMAGES_LOOKED_FOR = 64
"""How many image values of one answer are passed on at the most."""

ON_THE_LOOP = 256 * 1024
"""Characters up to which an answer is reduced on the event loop; larger ones in a worker thread."""

HANDLE = re.compile(r"res_[0-9a-f]{8}")
"""Other people's `ref`s are other people's data."""

MARKER = re.compile(r'"ref":"res_[0-9a-f]{8}"')
"""What the text of a value that holds an image descriptor contains: a cheap test before parsing all of it."""


@dataclass(slots=True)
class ChainValue:
    """What a chain returned: JSON text, plain text, or nothing at all."""

    text: str
    kind: Literal["string", "json", "undefined"]
    notes: list[str]
    console: Sequence[str] = ()
    console_dropped: int = 0


async def compose(
    value: ChainValue,
    options: OutputOptions,
    store: ResultStore,
    redact: Callable[[str], str] = str,
    room: int = MAX_CHARS,
) -> tuple[list[Json], Reduced]:
    """The content blocks of a finished chain, and what the reduction did (for the accounting).

    `room` is what the client takes in characters of all text: the value gets what console and notes leave of it. `redact`
    takes secrets out of text before any of it is cut: half a secret is one too.
    """
    if len(value.text) <= ON_THE_LOOP:
        return _composed(value, options, store, redact, room)
    return await anyio.to_thread.run_sync(_composed, value, options, store, redact, room)


def _composed(
    value: ChainValue, options: OutputOptions, store: ResultStore, redact: Callable[[str], str], room: int
) -> tuple[list[Json], Reduced]:
    notes = list(value.notes)
    media, only_media = _media_blocks(value, store, notes)
    console = ""
    if value.console or value.console_dropped:
        lines = [redact(line) for line in value.console]
        console = console_block(lines, value.console_dropped, min(CONSOLE_IN_ANSWER, room // CONSOLE_SHARE))
    said = shorten("\n".join(notes), room // 2)
    left = room - len(console) - len(said) - FOOTER_CHARS
    options = replace(options, max_chars=max(1, min(options.max_chars, left)))
    shown = redact(value.text)
    reduced = reduce_output(
        shown,
        is_json=value.kind != "string",
        options=options,
        store=store,
        kept=None if shown == value.text else value.text,
    )
    content: list[Json] = [] if only_media else [_text(reduced.text)]
    content += media
    if console:
        content.append(_text(console))
    trailer = [line for line in (said, *reduced.notes, reduced.footer) if line]
    if trailer:
        content.append(_text("\n".join(trailer)))
    return content, reduced


def _text(text: str) -> Json:
    return {"type": "text", "text": well_formed(text)}


def well_formed(text: str) -> str:
    """The same text with lone surrogates replaced: no client could decode them."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8") if _has_surrogate(text) else text


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def console_block(lines: Sequence[str], dropped: int, budget: int) -> str:
    """`[console]` and the first and last lines that fit `budget` characters."""
    tail = [f"[{dropped} more lines dropped]"] if dropped else []
    if sum(len(line) + 1 for line in lines) <= budget:
        return "\n".join(["[console]", *lines, *tail])
    head: list[str] = []
    end: list[str] = []
    left = budget
    front, back = 0, len(lines)
    while front < back:
        from_front = len(head) <= len(end)
        line = lines[front] if from_front else lines[back - 1]
        if len(line) + 1 > left:
            break
        left -= len(line) + 1
        if from_front:
            head.append(line)
            front += 1
        else:
            end.insert(0, line)
            back -= 1
    if not head and lines:
        head, front = [lines[0][: max(0, left - 1)] + "…"], 1
    return "\n".join(["[console]", *head, f"[… {back - front} lines left out …]", *end, *tail])


def _media_blocks(value: ChainValue, store: ResultStore, notes: list[str]) -> tuple[list[Json], bool]:
    """Image and audio values of the answer as MCP blocks; True when the value is nothing but one of them."""
    if value.kind != "json" or not MARKER.search(value.text):
        return [], False
    try:
        parsed = orjson.loads(value.text)
    except orjson.JSONDecodeError:  # nested beyond what is parsed: then nobody looks for images in it
        return [], False
    found: list[Json] = []
    _collect_media(parsed, found)
    blocks: list[Json] = []
    left = IMAGE_BYTES_IN_ANSWER
    for item in found:
        ref = item["ref"]
        # The descriptor went through the code: what it says of itself proves nothing.
        size, mime = store.blob_facts(ref) or (0, "")
        as_told = bool(mime) and item.get("mimeType") == mime  # a backend may have called it anything
        if not mime.lower().startswith(f"{item['type']}/") and not as_told:
            notes.append(
                f"{ref}: no {item['type']} is kept under this ref in this session; call the tool again"
            )
            continue
        if size > left:
            notes.append(f"{item['type']} of {size:,} bytes not shown (over the limit of an answer): {ref}")
            continue
        try:
            data = store.base64(ref)
        except ResultGone as exc:
            notes.append(exc.message)
            continue
        left -= size
        blocks.append({"type": item["type"], "data": data, "mimeType": mime})
    return blocks, bool(blocks) and parsed is (found[0] if found else None)


def _collect_media(value: Any, found: list[Json]) -> None:
    stack = [value]
    while stack and len(found) < IMAGES_LOOKED_FOR:
        current = stack.pop()
        if isinstance(current, dict):
            ref = current.get("ref")
            if current.get("type") in ("image", "audio") and isinstance(ref, str) and HANDLE.fullmatch(ref):
                found.append(current)
            else:
                stack.extend(reversed(list(current.values())))
        elif isinstance(current, list):
            stack.extend(reversed(current))
