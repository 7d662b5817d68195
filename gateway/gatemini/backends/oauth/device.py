"""The login by a code that a person confirms in any browser (RFC 8628)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio

from gatemini.backends.oauth.clients import DEVICE_GRANT, proof
from gatemini.backends.oauth.discovery import Authority, Challenge
from gatemini.backends.oauth.grants import begun, granted, parameters
from gatemini.backends.oauth.login_record import Login, seconds_of
from gatemini.backends.oauth.requests import MOST_CODE, IssuerUnreachable, OAuthError, checked, post_form
from gatemini.config.model.backend import BackendOAuth
from gatemini.text.escape import one_line

DEFAULT_INTERVAL, SLOWER = 5.0, 5.0
"""Seconds between two requests for the tokens, and what `slow_down` adds to them."""
SHORTEST_INTERVAL, LONGEST_INTERVAL = 1.0, 60.0
"""Bounds of that interval: one of 0 s floods the issuer, and in a long one the code expires before it is asked about."""
DEFAULT_LIFE, SHORTEST_LIFE, LONGEST_LIFE = 600.0, 30.0, 3600.0
"""Seconds within which the person confirms the code."""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What the person needs. `url` is the page with the code in its address, if the issuer has one, else `page`."""

    page: str
    code: str
    url: str


async def by_device(
    config: BackendOAuth,
    authority: Authority,
    challenge: Challenge,
    before: Login | None,
    show: Callable[[DeviceCode], None],
) -> Login:
    """Log in while the person confirms a code in any browser. Raises OAuthError."""
    place = authority.endpoint("device_authorization")
    if place is None:
        raise OAuthError("the issuer has no login by device code: set oauth.flow to browser")
    login = await begun(config, authority, before)
    scope = authority.scope(config.scopes, challenge, refreshable=True)
    form = {"resource": authority.resource, **parameters(config, scope)}
    headers = proof(config, login, form)
    form.setdefault("client_id", login.client.client_id)
    answer = await post_form(place, form, headers)
    device, code, page = (answer.get(key) for key in ("device_code", "user_code", "verification_uri"))
    if not (isinstance(device, str) and isinstance(code, str) and isinstance(page, str)):
        raise OAuthError("the issuer's answer has no device_code, user_code and verification_uri")
    if len(code) > MOST_CODE:
        raise OAuthError(f"the issuer's user_code has {len(code)} characters, allowed are {MOST_CODE}")
    code = one_line(code)
    whole = answer.get("verification_uri_complete")
    checked(page, authority.url)
    url = checked(whole, authority.url) if isinstance(whole, str) else page
    show(DeviceCode(page, code, url))
    life = _within(SHORTEST_LIFE, answer.get("expires_in"), LONGEST_LIFE, DEFAULT_LIFE)
    interval = _within(SHORTEST_INTERVAL, answer.get("interval"), LONGEST_INTERVAL, DEFAULT_INTERVAL)
    grant = {"grant_type": DEVICE_GRANT, "device_code": device}
    with anyio.move_on_after(life):
        return await _polled(config, login, grant, scope, interval)
    raise OAuthError(f"the code was not confirmed within {life:g} s", code="expired_token")


async def _polled(
    config: BackendOAuth, login: Login, grant: dict[str, str], scope: str | None, interval: float
) -> Login:
    while True:
        await anyio.sleep(min(interval, LONGEST_INTERVAL))
        try:
            return await granted(config, login, grant, scope)
        except IssuerUnreachable:
            interval *= 2
        except OAuthError as error:
            if error.code == "slow_down":
                interval += SLOWER
            elif error.code != "authorization_pending":
                raise


def _within(least: float, value: object, most: float, default: float) -> float:
    """Return the seconds that an issuer names, within bounds; the default where it names none."""
    seconds = seconds_of(value)
    return default if seconds is None else max(least, min(seconds, most))
