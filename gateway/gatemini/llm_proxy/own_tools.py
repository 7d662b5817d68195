"""`tool_search` and `fetch_rows`: calls that the proxy answers itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gatemini.context import Fallback, Request, Session, ToolFilter, fetch_rows
from gatemini.llm_proxy.daemon_link import DaemonLink, SharedStore
from gatemini.llm_proxy.wire.answer import ModelCall
from gatemini.output.json.json_text import dump
from gatemini.text.shorten import shorten

MOST_FETCHES = 20
"""Repeats of one request for `fetch_rows`: 800 rows."""
REASON_CHARS = 200
NOT_RUN = dump({"status": "not run", "note": "call this tool again if it is still needed"})


@dataclass(slots=True)
class OwnTools:
    """Our tools in one request, by the names they have there, and what the model asked of them."""

    request: Request
    session: Session
    filter: ToolFilter | None
    search: str | None
    fetch: str | None
    link: DaemonLink
    fallbacks: list[Fallback] = field(default_factory=list)
    _searches: int = 0
    _fetches: int = 0
    _tried: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        return {name for name in (self.search, self.fetch) if name is not None}

    def may_repeat(self, calls: Sequence[ModelCall]) -> bool:
        """Whether the request may be repeated once more for these calls."""
        if any(call.name == self.search for call in calls) and self.filter is not None:
            return self.filter.may_repeat(self._searches)
        return self._fetches < MOST_FETCHES

    async def answer(self, calls: Sequence[ModelCall]) -> list[str]:
        """The results of all calls of one answer; calls of other tools were not run."""
        searches = [call for call in calls if call.name == self.search]
        self._searches += bool(searches)
        self._fetches += not searches
        wanted = iter(self._find(searches))
        texts = []
        for call in calls:
            if call.name == self.search:
                texts.append(next(wanted))
            elif call.name == self.fetch:
                self._tried.append(f"rows of {_text(call, 'handle') or 'no handle'}")
                texts.append(await self._rows(call))
            else:
                texts.append(NOT_RUN)
        return texts

    async def _rows(self, call: ModelCall) -> str:
        store = self.session.store
        if isinstance(store, SharedStore) and not store.has(_text(call, "handle")):
            kept = await self.link.rows(store.session, call.arguments)
            if kept is not None:
                return kept
        return fetch_rows(store, call.arguments)

    def give_up(self, calls: Sequence[ModelCall]) -> str:
        """What the client reads in the place of calls that are not answered any more."""
        self._find([call for call in calls if call.name == self.search])
        tried = "; ".join(dict.fromkeys(self._tried))
        return f"[gatemini: the model went on to ask for tools or rows and was not given more. Asked for: {tried}]"

    def _find(self, searches: Sequence[ModelCall]) -> list[str]:
        if self.filter is None or not searches:
            return []
        names = [_text(call, "tool_name") for call in searches]
        found = self.filter.add(self.request, self.session, names)
        for each, call in zip(found, searches, strict=True):
            known = each.closest is None
            shown = shorten(each.wanted, REASON_CHARS) or "no name"
            self._tried.append(shown if known else f"{shown} (no such tool, the closest is {each.closest})")
            reason = _text(call, "reason")[:REASON_CHARS]
            self.fallbacks.append(Fallback(each.wanted[:REASON_CHARS], reason, known))
        return [each.text for each in found]


def _text(call: ModelCall, key: str) -> str:
    value: Any = (call.arguments or {}).get(key)
    return value if isinstance(value, str) else ""
