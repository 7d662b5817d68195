"""What a record keeps of a call's arguments.

A plain hash of small values could be guessed by trying them; an HMAC with a key outside the log cannot.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread

from gatemini.config.model.audit import KeptArguments
from gatemini.policy.audit.record import json_text
from gatemini.policy.canonical import canonical
from gatemini.processes.own_files import NotOurs, others_may_read, read_own, replace_own

KEY_BYTES = 32
MOST_BYTES = 64 << 10
"""Larger arguments are kept as their HMAC only, which a thread computes; so are those that nest too deeply to be redacted."""


def read_key(path: Path) -> bytes:
    """Return the key in this file, made when it is missing. Raises OSError, also for a file that others may read."""
    try:
        key = bytes.fromhex(read_own(path, 1024).decode("ascii"))
    except FileNotFoundError:
        key = secrets.token_bytes(KEY_BYTES)
        with suppress(FileExistsError):
            replace_own(path, key.hex().encode() + b"\n", lasting=True, new=True)
            return key
        return read_key(path)  # another gateway has made it meanwhile
    except ValueError:
        raise NotOurs(f"{path} does not hold a key in hexadecimal digits") from None
    if len(key) < KEY_BYTES:
        raise NotOurs(f"{path} holds {len(key)} bytes, a key has {KEY_BYTES}")
    if os.name == "posix" and others_may_read(path.stat()):
        raise NotOurs(f"others than its owner may read {path}: chmod 600 {path}")
    return key


class Kept:
    """The arguments of calls as records have them."""

    def __init__(self, how: KeptArguments, key: bytes, redact: Callable[[Any], Any]) -> None:
        self._how = how
        self._redact = redact
        self._keyed = hmac.new(key, digestmod="sha256")  # copied: looking the hash up costs ten times as much

    async def of(self, arguments: Any) -> bytes:
        """Return a JSON text: a text `hmac-sha256:…`, the redacted arguments, or null."""
        if self._how == "none":
            return b"null"
        text = canonical(arguments)
        if len(text) > MOST_BYTES:
            return await anyio.to_thread.run_sync(self._hashed, text)
        if self._how == "full":
            with suppress(RecursionError):
                return json_text(self._redact(arguments))
        return self._hashed(text)

    def _hashed(self, text: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(text)
        return b'"hmac-sha256:%b"' % keyed.hexdigest().encode()
