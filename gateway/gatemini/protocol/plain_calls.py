"""What a `tools/call` and its answer consist of where they are served without the SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from gatemini.model import Json

CALL = "tools/call"

ENVELOPE_KEYS = (PROTOCOL_VERSION_META_KEY, CLIENT_INFO_META_KEY, CLIENT_CAPABILITIES_META_KEY)
"""What a request of the stateless era says of its client; one of the handshake era has none of them."""

PLAIN_PARAMS = frozenset({"name", "arguments", "_meta"})

Ident = str | int


def envelope(meta: Any) -> list[Any]:
    """Return what the `_meta` of a request says of its client."""
    return [meta.get(key) for key in ENVELOPE_KEYS] if isinstance(meta, Mapping) else [None] * 3


def failure(ident: Ident, code: int, text: str) -> Json:
    """Return a JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}}


def written(message: Json) -> bytes:
    """Return a message as JSON on one line."""
    try:
        return orjson.dumps(message)
    except TypeError:  # integers beyond 64 bits, lone surrogates
        return json.dumps(message).encode()
