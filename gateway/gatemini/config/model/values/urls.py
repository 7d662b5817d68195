"""URLs to which secrets are sent."""

from __future__ import annotations

from urllib.parse import urlsplit

from gatemini.config.model.values.hosts import is_loopback


def is_encrypted(url: str) -> bool:
    """Whether nobody on the way reads what is sent to a URL: it is https, or names this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or is_loopback(parts.hostname or ""))
