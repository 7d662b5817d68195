"""Command templates: `{{param}}` fills one argument or part of one, and can never become anything else.

A string template is split once by shell rules before values are filled in, so no value adds an argument. A value that
would begin an argument with `-` is refused. With `shell: true` values are positional parameters of the shell, which
never interprets them. Pure functions.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from gatemini.config.model.backend import CliTool

SHELL = "/bin/sh"
_BLANK = (" ", "\t", "\n")
_OPERATOR = ("(", ";", "|", "&", "`")
_PLACE = re.compile(r"\{\{\s*([^{}\s]+)\s*\}\}")


class TemplateError(Exception):
    """The arguments do not fit the template; the text is for the caller."""


def words_of(tool: CliTool) -> list[str]:
    """The template's words; raises `TemplateError` where the program itself would be a parameter."""
    if tool.shell:
        return [SHELL]
    try:
        # Without its blanks `{{ name }}` stays one word.
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
        return _shell_line(tool, values)
    line: list[str] = []
    for word in words_of(tool):
        filled = _fill(word, values)
        place = _PLACE.match(word)
        if place is not None and filled.startswith("-") and not tool.allow_leading_dash:
            raise _leading_dash(place[1])
        line.append(filled)
    return line


def places(tool: CliTool) -> list[str]:
    """The parameter names of a template, in order; raises `TemplateError` if it can never be filled."""
    words = words_of(tool)
    texts = [str(tool.command)] if tool.shell else words
    if tool.shell:
        for match in _PLACE.finditer(texts[0]):
            _around(texts[0][: match.start()])
    return [match[1] for text in (*texts, tool.stdin or "") for match in _PLACE.finditer(text)]


def stdin_text(tool: CliTool, arguments: Mapping[str, Any]) -> bytes | None:
    """The input of the process, None without any."""
    if tool.stdin is None:
        return None
    return _fill(tool.stdin, _values(tool, arguments)).encode("utf-8", "replace")


def _values(tool: CliTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the schema's defaults for missing and null ones."""
    properties = tool.input_schema.get("properties")
    defaults = {
        name: schema["default"]
        for name, schema in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(schema, dict) and "default" in schema
    }
    return defaults | {name: value for name, value in arguments.items() if value is not None}


def _fill(template: str, values: Mapping[str, Any]) -> str:
    return _PLACE.sub(lambda match: _text(match[1], values), template)


def _leading_dash(name: str) -> TemplateError:
    return TemplateError(
        f"{name} may not begin with '-': it would be read as an option (allow_leading_dash permits it)"
    )


def _text(name: str, values: Mapping[str, Any]) -> str:
    if name not in values:
        raise TemplateError(f"{name} is not given and its schema has no default")
    value = values[name]
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    text = text.encode("utf-8", "replace").decode()  # half surrogate pairs have no bytes
    if "\x00" in text:
        raise TemplateError(f"{name} holds a NUL character, which no command line can carry")
    return text


def _shell_line(tool: CliTool, values: Mapping[str, Any]) -> list[str]:
    """`sh -c script sh value…`: each parameter becomes a reference to a positional parameter of the shell."""
    script = str(tool.command)
    given: list[str] = []
    parts: list[str] = []
    end, empty_start = 0, False
    for match in _PLACE.finditer(script):
        quote, starts = _around(script[: match.start()])
        if empty_start and not script[end : match.start()].strip("'\""):
            starts = True
        value = _text(match[1], values)
        if starts and value.startswith("-") and not tool.allow_leading_dash:
            raise _leading_dash(match[1])
        given.append(value)
        reference = f"${{{len(given)}}}"
        parts.append(script[end : match.start()])
        parts.append({'"': reference, "'": f"'\"{reference}\"'"}.get(quote, f'"{reference}"'))
        end, empty_start = match.end(), starts and not value
    parts.append(script[end:])
    return [SHELL, "-c", "".join(parts), "sh", *given]


def _around(script: str) -> tuple[str, bool]:
    """The context of a parameter after this shell text: (the open quote or "", whether it begins an argument).

    `$(…)` and backticks begin a new context, also inside quotes (POSIX 2.6.3). Raises `TemplateError` for a
    here-document, in which quotes have no meaning.
    """
    opened: list[tuple[str, int]] = []
    position = 0
    while position < len(script):
        character = script[position]
        inside = opened[-1][0] if opened else ""
        if inside == "'":
            if character == "'":
                opened.pop()
        elif character == "\\":
            position += 1
        elif character == '"' and inside == '"':
            opened.pop()
        elif character == '"' or (character == "'" and inside != '"'):
            opened.append((character, position))
        elif script.startswith("$(", position) or (character == "(" and inside != '"'):
            position += character == "$"
            opened.append(("(", position))
        elif character == ")" and inside == "(":
            opened.pop()
        elif character == "`":
            ticks = [index for index, (kind, _) in enumerate(opened) if kind == "`"]
            opened = opened[: ticks[-1]] if ticks else [*opened, ("`", position)]
        elif inside == '"':
            pass
        elif character == "#" and script[position - 1 : position] in ("", *_BLANK, *_OPERATOR):
            line_end = script.find("\n", position)
            position = len(script) if line_end < 0 else line_end
        elif script.startswith("<<", position) and "$((" not in script[:position]:
            raise TemplateError("a parameter cannot stand after `<<`: write the text as `stdin` instead")
        position += 1
    kind, at = opened[-1] if opened else ("", 0)
    quote = kind if kind in ("'", '"') else ""
    if quote and at != len(script) - 1:
        return quote, False
    before = script[:-1] if quote else script
    starts = before[-1:] in ("", *_BLANK, *_OPERATOR) and not before.rstrip().endswith(("<", ">"))
    return quote, starts
