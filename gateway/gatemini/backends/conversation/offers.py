"""List what a backend has beside tools: resources, resource templates and prompts.

Read leniently and best-effort: an entry without a name or address is left out, and a list that fails is empty.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from gatemini.backends.conversation.handshake import as_object, as_string
from gatemini.backends.conversation.peer import Reply
from gatemini.config.model.schema import BackendConfig
from gatemini.errors import BackendError
from gatemini.model import Json, Offer
from gatemini.text.hidden import note_of, without_comments

MAX_PAGES = 20
MAX_OFFERS = 2_000
"""Entries kept of each list; more would be a file system, which search is not for."""

logger = logging.getLogger(__name__)

Ask = Callable[[str, Json], Awaitable[Reply]]

_LISTS = (
    ("resources", "resources/list", "resources"),
    ("resources", "resources/templates/list", "resourceTemplates"),
    ("prompts", "prompts/list", "prompts"),
)
"""Capability that has to be declared, method, and key of the answer."""


def declares_offers(capabilities: Json) -> bool:
    """Return whether a server declares resources or prompts."""
    return any(capability in capabilities for capability, _, _ in _LISTS)


async def list_offers(ask: Ask, config: BackendConfig, capabilities: Json) -> list[Offer]:
    """Return the resources, templates and prompts that a backend declares to have."""
    found: list[Offer] = []
    for capability, method, key in _LISTS:
        if capability in capabilities:
            try:
                found += [offer async for offer in _entries(ask, config, method, key)]
            except BackendError as error:
                logger.debug("%s: %s failed: %s", config.name, method, error.message)
    return _distinct(found)


async def _entries(ask: Ask, config: BackendConfig, method: str, key: str) -> AsyncIterator[Offer]:
    cursor: Any = None
    asked: list[Any] = []
    pages: list[Any] = []
    count = 0
    while len(asked) < MAX_PAGES and cursor not in asked:
        try:
            page = as_object((await ask(method, {} if not asked else {"cursor": cursor})).result)
        except BackendError:
            if not asked:
                raise
            return  # what was listed before stays
        if cursor == "" and page.get(key) in pages:
            return  # this server writes "" for the end and takes it for the beginning
        pages.append(page.get(key))
        for offer in _offers(config, key, page.get(key)):
            yield offer
            count += 1
            if count == MAX_OFFERS:
                return
        asked.append(cursor)
        cursor = None if page.get("nextCursor") is False else page.get("nextCursor")


def _offers(config: BackendConfig, key: str, entries: Any) -> Iterator[Offer]:
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        uri = _text(entry, "uriTemplate" if key == "resourceTemplates" else "uri")
        name = _text(entry, "name") or uri
        if not name or (key != "prompts" and not uri):
            continue
        description = _text(entry, "description") or _text(entry, "title")
        hides = note_of("its description", description)
        yield Offer(
            config.name,
            name,
            description=without_comments(description),
            input_schema=_arguments(entry.get("arguments")),
            tags=tuple(config.tags),
            namespace=config.namespace,
            title=_text(entry, "title") or None,
            kind="prompt" if key == "prompts" else "resource",
            uri="" if key == "prompts" else uri,
            repairs=() if hides is None else (hides,),
        )


def _arguments(listed: Any) -> Json:
    """Return the arguments of a prompt, which are texts, as an object schema."""
    named = (
        [a for a in listed if isinstance(a, dict) and _text(a, "name")] if isinstance(listed, list) else []
    )
    return {
        "type": "object",
        "properties": {a["name"]: {"type": "string", "description": _text(a, "description")} for a in named},
        "required": [a["name"] for a in named if a.get("required") is True],
    }


def _text(entry: Json, key: str) -> str:
    return as_string(entry.get(key)) or ""


def _distinct(offers: list[Offer]) -> list[Offer]:
    """Return offers with different names: of several with one name, the later resources are named by address.

    Prompts keep theirs, by which they are got.
    """
    taken: dict[str, Offer] = {}
    different = {(offer.kind, offer.uri, offer.name): offer for offer in offers}.values()
    for offer in sorted(different, key=lambda offer: offer.kind != "prompt"):
        name = offer.uri if offer.name in taken and offer.uri else offer.name
        taken.setdefault(name, offer.renamed(name))
    return sorted(taken.values(), key=lambda offer: offer.kind == "prompt")
