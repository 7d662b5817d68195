"""The login by a browser: authorization code with PKCE (RFC 7636), sent to a port of this machine by a redirect."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit

import anyio
import anyio.abc
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import validate_authorization_response_iss

from gatemini.backends.oauth.clients import registered
from gatemini.backends.oauth.discovery import Authority, Challenge
from gatemini.backends.oauth.grants import begun, granted, parameters
from gatemini.backends.oauth.login_record import Login
from gatemini.backends.oauth.requests import MOST_CODE, MOST_DESCRIPTION, OAuthError, shown
from gatemini.config.model.backend import BackendOAuth
from gatemini.text.escape import one_line

LOGIN_SECONDS = 600.0
"""How long a person may take."""
HOST, PATH = "127.0.0.1", "/callback"
MOST_REQUEST_BYTES = 16 << 10
READ_SECONDS = 10.0
_PAGE = "<!doctype html><meta charset=utf-8><title>Gatemini</title><p>{}"


class Callback:
    """Receives the redirect of the browser at a port of 127.0.0.1. A request without the right `state` changes nothing."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}{PATH}"
        self.state = secrets.token_urlsafe(32)
        self._answer: dict[str, str] | None = None
        self._answered = anyio.Event()

    async def answer(self) -> dict[str, str]:
        """Wait for the parameters of the redirect."""
        with anyio.move_on_after(LOGIN_SECONDS):
            await self._answered.wait()
        if self._answer is None:
            raise OAuthError(f"the browser did not come back within {LOGIN_SECONDS:g} s")
        return self._answer

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Answer the one request of a connection."""
        async with stream:
            with anyio.move_on_after(READ_SECONDS):
                try:
                    status, text = self._receive(await _request_target(stream))
                    page = _PAGE.format(text).encode()
                    head = (
                        f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
                        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
                    )
                    await stream.send(head.encode() + page)
                except (anyio.BrokenResourceError, anyio.EndOfStream):
                    return
                finally:  # not before the person has the page: what waits may end this task
                    if self._answer is not None:
                        self._answered.set()

    def _receive(self, target: str) -> tuple[str, str]:
        try:
            parts = urlsplit(target)
        except ValueError:  # such as `//[`: any page in the browser may send it
            return "400 Bad Request", "There is nothing here."
        if parts.path != PATH:
            return "404 Not Found", "There is nothing here."
        found = dict(parse_qsl(parts.query, keep_blank_values=True))
        if not secrets.compare_digest(found.get("state", "").encode(), self.state.encode()):
            return "400 Bad Request", "This is not the login that was begun."
        if self._answer is None:
            self._answer = found
        done = "error" not in found
        return "200 OK", "Logged in. You can close this page." if done else "The login was refused."


async def _listener(
    config: BackendOAuth, registered_url: str | None
) -> anyio.abc.Listener[anyio.abc.SocketStream]:
    """Listen at the configured port, else at that of the registered redirect, else at any."""
    for port in (config.redirect_port, (urlsplit(registered_url).port or 0) if registered_url else 0):
        if port:
            try:
                return await anyio.create_tcp_listener(local_host=HOST, local_port=port)
            except OSError as error:
                if port == config.redirect_port:
                    why = f"port {port} (oauth.redirect_port) cannot be used: {error.strerror}"
                    raise OAuthError(why) from error
    return await anyio.create_tcp_listener(local_host=HOST)


@asynccontextmanager
async def callback(config: BackendOAuth, registered_url: str | None) -> AsyncIterator[Callback]:
    """Listen for the redirect within the context; `registered_url` is its address in an earlier registration."""
    listener = await _listener(config, registered_url)
    async with listener, anyio.create_task_group() as tasks:
        found = Callback(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610 - of anyio
        tasks.start_soon(listener.serve, found.serve)
        failure: OAuthError | None = None
        try:
            yield found
        except OAuthError as error:  # raised below: a task group would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def by_browser(
    config: BackendOAuth,
    authority: Authority,
    challenge: Challenge,
    before: Login | None,
    open_url: Callable[[str], None],
) -> Login:
    """Log in; `open_url` is called with the page that the person opens. Raises OAuthError."""
    page = authority.endpoint("authorization")
    if page is None:
        raise OAuthError("the issuer has no page where a person can log in")
    if urlsplit(page).fragment:
        raise OAuthError(f"the issuer's page {shown(page)} has a fragment, which RFC 6749 does not allow")
    if "S256" not in (authority.issuer.code_challenge_methods_supported or ()):
        raise OAuthError(
            "the issuer's metadata do not say that it takes PKCE with S256 (code_challenge_methods_supported)"
        )
    client = registered(authority, before)
    async with callback(config, client.redirect if client is not None else None) as listening:
        login = await begun(config, authority, before, listening.url)
        scope = authority.scope(config.scopes, challenge, refreshable=True)
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": login.client.client_id,
            "redirect_uri": listening.url,
            "state": listening.state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": authority.resource,
            **parameters(config, scope),
        }
        if "offline_access" in (scope or "").split():
            query["prompt"] = "consent"
        open_url(f"{page}{'&' if urlsplit(page).query else '?'}{urlencode(query)}")
        code = _code(await listening.answer(), authority)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": listening.url,
            "code_verifier": verifier,
        }
        return await granted(config, login, form, scope)


def _code(found: dict[str, str], authority: Authority) -> str:
    """Return the code, if the answer is from the right issuer (RFC 9207). Raises OAuthError."""
    try:
        validate_authorization_response_iss(found.get("iss"), authority.issuer)
    except OAuthFlowError as error:
        raise OAuthError(f"the answer is not from the issuer: {error}") from error
    if "error" in found:
        said = one_line(found.get("error_description", ""))[:MOST_DESCRIPTION]
        code = one_line(found["error"])[:MOST_CODE]
        raise OAuthError(f"the login was refused: {code}{f': {said}' if said else ''}", code=code)
    if not found.get("code"):
        raise OAuthError("the issuer's answer has no code")
    return found["code"]


async def _request_target(stream: anyio.abc.SocketStream) -> str:
    """Read an HTTP request, and return the target of its first line; empty for anything but GET."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < MOST_REQUEST_BYTES:
        data += await stream.receive(4096)
    words = data.partition(b"\r\n")[0].decode("latin-1").split()
    return words[1] if len(words) == 3 and words[0] == "GET" else ""
