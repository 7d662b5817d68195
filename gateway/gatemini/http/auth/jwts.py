"""Validate JWTs: signature, issuer, algorithm, audience and times."""

from __future__ import annotations

from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from gatemini.config.model.http.auth import OAuthConfig
from gatemini.http.auth.issuer import IssuerFailed
from gatemini.http.auth.jwks import Jwks, Key

SKEW_SECONDS = 60
MOST_CHARS = 16 * 1024
LEAST_RSA_BITS = 2048
TYPES = (None, "jwt", "at+jwt", "application/at+jwt")
"""Values of `typ`: not those of ID tokens, logout tokens and proofs, which the same keys sign."""
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class TokenRefused(Exception):
    """The token is not valid; the message is the reason, for the log."""


class Jwts:
    """The JWTs of one issuer."""

    def __init__(self, config: OAuthConfig, audience: str, keys: Jwks) -> None:
        self._config = config
        self._audience = audience
        self._keys = keys

    async def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token. Raises TokenRefused."""
        header = self._header(token)
        kid = header.get("kid")
        try:
            found = await self._keys.keys(kid)
        except IssuerFailed as error:
            raise TokenRefused(f"the issuer's keys are not known: {error}") from error
        algorithm: str = header["alg"]
        fitting = [key for key in found if _fits(key, algorithm)]
        if len(fitting) != 1:
            raise TokenRefused("its key is not among those of the issuer")
        try:
            key = jwt.PyJWK.from_dict(fitting[0], algorithm).key
            if isinstance(key, RSAPublicKey) and key.key_size < LEAST_RSA_BITS:
                raise TokenRefused(f"its RSA key has less than {LEAST_RSA_BITS} bits")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._config.issuer,
                leeway=SKEW_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, AttributeError) as error:
            raise TokenRefused(f"{type(error).__name__}: {error}") from error
        return claims

    def _header(self, token: str) -> dict[str, Any]:
        if len(token) > MOST_CHARS:
            raise TokenRefused(f"it has more than {MOST_CHARS} characters")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise TokenRefused(f"its header cannot be read: {type(error).__name__}") from error
        if header.get("alg") not in self._config.algorithms:
            raise TokenRefused(f"alg {header.get('alg')!r} is not allowed")
        kind = header.get("typ")
        if (kind.lower() if isinstance(kind, str) else kind) not in TYPES:
            raise TokenRefused(f"typ {kind!r} is no access token")
        if "crit" in header or not isinstance(header.get("kid"), str | None):
            raise TokenRefused("its header names what is not understood")
        return header


def _fits(key: Key, algorithm: str) -> bool:
    """Whether a key is for this algorithm: its type, and its own `alg` where it has one."""
    return key.get("kty") == _KEY_TYPES[algorithm[:2]] and key.get("alg", algorithm) == algorithm
