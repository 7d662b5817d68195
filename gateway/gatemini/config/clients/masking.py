"""Servers as a diff may show them: without secrets, the values of variables and headers, and tokens in URLs."""

from __future__ import annotations

import re
from typing import Any

from gatemini.config.clients.inline_secrets import URL, find_secrets, spliced

HIDDEN = "«hidden»"
_PRIVATE = frozenset(
    ("env", "environment", "envs", "headers", "http_headers", "requestOptions", "bearer_token", "inputs")
)
"""Keys whose texts are shown only where they refer to something."""
_REFERENCE = re.compile(r"\0|\$\{|\{env:|secretref:|\A\$[A-Z_]")
_QUERY = re.compile(r"(?<==)[^&#\s]+")
_SEGMENT = re.compile(r"(?<=/)(?=[^/?#\s]*[0-9])(?=[^/?#\s]*[A-Za-z])[^/?#\s]{16,}")
"""A part of a path that is as long as a token, with digits and letters."""
_MARK = re.compile("\0([0-9]+)\0")


def masked(value: Any, *, private: bool = False) -> Any:
    """The keys of a server, in our words or a client's, with what may be secret hidden."""
    if isinstance(value, dict):
        return {key: masked(inner, private=private or key in _PRIVATE) for key, inner in value.items()}
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return [HIDDEN] * len(value) if private else _texts({"args": value})["args"]
    if isinstance(value, list):
        return [masked(inner, private=private) for inner in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if private and not _REFERENCE.search(value) else _texts({"url": value})["url"]


def _texts(texts: dict[str, Any]) -> dict[str, Any]:
    """The text or words under one key, masked."""
    secrets = find_secrets(texts)
    # Marks without blanks, so that a URL is still one where a part of it is masked.
    texts = spliced(texts, [(secret, f"\0{at}\0") for at, secret in enumerate(secrets)])

    def shown(text: str) -> str:
        text = URL.sub(lambda found: _masked_url(found[0]), text)
        return _MARK.sub(lambda mark: f"«secret {secrets[int(mark[1])].name}»", text)

    return {
        key: [*map(shown, inner)] if isinstance(inner, list) else shown(inner) for key, inner in texts.items()
    }


def _masked_url(url: str) -> str:
    address, mark, query = url.partition("?")
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    path = _SEGMENT.sub(lambda part: part[0] if _shows(part[0]) else HIDDEN, slash + path)
    query = _QUERY.sub(lambda part: part[0] if _shows(part[0]) else HIDDEN, query)
    return f"{scheme}://{host}{path}{mark}{query}"


def _shows(text: str) -> bool:
    """Whether a part is a reference, or masked already."""
    return _REFERENCE.search(text) is not None
