"""Secrets that a client's file holds in clear: found in env, headers, arguments and URLs, and put out of there.

Pure. Above: importing. Below: interpolate, secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus, urlsplit

from gatemini.config.interpolate import Reference, TemplateError, parse_template
from gatemini.config.secrets import looks_secret

_TOKEN_SHAPED = re.compile(
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}|gh[opsu]_\w{20,}|github_pat_\w{20,}|glpat-\S{16,}|xox[abprs]-\S{10,}|"
    r"AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.\S*"
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token)\s+(\S.*)\Z", re.IGNORECASE | re.DOTALL)
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)\Z")
_NAMED = re.compile(r"(?:--?)?([A-Za-z][\w.-]*)(?:=|:\s*(?:(?:Bearer|Basic|Token)\s+)?)(\S.*)\Z", re.DOTALL)
"""`--api-key=…`, `TOKEN=…` as after `docker run -e`, `Authorization: Bearer …` as after `--header`."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class InlineSecret:
    """One of them: where it stands, what it is called there, its text there, and the value that this means."""

    place: str
    key: str | int | None
    name: str
    text: str = field(repr=False)
    value: str = field(repr=False)


def find_secrets(raw: Mapping[str, Any]) -> list[InlineSecret]:
    """What in a server's keys, in our words, is written out and looks like a secret."""
    found: list[InlineSecret] = []
    for place in ("env", "headers"):
        values = raw.get(place)
        for key, value in values.items() if isinstance(values, dict) else ():
            if not isinstance(value, str) or not value or _has_reference(value):
                continue
            if looks_secret(key) or _TOKEN_SHAPED.search(value):
                scheme = _SCHEME.match(value) if place == "headers" else None
                text = scheme[1] if scheme else value
                found.append(InlineSecret(place, key, key, text, text))
    args, url = raw.get("args"), raw.get("url")
    found += _in_words(args) if isinstance(args, list) else []
    found += _in_url(url) if isinstance(url, str) else []
    return found


def stored_name(backend: str, name: str) -> str:
    """What a backend's secret is called in the secret store."""
    return _NOT_IN_A_NAME.sub("-", f"{backend}.{name}")[:_LONGEST_NAME]


def without_secrets(
    raw: Mapping[str, Any], secrets: Sequence[InlineSecret], backend: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """The keys, in our file's syntax, with `${input:…}` for the secrets, and what to store under which name."""
    made, values = dict(raw), dict[str, str]()
    for secret in secrets:
        name = stored = stored_name(backend, secret.name)
        count = 2
        while values.get(stored, secret.value) != secret.value:
            stored, count = f"{name[: _LONGEST_NAME - 4]}-{count}", count + 1
        values[stored] = secret.value
        whole = made[secret.place]
        written = whole if secret.key is None else whole[secret.key]
        before, _, after = str(written).rpartition(secret.text.replace("$", "$$"))
        text = f"{before}${{input:{stored}}}{after}"
        if secret.key is None:
            made[secret.place] = text
        elif isinstance(whole, list):
            made[secret.place] = [text if at == secret.key else word for at, word in enumerate(whole)]
        else:
            made[secret.place] = {**whole, secret.key: text}
    return made, values


def _in_words(words: list[Any]) -> Iterator[InlineSecret]:
    """`--token x`, `--token=x`, `TOKEN=x`, `Authorization: Bearer x`, and whatever has the shape of a token."""
    awaited = ""
    for at, word in enumerate(words):
        option, awaited = awaited, ""
        if not isinstance(word, str) or _has_reference(word):
            continue
        if (asks := _OPTION.match(word)) is not None:
            awaited = asks[1] if looks_secret(asks[1]) else ""
        elif option:
            yield InlineSecret("args", at, option, word, word)
        elif (named := _NAMED.match(word)) is not None and looks_secret(named[1]):
            yield InlineSecret("args", at, named[1], named[2], named[2])
        elif (shaped := _TOKEN_SHAPED.search(word)) is not None:
            yield InlineSecret("args", at, f"arg{at}", shaped[0], shaped[0])


def _in_url(url: str) -> Iterator[InlineSecret]:
    """The password, and the parameters that are called or look like secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    _, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    if colon and password and not _has_reference(password):
        yield InlineSecret("url", None, "password", password, unquote(password))
    for pair in parts.query.split("&"):
        name, _, text = pair.partition("=")
        if not text or _has_reference(text):
            continue
        if looks_secret(unquote_plus(name)) or _TOKEN_SHAPED.search(text):
            yield InlineSecret("url", None, unquote_plus(name), text, unquote_plus(text))


def _has_reference(value: str) -> bool:
    try:
        return any(isinstance(segment, Reference) for segment in parse_template(value, dollars=False))
    except TemplateError:
        return False
