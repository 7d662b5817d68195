"""Mark the stable prefix of a request for the provider's prompt cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from gatemini.config.model.context import CacheConfig
from gatemini.context.options import Given, Outcome, opened, outcome, read_options
from gatemini.context.request.formats import Request
from gatemini.context.request.json_places import Edit, Json, spliced
from gatemini.context.request.messages import Format
from gatemini.context.session import Session

MOST_MARKERS = 4
"""Anthropic refuses a request with more."""
KEY = "cache_control"
_MEMBER = b'"cache_control":{"type":"ephemeral"}'


def mark_cache(
    request: Given | Request,
    options: Mapping[str, Any] | CacheConfig | None = None,
    *,
    format: Format | None = None,
    session: Session | None = None,
) -> Outcome:
    """Put `cache_control` on the last system block and the last tool of a request to Anthropic; others stay as they are.

    The caller's own markers stay, and there are never more than four. The report has the bytes of the stable prefix
    (tools and system text) and, in a session, whether it equals the last request's.
    """
    settings = read_options(CacheConfig, options)
    opened_request = opened(request, format)
    if not settings.enabled:
        return outcome(request, opened_request, opened_request.data, {"enabled": False})
    edits = _edits(opened_request) if opened_request.format == "anthropic" else []
    prefix = b"".join(part.written for part in _prefix(opened_request))
    report: dict[str, Any] = {"markers_added": len(edits), "stable_prefix_bytes": len(prefix)}
    if session is not None:
        digest = hashlib.blake2b(prefix, digest_size=16).digest()
        report["same_prefix_as_last"] = None if session.prefix is None else session.prefix == digest
        session.prefix = digest
    return outcome(request, opened_request, spliced(opened_request.data, edits), report)


def _edits(request: Request) -> list[Edit]:
    free = MOST_MARKERS - sum(1 for _ in _marked(request))
    edits: list[Edit] = []
    if free > len(edits) and (edit := _system_edit(request.root.get("system"))) is not None:
        edits.append(edit)
    tools = request.tools
    if free > len(edits) and tools and tools[-1].place.get(KEY) is None:
        edits.append(tools[-1].place.with_member(_MEMBER))
    return edits


def _system_edit(system: Json | None) -> Edit | None:
    if system is None:
        return None
    if system.is_string:
        # Anthropic refuses a marker on an empty text.
        block = b'[{"type":"text","text":%b,%b}]' % (system.written, _MEMBER)
        return system.replaced(block) if system.string() else None
    blocks = system.objects()
    if not blocks or blocks[-1].get(KEY) is not None or blocks[-1].text_of("text") == "":
        return None
    return blocks[-1].with_member(_MEMBER)


def _marked(request: Request) -> Iterator[Json]:
    """The markers of the caller."""
    if b"cache_" not in request.data and b"\\u" not in request.data:
        return
    root = request.root
    groups = [root.get("tools"), root.get("system"), *(m.place.get("content") for m in request.messages)]
    holders = [root]
    for group in groups:
        for block in group.objects() if group is not None else ():
            holders.append(block)
            inner = block.get("content")
            holders += inner.objects() if inner is not None else ()
    for holder in holders:
        found = holder.get(KEY)
        if found is not None and found.kind != "null":
            yield found


def _prefix(request: Request) -> Iterator[Json]:
    """What providers cache first: tools, then system text, then system messages at the beginning."""
    tools, system = request.root.get("tools"), request.system
    yield from (part for part in (tools, system) if part is not None)
    for message in request.messages:
        if message.role != "system":
            return
        yield message.place
