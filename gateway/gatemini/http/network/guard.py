"""Check Host, Origin and the address of the peer of each request. Pure functions of the configuration.

The SDK's own checks compare Host with its port, know no proxies and are off unless settings are given.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from gatemini.config.model.http.server import HttpConfig
from gatemini.config.model.values.hosts import is_loopback

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::[0-9]{1,5})?")
"""A name or address, with or without a port."""


def host_names(config: HttpConfig, listen_host: str) -> frozenset[str]:
    """Return the host names that a request may name, in lower case, IPv6 in brackets."""
    if config.allowed_hosts:
        return frozenset(config.allowed_hosts)
    names = set(LOOPBACK_HOSTS) if is_loopback(listen_host) else set()
    if ":" in listen_host:
        names.add(f"[{listen_host.lower()}]")
    elif listen_host not in ("0.0.0.0", ""):  # noqa: S104 - compared, not bound
        names.add(listen_host.lower())
    if config.public_url:
        host = (urlsplit(config.public_url).hostname or "").lower()
        names.add(f"[{host}]" if ":" in host else host)
    return frozenset(names)


class Guard:
    """The checks of one server. Each returns why a request is refused, "" where it is served."""

    def __init__(self, config: HttpConfig, listen_host: str) -> None:
        self._hosts = host_names(config, listen_host)
        self._origins = frozenset(config.allowed_origins)
        self._proxies = [ipaddress.ip_network(text, strict=False) for text in config.trusted_proxies]
        self._only_proxies = config.tls is None and not is_loopback(listen_host)

    def host(self, headers: Mapping[str, str]) -> str:
        """Refuse other hosts: a page whose name an attacker rebinds to this machine sends the attacker's name."""
        named = headers.get("host", "")
        match = _HOST.fullmatch(named)
        if match is not None and match[1].lower() in self._hosts:
            return ""
        return f"Host: found {named or 'none'}, allowed are {', '.join(sorted(self._hosts))}"

    def framing(self, headers: Mapping[str, str]) -> str:
        """Refuse two lengths of one body: a proxy that goes by the other one would take a part of it for a request."""
        if "content-length" in headers and "transfer-encoding" in headers:
            return "Content-Length and Transfer-Encoding exclude each other"
        return ""

    def origin(self, headers: Mapping[str, str]) -> str:
        """Refuse pages that are not listed: only browsers send an Origin."""
        origin = headers.get("origin")
        if origin is None or origin in self._origins:
            return ""
        allowed = ", ".join(sorted(self._origins)) or "none (http.allowed_origins)"
        return f"Origin: found {origin}, allowed are {allowed}"

    def peer(self, address: str | None) -> str:
        """Refuse clients that are not behind a proxy, where this server has no TLS: tokens would cross the network in clear."""
        if not self._only_proxies or address is None:
            return ""
        if is_loopback(address) or trusted(address, self._proxies):
            return ""
        return "plain HTTP is served to the proxies in http.trusted_proxies and to this machine only"


def trusted(address: str, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    """Whether an address is in one of the networks."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found.version == network.version and found in network for network in networks)
