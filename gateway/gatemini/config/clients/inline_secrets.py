"""Secrets in clear text in a client's file: found in env, headers, arguments and URLs, and replaced by `${input:…}`.

All texts are in the syntax of our file: `$$` is a dollar and `${…}` a reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

from gatemini.config.variables.redaction import looks_secret

_TOKEN_SHAPED = re.compile(
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|gh[opsu]_\w{20,}|github_pat_\w{20,}|glpat-[\w.-]{16,}|"
    r"xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+(\S.*)\Z", re.IGNORECASE | re.DOTALL)
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)\Z")
_NAMED = re.compile(r"(?:--?)?([A-Za-z][\w.-]*)(?:=|:\s*(?:(?:Bearer|Basic|Token)\s+)?)(\S.*)\Z", re.DOTALL)
"""`--api-key=…`, `TOKEN=…` as after `docker run -e`, `Authorization: Bearer …` as after `--header`."""
URL = re.compile(r"\b[A-Za-z][\w+.-]{0,30}://([^/?#\s\"<>]*)[^?#\s\"<>]*(?:\?([^#\s\"<>]*))?")
"""A URL anywhere in a text: its authority and its query."""
_PARAMETER = re.compile(r"(?<![^?&])([^=&]*)=([^&]+)")
_ABOUT = re.compile(
    r"(?:[_.-]|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
    r"(?:file|path|dir|url|uri|endpoint|limit|size|length|count|column|field|name|type|mode|method|"
    r"source|mechanism|"
    r"ttl|timeout|expiry|provider)\Z",
    re.IGNORECASE,
)
"""The last word of a name that is about a secret and is none: `--password-file`, `--token-limit`."""
_MODE = re.compile(
    r"(?:none|null|true|false|yes|no|on|off|auto|basic|bearer|digest|oauth2?|env)\Z", re.IGNORECASE
)
"""Values of `--auth` and the like that are no secrets."""
_INNERMOST = re.compile(r"\$\{[^}$]*\}")
_REFERRED = "\0"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class InlineSecret:
    """One secret: its place and first character, its name and text there, and its value."""

    place: str
    key: str | int | None
    name: str
    start: int
    text: str = field(repr=False)
    value: str = field(repr=False)


Keep = Callable[[str, str, bool], str]
"""Stores a value under a name; returns its reference. The last argument: whether the reference ends its text."""
_Span = tuple[str, int, int]
"""Name, first character and end in a text."""


def find_secrets(raw: Mapping[str, Any]) -> list[InlineSecret]:
    """Values in clear text of a server's keys that look like secrets."""
    found: list[InlineSecret] = []
    for place in ("env", "headers"):
        values = raw.get(place)
        for key, value in values.items() if isinstance(values, dict) else ():
            found += _of_text(place, key, value, key, key)
    args, option = raw.get("args"), ""
    for at, word in enumerate(args if isinstance(args, list) else ()):
        asks = _OPTION.match(word) if isinstance(word, str) else None
        if asks is None:
            found += _of_text("args", at, word, option, f"arg{at}")
        option = asks[1] if asks is not None else ""
    return found + list(_of_text("url", None, raw.get("url"), "", "url"))


def stored_name(backend: str, name: str) -> str:
    """The name of a backend's secret in the secret store."""
    return _NOT_IN_A_NAME.sub("-", f"{backend}.{name}")[:_LONGEST_NAME]


def without_secrets(
    raw: Mapping[str, Any], secrets: Sequence[InlineSecret], backend: str, keep: Keep | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The keys, in our file's syntax, with references for the secrets, and what to store under which name.

    A reference is `${input:NAME}`, or what `keep` returns after it has stored the value.
    """
    values = dict[str, str]()
    places: list[tuple[InlineSecret, str]] = []
    for secret in secrets:
        name = stored = stored_name(backend, secret.name)
        count = 2
        while values.get(stored, secret.value) != secret.value:
            stored, count = f"{name[: _LONGEST_NAME - 4]}-{count}", count + 1
        values[stored] = secret.value
        whole = raw[secret.place] if secret.key is None else raw[secret.place][secret.key]
        is_end = secret.start + len(secret.text) == len(whole)
        reference = keep(stored, secret.value, is_end) if keep else f"${{input:{stored}}}"
        places.append((secret, reference))
    return spliced(raw, places), values


def spliced(raw: Mapping[str, Any], places: Sequence[tuple[InlineSecret, str]]) -> dict[str, Any]:
    """The keys with these texts in place of the secrets."""
    made = dict(raw)
    # From right to left: a replacement moves only the text after it.
    for secret, instead in sorted(places, key=lambda place: place[0].start, reverse=True):
        whole = made[secret.place]
        written: str = whole if secret.key is None else whole[secret.key]
        text = written[: secret.start] + instead + written[secret.start + len(secret.text) :]
        if secret.key is None:
            made[secret.place] = text
        elif isinstance(whole, list):
            made[secret.place] = [text if at == secret.key else word for at, word in enumerate(whole)]
        else:
            made[secret.place] = {**whole, secret.key: text}
    return made


def _of_text(place: str, key: str | int | None, text: Any, name: str, unnamed: str) -> Iterator[InlineSecret]:
    """The secrets of one text; `name` is what its key or option calls it, `unnamed` for those found by shape."""
    for called, start, end in _spans(text, name, unnamed) if isinstance(text, str) else ():
        value = text[start:end].replace("$$", "$")
        if place == "url":  # decoded, since a value that is put into a URL is encoded
            value = unquote_plus(value) if "?" in text[:start] else unquote(value)
        yield InlineSecret(place, key, called, start, text[start:end], value)


def _spans(text: str, name: str, unnamed: str) -> Iterator[_Span]:
    """`x` where its name says secret, `TOKEN=x`, `Authorization: Bearer x`; else secrets in URLs and by shape."""
    masked = _masked(text)
    if _REFERRED not in masked:
        if _is_secret(name, text):
            scheme = _SCHEME.match(text)
            yield name, scheme.start(1) if scheme else 0, len(text)
            return
        named = _NAMED.match(text)
        while named is not None:
            if _is_secret(named[1], named[2]):
                yield named[1], named.start(2), len(text)
                return
            named = _NAMED.match(text, named.start(2))
    urls = list(_of_urls(masked))
    yield from urls
    for shaped in _TOKEN_SHAPED.finditer(masked):
        if not any(start < shaped.end() and shaped.start() < end for _, start, end in urls):
            yield unnamed, *shaped.span()


def _of_urls(masked: str) -> Iterator[_Span]:
    """The passwords of the URLs in a text, and the parameters that are called or look like secrets."""
    for url in URL.finditer(masked):
        user, colon, password = url[1].rpartition("@")[0].partition(":")
        if colon and password and _REFERRED not in password:
            start = url.start(1) + len(user) + 1
            yield "password", start, start + len(password)
        for pair in _PARAMETER.finditer(masked, *url.span(2)) if url[2] else ():
            name = unquote_plus(pair[1])
            if _REFERRED not in pair[2] and (_is_secret(name, pair[2]) or _TOKEN_SHAPED.search(pair[2])):
                yield name, *pair.span(2)


def _is_secret(name: str, value: str) -> bool:
    """Whether a value of this name is a secret, and not a fact about one or a way to log in."""
    return bool(value) and looks_secret(name) and not _ABOUT.search(name) and not _MODE.match(value)


def _masked(text: str) -> str:
    """The text with its references blanked out, of the same length."""
    plain = text.replace("$$", "\1\1")
    while (masked := _INNERMOST.sub(lambda found: _REFERRED * len(found[0]), plain)) != plain:
        plain = masked
    return plain
