"""Token introspection by the issuer (RFC 7662), at most once a second for each token."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import anyio
from cachetools import TTLCache

from gatemini.config.model.http.auth import IntrospectionConfig
from gatemini.http.auth.issuer import Issuer, IssuerFailed
from gatemini.http.auth.jwts import SKEW_SECONDS, TokenRefused

ANSWER_SECONDS = 1.0
"""How long an answer is used: a revoked token must not be accepted for longer."""
MOST_ANSWERS = 10_000


class Introspection:
    """The introspection endpoint of one issuer, and its answers."""

    def __init__(self, config: IntrospectionConfig, audience: str | None, issuer: Issuer) -> None:
        self._config = config
        self._audience = audience
        self._issuer = issuer
        self._answers: TTLCache[bytes, dict[str, Any]] = TTLCache(MOST_ANSWERS, ANSWER_SECONDS)
        self._requests: dict[bytes, anyio.Event] = {}

    async def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token. Raises TokenRefused."""
        key = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        while (request := self._requests.get(key)) is not None:
            await request.wait()
        found = self._answers.get(key)
        if found is None:
            request = self._requests[key] = anyio.Event()
            try:
                form = {"token": token, "token_type_hint": "access_token"}
                config = self._config
                found = await self._issuer.post(config.url, form, config.client_id, config.client_secret)
                self._answers[key] = found
            except IssuerFailed as error:
                raise TokenRefused(str(error)) from error
            finally:
                del self._requests[key]
                request.set()
        self._check(found)
        return found

    def _check(self, found: dict[str, Any]) -> None:
        if found.get("active") is not True:
            raise TokenRefused("the issuer says that it is not active")
        now = time.time()
        expires, begins = found.get("exp"), found.get("nbf")
        if isinstance(expires, int | float) and not now < expires + SKEW_SECONDS:
            raise TokenRefused("it has expired")
        if isinstance(begins, int | float) and not begins <= now + SKEW_SECONDS:
            raise TokenRefused("it is not valid yet")
        audience = found.get("aud")
        if audience is not None and self._audience is not None:
            named = [audience] if isinstance(audience, str) else audience
            if not isinstance(named, list) or self._audience not in named:
                raise TokenRefused("it was issued for another audience")
