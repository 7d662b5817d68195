"""`http`: what `gatemini serve --http` serves, to whom, and within which limits."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gatemini.config.model.backend import Duration, Strict
from gatemini.config.model.http.auth import ClientGrant, HttpAuthConfig
from gatemini.config.model.values.sizes import Size

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s/]*):(\d{1,5})")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


def split_address(text: str) -> tuple[str, int]:
    """(host without brackets, port) of `HOST:PORT`; without a host the loopback address. Raises ValueError."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[2]) > 65_535:
        raise ValueError("HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8080 or [::1]:8080")
    return match[1].strip("[]") or "127.0.0.1", int(match[2])


def _address(text: str) -> str:
    split_address(text)
    return text


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("an http:// or https:// URL without query and fragment")
    return text


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if not (parts.scheme and parts.netloc) or f"{parts.scheme}://{parts.netloc}" != text:
        raise ValueError("an origin as browsers send it: scheme://host[:port]")
    return text


def _host_name(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError("a host name or address without a port; IPv6 in brackets")
    return text.lower()


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise ValueError("an address or network, such as 10.0.0.5 or 10.0.0.0/8") from error
    return text


Url = Annotated[str, AfterValidator(_url)]


class TlsConfig(Strict):
    """TLS of our own; the files are read again when they change."""

    cert: Path
    """The certificate with its chain, PEM."""
    key: Path | None = None
    """Its private key; else it is in the file of the certificate."""
    client_ca: Path | None = None
    """Only clients with a certificate of this authority are served."""


class HttpSessionsConfig(Strict):
    """Sessions of HTTP clients."""

    mode: Literal["adopt", "sticky", "stateless"] = "adopt"
    """Sessions before 2026-07-28 among replicas: `adopt` moves them, `sticky` needs a balancer that sends a client always
    to the same replica, `stateless` keeps none, so that nothing asks back."""
    idle: Duration = 1800.0
    """A session without a request in flight ends after so long."""
    max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Sessions at once; a further one is refused."""


class HttpConfig(Strict):
    """What `gatemini serve --http` serves, to whom, and within which limits."""

    listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1:8080"
    """HOST:PORT, where the command names none."""
    public_url: Url | None = None
    """The URL of the endpoint as clients know it, which tokens are issued for; needed beyond loopback."""
    allowed_hosts: tuple[Annotated[str, AfterValidator(_host_name)], ...] = ()
    """Host names that requests may name; else those of `public_url` and `listen`."""
    allowed_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    """Origins of web pages that may call; a browser's request from any other page is refused."""
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ()
    """Addresses of proxies that end TLS in front; their X-Forwarded-For and -Proto are believed."""
    tls: TlsConfig | None = None
    """Serve HTTPS."""
    max_body: Size = 4 << 20
    """Size of a request."""
    max_connections: int = Field(default=1000, ge=1, le=100_000)
    """Connections at once; a further one is answered 503 and closed."""
    request_timeout: Duration = 600.0
    """The longest that a request may be in progress, waiting for its user included."""
    response: Literal["sse", "json"] = "sse"
    """`json`: one document for an answer, without progress, and without questions before 2026-07-28."""
    drain_delay: Duration = 5.0
    """How long new requests are still served after SIGTERM, until balancers have seen `/readyz`."""
    sessions: HttpSessionsConfig = HttpSessionsConfig()
    """Sessions of clients."""
    auth: HttpAuthConfig = HttpAuthConfig()
    """How clients log in; without any way everybody who can connect may call."""
    clients: dict[str, ClientGrant] = Field(default_factory=dict)
    """Pattern of a client's name → what it may reach; a client that matches none gets nothing."""

    @property
    def has_auth(self) -> bool:
        """Whether clients must log in."""
        auth = self.auth
        return any(way is not None for way in (auth.tokens, auth.oauth, auth.introspection))

    @property
    def secrets(self) -> list[tuple[str, str]]:
        """(name, value) of what is hidden everywhere."""
        return self.auth.secrets

    @property
    def grants(self) -> dict[str, ClientGrant] | None:
        """What clients may reach, by pattern; None where the key is not there, which limits nobody."""
        return self.clients if "clients" in self.model_fields_set else None

    @model_validator(mode="after")
    def _fits(self) -> HttpConfig:
        if self.public_url and not urlsplit(self.public_url).path.endswith("/mcp"):
            raise ValueError("public_url ends in /mcp, the path of the endpoint")
        oauth = self.auth.oauth
        if oauth is not None and oauth.audience is None and self.public_url is None:
            raise ValueError(
                "auth.oauth needs public_url or auth.oauth.audience: tokens are issued for one of them"
            )
        if self.grants is not None and not self.has_auth:
            raise ValueError("clients needs auth: without a login every client is the same")
        return self
