"""Command templates: `{{param}}` fills one argument or part of one, and can never become anything else.

Pure. A string template is split once by shell rules before anything is filled in, so no value adds an
argument; a value that would begin an argument with `-` is refused; with `shell: true` values travel as
positional parameters of the shell, which expands but never interprets them. Above: `cli_adapter.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from gatemini.backends.wire import encode
from gatemini.config.schema import CliTool

SHELL = "/bin/sh"
_PLACE = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")


class TemplateError(Exception):
    """The arguments do not fit the template; the text is for the caller."""


def words_of(tool: CliTool) -> list[str]:
    """The template's words; raises `TemplateError` where the program itself would be a parameter."""
    if tool.shell:
        return [SHELL]
    try:
        # `{{ name }}` is one place, not three words.
        whole = _PLACE.sub(r"{{\1}}", tool.command) if isinstance(tool.command, str) else ""
        words = shlex.split(whole) if isinstance(tool.command, str) else list(tool.command)
    except ValueError as error:
        raise TemplateError(f"command cannot be split into words: {error}") from error
    if not words or _PLACE.search(words[0]):
        raise TemplateError("the program of a command cannot be a parameter")
    return words


def command_line(tool: CliTool, arguments: Mapping[str, Any]) -> list[str]:
    """The argument vector for these arguments."""
    values = _values(tool, arguments)
    if tool.shell:
        return _shell_line(str(tool.command), values)
    line: list[str] = []
    for word in words_of(tool):
        filled = _fill(word, values)
        place = _PLACE.match(word)
        if place is not None and filled.startswith("-") and not tool.allow_leading_dash:
            raise TemplateError(
                f"{place[1]} may not begin with '-': it would be read as an option (allow_leading_dash permits it)"
            )
        line.append(filled)
    return line


def stdin_text(tool: CliTool, arguments: Mapping[str, Any]) -> bytes | None:
    """What the process reads, or None for nothing."""
    if tool.stdin is None:
        return None
    return _fill(tool.stdin, _values(tool, arguments)).encode("utf-8", "replace")


def _values(tool: CliTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments over the schema's defaults; null counts as not given."""
    properties = tool.input_schema.get("properties")
    defaults = {
        name: schema["default"]
        for name, schema in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(schema, dict) and "default" in schema
    }
    return defaults | {name: value for name, value in arguments.items() if value is not None}


def _fill(template: str, values: Mapping[str, Any]) -> str:
    return _PLACE.sub(lambda match: _text(match[1], values), template)


def _text(name: str, values: Mapping[str, Any]) -> str:
    if name not in values:
        raise TemplateError(f"{name} is not given and its schema has no default")
    value = values[name]
    text = value if isinstance(value, str) else encode(value).decode()
    text = text.encode("utf-8", "replace").decode()  # half surrogate pairs have no bytes
    if "\x00" in text:
        raise TemplateError(f"{name} holds a NUL character, which no command line can carry")
    return text


def _shell_line(script: str, values: Mapping[str, Any]) -> list[str]:
    """`sh -c script sh value…`: each place becomes a reference to its own positional parameter."""
    given: list[str] = []
    parts: list[str] = []
    end = 0
    for match in _PLACE.finditer(script):
        parts.append(script[end : match.start()])
        given.append(_text(match[1], values))
        reference = f"${{{len(given)}}}"
        quote = _open_quote("".join(parts))
        parts.append({'"': reference, "'": f"'\"{reference}\"'"}.get(quote, f'"{reference}"'))
        end = match.end()
    parts.append(script[end:])
    return [SHELL, "-c", "".join(parts), "sh", *given]


def _open_quote(script: str) -> str:
    """The quote that is open at the end of a piece of shell text, or the empty string."""
    quote, position = "", 0
    while position < len(script):
        character = script[position]
        if character == "\\" and quote != "'":
            position += 1
        elif character == quote:
            quote = ""
        elif character in "'\"" and not quote:
            quote = character
        position += 1
    return quote
