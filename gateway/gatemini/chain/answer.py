"""Make a chain's value the MCP answer: value block, images, console block, notes block.

Block 1 is the value and nothing else, so that JSON stays parseable; the others come only when there is something to
say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gatemini.chain.values.media import NO_MEDIA, find_media
from gatemini.chain.values.reduce_large import reduce_large
from gatemini.config.variables.redaction import Redactor
from gatemini.model import Json
from gatemini.output.json.javascript_json import dumps
from gatemini.output.options import MAX_CHARS, OutputOptions
from gatemini.output.pipeline import Reduced, reduce_output
from gatemini.output.store.results import ResultStore
from gatemini.processes.workers.compute_process import REDUCED_BYTES
from gatemini.text.console_and_notes import console_block, notes_text
from gatemini.text.shorten import shorten
from gatemini.text.size_limit import SizeLimit, weight

CONSOLE_IN_ANSWER = 4096
"""Characters of console output shown when the chain succeeded: its first and last lines."""

CONSOLE_SHARE = 4
"""Where there is little room, console output has at most this part of it."""

FOOTER_CHARS = 240
"""Kept free of what a client takes, of its characters and bytes, for the footer of a reduced value."""

UNKNOWN_ROOM = SizeLimit(MAX_CHARS)
"""Where nothing is known of who reads the answer."""


NO_SECRETS = Redactor()


@dataclass(slots=True)
class ChainValue:
    """What a chain returned: JSON text, plain text, or nothing at all."""

    text: str
    kind: Literal["string", "json", "undefined"]
    notes: list[str]
    console: Sequence[str] = ()
    console_dropped: int = 0
    beside: Sequence[Json] = ()
    """Where the value is that of one call: what its result has beside it, of which images and sounds are shown."""


async def compose(
    value: ChainValue,
    options: OutputOptions,
    store: ResultStore,
    redactor: Redactor = NO_SECRETS,
    room: SizeLimit = UNKNOWN_ROOM,
) -> tuple[list[Json], Reduced]:
    """The content blocks of a finished chain, and what the reduction did (for the accounting).

    `room` is what the client takes of all text. Of that, and of the size the options allow, the value gets what console
    and notes leave of it; the footer alone comes on top of that size. `redactor` takes secrets out of text before any of it is cut: half a secret is one too.
    """
    limit = room.less(FOOTER_CHARS).within(SizeLimit(options.max_chars))
    media = find_media(value.text, store) if value.kind == "json" else NO_MEDIA
    beside = find_media(dumps(list(value.beside)), store) if value.beside else NO_MEDIA
    said = notes_text([*value.notes, *media.notes, *beside.notes])
    half = limit.part(1, 2)
    said = said if half.holds(said) else shorten(said, half.first(said))
    console = console_block(
        [redactor.redact(line) for line in value.console],
        value.console_dropped,
        limit.part(1, CONSOLE_SHARE).within(SizeLimit(CONSOLE_IN_ANSWER)),
    )
    left = limit.beside(*filter(None, (console, said)))
    options = replace(options, max_chars=left.chars, max_bytes=left.bytes)
    if media.whole_value:
        reduced = Reduced("", bytes_in=weight(redactor.redact(value.text)))
    elif len(value.text) > REDUCED_BYTES:
        reduced = await reduce_large(value.text, options, store, redactor)
    else:
        shown = redactor.redact(value.text)
        whole = None if shown == value.text else value.text
        reduced = reduce_output(shown, options=options, store=store, kept_text=whole)
    content: list[Json] = [] if media.whole_value else [_text(reduced.text)]
    content += [*media.blocks, *beside.blocks]
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
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
