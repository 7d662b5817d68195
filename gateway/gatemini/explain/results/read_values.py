"""The values that code read from, found in the results of its calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from gatemini.explain.error_facts import HintContext
from gatemini.explain.results.result_paths import Uncertain, Walk
from gatemini_sandbox.messages import Source

MOST_BYTES: Final = 256 * 1024
"""Results that are parsed for one chain, together: about a millisecond."""


class ReadValues:
    """The results of one chain's calls, parsed when they are needed."""

    def __init__(self, context: HintContext) -> None:
        self._context = context
        self._parsed: dict[tuple[str, str], list[Any]] = {}
        self._texts: dict[tuple[str, str], Sequence[str]] = {}
        self._declared: dict[tuple[str, str], Mapping[str, Collection[str] | None]] = {}
        self._left = MOST_BYTES

    def values(self, walk: Walk, source: Source) -> Iterator[Any]:
        """The values at a source's path. Raises Uncertain, or Characters of a text that is gone through."""
        for result in self._of(self.name(source)):
            yield from walk.rows(result, source.path)

    def name(self, source: Source) -> tuple[str, str]:
        """Backend and tool. Raises Uncertain."""
        backend = self._context.backends.get(source.backend)
        if backend is None:
            raise Uncertain
        return backend, source.tool

    def _of(self, name: tuple[str, str]) -> list[Any]:
        if name not in self._parsed:
            texts = self._context.results(*name)
            if texts is None:
                raise Uncertain
            self._left -= sum(map(len, texts))
            if self._left < 0:
                raise Uncertain
            self._texts[name] = texts
            self._parsed[name] = [orjson.loads(text.encode("utf-8", "replace")) for text in texts]
        return self._parsed[name]

    def declared(self, source: Source) -> Mapping[str, Collection[str] | None]:
        """The members that the tool's output schema names, each with the texts it can be."""
        name = self.name(source)
        if name not in self._declared:
            self._declared[name] = self._context.declared(*name)
        return self._declared[name]

    def has_no(self, source: Source, member: str) -> bool:
        """Whether the text of no result holds the name: then not each value needs to be looked at."""
        name = self.name(source)
        self._of(name)
        return member.isascii() and not any(member in text for text in self._texts[name])
