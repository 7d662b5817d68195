"""The fields of the error with which a call's promise rejects, from an error of the gateway."""

from __future__ import annotations

from typing import Any

from gatemini.errors import BackendProtocol, GateminiError, LimitError, PolicyError, ToolNotFound
from gatemini.model import Json

URL_NEEDED = -32042
"""Error code of a backend that wants the user to visit an address first."""


def error_fields(exc: GateminiError, tool: str, backend: str) -> Json:
    """Return the fields of the guest's error object for a failure on the gateway's side of the call."""
    fields: Json = {
        "name": "ToolError",
        "message": exc.message,
        "tool": tool,
        "backend": backend,
        "code": exc.code,
    }
    if isinstance(exc, BackendProtocol) and exc.rpc_code is not None:
        fields["code"] = exc.rpc_code
    if isinstance(exc, BackendProtocol) and exc.rpc_data is not None:
        fields["structured"] = exc.rpc_data
    if isinstance(exc, ToolNotFound | LimitError | PolicyError):
        fields["name"] = exc.kind
    if isinstance(exc, PolicyError) and exc.details:
        fields["structured"] = exc.details
    if hint := exc.hint or where_to_go(exc):
        fields["hint"] = hint
    return fields


def where_to_go(exc: GateminiError) -> str | None:
    """Return the addresses that the user has to visit before the backend serves the call (2025-11-25)."""
    if (
        not isinstance(exc, BackendProtocol)
        or exc.rpc_code != URL_NEEDED
        or not isinstance(exc.rpc_data, dict)
    ):
        return None
    asked = exc.rpc_data.get("elicitations")
    urls = [a.get("url") for a in asked if isinstance(a, dict)] if isinstance(asked, list) else []
    shown = [url for url in urls if isinstance(url, str) and url.startswith(("https://", "http://"))]
    return f"the user has to visit {' and '.join(shown[:3])} first; then call again" if shown else None


def brief(error: Any) -> str:
    """Return the first line of an error, at most 120 characters, for the list of calls."""
    text = str(error.get("message", "")) if isinstance(error, dict) else str(error)
    first = text.splitlines()[0] if text else "failed"
    if first.endswith(":"):  # a heading says nothing without the lines after it
        first = " ".join(text.split())
    return first if len(first) <= 120 else first[:117] + "..."
