"""URLs to which secrets are sent."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from gatemini.config.model.values.hosts import is_loopback


def is_encrypted(url: str) -> bool:
    """Whether nobody on the way reads what is sent to a URL: it is https, or names this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or is_loopback(parts.hostname or ""))


def _https(text: str) -> str:
    if not is_encrypted(text):
        raise ValueError("an https:// URL; http:// is allowed for this machine only")
    return text


Https = Annotated[str, AfterValidator(_https)]
