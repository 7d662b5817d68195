"""`state`: where equal replicas keep what they share."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from gatemini.config.model.approvals import Reference
from gatemini.config.model.audit import HomePath
from gatemini.config.model.backend import Strict

MEMORY = "memory:"
SMALLEST_KEY = 32
"""Characters of a key; 32 random bytes are 44 characters in base64."""


def _url(text: str) -> str:
    parts = urlsplit(text)
    unix = parts.scheme == "redis+unix" and not parts.hostname and len(parts.path) > 1
    if text != MEMORY and not unix and not (parts.scheme in ("redis", "rediss") and parts.hostname):
        raise ValueError("memory:, redis+unix:///PATH, redis://HOST[:PORT][/DB] or rediss://HOST[:PORT][/DB]")
    return text


class StateConfig(Strict):
    """Where equal replicas keep what they share: sessions, results, limits, approvals."""

    url: Annotated[str, AfterValidator(_url), Field(repr=False)] = MEMORY
    """`memory:` for one process; for several Redis or Valkey from 6.2 on: `redis+unix:///PATH`, `redis://…`, or `rediss://…` with TLS (`?ssl_ca_certs=FILE` for an authority of your own)."""
    prefix: str = Field(default="gatemini:", pattern=r"^[A-Za-z0-9:._-]{1,64}$")
    """What all keys there begin with: gateways with the same one are replicas of each other."""
    keys: tuple[Reference, ...] = ()
    """`secretref:` of keys of at least 32 characters, the same for all replicas: the first seals what is stored, all unseal."""
    on_failure: Literal["refuse", "degrade"] = "refuse"
    """While the store cannot be reached: refuse calls that need it, or limit them for each replica alone."""
    blobs: HomePath = None
    """A folder that all replicas mount, for values over 1 MiB; else the store has them too."""

    @property
    def shared(self) -> bool:
        """Whether other processes share it."""
        return self.url != MEMORY

    @property
    def secrets(self) -> list[tuple[str, str]]:
        """(name, value) of what is hidden everywhere."""
        parts = urlsplit(self.url)
        given = [parts.password, *parse_qs(parts.query).get("password", ())]
        written = {
            form
            for password in given
            if password
            for form in (password, unquote(password), quote(password, safe=""))
        }
        return [("the password of state.url", form) for form in sorted(written)]

    @model_validator(mode="after")
    def _is_sealed(self) -> StateConfig:
        if self.shared and not self.keys:
            raise ValueError(
                "a shared store needs keys: [secretref:file:state.key], with which replicas seal what they keep there "
                "(`openssl rand -base64 32` makes one)"
            )
        return self
