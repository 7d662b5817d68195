"""The token of one backend for one principal: given to each request, renewed before its end, one renewal at a time.

Requests go on with the token in force while it is renewed. All times are seconds since the epoch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from shlex import quote

import anyio
import anyio.abc
import httpx2
import msgspec
from mcp.client.auth.utils import issuers_match, union_scopes

from gatemini.backends.oauth.discovery import Authority, Challenge, challenge_of, discover
from gatemini.backends.oauth.grants import exchanged, refreshed, unattended
from gatemini.backends.oauth.interface import Hide, TokenSource
from gatemini.backends.oauth.login_record import Kept, Login
from gatemini.backends.oauth.requests import IssuerUnreachable, LoginBusy, OAuthError
from gatemini.backends.oauth.vault import Vault, key_of
from gatemini.config.model.backend import UNATTENDED, BackendConfig, BackendOAuth
from gatemini.errors import (
    BackendError,
    BackendProtocol,
    BackendUnreachable,
    ConfigError,
    LoginRequired,
    StateUnavailable,
)
from gatemini.model import Json

FOLLOW_SECONDS = 0.5
"""Between two looks at the stored login, which another process may have changed."""
AGAIN_SECONDS = 15.0
"""Between two renewals of a token that has not ended: the first one may have failed."""
NOBODY = "nobody is logged in"
ATTEMPTS = 2
"""How often a request is sent, each time with another token."""

logger = logging.getLogger(__name__)


class Credentials(TokenSource):
    """The login of one backend for one principal."""

    def __init__(
        self,
        config: BackendConfig,
        oauth: BackendOAuth,
        vault: Vault,
        hide: Hide,
        who: str = "",
        subject: Callable[[str], str | None] = lambda who: None,
    ) -> None:
        self.name = config.name
        self.url = str(config.url)
        self.oauth = oauth
        self.key = key_of(config.name, self.url, who)
        self.who = who
        """The principal; empty for the login that all share."""
        self._subject = subject
        """Finds the token with which a principal has logged in to this gateway."""
        self._hidden_as = f"token of {self.name}{f' {self.key[-6:]}' if who else ''}"
        self._option = f" --principal {quote(who)}" if who else ""
        self._vault = vault
        self._hide = hide
        self._kept = Kept()
        self._version: object = _UNREAD
        self._looked = 0.0
        """When the stored login was looked at last, by the monotonic clock."""
        self._renew_at: float | None = None
        self._renewal: _Renewal | None = None
        self._why = NOBODY
        """Why there is no login, for its error."""
        self._lacking = ""
        """The token that only a person can replace, empty for none."""
        self.changed = anyio.Event()
        """Set, and replaced by a new one, when the login changes."""

    @property
    def login(self) -> Login | None:
        """The login in force, with a token."""
        found = self._kept.login
        return found if found is not None and found.access_token else None

    @property
    def is_lacking(self) -> bool:
        return self.login is None or self.login.access_token == self._lacking

    @property
    def facts(self) -> Json | None:
        login = self.login
        if login is None:
            return None
        renewable = login.refresh_token is not None or self._is_unattended
        until = None if login.expires is None else datetime.fromtimestamp(login.expires, UTC)
        expires = None if until is None else until.isoformat(timespec="seconds")
        return {"expires": expires, "renewable": renewable, "scope": login.scope}

    @property
    def challenge(self) -> Challenge:
        """The backend's last challenge that only a person can answer."""
        return self._kept.challenge

    @property
    def before(self) -> Login | None:
        """The stored login, with or without tokens: a registered client is used again."""
        return self._kept.login

    # -- requests ------------------------------------------------------------------------------------

    async def token(self, tasks: anyio.abc.TaskGroup) -> str | None:
        await self.follow()
        login, now = self.login, time.time()
        if login is None:
            return None
        if login.is_expired(now):
            await self._wait_for_another(tasks, Challenge(), login.access_token)
            login = self.login
        elif self._renew_at is not None and now >= self._renew_at and self._renewal is None:
            self._renew_at = now + AGAIN_SECONDS
            self._start(tasks, partial(self._renew, Challenge(), login.access_token))
        return login.access_token if login is not None else None

    async def refused(
        self, response: httpx2.Response, token: str | None, attempt: int, tasks: anyio.abc.TaskGroup
    ) -> bool:
        challenge = challenge_of(response)
        if response.status_code == 403 and not challenge.wants_more:
            return False
        if self.login is not None and self.login.access_token != token:
            return attempt < ATTEMPTS
        if attempt >= ATTEMPTS:
            says_so = "www-authenticate" in response.headers  # else it may be about the session
            if challenge.wants_more:
                raise self._insufficient(challenge)
            if self._is_unattended or not says_so:
                return False
            raise await self._refusal_of_new(challenge, token)
        if challenge.wants_more and self.login is not None:
            if self.login.has_asked_for(challenge.scope):
                raise self._insufficient(challenge)
            more = union_scopes(self.login.scope, challenge.scope)
            challenge = msgspec.structs.replace(challenge, scope=more)
        await self._wait_for_another(tasks, challenge, token)
        return True

    def _insufficient(self, challenge: Challenge) -> BackendProtocol:
        """Return the error for scopes that another login would not bring either."""
        has = self.login.scope if self.login is not None else None
        return BackendProtocol(
            f"{self.name} refuses the login's token: insufficient_scope; it needs {challenge.scope or 'more scopes'}, "
            f"and the login has {has or 'no known scopes'}",
            hint=f"another login brings no more: the issuer has to permit what is missing, or backends.{self.name}.oauth "
            "has to name it in `scopes`",
            details={"http_status": 403, "scope": challenge.scope},
        )

    async def _refusal_of_new(self, challenge: Challenge, token: str | None) -> BackendError:
        try:
            async with self._vault.turn(self.key):
                await self.follow(now=True)
                why = "the server refuses a token that was just made"
                if self.login is not None and self.login.access_token == token:
                    await self._forget_tokens(challenge, why)
                return await self.required(challenge, why)
        except (StateUnavailable, LoginBusy) as error:
            return BackendUnreachable(f"{self.name}: no token: {error.message}")

    async def required(self, challenge: Challenge, why: str) -> LoginRequired:
        """Return the error for what only a person can do, and keep the challenge for the command that does it.

        To be called while this process has the turn: it replaces what is stored.
        """
        if challenge != self._kept.challenge and challenge != Challenge():
            await self._keep(msgspec.structs.replace(self._kept, challenge=challenge))
        self._lacking = self.login.access_token if self.login is not None else ""
        more = challenge.wants_more
        what = f"needs a login with more scopes ({challenge.scope})" if more else "needs a login"
        return LoginRequired(
            f"{self.name} {what}: {why}",
            hint=f"a person runs `gatemini login {self.name}{self._option}`; then call again",
            details={"login": self.name, "step_up": more},
        )

    # -- renewal -------------------------------------------------------------------------------------

    async def _wait_for_another(
        self, tasks: anyio.abc.TaskGroup, challenge: Challenge, old: str | None
    ) -> None:
        """Wait for another token than `old`; the renewal goes on if the caller gives up."""
        while challenge.wants_more and self._renewal is not None:  # it asks for no more scopes
            await self._renewal.over.wait()
        renewal = self._renewal or self._start(tasks, partial(self._renew, challenge, old))
        await renewal.over.wait()
        if renewal.error is not None:
            error = renewal.error
            raise type(error)(error.message, hint=error.hint, details=error.details)

    def _start(self, tasks: anyio.abc.TaskGroup, renew: Callable[[], Awaitable[None]]) -> _Renewal:
        renewal = self._renewal = _Renewal()
        tasks.start_soon(self._run, renewal, renew)
        return renewal

    async def _run(self, renewal: _Renewal, renew: Callable[[], Awaitable[None]]) -> None:
        # Shielded: if the new refresh token is not stored, the login is lost, for the old one is used up.
        with anyio.CancelScope(shield=True):
            try:
                await renew()
            except (IssuerUnreachable, LoginBusy) as error:
                renewal.error = BackendUnreachable(
                    f"{self.name}: no token: {error.message}", hint="the login stays; call again later"
                )
            except OAuthError as error:
                renewal.error = BackendUnreachable(f"{self.name}: the login failed: {error.message}")
            except StateUnavailable as error:
                renewal.error = BackendUnreachable(f"{self.name}: no token: {error.message}")
            except BackendError as error:
                renewal.error = error
            finally:
                self._renewal = None
                if renewal.error is not None:
                    logger.info("%s", renewal.error.message)
                renewal.over.set()

    async def _renew(self, challenge: Challenge, old: str | None) -> None:
        """Get another token than `old`: from another process, by the refresh token, or by the client's own grant."""
        async with self._vault.turn(self.key):
            await self.follow(now=True)
            login = self.login
            if login is not None and login.access_token != old and not login.is_expired(time.time()):
                return
            if challenge == Challenge() and login is not None and login.refresh_token is not None:
                await self._refresh(login, challenge)
            elif self._exchanges:
                await self._keep(Kept(await self._exchange(challenge)))
            elif self.oauth.flow in UNATTENDED:
                authority = await self._same_issuer(challenge)
                await self._keep(Kept(await unattended(self.oauth, authority, challenge, self._kept.login)))
            elif login is None:
                raise await self.required(challenge, self._why)
            elif challenge.wants_more:
                raise await self.required(challenge, f"the present one has {login.scope or 'none'}")
            elif login.refresh_token is None:
                await self._forget_tokens(challenge, "its token has ended, and cannot be renewed")
                raise await self.required(challenge, self._why)
            else:
                await self._same_issuer(challenge)
                await self._refresh(login, challenge)

    async def _same_issuer(self, challenge: Challenge) -> Authority:
        """Return the issuer. Raises BackendError if it is not the one before: a new one gets no secret unless a person agrees."""
        authority = await discover(self.url, challenge, self.oauth.issuer)
        known = self._kept.login
        if known is None or issuers_match(authority.name, known.issuer):
            return authority
        why = f"its issuer is {authority.name} now"
        if self._exchanges:
            raise BackendProtocol(
                f"{self.name}: {why}, not {known.issuer}",
                hint=f"if that is right, run `gatemini logout {self.name}{self._option}` and call again",
            )
        await self._forget_tokens(challenge, why)
        raise await self.required(challenge, self._why)

    @property
    def _is_unattended(self) -> bool:
        return self.oauth.flow in UNATTENDED or self._exchanges

    @property
    def _exchanges(self) -> bool:
        """Whether the login is made from the token with which a client has logged in here."""
        return self.who != "" and self.oauth.exchange is not None

    async def _exchange(self, challenge: Challenge) -> Login:
        subject = self._subject(self.who)
        if subject is None:
            raise BackendProtocol(
                f"{self.name} gets a token for that of its client, and this client has logged in without one that "
                "an issuer could exchange"
            )
        self._hide(f"{self._hidden_as}'s client", [subject])
        authority = await self._same_issuer(challenge)
        return await exchanged(self.oauth, authority, challenge, self._kept.login, subject)

    async def _refresh(self, login: Login, challenge: Challenge) -> None:
        try:
            renewed = await refreshed(self.oauth, login)
        except IssuerUnreachable:
            raise
        except OAuthError as error:
            if error.code not in ("invalid_grant", "invalid_client", "unauthorized_client"):
                raise
            await self._forget_tokens(challenge, f"its login has ended ({error.code})")
            raise await self.required(challenge, self._why) from error
        await self._keep(Kept(renewed))  # before the first use: the old refresh token may not count any more

    async def _forget_tokens(self, challenge: Challenge, why: str) -> None:
        self._why = why
        login = self._kept.login
        await self._keep(Kept(login.without_tokens() if login is not None else None, challenge))

    # -- the stored login ------------------------------------------------------------------------------

    async def follow(self, *, now: bool = False) -> bool:
        """Read the stored login again if another process has changed it; return whether one has."""
        clock = time.monotonic()
        if not now and clock < self._looked + FOLLOW_SECONDS:
            return False
        self._looked = clock
        try:
            version = await self._vault.version(self.key)
            if version == self._version:
                return False
            self._use(self._of_pinned_issuer(await self._vault.read(self.key)), version)
        except StateUnavailable as error:
            if self._version is not _UNREAD:
                return False  # the login that is known stays in use
            raise BackendUnreachable(f"{self.name}: no login: {error.message}", hint=error.hint) from error
        except (ConfigError, OSError) as error:
            hint = error.hint if isinstance(error, ConfigError) else None
            raise LoginRequired(f"{self.name} has no login: {error}", hint=hint) from error
        return True

    def _of_pinned_issuer(self, kept: Kept) -> Kept:
        """Return what is stored; leave out a login of an issuer that is not `oauth.issuer`, which would get our secret."""
        login, pinned = kept.login, self.oauth.issuer
        if login is None or pinned is None or issuers_match(login.issuer, pinned):
            return kept
        self._why = f"the login is one of {login.issuer}, and oauth.issuer is {pinned}"
        return Kept(challenge=kept.challenge)

    async def _keep(self, kept: Kept) -> None:
        """Store a login, then use it; one that cannot be stored is used by this process alone."""
        try:
            await self._vault.write(self.key, kept)
            version = await self._vault.version(self.key)
        except (ConfigError, OSError, StateUnavailable) as error:
            logger.warning("the login of %s is lost at the next start: %s", self.name, error)
            version = self._version
        self._use(kept, version)

    def _use(self, kept: Kept, version: object) -> None:
        before = self._kept.login.secrets if self._kept.login is not None else []
        new = kept.login.secrets if kept.login is not None else []
        self._hide(self._hidden_as, [*new, *before])
        self._kept, self._version = kept, version
        if self.login is not None:
            self._why = NOBODY
        self._renew_at = kept.login.renew_time() if kept.login is not None else None
        self.changed.set()
        self.changed = anyio.Event()

    async def logged_in(self, login: Login) -> None:
        """Keep the login that a person has made. Raises ConfigError or OSError where it cannot be written."""
        async with self._vault.turn(self.key):
            await self._vault.write(self.key, Kept(login))
            self._use(Kept(login), await self._vault.version(self.key))

    async def log_out(self) -> Login | None:
        """Forget the login, and return it."""
        async with self._vault.turn(self.key):
            with suppress(LoginRequired):
                await self.follow(now=True)
            login = self._kept.login
            await self._vault.remove(self.key)
            self._use(Kept(), await self._vault.version(self.key))
        return login

    async def until_login(self) -> None:
        while True:
            with suppress(BackendError):  # what is stored cannot be read yet
                await self.follow(now=True)
                if not self.is_lacking:
                    return
            with anyio.move_on_after(FOLLOW_SECONDS):
                await self.changed.wait()


class _Renewal:
    """A renewal that is under way."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: BackendError | None = None


_UNREAD = object()
