"""`http.auth` and `http.clients`: how clients log in, and what each may reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gatemini.config.model.backend import Duration, Strict
from gatemini.config.model.values.urls import Https

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a private key that only the issuer has; HMAC, whose key verifiers share, is none of them."""


class TokensConfig(Strict):
    """Tokens that `gatemini token create` makes."""

    file: Path = Path("tokens.yaml")
    """The file of the tokens' hashes; relative to the configuration."""


class OAuthConfig(Strict):
    """JWTs of one issuer, checked with the keys that it publishes."""

    issuer: Https
    """The `iss` of its tokens, letter by letter."""
    audience: str | None = None
    """The `aud` of tokens for this gateway; else `http.public_url`."""
    jwks: Literal["auto"] | Https = "auto"
    """URL of the issuer's keys; `auto` finds it in the issuer's metadata."""
    required_scopes: tuple[str, ...] = ()
    """Scopes that every token must have."""
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256", "EdDSA")
    """Signature algorithms that count, whatever a token's header says."""
    clients_claim: str = Field(default="azp", min_length=1)
    """The claim that names the client; beside `azp` also `client_id` is looked at."""


class IntrospectionConfig(Strict):
    """Tokens that an issuer is asked about (RFC 7662)."""

    url: Https
    """Its introspection endpoint."""
    client_id: str = Field(min_length=1)
    """The name with which the gateway logs in there."""
    client_secret: str = Field(min_length=1, repr=False)
    """Its secret; as `${VARIABLE}`."""


class HttpAuthConfig(Strict):
    """How clients log in; several ways count side by side."""

    tokens: TokensConfig | None = None
    """Tokens of a file of our own."""
    oauth: OAuthConfig | None = None
    """JWTs of an issuer."""
    introspection: IntrospectionConfig | None = None
    """Tokens that an issuer is asked about."""

    @property
    def secrets(self) -> list[tuple[str, str]]:
        """(name, value) of what is hidden everywhere."""
        if self.introspection is None:
            return []
        return [("http.auth.introspection.client_secret", self.introspection.client_secret)]


class GrantedTools(Strict):
    """Globs over qualified names, `backend.tool`."""

    allow: tuple[str, ...] | None = None
    """Only tools that one matches; all without it."""
    deny: tuple[str, ...] = ()
    """None that one matches; wins over `allow`."""


class ClientBudget(Strict):
    """What one principal may call within a period, in all its sessions."""

    calls: int | None = Field(default=None, ge=0)
    """Calls to backends."""
    writes: int | None = Field(default=None, ge=0)
    """Calls of tools that are not read-only."""
    period: Duration = 86_400.0
    """How long the counts run, from the first call on; then they begin anew. At most 168h."""

    @model_validator(mode="after")
    def _something(self) -> ClientBudget:
        if self.calls is None and self.writes is None:
            raise ValueError("at least one of calls, writes")
        return self


class ClientGrant(Strict):
    """What clients of one pattern may reach; of several patterns that match, all limits hold."""

    tools: GrantedTools = GrantedTools()
    """Tools, by name."""
    backends: tuple[str, ...] | None = None
    """Only these backends; all without it."""
    calls_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    """Calls to backends of one principal; so many may also come at once."""
    budget: ClientBudget | None = None
    """What one principal may call within a day, or another period."""
