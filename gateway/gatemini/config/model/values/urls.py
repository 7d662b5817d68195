"""URLs to which secrets are sent."""

from __future__ import annotations

from urllib.parse import urlsplit

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_encrypted(url: str) -> bool:
    """Whether nobody on the way reads what is sent to a URL: it is https, or names this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in _LOOPBACK)
