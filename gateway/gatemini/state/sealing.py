"""Encryption of the values in a shared store: AES-256-GCM with keys that all replicas have.

Each name has a key of its own, derived from the secret, so that a value that is moved to another name cannot be read there,
and no key encrypts so many values that random nonces could repeat. A sealed value is version, key id, nonce and ciphertext.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

logger = logging.getLogger(__name__)

VERSION = b"\x01"
ID_BYTES, NONCE_BYTES = 4, 12
_HEAD = len(VERSION) + ID_BYTES


class Sealer:
    """Encrypts with the first of its keys, decrypts with any."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._keys = {
            _derived(secret.encode(), b"id")[:ID_BYTES]: _derived(secret.encode(), b"values")
            for secret in secrets
        }
        self._first = next(iter(self._keys))

    def seal(self, name: str, value: bytes) -> bytes:
        """Encrypt a value for one name."""
        return self._sealed(name, value, os.urandom(NONCE_BYTES))

    def seal_alike(self, name: str, value: bytes) -> bytes:
        """Encrypt so that equal values of one name give equal bytes, as members of a set need."""
        return self._sealed(
            name, value, _derived(self._keys[self._first], name.encode() + b"\0" + value)[:NONCE_BYTES]
        )

    def _sealed(self, name: str, value: bytes, nonce: bytes) -> bytes:
        cipher = AESGCM(_derived(self._keys[self._first], name.encode()))
        return VERSION + self._first + nonce + cipher.encrypt(nonce, value, None)

    def unseal(self, name: str, sealed: bytes) -> bytes | None:
        """Decrypt a value; None, with a warning, where it was sealed with another key or for another name."""
        key = self._keys.get(sealed[len(VERSION) : _HEAD])
        if key is not None and sealed.startswith(VERSION):
            nonce, ciphertext = sealed[_HEAD : _HEAD + NONCE_BYTES], sealed[_HEAD + NONCE_BYTES :]
            try:
                return AESGCM(_derived(key, name.encode())).decrypt(nonce, ciphertext, None)
            except (InvalidTag, ValueError):
                pass
        logger.warning("%s in the state store is not sealed with any of state.keys, and is ignored", name)
        return None


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"gatemini-state\0" + purpose, "sha256")
