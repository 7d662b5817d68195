"""Descriptions of parameters, where they say more than the names."""

from __future__ import annotations

from collections.abc import Mapping

from gatemini.discovery.search.words import STOP_WORDS, words
from gatemini.discovery.types.identifiers import short_name
from gatemini.discovery.types.schema_reader import follow, parameters
from gatemini.model import Json, Tool
from gatemini.protocol.answers.fitting import size_of
from gatemini.text.shorten import first_sentence

TEXT_CHARS = 120
"""Longest description shown."""
ROOM = 900
"""Bytes of all descriptions in a brief answer; required parameters come first."""
_DULL = frozenset(
    word
    for text in (
        "argument bool boolean contain default defaults field filter give given id identifier include input integer",
        "key list name number object optional option parameter provide required return search set specific specify",
        "string target text type value",
    )
    for word in words(text)
)
"""Words that a description of a parameter may consist of without saying anything."""


def parameter_texts(tool: Tool) -> dict[str, str]:
    """Return name → first sentence, for parameters whose text has words beyond their names and the tool's own text."""
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    known = {*words(tool.name), *words(first_sentence(tool.description)), *_DULL}
    found: dict[str, str] = {}
    used = 0
    for name in parameters(tool.input_schema):
        schema = follow(tool.input_schema, properties.get(name))
        text = schema.get("description") if isinstance(schema, Mapping) else None
        if not isinstance(text, str) or not _says_more(text, known | set(words(name))):
            continue
        row = {short_name(name): first_sentence(text, TEXT_CHARS)}
        used += size_of(row)
        if used > ROOM:
            break
        found |= row
    return found


def _says_more(text: str, known: set[str]) -> bool:
    return any(word not in known and word not in STOP_WORDS for word in words(text))


def with_texts(answer: Json, tool: Tool) -> None:
    """Add the descriptions to a brief answer, where there are any."""
    if texts := parameter_texts(tool):
        answer["parameter_descriptions"] = texts
