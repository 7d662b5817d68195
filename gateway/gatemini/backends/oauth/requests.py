"""Requests to authorization servers: bounded in size and time, without redirects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import orjson

from gatemini.config.model.values.hosts import is_loopback, may_be_here
from gatemini.outgoing.bounded_body import bounded_body
from gatemini.outgoing.tls_context import tls_context
from gatemini.text.escape import one_line

TIMEOUT_SECONDS = 10.0
MOST_BYTES = 1 << 20
MOST_DESCRIPTION = 200
MOST_CODE = 60
"""Characters that are shown of what a server says of an error."""
SHORTEST_SECRET = 16
"""Shorter values of a form are not searched for in what the server says."""


class OAuthError(Exception):
    """A step of a login failed. `code` is the OAuth error code, where the server named one."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__()
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message


class IssuerUnreachable(OAuthError):
    """The authorization server does not answer, or is failing: the same request may succeed later."""


class LoginBusy(OAuthError):
    """Another process has the turn to change the login, for longer than any change takes."""


def checked(url: str, backend_url: str) -> str:
    """Return an address that a server named, if tokens may be sent there. Raises OAuthError.

    It has to be https; http is for this machine, and only where the backend is on it too: a remote server must not
    direct the gateway to services beside it.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise OAuthError("the server names an address that is no URL") from error
    beside = may_be_here(host) and not may_be_here(urlsplit(backend_url).hostname or "")
    if not host or parts.username is not None or not url.isprintable() or beside:
        raise OAuthError(f"the server names the address {shown(url)}, which is not used")
    here = is_loopback(host) or host.endswith(".localhost")
    if parts.scheme != "https" and not (parts.scheme == "http" and here):
        raise OAuthError(f"the server names the address {shown(url)}, which is not https")
    return url


def shown(url: str) -> str:
    """Return the address without user and query, which may be secret."""
    parts = urlsplit(url)
    return one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


async def get(url: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Return the status and the JSON value at an address, None for a body that is no JSON."""
    return await _answer("GET", url, headers=dict(headers or {}))


async def post_json(url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
    """Post a JSON document; return as `get` does."""
    return await _answer("POST", url, json=dict(body))


async def post_form(
    url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Post a form; return the JSON object of the answer, empty for any other. Raises OAuthError with the server's code."""
    status, body = await _answer("POST", url, data=dict(form), headers=dict(headers or {}))
    found = body if isinstance(body, dict) else {}
    if status >= 400 or found.get("error") is not None:
        raise refused(url, status, found, form)
    return found


def refused(url: str, status: int, body: Any, form: Mapping[str, str] | None = None) -> OAuthError:
    """Return the error for a refusal by a server. Values of the form that was sent are replaced in its text."""
    found = body if isinstance(body, dict) else {}
    secrets = [value for value in (form or {}).values() if len(value) >= SHORTEST_SECRET]

    def quoted(text: str, most: int) -> str:
        for secret in secrets:  # before it is cut: a part of a secret is one too
            text = text.replace(secret, "«secret»")
        return one_line(text)[:most]

    code, said = found.get("error"), found.get("error_description")
    text = f"{shown(url)} answered {status}"
    if isinstance(code, str):
        text += f" {quoted(code, MOST_CODE)}"
    if isinstance(said, str):
        text += f": {quoted(said, MOST_DESCRIPTION)}"
    kind = IssuerUnreachable if status >= 500 or status == 429 else OAuthError
    return kind(text, code=code if isinstance(code, str) else "")


async def _answer(method: str, url: str, **options: Any) -> tuple[int, Any]:
    headers = {"accept": "application/json", **options.pop("headers", {})}
    tls = await anyio.to_thread.run_sync(tls_context)
    try:
        with anyio.fail_after(TIMEOUT_SECONDS):
            async with (
                httpx2.AsyncClient(verify=tls, timeout=TIMEOUT_SECONDS) as client,
                client.stream(method, url, headers=headers, **options) as response,
            ):
                body = await bounded_body(response, MOST_BYTES)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise IssuerUnreachable(f"{shown(url)} does not answer ({type(error).__name__})") from error
    if body is None:
        raise OAuthError(f"{shown(url)} answered more than {MOST_BYTES} bytes")
    try:
        return response.status_code, orjson.loads(body)
    except orjson.JSONDecodeError:
        return response.status_code, None
