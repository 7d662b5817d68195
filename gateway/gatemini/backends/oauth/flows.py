"""The login of a person: choose the flow, keep what it brings."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from gatemini.backends.oauth.browser import by_browser
from gatemini.backends.oauth.credentials import Credentials
from gatemini.backends.oauth.device import DeviceCode, by_device
from gatemini.backends.oauth.discovery import Authority, discover
from gatemini.backends.oauth.grants import unattended
from gatemini.backends.oauth.record import Login
from gatemini.config.model.backend import UNATTENDED
from gatemini.errors import LoginRequired


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


async def log_in(credentials: Credentials, person: Person) -> Login:
    """Log in and keep the tokens. Raises OAuthError."""
    with suppress(LoginRequired):  # what is stored cannot be read, and is replaced
        await credentials.follow(now=True)
    challenge, before, oauth = credentials.challenge, credentials.before, credentials.oauth
    authority = await discover(credentials.url, challenge)
    if oauth.flow in UNATTENDED:
        login = await unattended(oauth, authority, challenge, before)
    elif _by_device(oauth.flow, authority, person):
        login = await by_device(oauth, authority, challenge, before, person.show_code)
    else:
        login = await by_browser(oauth, authority, challenge, before, person.open_url)
    await credentials.logged_in(login)
    return login


def _by_device(flow: str, authority: Authority, person: Person) -> bool:
    if flow != "auto":
        return flow == "device"
    offered = authority.issuer.device_authorization_endpoint is not None
    return offered and (not person.has_browser or authority.issuer.authorization_endpoint is None)
