"""The login of a person: choose the flow, and store the login."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Protocol
from uuid import uuid4

import anyio
from mcp.client.auth.utils import issuers_match

from gatemini.backends.calls.callers import Caller, RpcError
from gatemini.backends.oauth.browser import by_browser
from gatemini.backends.oauth.credentials import Credentials
from gatemini.backends.oauth.device import DeviceCode, by_device
from gatemini.backends.oauth.discovery import Authority, discover
from gatemini.backends.oauth.grants import revoked, unattended
from gatemini.backends.oauth.interface import TokenSource
from gatemini.backends.oauth.login_record import Login
from gatemini.backends.oauth.requests import OAuthError
from gatemini.config.model.backend import UNATTENDED
from gatemini.errors import GateminiError, LoginRequired

ELICIT, COMPLETE = "elicitation/create", "notifications/elicitation/complete"

logger = logging.getLogger(__name__)


class Person(Protocol):
    """How a person is reached."""

    has_browser: bool
    """Whether a browser can be opened on this machine."""

    def open_url(self, url: str) -> None:
        """Show the page where to log in."""
        ...

    def show_code(self, code: DeviceCode) -> None:
        """Show a code that is to be confirmed on any machine."""
        ...


async def log_in(credentials: Credentials, person: Person, user: tuple[str, str] | None = None) -> Login:
    """Log in and keep the tokens. Raises OAuthError.

    `user`: the issuer and subject of the person, where another person could be sent to the page in their place.
    """
    with suppress(LoginRequired):  # a stored login that cannot be read is replaced
        await credentials.follow(now=True)
    challenge, before, oauth = credentials.challenge, credentials.before, credentials.oauth
    authority = await discover(credentials.url, challenge, oauth.issuer)
    if oauth.flow in UNATTENDED:
        login = await unattended(oauth, authority, challenge, before)
    elif _by_device(oauth.flow, authority, person):
        login = await by_device(oauth, authority, challenge, before, person.show_code)
    else:
        login = await by_browser(oauth, authority, challenge, before, person.open_url)
    if user is not None and issuers_match(user[0], login.issuer) and login.subject not in (None, user[1]):
        with suppress(OAuthError):
            await revoked(oauth, login)
        raise OAuthError("the user who has logged in at the page is not the one who was asked to")
    await credentials.logged_in(login)
    return login


def _by_device(flow: str, authority: Authority, person: Person) -> bool:
    if flow != "auto":
        return flow == "device"
    offered = authority.issuer.device_authorization_endpoint is not None
    return offered and (not person.has_browser or authority.issuer.authorization_endpoint is None)


class _PersonBehindClient:
    """A person behind a client, which asks them to open a page."""

    def __init__(self, *, has_browser: bool) -> None:
        self.has_browser = has_browser
        self.text = self.url = ""
        self.has_page = anyio.Event()

    def open_url(self, url: str) -> None:
        self.url = url
        self.has_page.set()

    def show_code(self, code: DeviceCode) -> None:
        self.url, self.text = code.url, f" with the code {code.code}"
        self.has_page.set()


async def ask_by_url(login: TokenSource, caller: Caller) -> bool:
    """Ask the person behind a caller to open the page to log in; return whether they have logged in.

    A browser that may be on another machine cannot come back to this one: there a device code is the way. The login that
    all share is made by the gateway's own user only: calls of others would be made with the account of whoever was first.
    """
    if not isinstance(login, Credentials) or (caller.user is not None and not login.who):
        return False
    credentials = login
    person, ident = _PersonBehindClient(has_browser=not caller.is_remote), uuid4().hex
    made: list[Login] = []

    async def flow() -> None:
        try:
            made.append(await log_in(credentials, person, caller.user))
        except (OAuthError, GateminiError, OSError) as error:  # OSError: the login cannot be stored
            logger.info("%s: %s", credentials.name, error)
        finally:
            person.has_page.set()
            tasks.cancel_scope.cancel()

    async def ask() -> None:
        await person.has_page.wait()
        params = {"mode": "url", "elicitationId": ident, "url": person.url}
        params["message"] = f"{credentials.name} needs a login{person.text}"
        try:
            answer = await caller.ask(ELICIT, params) if caller.ask is not None and person.url else {}
        except RpcError as refused:
            logger.info("%s: %s", credentials.name, refused.message)
            answer = {}
        if answer.get("action") != "accept":
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(flow)
        tasks.start_soon(ask)
    if made and caller.tell is not None:
        caller.tell(credentials.name, COMPLETE, {"elicitationId": ident})
    return bool(made)
