"""Requests to authorization servers: bounded in size and time, without redirects."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import orjson

from gatemini.bounded_body import bounded_body

TIMEOUT_SECONDS = 10.0
MOST_BYTES = 1 << 20
MOST_DESCRIPTION = 200
SHORTEST_SECRET = 16
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


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


def is_loopback(url: str) -> bool:
    """Whether a URL is on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def checked(url: str, backend_url: str) -> str:
    """Return an address that a server named, if tokens may be sent there. Raises OAuthError.

    It has to be https; http is for this machine, and only where the backend is on it too: a remote server must not
    direct the gateway to services beside it.
    """
    parts = urlsplit(url)
    local = is_loopback(url)
    if not parts.hostname or parts.username is not None or (local and not is_loopback(backend_url)):
        raise OAuthError(f"the server names the address {shown(url)}, which is not used")
    if parts.scheme != "https" and not (local and parts.scheme == "http"):
        raise OAuthError(f"the server names the address {shown(url)}, which is not https")
    return url


def shown(url: str) -> str:
    """The address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


async def get(url: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """The status and the JSON value at an address, None where there is none."""
    return await _answer("GET", url, headers=dict(headers or {}))


async def post_json(url: str, body: Mapping[str, Any]) -> tuple[int, Any]:
    """The status and the JSON value that answers a JSON document."""
    return await _answer("POST", url, json=dict(body))


async def post_form(
    url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object that answers a form, empty for none. Raises OAuthError, with the code that the server gave."""
    status, body = await _answer("POST", url, data=dict(form), headers=dict(headers or {}))
    found = body if isinstance(body, dict) else {}
    code = found.get("error")
    if status >= 400 or code is not None:
        error = refused(url, status, found)
        for value in form.values():  # some servers quote what they refuse
            if len(value) >= SHORTEST_SECRET:
                error.message = error.message.replace(value, "«secret»")
        raise error
    return found


def refused(url: str, status: int, body: Any) -> OAuthError:
    """The error of a refusal by a server."""
    found = body if isinstance(body, dict) else {}
    code = found.get("error")
    said = found.get("error_description")
    text = f"{shown(url)} answered {status}"
    if isinstance(code, str):
        text += f" {code[:MOST_DESCRIPTION]}"
    if isinstance(said, str):
        text += f": {' '.join(said.split())[:MOST_DESCRIPTION]}"
    kind = IssuerUnreachable if status >= 500 or status == 429 else OAuthError
    return kind(text, code=code if isinstance(code, str) else "")


async def _answer(method: str, url: str, **options: Any) -> tuple[int, Any]:
    headers = {"accept": "application/json", **options.pop("headers", {})}
    try:
        with anyio.fail_after(TIMEOUT_SECONDS):
            async with (
                httpx2.AsyncClient(verify=_tls_context(), timeout=TIMEOUT_SECONDS) as client,
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


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """Cached, because reading the certificate store takes tens of milliseconds."""
    return httpx2.create_ssl_context()
