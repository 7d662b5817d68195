"""Note what results say and code does not read: that there are more pages, or that a call failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from gatemini.discovery.types.identifiers import spoken
from gatemini.explain.error_facts import SEARCHED, HintContext
from gatemini.explain.results.call_values import quoted
from gatemini.explain.results.read_values import ReadValues
from gatemini.explain.results.result_paths import Uncertain, Walk
from gatemini.text.escape import one_line
from gatemini.text.shorten import shorten
from gatemini_sandbox.messages import Read, Source

SHOWN: Final = 60

_NEXT = re.compile(
    r"next_?(?:page_?)?(?:cursor|token|offset|page|link|url)|has_?(?:more|next)(?:_?page)?", re.I
)
_LIMITED = re.compile(r"(?<![\w$])(?:limit|per_?page|page_?size|top_?k|max\w*|first|count)\s*[:,}]", re.I)
"""An argument by which code wants only some."""
_ERROR = re.compile(r"(?:\w+ )?error\b(?: \d+)?:", re.I)


def left_out(reads: Sequence[Read], context: HintContext, value: str) -> list[str]:
    """Return notes on the last result of each tool, if the returned value lacks what it says."""
    results = ReadValues(context)
    code = context.program.source[:SEARCHED]
    notes: list[str] = []
    for backend, tool in dict.fromkeys((s.backend, s.tool) for read in reads for s in read.sources):
        whole = Source(backend, tool, [])
        try:
            found = list(results.values(Walk(), whole))
            name = spoken(".".join(results.name(whole)))
        except Uncertain:
            continue
        notes += _of(found[-1], name, code, value) if found else ()
    return notes


def _of(result: Any, name: str, code: str, value: str) -> Iterator[str]:
    if isinstance(result, str) and _ERROR.match(result) and result[:SHOWN] not in value:
        yield f"{name} answered with text that tells of an error: {quoted(one_line(result), SHOWN)}"
    if not isinstance(result, dict) or _LIMITED.search(code):
        return
    for key, more in result.items():
        if more and _NEXT.fullmatch(key) and key not in code and f'"{key}"' not in value:
            yield f"there is more: {key} in the result of {name} is {_short(more)}, and the code does not read it"
            return


def _short(value: Any) -> str:
    return shorten(one_line(orjson.dumps(value).decode()), SHOWN)
