"""Variables in parsed values: `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `${input:name}`, `${session.cwd}`, `$$`.

They are put in after parsing, so quotes, `#` or newlines in a value never become structure. In a URL each value is
percent-encoded for its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INPUT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_CLIENT_WORDS = frozenset(
    ("userHome", "workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "pathSeparator", "/", "cwd",
     "file", "fileBasename", "fileBasenameNoExtension", "fileDirname", "fileDirnameBasename", "fileExtname",
     "fileWorkspaceFolder", "relativeFile", "relativeFileDirname", "lineNumber", "columnNumber", "selectedText",
     "execPath", "defaultBuildTask")
)  # fmt: skip
"""Variables that editors define; those of the file that is open have no value here."""
SESSION_CWD = "session.cwd"
"""The folder of the client for which a backend is started."""
_MAX_DEFAULT_DEPTH = 8
_QUERY_SAFE = ""
PATH_SAFE = "/:@!$&'()*+,;=~-._"
_RAW_SAFE = "/:@!$&'()*+,;=~-._?#[]%"


class TemplateError(ValueError):
    """A `${` that cannot be read; the message says what forms there are."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One `${…}`: a variable, a stored input, an editor's word, or a value of the session; `default` is a template
    itself.
    """

    kind: Literal["variable", "input", "word", "session"]
    name: str
    default: tuple[Segment, ...] | None = None


Segment = str | Reference


@dataclass(slots=True)
class Expanded:
    """The text with values put in, the value of each reference, and the references without one."""

    text: str
    used: list[tuple[Reference, str]] = field(default_factory=list)
    missing: list[Reference] = field(default_factory=list)
    secret: list[tuple[Reference, str]] = field(default_factory=list)
    """Of a URL: the values in its user-info and its query."""


Lookup = Callable[[Reference], "str | None"]


def parse_template(text: str, *, dollars: bool = True, depth: int = 0) -> tuple[Segment, ...]:
    """Literal pieces and references in order. `dollars`: `$$` is one dollar (our own files only)."""
    if "$" not in text:
        return (text,) if text else ()
    if depth > _MAX_DEFAULT_DEPTH:
        raise TemplateError(f"defaults nested more than {_MAX_DEFAULT_DEPTH} deep")
    segments: list[Segment] = []
    literal = ""
    at = 0
    while at < len(text):
        if dollars and text.startswith("$$", at):
            literal += "$"
            at += 2
        elif text.startswith("${", at):
            end = _closing(text, at + 2)
            if literal:
                segments.append(literal)
                literal = ""
            segments.append(_reference(text[at + 2 : end], dollars, depth))
            at = end + 1
        else:
            literal += text[at]
            at += 1
    if literal:
        segments.append(literal)
    return tuple(segments)


def _closing(text: str, start: int) -> int:
    """Index of the `}` that closes a reference; defaults may hold further references."""
    depth = 1
    for at in range(start, len(text)):
        if text.startswith("${", at):
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    raise TemplateError("a ${ that is never closed; write $$ for a plain dollar sign")


def _reference(inner: str, dollars: bool, depth: int) -> Reference:
    head, separator, rest = inner.partition(":-")
    default = parse_template(rest, dollars=dollars, depth=depth + 1) if separator else None
    if head in _CLIENT_WORDS:
        return Reference("word", head, default)
    if head == SESSION_CWD:
        return Reference("session", head, default)
    prefix, colon, name = head.partition(":")
    if colon and prefix == "input" and _INPUT.match(name):
        return Reference("input", name, default)
    if colon and prefix == "env":
        head = name
        colon = ""
    if colon or not _NAME.match(head):
        raise TemplateError(
            f"${{{head}}} is not understood; there are ${{NAME}}, ${{NAME:-default}}, ${{env:NAME}}, ${{input:name}}, ${{session.cwd}} and $$"
        )
    return Reference("variable", head, default)


def expand(segments: tuple[Segment, ...], lookup: Lookup) -> Expanded:
    """Put values in. A reference without a value stays as written and is reported; it is never an empty text."""
    result = Expanded("")
    result.text = "".join(_piece(segment, lookup, result) for segment in segments)
    return result


def _piece(segment: Segment, lookup: Lookup, result: Expanded) -> str:
    if isinstance(segment, str):
        return segment
    value = lookup(segment)
    if value or (value is not None and segment.default is None):
        result.used.append((segment, value))
        return value
    if segment.default is not None:
        return "".join(_piece(inner, lookup, result) for inner in segment.default)
    result.missing.append(segment)
    return f"${{{segment.name}}}"


def expand_url(segments: tuple[Segment, ...], lookup: Lookup) -> Expanded:
    """Put values into a URL, each percent-encoded for its place: user-info, host, path or query.

    A value that begins the URL (`${BASE}/mcp`) is a URL itself and only loses what no URL may hold.
    """
    result = Expanded("")
    skeleton = "".join(segment if isinstance(segment, str) else "\0" for segment in segments)
    offset = 0
    for segment in segments:
        used, missing = len(result.used), len(result.missing)
        value = _piece(segment, lookup, result)
        if isinstance(segment, str):
            result.text += value
            offset += len(value)
            continue
        place, safe = _place(skeleton, offset)
        result.text += value if len(result.missing) > missing else quote(value, safe=safe)
        result.secret += result.used[used:] if place in ("query", "userinfo") else []
        offset += 1
    return result


def _place(skeleton: str, offset: int) -> tuple[str, str]:
    """The part of a URL at this offset, and the characters that need no encoding there."""
    before = skeleton[:offset]
    if "?" in before:
        parameter = re.split("[?&]", before)[-1]
        return "query", _QUERY_SAFE if "=" in parameter else "=&;%+,:/@-._~"
    if "#" in before:
        return "fragment", PATH_SAFE
    scheme = before.find("://")
    if scheme < 0:
        return "base", _RAW_SAFE
    authority = before[scheme + 3 :]
    if "/" in authority:
        return "path", PATH_SAFE
    rest = re.split(r"[/?#]", skeleton[scheme + 3 :], maxsplit=1)[0]
    if "@" in rest[len(authority) :]:
        return "userinfo", ""
    return "host", ":[]-._~"
