"""Check that a configuration may be served at an address: beyond loopback it needs a login, a public URL, encryption."""

from __future__ import annotations

from gatemini.config.model.http.server import HttpConfig
from gatemini.config.model.values.hosts import is_loopback
from gatemini.errors import ConfigError

OPEN = "serving without http.auth: every user and program of this machine can call every tool of this gateway"


def check_exposure(config: HttpConfig, host: str) -> str | None:
    """Return a warning where every program of this machine can call. Raises ConfigError where settings are missing."""
    if is_loopback(host):
        return None if config.has_auth else OPEN
    missing = []
    if not config.has_auth:
        missing.append("http.auth")
    if config.public_url is None:
        missing.append("http.public_url")
    if config.tls is None and not config.trusted_proxies:
        missing.append("http.tls or http.trusted_proxies")
    if missing:
        raise ConfigError(
            f"http: {host or 'every address'} is reached from other machines; missing: {', '.join(missing)}",
            hint="set them, or listen on 127.0.0.1; no option of the command replaces them",
        )
    return None
