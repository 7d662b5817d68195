"""Ids of sessions that every replica recognises: `uuid.replica.mac`, with a MAC under the keys that replicas share."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from uuid import uuid4

_PURPOSE = b"gatemini-session-id\0"
_MAC_CHARS = 32


class SessionIds:
    """Ids with a MAC under the first of the keys; those under any of the keys are recognised."""

    def __init__(self, replica: str, keys: Sequence[str]) -> None:
        self._replica = replica
        self._keys = [key.encode() for key in keys]

    def new(self) -> str:
        text = f"{uuid4().hex}.{self._replica}"
        return f"{text}.{_mac(self._keys[0], text)}"

    def genuine(self, ident: str) -> bool:
        """Whether a replica with one of the keys has made this id."""
        text, _, mac = ident.rpartition(".")
        if not ident.isascii():
            return False
        return any(hmac.compare_digest(_mac(key, text), mac) for key in self._keys)


def _mac(key: bytes, text: str) -> str:
    return hmac.digest(key, _PURPOSE + text.encode(), "sha256").hex()[:_MAC_CHARS]
