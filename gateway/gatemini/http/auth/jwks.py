"""The public keys of an issuer: fetched when needed, kept for some minutes, and for a day while the issuer is down.

A token names its key by `kid`. An unknown `kid` may be a new key, or a forgery that is to cause requests to the issuer, so
these fetches are limited.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import anyio
from cachetools import TTLCache

from gatemini.config.model.http.auth import OAuthConfig
from gatemini.http.auth.issuer import Issuer, IssuerFailed, metadata_urls

logger = logging.getLogger(__name__)

FRESH_SECONDS = 600.0
LAST_GOOD_SECONDS = 24 * 3600.0
REFETCH_SECONDS = 60.0
"""Between two fetches for the same unknown kid."""
FAILED_SECONDS = 10.0
"""Between two fetches while the issuer is down."""
MOST_PER_MINUTE = 10
MOST_UNKNOWN = 1000

Key = dict[str, Any]


class Jwks:
    """The keys of one issuer."""

    def __init__(
        self, config: OAuthConfig, issuer: Issuer, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._issuer = issuer
        self._clock = clock
        self._keys: list[Key] = []
        self._fetched: float | None = None
        self._tried: float | None = None
        self._fetches: list[float] = []
        self._unknown: TTLCache[str, bool] = TTLCache(MOST_UNKNOWN, REFETCH_SECONDS, timer=clock)
        self._lock = anyio.Lock()
        self.problem: str | None = None

    async def keys(self, kid: str | None) -> list[Key]:
        """Return the keys that may have signed a token with this kid (None: it names none). Raises IssuerFailed."""
        # While one request waits for a slow issuer, others whose key is known do not wait.
        served = self._age() <= LAST_GOOD_SECONDS and self._lock.locked() and self._named(kid)
        if self._age() > FRESH_SECONDS and not served:
            await self._fetch(lambda: self._age() > FRESH_SECONDS)
        if self._age() > LAST_GOOD_SECONDS:
            raise IssuerFailed(self.problem or "the issuer's keys are not known")
        found = self._named(kid)
        if not found and kid is not None and kid not in self._unknown:
            self._unknown[kid] = True
            await self._fetch(lambda: not self._named(kid))
            found = self._named(kid)
        return found

    def _named(self, kid: str | None) -> list[Key]:
        if kid is None:
            return self._keys if len(self._keys) == 1 else []
        return [key for key in self._keys if key.get("kid") == kid]

    def _age(self) -> float:
        return float("inf") if self._fetched is None else self._clock() - self._fetched

    async def _fetch(self, needed: Callable[[], bool]) -> None:
        """Fetch the keys, unless another request did while this one waited, or the limits of fetches are reached.

        A failure keeps the old keys.
        """
        async with self._lock:
            now = self._clock()
            self._fetches = [at for at in self._fetches if at > now - 60]
            failing = (
                self.problem is not None and self._tried is not None and now - self._tried < FAILED_SECONDS
            )
            if not needed() or failing or len(self._fetches) >= MOST_PER_MINUTE:
                return
            self._fetches.append(now)
            self._tried = now
            try:
                document = await self._issuer.get(await self._url())
                keys = document.get("keys")
                if not isinstance(keys, list):
                    raise IssuerFailed("the issuer's key set has no list `keys`")
            except IssuerFailed as error:
                self.problem = str(error)
                logger.warning("http.auth.oauth: the issuer's keys could not be fetched: %s", error)
                return
            self._keys = [key for key in keys if isinstance(key, dict) and usable(key)]
            self._fetched, self.problem = self._clock(), None

    async def _url(self) -> str:
        if self._config.jwks != "auto":
            return self._config.jwks
        failures = []
        for url in metadata_urls(self._config.issuer):
            try:
                found = await self._issuer.get(url)
            except IssuerFailed as error:
                failures.append(str(error))
                continue
            if found.get("issuer") != self._config.issuer:
                failures.append(f"{url} is the metadata of another issuer")
                continue
            jwks = found.get("jwks_uri")
            scheme = urlsplit(self._config.issuer).scheme
            if isinstance(jwks, str) and jwks.lower().startswith(f"{scheme}://"):
                return jwks
            failures.append(f"{url} names no usable jwks_uri")
        raise IssuerFailed("; ".join(failures))


def usable(key: Key) -> bool:
    """Whether it is a public key for signatures: with a symmetric key in a public document anybody could sign."""
    if key.get("kty") not in ("RSA", "EC", "OKP") or key.get("use", "sig") != "sig":
        return False
    operations = key.get("key_ops", ["verify"])
    return isinstance(operations, list) and "verify" in operations
