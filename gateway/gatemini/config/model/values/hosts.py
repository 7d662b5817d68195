"""Hosts that are this machine: which ones certainly are, and which ones may be."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Whether a name or address certainly is this machine, so that nobody else listens to what is sent to it."""
    if host.lower() == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def may_be_here(host: str) -> bool:
    """Whether a host that a stranger names may lead to a service which only this machine reaches.

    Beside loopback, in each spelling that a resolver understands, these are the unspecified address and those of the
    local link, where clouds give credentials to their machines.
    """
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host) or _loose(host)
    return address is not None and (address.is_loopback or address.is_unspecified or address.is_link_local)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _loose(host: str) -> ipaddress.IPv4Address | None:
    """Read `127.1`, `2130706433` and `0x7f.0.0.1`, which `getaddrinfo` takes for addresses."""
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None
