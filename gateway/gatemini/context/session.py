"""What one conversation keeps between its requests: handles, the tools it has been sent, its last prefix."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gatemini.context.request.formats import Request
from gatemini.context.request.json_places import Json
from gatemini.context.stores import SessionStore, Store
from gatemini.output.store.results import IDLE_SECONDS
from gatemini.text.utf8 import encode

MOST_SESSIONS = 1_000
"""The one idle for the longest goes first."""


@dataclass(slots=True)
class Session:
    """One conversation. `sent` are the tools of its last request in order, `added` those that `tool_search` added."""

    store: Store = field(default_factory=SessionStore)
    sent: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    prefix: bytes | None = None
    used: float = 0.0


class Sessions:
    """Sessions by key; one that is idle for an hour is forgotten, with what `tool_search` added.

    `store` makes the store of a new session from its key.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        store: Callable[[str], Store] = lambda key: SessionStore(),
    ) -> None:
        self._clock = clock
        self._store = store
        self._held: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: str) -> Session:
        """The session of this key; a new one where there is none."""
        now = self._clock()
        while self._held:
            oldest = next(iter(self._held))
            fresh = now - self._held[oldest].used < IDLE_SECONDS
            if fresh and (len(self._held) < MOST_SESSIONS or oldest == key):
                break
            del self._held[oldest]
        session = self._held.pop(key, None) or Session(self._store(key))
        session.used = now
        self._held[key] = session
        return session


def session_key(request: Request, header: str | None = None) -> str:
    """The key of a request's session: the header `x-gatemini-session`, else the hash of system text and first user message."""
    if header:
        return f"header:{header}"
    digest = hashlib.blake2b(digest_size=16)
    for text in _texts(request.system):
        digest.update(encode(text))
    for message in request.messages:
        digest.update(b"\0")
        for text in _texts(message.place.get("content", "parts")):
            digest.update(encode(text))
        if message.role == "user":
            break
    return f"hash:{digest.hexdigest()}"


def _texts(content: Json | None) -> Iterator[str]:
    """Texts of a content without what is beside them (clients move cache markers), and the JSON of parts without a text."""
    if content is None or content.is_string:
        yield content.string() if content is not None else ""
        return
    parts = content.get("parts") if content.is_object else content
    for part in parts.objects() if parts is not None else ():
        text = part.text_of("text")
        yield part.string() if text is None else text
