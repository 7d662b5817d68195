"""`gatemini login BACKEND | --all` and `logout BACKEND`: logins to backends with `oauth`."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.cli.login_records import record_login
from gatemini.errors import BackendNotFound, GateminiError, InvalidRequest, LoginRequired

if TYPE_CHECKING:
    from gatemini.backends.oauth.credentials import Credentials
    from gatemini.backends.oauth.device import DeviceCode
    from gatemini.backends.oauth.logins import Logins
    from gatemini.config.load import Loaded
    from gatemini.config.model.schema import BackendConfig

MOST_LOGINS = 2
"""A server may refuse the first login and ask for another one: with more scopes, or of another issuer."""
TRY_SECONDS = 60.0
"""How long connecting may take, before and after the login."""


class Terminal:
    """The person at this terminal."""

    def __init__(self, *, browser: bool) -> None:
        self.has_browser = browser and _has_browser()

    def open_url(self, url: str) -> None:
        """Open a browser where there is one; the address is printed always."""
        shell.note("open this page to log in:")
        shell.say(url)
        sys.stdout.flush()
        if self.has_browser:
            from threading import Thread
            from webbrowser import open as open_page

            # A daemon thread: BROWSER may name a program that runs as long as its window.
            Thread(target=open_page, args=(url,), daemon=True).start()

    def show_code(self, code: DeviceCode) -> None:
        shell.note(f"open {code.page} in any browser and confirm the code {code.code}; or open:")
        shell.say(code.url)
        sys.stdout.flush()


def _has_browser() -> bool:
    import webbrowser

    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def login(
    *,
    backend: str | None,
    every: bool,
    browser: bool,
    principal: str,
    config: Path | None,
    as_json: bool,
) -> int:
    """Log in to a backend with `oauth`, or to all that need it, and keep the tokens."""
    if (backend is None) is not every:
        raise InvalidRequest("name one backend, or --all")
    loaded = _loaded(config)
    with_oauth = [each for each in loaded.config.backends.values() if each.oauth is not None]
    chosen = with_oauth if backend is None else [_of(loaded, backend)]
    person = Terminal(browser=browser)

    async def one(config: BackendConfig, logins: Logins) -> dict[str, Any]:
        return await _log_in(config, logins, person, again=not every)

    done = _each(loaded, chosen, one, principal, "login")
    if as_json:
        shell.emit({"logins": done})
    else:
        for each in done:
            shell.say(_line(each))
        if not done:
            shell.note("no backend of the configuration has oauth")
    return shell.OK if all(each["ok"] for each in done) else shell.FAILED


def logout(*, backend: str, principal: str, config: Path | None, as_json: bool) -> int:
    """Forget the login to a backend, and revoke its tokens if the issuer offers that."""

    async def one(config: BackendConfig, logins: Logins) -> dict[str, Any]:
        from gatemini.backends.oauth.grants import revoked
        from gatemini.backends.oauth.requests import OAuthError

        credentials = _credentials(config, logins)
        try:
            login = await credentials.log_out()
        except OAuthError as error:
            return {"backend": config.name, "ok": False, "text": error.message}
        if login is None:
            return {"backend": config.name, "ok": True, "text": "nobody was logged in"}
        try:
            await revoked(credentials.oauth, login)
        except OAuthError as error:
            return {"backend": config.name, "ok": True, "text": f"logged out here; {error.message}"}
        return {"backend": config.name, "ok": True, "text": "logged out"}

    loaded = _loaded(config)
    [done] = _each(loaded, [_of(loaded, backend)], one, principal, "logout")
    shell.result(done, _line(done), as_json=as_json)
    return shell.OK if done["ok"] else shell.FAILED


def _each(
    loaded: Loaded,
    chosen: list[BackendConfig],
    one: Callable[[BackendConfig, Logins], Awaitable[dict[str, Any]]],
    principal: str,
    command: str,
) -> list[dict[str, Any]]:
    """Apply `one` to each backend, one after another: a person has one browser. Records what became of each."""
    import anyio

    from gatemini.backends.oauth.logins import Logins
    from gatemini.state.opening import open_state

    async def all_of_them() -> list[dict[str, Any]]:
        async with open_state(loaded.config.state, loaded.state_keys) as store:
            logins = Logins(lambda name, values: None, store, principal)
            found = []
            for config in chosen:
                found.append(done := await one(config, logins))
                outcome = "failed" if not done["ok"] else "accepted" if command == "login" else "ended"
                about = {"backend": config.name, "of": principal, "outcome": outcome, "reason": done["text"]}
                await record_login(loaded, command, **about)
            return found

    return anyio.run(all_of_them)


async def _log_in(config: BackendConfig, logins: Logins, person: Terminal, *, again: bool) -> dict[str, Any]:
    """Connect, to get the backend's challenge; log in if it refuses, or if `again`; connect once more."""
    from gatemini.backends.oauth.flows import log_in
    from gatemini.backends.oauth.requests import OAuthError

    credentials = _credentials(config, logins)
    try:
        tools = await _tools(config, logins)
        for _ in range(MOST_LOGINS):
            if tools is not None and not again:
                break
            await log_in(credentials, person)
            tools, again = await _tools(config, logins), False
        await credentials.follow(now=True)
    except (OAuthError, GateminiError) as error:
        return {"backend": config.name, "ok": False, "text": error.message}
    text = "logged in" if tools is not None else "the server refuses the new login"
    facts = credentials.facts or {}
    return {"backend": config.name, "ok": tools is not None, "text": text, "tools": tools, **facts}


async def _tools(config: BackendConfig, logins: Logins) -> int | None:
    """Return how many tools the backend lists with the stored login, None if it refuses that."""
    import anyio

    from gatemini.backends.manager import Manager

    manager = Manager(on_tools=lambda name, tools: None, logins=logins)
    found: int | None = None
    failure: GateminiError | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(manager.run)
        manager.add(config)
        try:
            await manager.wait_ready(config.name, TRY_SECONDS)
            found = manager.status(config.name).tools
        except GateminiError as error:  # raised below: a task group would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None and not isinstance(failure, LoginRequired):
        raise failure
    return found


def _credentials(config: BackendConfig, logins: Logins) -> Credentials:
    found = logins.of(config)
    if found is None:
        raise InvalidRequest(
            f"{config.name} has no oauth",
            hint=f"write backends.{config.name}.oauth: {{}} into the configuration",
        )
    return found


def _loaded(config: Path | None) -> Loaded:
    from gatemini.config.load import load_config

    return load_config(config, environ=os.environ)


def _of(loaded: Loaded, name: str) -> BackendConfig:
    """Return the configuration of a backend. Raises BackendNotFound."""
    from gatemini.backends.calls.failures import no_backend

    found = loaded.config.backends.get(name)
    if found is not None:
        return found
    why = loaded.disabled.get(name) or loaded.unusable.get(name)
    raise BackendNotFound(f"{name}: {why}") if why else no_backend(name, sorted(loaded.config.backends))


def _line(done: dict[str, Any]) -> str:
    tools = f", {done['tools']} tools" if done.get("tools") is not None else ""
    until = f", until {done['expires']}" if done.get("expires") else ""
    renewed = " (renewed by itself)" if done.get("renewable") else ""
    return f"{done['backend']}: {done['text']}{until}{renewed}{tools}"


_BACKEND = "a backend with a url and oauth"
_PRINCIPAL = shell.argument(
    "--principal",
    default="",
    metavar="ID",
    help="the login of one principal over HTTP (oauth.per_user), as `gatemini status` shows it",
)
COMMANDS = (
    shell.Command(
        "login",
        login,
        [
            shell.argument("backend", nargs="?", metavar="BACKEND", help=_BACKEND),
            _PRINCIPAL,
            shell.argument("--all", dest="every", action="store_true", help="all backends that need a login"),
            shell.argument(
                "--no-browser",
                dest="browser",
                action="store_false",
                help="only print the address of the page, which has to be opened on this machine",
            ),
        ],
    ),
    shell.Command(
        "logout", logout, [shell.argument("backend", metavar="BACKEND", help=_BACKEND), _PRINCIPAL]
    ),
)
