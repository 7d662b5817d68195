"""What a record keeps of a call's arguments.

A plain hash of small values could be guessed by trying them; an HMAC with a key outside the log cannot.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread

from gatemini.policy.canonical import canonical
from gatemini.processes.own_files import NotOurs, read_own, replace_own

KEY_BYTES = 32
MOST_BYTES = 64 << 10
"""Larger arguments are kept as their HMAC only, and hashed in a thread."""

KEPT = Literal["hash", "full", "none"]


def read_key(path: Path) -> bytes:
    """Return the key in this file, made when it is missing. Raises OSError, also for a file that others may read."""
    try:
        key = bytes.fromhex(read_own(path, 1024).decode("ascii"))
    except FileNotFoundError:
        key = secrets.token_bytes(KEY_BYTES)
        replace_own(path, key.hex().encode() + b"\n", lasting=True)
        return key
    except ValueError:
        raise NotOurs(f"{path} does not hold a key in hexadecimal digits") from None
    if len(key) < KEY_BYTES:
        raise NotOurs(f"{path} holds {len(key)} bytes, a key has {KEY_BYTES}")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise NotOurs(f"others than its owner may read {path}: chmod 600 {path}")
    return key


async def kept_arguments(arguments: Any, how: KEPT, key: bytes, redact: Callable[[Any], Any]) -> Any:
    """Return what the record has under `arguments`: a text `hmac-sha256:…`, the redacted arguments, or None."""
    if how == "none":
        return None
    text = canonical(arguments)
    if how == "full" and len(text) <= MOST_BYTES:
        return redact(arguments)
    if len(text) <= MOST_BYTES:
        return hashed(text, key)
    return await anyio.to_thread.run_sync(hashed, text, key)


def hashed(text: bytes, key: bytes) -> str:
    """Return the HMAC of a canonical JSON text."""
    return "hmac-sha256:" + hmac.digest(key, text, "sha256").hex()
