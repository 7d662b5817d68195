"""Rows of a search answer: tools, resources and prompts, each with what is needed to use it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gatemini.discovery.search.index import Hit
from gatemini.discovery.types.identifiers import (
    backend_identifier,
    call_expression,
    short_name,
    variable_name,
)
from gatemini.discovery.types.schema_reader import parameters, required_parameters
from gatemini.discovery.types.typescript import argument_types, is_seen, result_type
from gatemini.model import Json, Offer, Tool
from gatemini.protocol.answers.backend_facts import Facts
from gatemini.registry import Registry
from gatemini.text.escape import js_string, visible
from gatemini.text.shorten import BRIEF_CHARS, first_sentence, shorten

TYPED_ROWS = 3
"""Results that carry the types of arguments and result: the tool that is called is mostly among them."""
SEEN_RETURNS = "returns (seen)"
"""Key of a result type that was learnt from calls."""
TAG_CHARS = 60
TAGS_SHOWN = 20
_TITLE = re.compile(r"\A(?:\s*#[^\n]*\n)+")
"""Markdown titles before the first sentence, as server-everything has."""


def rows_of(registry: Registry, hits: Sequence[Hit], facts: Facts, *, brief: bool) -> list[Json]:
    """Return one row per hit; a full row is a brief one with the whole description and the tags."""
    rows: list[Json] = []
    said: set[str] = set()
    for at, hit in enumerate(hits):
        tool = hit.tool
        row: Json = {"name": short_name(tool.qualified)}
        if isinstance(tool, Offer):
            row |= _offer_row(registry, tool)
        else:
            row |= _tool_row(registry, facts.typed(tool), first=at == 0, typed=at < TYPED_ROWS)
        if tool.namespace is not None:
            row["backend"] = short_name(tool.backend)
        if not brief:
            row["description"] = visible(tool.description, lines=True)
            row["tags"] = [shorten(visible(tag), TAG_CHARS) for tag in tool.tags[:TAGS_SHOWN]]
        if tool.backend not in said and (text := facts.instructions(tool.backend)):
            row["instructions"] = first_sentence(_TITLE.sub("", text) or text)
        said.add(tool.backend)
        rows.append(row)
    return rows


def _tool_row(registry: Registry, tool: Tool, *, first: bool, typed: bool) -> Json:
    row: Json = {"description": first_sentence(tool.description)}
    if typed:
        row |= types_of(tool)
    call = call_of(registry, tool)
    if first or not call.startswith(f"await {tool.qualified}("):
        row["call"] = call
    return row


def types_of(tool: Tool) -> Json:
    """Return the types of arguments and result, as far as they are known and short."""
    found = {
        "args": argument_types(tool),
        SEEN_RETURNS if is_seen(tool) else "returns": result_type(tool),
    }
    return {name: types for name, types in found.items() if types}


def _offer_row(registry: Registry, offer: Offer) -> Json:
    space = offer.namespace or offer.backend
    backend = registry.expressions().get(space) or backend_identifier(space)
    row: Json = {"kind": offer.kind, "description": first_sentence(offer.description)}
    if offer.kind == "resource":
        return row | {
            "uri": visible(offer.uri),
            "call": f"await {backend}.readResource({js_string(offer.uri)})",
        }
    if args := argument_types(offer):
        row["args"] = args
    names = ", ".join(variable_name(name) for name in parameters(offer.input_schema))
    given = f", {{{shorten(names, BRIEF_CHARS)}}}" if names else ""
    return row | {"call": f"await {backend}.getPrompt({js_string(offer.name)}{given})"}


def call_of(registry: Registry, tool: Tool) -> str:
    """Return the call expression of a tool, spelled as in this registry's chains."""
    return call_expression(
        tool.namespace or tool.backend,
        tool.name,
        required_parameters(tool.input_schema),
        expressions=registry.expressions(),
    )
